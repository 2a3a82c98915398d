"""A resolved filter: what is known of it in every segment, and its instructions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Union

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.errors import InvalidQueryError
from pinotpy.kernels.filter.byte_masks import SCRATCH_MASK
from pinotpy.kernels.filter.predicate_frame import PREDICATE_NEVER, PREDICATE_RUN
from pinotpy.kernels.runtime import abi
from pinotpy.query.filter.bind import bind_predicate
from pinotpy.query.filter.bound_predicate import BoundPredicate
from pinotpy.query.filter.compiled import compiled_predicate
from pinotpy.query.filter.interpreted import InterpretedPredicate, interpreted_predicate
from pinotpy.query.filter.normal_form import AllOf, AnyOf, Node
from pinotpy.query.filter.pruning import Places
from pinotpy.query.model.context import QueryContext
from pinotpy.query.model.predicate import TypedPredicate
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.runtime.instructions import Instructions
from pinotpy.query.segments.column_metas import ColumnMetas

Flags = NDArray[np.bool_]
RESULT: Final = 0  # the mask register of a filter's result
ALL_DOCS: Final = -1
_NO_COLUMN: Final = np.zeros(abi.META_WORDS, np.int64)
_NOTHING_COMPARED: Final[Mapping[int, Places]] = {}


@dataclass(slots=True)
class ResolvedAll:
    children: list[Resolved]


@dataclass(slots=True)
class ResolvedAny:
    children: list[Resolved]


Resolved = Union[ResolvedAll, ResolvedAny, BoundPredicate, InterpretedPredicate]


@dataclass(slots=True)
class Known:
    """Per segment: the filter selects nothing, selects everything, excludes the segment before anything is read, and by
    which rule (pruning.BY_*).
    """

    never: Flags
    always: Flags
    prune: Flags
    rule: NDArray[np.int8]


def resolve_tree(
    node: Node,
    context: QueryContext,
    metas: ColumnMetas,
    control: QueryControl,
    places: Mapping[int, Places] = _NOTHING_COMPARED,
) -> Resolved:
    """Resolve every predicate; children of AND are put in the order in which they are cheapest. places: of ranges that
    were compared with smallest and largest values already, by identity.
    """
    if isinstance(node, TypedPredicate):
        return bind_predicate(node, metas, control, null_handling=context.null_handling, places=places.get(id(node)))
    if isinstance(node, (AllOf, AnyOf)):
        children = [resolve_tree(child, context, metas, control, places) for child in node.children]
        if isinstance(node, AnyOf):
            return ResolvedAny(children)
        return ResolvedAll(sorted(children, key=_rank))
    return compiled_predicate(node, context, metas) or interpreted_predicate(node, context, metas)


def _cost(node: Resolved) -> float:
    if isinstance(node, (ResolvedAll, ResolvedAny)):
        return sum(map(_cost, node.children))
    return node.cost


def _selectivity(node: Resolved) -> float:
    if isinstance(node, ResolvedAll):
        return float(np.prod([_selectivity(child) for child in node.children]))
    if isinstance(node, ResolvedAny):
        return float(1 - np.prod([1 - _selectivity(child) for child in node.children]))
    return node.selectivity


def _rank(node: Resolved) -> float:
    # Price per doc that it takes away: the classic order of independent filters.
    return _cost(node) / max(1 - _selectivity(node), 1e-6)


def estimated_share(nodes: Sequence[Resolved]) -> float:
    """Share of the docs that are scanned which pass all of `nodes`, as if conditions were independent. Conditions on
    sorted columns do not count: they decide what is scanned.
    """
    counted = [node for node in nodes if not isinstance(node, BoundPredicate) or node.negated or not node.sorted.any()]
    return math.prod(_selectivity(node) for node in counted)


def known(node: Resolved, num_segments: int, metas: ColumnMetas) -> Known:
    """What is known of the filter in every segment before any doc is read."""
    if isinstance(node, BoundPredicate):
        return Known(node.never, node.always(metas.planned(node.typed.column).metas), node.prune, node.rule)
    if isinstance(node, InterpretedPredicate):
        nowhere = np.zeros(num_segments, np.bool_)
        return Known(nowhere, nowhere, nowhere, nowhere.view(np.int8))
    parts = [known(child, num_segments, metas) for child in node.children]
    nothing, everything = np.zeros(num_segments, np.bool_), np.ones(num_segments, np.bool_)
    if isinstance(node, ResolvedAll):
        never = np.logical_or.reduce([part.never for part in parts], initial=False) | nothing
        always = np.logical_and.reduce([part.always for part in parts], initial=True) & everything
        return Known(
            never,
            always,
            np.logical_or.reduce([part.prune for part in parts], initial=False) | nothing,
            _first_rule(parts, num_segments),
        )
    never = np.logical_and.reduce([part.never for part in parts], initial=True) & everything
    always = np.logical_or.reduce([part.always for part in parts], initial=False) | nothing
    prune = np.logical_and.reduce([part.prune for part in parts], initial=True) & everything
    return Known(never, always, prune, np.where(prune, _first_rule(parts, num_segments), 0).astype(np.int8))


def _first_rule(parts: list[Known], num_segments: int) -> NDArray[np.int8]:
    """The rule of the first part that has one."""
    rules = np.zeros(num_segments, np.int8)
    for part in reversed(parts):
        rules[part.rule != 0] = part.rule[part.rule != 0]
    return rules


def conjuncts_of(node: Resolved) -> list[Resolved]:
    """The predicates that all must hold, if the filter is an AND; else the filter alone."""
    return node.children if isinstance(node, ResolvedAll) else [node]


def predicates_of(node: Resolved) -> Iterator[BoundPredicate | InterpretedPredicate]:
    """Every predicate, from left to right."""
    if isinstance(node, (ResolvedAll, ResolvedAny)):
        for child in node.children:
            yield from predicates_of(child)
    else:
        yield node


def take_segments(node: Resolved, rows: Int64Array) -> Resolved:
    """The filter over the segments at `rows`, in their order; predicates answer for their new numbers."""
    if isinstance(node, ResolvedAll):
        return ResolvedAll([take_segments(child, rows) for child in node.children])
    if isinstance(node, ResolvedAny):
        return ResolvedAny([take_segments(child, rows) for child in node.children])
    return node.take(rows)


def emit_tree(
    node: Resolved, out: Instructions, segments: Int64Array, metas: ColumnMetas, *, kept: int = ALL_DOCS
) -> bool:
    """Append the instructions of a filter over the docs of mask `kept` (ALL_DOCS or RESULT), for morsels with these
    segments, leaving mask RESULT.

    Gives False, and appends nothing, where every doc of every morsel is selected.
    """
    return _Emitter(out, segments, metas).emit(node, kept, RESULT, RESULT + 1)


class _Emitter:
    def __init__(self, out: Instructions, segments: Int64Array, metas: ColumnMetas) -> None:
        self._out = out
        self._segments = segments
        self._metas = metas

    def emit(self, node: Resolved, kept: int, target: int, free: int) -> bool:
        """Mask `target` = mask `kept` and node; registers from `free` on may be used. False: node holds everywhere,
        nothing was written.
        """
        if isinstance(node, ResolvedAll):
            return self._all(node, kept, target, free)
        if isinstance(node, ResolvedAny):
            return self._any(node, kept, target, free)
        return self._predicate_of(node, kept, target)

    def _holds(self, node: Resolved) -> bool:
        """Whether every doc of every morsel satisfies `node`, as far as is known."""
        if isinstance(node, ResolvedAll):
            return all(self._holds(child) for child in node.children)
        if isinstance(node, ResolvedAny):
            return any(self._holds(child) for child in node.children)
        return isinstance(node, BoundPredicate) and bool(
            node.always(self._metas.planned(node.typed.column).metas)[self._segments].all()
        )

    def _predicate_of(self, bound: BoundPredicate | InterpretedPredicate, kept: int, target: int) -> bool:
        rows = self._segments
        mode = bound.mode_of_test[rows]
        if self._holds(bound):
            return False
        flags = bound.flags[rows]
        if isinstance(bound, BoundPredicate):
            self._metas.ready(bound.typed.column, rows[mode == PREDICATE_RUN])
            meta = self._metas.planned(bound.typed.column).addresses[rows]
        else:
            meta = bound.meta[rows]
        words = [meta, kept, target, mode, bound.negated, bound.nulls, *(bound.tests[rows, i] for i in range(4))]
        self._out.append(bound.function[rows], words, flags)
        return True

    def _all(self, node: ResolvedAll, kept: int, target: int, free: int) -> bool:
        written = False
        for child in node.children:
            if self.emit(child, kept, target, free):
                written, kept = True, target
        return written

    def _any(self, node: ResolvedAny, kept: int, target: int, free: int) -> bool:
        if free + 1 >= SCRATCH_MASK:
            raise InvalidQueryError(
                f"OR may be nested in AND {SCRATCH_MASK // 2} times, found more: write the condition flatter"
            )
        if self._holds(node):
            return False
        # `target` may be `kept`, which all children read: collect beside it.
        collected, one = free, free + 1
        if not node.children:
            self._out.append(0, (_NO_COLUMN.ctypes.data, kept, target, PREDICATE_NEVER), abi.I_PREDICATE)
            return True
        for i, child in enumerate(node.children):
            self.emit(child, kept, collected if i == 0 else one, free + 2)
            if i > 0:
                self._out.append(0, (collected, one, collected), abi.I_OR)
        self._out.append(0, (collected, collected, target), abi.I_OR)
        return True
