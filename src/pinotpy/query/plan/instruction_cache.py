"""What is the same for all queries of one shape over one set of segments, made once: layouts, and the instructions of
select functions for every segment.

Two queries have the same shape when only literals of their filters differ. The filter decides which segments and docs
are read and how; what is done with the selected docs does not depend on it. So an operator emits its instructions over
a plan of *all* segments of the set, one morsel each, and a query takes the rows of its own morsels:

    ready = prepare(plan, _make, calls_of)  # _make(plan of all segments) -> anything; emits into plan.shapes(…)
    numbers = ready.bind(plan)              # instructions into this query's plan; morsel → number in `ready.plan`
    contexts = plan.run(make_context)

What `_make` returns is shared by queries on many threads: never changed after it was made. Prepared shapes live in
their SegmentSet, at most PREPARED_MAX of them and PREPARED_BYTES_MAX bytes, and go with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar, cast

import numpy as np

from pinotpy.arrays import Int64Array
from pinotpy.data_types import StoredType
from pinotpy.kernels.runtime import abi
from pinotpy.pql.ast import Call, Expression, Identifier
from pinotpy.query.model.context import ColumnRef, OrderBy, QueryContext
from pinotpy.query.model.result_types import columns_in, reads_rows
from pinotpy.query.plan.hashed_in_place import hashes_in_place
from pinotpy.query.plan.scan_plan import ScanPlan, Sections
from pinotpy.query.result.partial import Statistics
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.segments.column_metas import ColumnMetas
from pinotpy.query.segments.segment_set import Attachment, SegmentSet

PREPARED_MAX: Final = 64
PREPARED_BYTES_MAX: Final = 32 << 20
_NOT_KEPT: Final = object()
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Prepared(Generic[T]):
    """One shape of queries over one set.

    plan: over all segments, morsel i is segment i; it cannot be run. made: what the operator made of it.
    sections: the instructions of each group of morsels.
    """

    plan: ScanPlan
    made: T
    sections: list[tuple[Int64Array, Sections]]
    size_bytes: int

    def bind(self, plan: ScanPlan) -> Int64Array:
        """Give `plan`, a query's own, these instructions; returns the number in `self.plan` of each of its morsels."""
        segments = plan.morsels[:, abi.U_SEGMENT]
        rows = plan.segments.rows_of_whole
        # Contiguous, as kernels are compiled for.
        numbers = np.ascontiguousarray(segments) if rows is None else rows[segments]
        if len(self.sections) == 1:
            plan.bind_program(self.sections[0][1], numbers)
            return numbers
        for morsels, sections in self.sections:
            place = np.full(self.plan.num_morsels, -1, np.int64)
            place[morsels] = np.arange(len(morsels))
            places = place[numbers]
            of_sections = np.flatnonzero(places >= 0)
            if len(of_sections):
                plan.add_program(of_sections, sections.take(places[of_sections]))
        return numbers


class PreparedShapes(Attachment):
    """prepared: by shape of a query over the set, None for those that cannot share instructions. asked: hashes of the
    shapes with expressions that were asked for once.
    """

    def __init__(self) -> None:
        self.prepared: dict[Any, Prepared[Any] | None] = {}
        self.asked: frozenset[int] = frozenset()

    def let_go(self) -> None:
        self.prepared = {}


