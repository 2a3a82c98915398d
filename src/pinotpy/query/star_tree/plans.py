"""The plans of a query: one for the trees of each shape that answer, one for the segments that are read themselves."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor

from pinotpy.query.context import QueryContext
from pinotpy.query.control import QueryControl
from pinotpy.query.plan import ScanPlan
from pinotpy.query.segment_set import SegmentSet
from pinotpy.query.star_tree.choose import Wanted, choose, wanted_of
from pinotpy.query.star_tree.scan import star_tree_scan
from pinotpy.segment.global_ids.cache import GlobalDictionaries


def plans_of(
    context: QueryContext,
    segments: SegmentSet,
    control: QueryControl,
    build_scan: Callable[[SegmentSet, bool], ScanPlan],
    *,
    threads: int = 1,
    executor: Executor | None = None,
    dictionaries: GlobalDictionaries | None = None,
    is_whole: bool = False,
) -> list[ScanPlan]:
    """At least one plan; `build_scan` makes the one of segments that no tree stands for, and is told whether it is the only one.
    Raises what it and `star_tree_scan` raise."""
    chosen = choose(context, segments)
    if not chosen.shapes:
        return [build_scan(segments, True)]
    wanted = wanted_of(context)
    assert isinstance(wanted, Wanted), "choose found a tree"
    plans, is_alone = [], len(chosen.shapes) == 1 and not len(chosen.plain)
    for shape, rows in chosen.shapes:
        if len(rows) == len(shape.rows):
            trees = shape.trees
        else:
            trees = shape.trees.take(shape.rows.searchsorted(rows))
        plans.append(
            star_tree_scan(
                context, wanted, shape, trees, control, threads=threads, executor=executor, dictionaries=dictionaries, is_whole=is_whole and is_alone
            )
        )
    if len(chosen.plain):
        plans.append(build_scan(segments.take(chosen.plain), False))
    return plans
