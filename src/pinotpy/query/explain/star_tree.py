"""What EXPLAIN says of star-trees: which one answers and what it reads, or why none does."""

from __future__ import annotations

import numpy as np

from pinotpy.kernels.runtime import abi
from pinotpy.query.explain.operators import operator_of
from pinotpy.query.model.context import QueryContext
from pinotpy.query.plan.star_tree.choose import TreeShape
from pinotpy.query.plan.star_tree.plans import tree_plans
from pinotpy.query.result.explained_groups import Finding
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.segments.segment_set import SegmentSet

_WHY = "its dimensions decide the filter and the groups, and it keeps the states of all aggregations"


def explain_trees(
    context: QueryContext, segments: SegmentSet, control: QueryControl
) -> tuple[list[Finding], SegmentSet, dict[str, Finding]]:
    """(groups, rest, unused): one group for each segment whose tree answers; the other segments, those of which nothing
    is read among them; and for segments of `rest` that have trees, by name, why none answers. Walks nodes, reads no
    records.
    """
    plans = tree_plans(context, segments, control)
    groups: list[Finding] = []
    answered = np.zeros(len(segments), np.bool_)
    for shape, rows, plan in plans.trees:
        operator = operator_of(context, plan) | {
            "way": "scan of records",
            "why": "records of a star-tree are added up, each stands for many rows",
        }
        counts = np.bincount(
            plan.morsels[:, abi.U_SEGMENT], plan.morsels[:, abi.U_HIGH] - plan.morsels[:, abi.U_LOW], len(plan.segments)
        ).astype(np.int64)
        to_read = dict(zip([tree.name for tree in plan.segments], counts.tolist(), strict=True))
        for row in rows.tolist():
            segment, count = segments[row], to_read.get(segments[row].name, 0)
            if count:
                answered[row] = True
                group: Finding = {"segments": 1, "names": [segment.name], "docs": [segment.num_docs, segment.num_docs]}
                groups.append(group | {"operator": operator, "toRead": [count, count], "starTree": _used(shape)})
    unused = {segments[row].name: {"why": plans.reasons[row]} for row in plans.plain.tolist() if plans.reasons[row]}
    return groups, segments.take(np.flatnonzero(~answered)) if groups else segments, unused


def _used(shape: TreeShape) -> Finding:
    return {"number": shape.number, "dimensionsSplitOrder": list(shape.dimensions), "why": _WHY}
