"""Aggregations whose records keep sketches (HyperLogLogs, multisets): a scan notes the records of each group as a
value set of doc ids, and their states are merged when it is over.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.kernels.aggregate.distinct_pairs import ENTRY_WORDS, ROW_SHIFT
from pinotpy.kernels.aggregate.result_context import D_ARENA
from pinotpy.kernels.runtime import abi
from pinotpy.pql.ast import Identifier
from pinotpy.query.aggregate.arena_rows import ArenaRows
from pinotpy.query.aggregate.layout import AggregationLayout
from pinotpy.query.plan.scan_plan import ScanPlan
from pinotpy.segment.star_tree.reader import StarTree
from pinotpy.segment.star_tree.spec import STATES_OF


def collect_sketches(
    plan: ScanPlan, entry: AggregationLayout, threads: Sequence[ArenaRows], groups: Int64Array, num_groups: int
) -> list[pa.Array]:
    """State columns of an aggregation whose records keep sketches: its value set holds the records of each group."""
    (kind,) = STATES_OF[entry.function.name]
    assert isinstance(entry.source, Identifier), "choose.py lets nothing else pass"
    column = entry.source.name
    rows, docs, owners = [], [], []
    for thread in threads:
        entries = thread.context.vector(entry.value_set + D_ARENA).reshape(-1, ENTRY_WORDS)
        arena_rows = entries[:, 0] >> ROW_SHIFT
        rows.append(groups[thread.first + arena_rows])
        owners.append(plan.morsels[thread.morsels[arena_rows], abi.U_SEGMENT])
        docs.append(entries[:, 1].copy())
    all_rows, all_docs, all_owners = np.concatenate(rows), np.concatenate(docs), np.concatenate(owners)
    states: list[list[pa.Array]] = []
    members = []
    for owner in np.unique(all_owners).tolist():
        plan.control.check()
        tree, records = plan.segments[owner], np.flatnonzero(all_owners == owner)
        assert isinstance(tree, StarTree)
        states.append(tree.sketches(kind, column, all_docs[records]))
        members.append(all_rows[records])
    if not states:
        return entry.function.merge(_nothing(entry), np.zeros(0, np.int64), num_groups)
    together = [pa.concat_arrays([part[i] for part in states]) for i in range(len(states[0]))]
    return entry.function.merge(together, np.concatenate(members), num_groups)


def _nothing(entry: AggregationLayout) -> list[pa.Array]:
    return [pa.array([], field.type) for field in entry.function.state_fields(entry.argument)]