def prepare(
    plan: ScanPlan,
    make: Callable[[ScanPlan], T],
    calls_of: Callable[[ScanPlan], Sequence[Expression]],
    *,
    sorts: tuple[OrderBy, ...] = (),
) -> Prepared[T] | None:
    """The prepared shape of a plan's query; None for a query that cannot share its instructions with others.

    Args:
        calls_of: expressions of a plan's query that the scan cannot compute; their values are the query's own.
        sorts: the order, where the scan itself sorts, by columns.

    Raises: what `make` raises.
    """
    context, whole = plan.context, plan.segments.whole
    key = (make, context.dialect, context.group_by, context.aggregations, context.columns, context.null_handling, sorts)
    shapes = whole.attached(PreparedShapes)
    by_shape = shapes.prepared
    # One look: a shape is hashed in Python.
    ready: Prepared[T] | object | None = by_shape.get(key, _NOT_KEPT)
    if ready is not _NOT_KEPT:
        return cast(Prepared[T] | None, ready)
    if _has_calls(context) and hash(key) not in shapes.asked:
        # Literals of expressions are part of the shape: one that is asked once only is not worth all segments. Its hash
        # will do: a shape may hold 50,000 literals, and one of an equal hash is prepared a query too early.
        shapes.asked = frozenset([hash(key)]) if len(shapes.asked) >= PREPARED_MAX else shapes.asked | {hash(key)}
        return None
    made = _prepared(context, whole, make, calls_of) if whole and is_shared(context, whole, sorts) else None
    size = sum(one.size_bytes for one in [*by_shape.values(), made] if one is not None)
    # A new dict, so that threads that read the old one are not disturbed.
    shapes.prepared = (
        {key: made} if size > PREPARED_BYTES_MAX or len(by_shape) >= PREPARED_MAX else {**by_shape, key: made}
    )
    return made


def _has_calls(context: QueryContext) -> bool:
    return any(isinstance(one, Call) for aggregation in context.aggregations for one in aggregation.args) or any(
        isinstance(key, Call) for key in context.group_by
    )


def is_shared(context: QueryContext, segments: SegmentSet, sorts: Sequence[OrderBy] = ()) -> bool:
    """Whether all columns that the scan of the query reads after its filter lie in the segments as kernels read
    them.
    """
    if any(aggregation.filter is not None or reads_rows(aggregation) for aggregation in context.aggregations):
        return False
    # Texts that are hashed or compared need no ids.
    by_id = {name for key in context.group_by for name in columns_in(key)}
    by_text = {by.expression.name for by in sorts if isinstance(by.expression, Identifier)}
    for aggregation in context.aggregations:
        (by_text if hashes_in_place(aggregation, context) else by_id).update(
            name for arg in aggregation.args for name in columns_in(arg)
        )
    read = [column for column in context.columns if column.name in by_id | by_text]
    return all(_is_read_in_place(column, segments, needs_ids=column.name in by_id) for column in read)


def _is_read_in_place(column: ColumnRef, segments: SegmentSet, *, needs_ids: bool) -> bool:
    if not column.single_value or not segments.has_column(column.name):
        return False
    rows = segments.column(column.name)
    if column.data_type.stored is not StoredType.VAR or not rows.in_place:
        return rows.in_place
    # Raw texts that are not merely hashed get dict ids of the query's own (computed_columns.py).
    has_ids = rows.metas[:, abi.M_CARDINALITY] >= 0
    return bool(has_ids.all()) if needs_ids else bool((has_ids | (rows.metas[:, abi.M_RAW_OFFSETS] != 0)).all())


def _prepared(
    context: QueryContext,
    segments: SegmentSet,
    make: Callable[[ScanPlan], T],
    calls_of: Callable[[ScanPlan], Sequence[Expression]],
) -> Prepared[T] | None:
    plan = plan_of_set(context, segments)
    if calls_of(plan):
        return None
    try:
        made = make(plan)
    except _OwnFilterError:
        return None
    sections = plan.take_sections()
    return Prepared(plan, made, sections, sum(part.size_bytes for _, part in sections))


def plan_of_set(context: QueryContext, segments: SegmentSet) -> ScanPlan:
    """A plan of one morsel a segment, of all docs; it cannot be run."""
    morsels = np.zeros((len(segments), abi.MORSEL_WORDS), np.int64)
    morsels[:, abi.U_SEGMENT] = np.arange(len(segments))
    morsels[:, abi.U_HIGH] = segments.docs
    return ScanPlan(
        context=replace(context, filter=None),
        segments=segments,
        control=QueryControl(),
        metas=ColumnMetas(segments),
        morsels=morsels,
        starts=np.array([0, len(segments)], np.int64),
        filter_program=np.zeros((len(segments), 0, abi.INSTRUCTION_WORDS), np.int64),
        statistics=Statistics(),
        emit_filter=_no_filter,
    )


class _OwnFilterError(Exception):
    """An expression asks a filter of its own (CASE WHEN league = 'NL'), which each query plans for its segments."""


def _no_filter(*_: object) -> None:
    raise _OwnFilterError
