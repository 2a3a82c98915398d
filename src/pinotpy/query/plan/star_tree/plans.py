"""The plans of a query: one for the trees of each shape that answer, one for the segments that are read themselves."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from pinotpy.arrays import Int64Array
from pinotpy.query.model.context import QueryContext
from pinotpy.query.plan.scan_plan import ScanPlan
from pinotpy.query.plan.star_tree.choose import TreeShape, Wanted, choose, tree_shapes, wanted_of
from pinotpy.query.plan.star_tree.walk import star_tree_scan
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.segments.segment_set import SegmentSet
from pinotpy.segment.shared_codes.cache import SharedDictionaries

MANY_RECORDS = "it would read too many records: rows in their order are read faster"


@dataclass(frozen=True, slots=True)
class Answered:
    """Who answers for the segments of a set.

    trees: of each shape that answers, the rows of its segments in the set and the plan.
    plain: rows of the segments that are read themselves; reasons: by row, why no tree answers ("" if there is none).
    """

    trees: list[tuple[TreeShape, Int64Array, ScanPlan]]
    plain: Int64Array
    reasons: list[str]


def plans_of(
    context: QueryContext,
    segments: SegmentSet,
    control: QueryControl,
    build_scan: Callable[[SegmentSet, bool], ScanPlan],
    *,
    threads: int = 1,
    executor: Executor | None = None,
    dictionaries: SharedDictionaries | None = None,
    is_final: bool = False,
) -> list[ScanPlan]:
    """At least one plan; `build_scan` makes the one of segments that no tree stands for, and is told whether it is the
    only one. Raises what it and `star_tree_scan` raise.
    """
    if not tree_shapes(segments):
        return [build_scan(segments, True)]
    of_trees = tree_plans(
        context, segments, control, threads=threads, executor=executor, dictionaries=dictionaries, is_final=is_final
    )
    if not of_trees.trees:
        return [build_scan(segments, True)]
    plans = [plan for _, _, plan in of_trees.trees]
    return plans if not len(of_trees.plain) else [*plans, build_scan(segments.take(of_trees.plain), False)]


def tree_plans(
    context: QueryContext,
    segments: SegmentSet,
    control: QueryControl,
    *,
    threads: int = 1,
    executor: Executor | None = None,
    dictionaries: SharedDictionaries | None = None,
    is_final: bool = False,
) -> Answered:
    """The trees that answer, planned. Raises what `star_tree_scan` raises."""
    chosen = choose(context, segments)
    reasons, plain, trees = list(chosen.reasons), [chosen.plain], []
    wanted = wanted_of(context) if chosen.shapes else ""
    is_alone = len(chosen.shapes) == 1 and not len(chosen.plain)
    for shape, rows in chosen.shapes:
        assert isinstance(wanted, Wanted), "choose found a tree"
        own = shape.trees if len(rows) == len(shape.rows) else shape.trees.take(shape.rows.searchsorted(rows))
        whole = is_final and is_alone
        plan = star_tree_scan(
            context,
            wanted,
            shape,
            own,
            control,
            threads=threads,
            executor=executor,
            dictionaries=dictionaries,
            is_final=whole,
        )
        if plan is not None:
            trees.append((shape, rows, plan))
            continue
        plain.append(rows)
        for row in rows.tolist():
            reasons[row] = MANY_RECORDS
    return Answered(trees, np.sort(np.concatenate(plain)), reasons)
