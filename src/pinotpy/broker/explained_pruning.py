"""What EXPLAIN says of the segments that no server is asked for (Explanation.broker_pruning)."""

from __future__ import annotations

from typing import Final

import numpy as np

from pinotpy.broker.routing.segment_pruner import ExplainedPruning
from pinotpy.pql.ast import Dialect
from pinotpy.query.model.condition_text import condition_text
from pinotpy.query.pruning.leaves import Rule
from pinotpy.query.result.explained_groups import NAMES_SHOWN_MAX, Finding

# In the words of servers (query/explain/plans.py).
_WORDS: Final = {
    Rule.EMPTY: "no docs",
    Rule.MIN_MAX: "min and max",
    Rule.PARTITION: "partition",
    Rule.NULLS: "nulls",
    Rule.NEVER: "a condition that no row meets",
}
CONDITIONS_SHOWN_MAX: Final = 100
_NOTHING_EXCLUDED: Final = "by what records say of it, every segment may have rows that pass"


def finding_of(explained: ExplainedPruning, dialect: Dialect) -> Finding:
    """Of one half of the table."""
    pruned = []
    is_asked = np.isin(explained.names, explained.for_types) if explained.for_types else np.False_
    for rule in explained.pruning.counts():
        rows = np.flatnonzero((explained.pruning.rules == rule) & ~is_asked)
        if not len(rows):
            continue
        pruned.append(
            {
                "rule": _WORDS[rule],
                "segments": len(rows),
                "docs": int(explained.docs[rows].sum()),
                "names": [explained.names[row] for row in rows[:NAMES_SHOWN_MAX].tolist()],
            }
        )
    conditions = []
    for found in explained.pruning.findings[:CONDITIONS_SHOWN_MAX]:
        text = condition_text(found.condition, dialect, negated=found.negated).text
        said = found.why or ("" if found.num_excluded else _NOTHING_EXCLUDED)
        conditions.append({"predicate": text, "segments": found.num_excluded, **({"why": said} if said else {})})
    return {
        "table": explained.table,
        "segments": len(explained.names),
        "pruned": pruned,
        **({"askedForTypes": list(explained.for_types)} if explained.for_types else {}),
        "conditions": conditions,
        **({"recordsNotUsed": explained.unused} if explained.unused else {}),
        **({"warnings": explained.warnings} if explained.warnings else {}),
    }
