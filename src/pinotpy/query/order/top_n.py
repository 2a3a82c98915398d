"""The docs that sort first, kept by kernels while the filter runs: only docs that the first key leaves in the race cost
more than a comparison, and the columns of the answer are read for the rows of the answer.

Sort keys are columns. Each thread keeps the best of its docs as rows of key words (kernels/order/top_n.py), which
compare by value whatever the encoding is: numbers, texts, bytes, with a dictionary or without, null or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.kernels.order import dictionary_sort_keys, sort_keys, top_n, top_n_threshold
from pinotpy.kernels.runtime import abi
from pinotpy.pql.ast import Expression, Identifier
from pinotpy.query.model.context import OrderBy
from pinotpy.query.model.result_types import columns_by_name
from pinotpy.query.plan.instruction_cache import prepare
from pinotpy.query.plan.scan_plan import ScanPlan, Shape
from pinotpy.query.project.rows import is_number

# Candidates that a thread's buffer holds beyond those wanted: as many again, within these. With few the buffer is cut
# too often, with many it takes memory and leaves the cache.
_SPARE_MIN: Final = 512
_SPARE_MAX: Final = 1 << 18
_NONE, _LAST, _FIRST = 0, 1, 2  # null flags before a key: none, nulls last, nulls first (order/top_n_threshold.py)


def keeps_top_rows(plan: ScanPlan, keys: Sequence[Expression]) -> bool:
    """Whether kernels can sort by these keys: columns, not too many."""
    columns = columns_by_name(plan.context)
    if not plan.segments or not all(isinstance(key, Identifier) for key in keys):
        return False
    num_words = sum(
        _num_words(is_number(columns[key.name].data_type), has_flag=_has_flag(plan, key.name))
        for key in keys
        if isinstance(key, Identifier)
    )
    return num_words <= top_n.KEY_WORDS_MAX


def find_top_rows(plan: ScanPlan, wanted: int) -> tuple[Int64Array, Int64Array]:
    """Morsels and docs of the rows that sort first, at most `wanted` (>= 1), in order; equal rows in the order of docs.
    The query orders by columns alone (`keeps_top_rows`).
    """
    ready = prepare(plan, _make, _no_calls, sorts=plan.context.order_by)
    kinds = _make(plan) if ready is None else ready.made
    if ready is not None:
        ready.bind(plan)
    shared = np.full(1, sort_keys.ALL, np.uint64)

    def make_context(thread: int) -> tuple[int, _Top]:
        top = _Top(plan, thread, wanted, kinds, shared)
        return top.words.ctypes.data, top

    rows = np.concatenate([top.rows_kept() for top in plan.run(make_context)] or [np.zeros((0, len(kinds)), np.uint64)])
    plan.control.check()
    places = _in_order(rows, wanted, kinds)[:, -1]
    return (places >> np.uint64(32)).astype(np.int64), (places & np.uint64(0xFFFFFFFF)).astype(np.int64)


def _make(plan: ScanPlan) -> Int64Array:
    """Emit into the plan's shapes; gives the kinds of the words of a row."""
    names = [by.expression.name for by in plan.context.order_by if isinstance(by.expression, Identifier)]
    numbers = [is_number(columns_by_name(plan.context)[name].data_type) for name in names]
    flags = [_has_flag(plan, name) for name in names]
    for shape in plan.shapes(names):
        _emit(shape, names, numbers, flags)
    return np.array(_kinds(plan, numbers, flags), np.int64)


def _no_calls(_plan: ScanPlan) -> list[Expression]:
    return []  # `keeps_top_rows` knows columns only


def _in_order(rows: NDArray[np.uint64], wanted: int, kinds: Int64Array) -> NDArray[np.uint64]:
    """The first rows of those that the threads kept: sorted by one word, then runs in which it is the same by all
    words.
    """
    column = 0
    while (
        column < len(kinds) - 1
        and kinds[column] == sort_keys.K_WORD
        and bool((rows[:, column] == rows[:1, column]).all())
    ):
        column += 1
    if wanted < len(rows):
        rows = rows[rows[:, column] <= np.partition(rows[:, column], wanted - 1)[wanted - 1]]
    rows = rows[np.argsort(rows[:, column])]
    scratch = np.empty(top_n.SORT_STACK_WORDS + len(kinds), np.int64)
    top_n.sort_value_lists(rows.ctypes.data, len(rows), column, kinds.ctypes.data, len(kinds), scratch.ctypes.data)
    return rows[:wanted]


class _Top:
    """What one thread keeps, and its context for the kernels."""

    def __init__(self, plan: ScanPlan, thread: int, wanted: int, kinds: Int64Array, shared: NDArray[np.uint64]) -> None:
        morsels = plan.morsels[plan.starts[thread] : plan.starts[thread + 1]]
        num_docs, width = int((morsels[:, abi.U_HIGH] - morsels[:, abi.U_LOW]).sum()), len(kinds)
        capacity = min(wanted + min(max(wanted, _SPARE_MIN), _SPARE_MAX), num_docs)
        plan.control.reserve(capacity * width * 8)
        self._rows, self._worst, self._kinds, self._shared = (
            np.empty((capacity, width), np.uint64),
            np.zeros(width, np.uint64),
            kinds,
            shared,
        )
        self.words = np.zeros(top_n.TOP_WORDS, np.int64)
        self.words[top_n.T_CAPACITY], self.words[top_n.T_WANTED], self.words[top_n.T_WIDTH] = (
            capacity,
            min(wanted, num_docs),
            width,
        )
        self.words[top_n.T_ROWS], self.words[top_n.T_WORST] = self._rows.ctypes.data, self._worst.ctypes.data
        self.words[top_n.T_KINDS], self.words[top_n.T_SHARED] = kinds.ctypes.data, shared.ctypes.data

    def rows_kept(self) -> NDArray[np.uint64]:
        """uint64[rows, words]; perhaps more than are wanted, in no order."""
        return self._rows[: int(self.words[top_n.T_COUNT])]


def _has_flag(plan: ScanPlan, name: str) -> bool:
    """Whether a word before a key says where its nulls stand: nulls are nulls, and some segment of the set has some.
    The same for all parts of a set, which share instructions.
    """
    if not plan.context.null_handling:
        return False
    segments = plan.segments.whole if plan.segments.whole.has_column(name) else plan.segments
    return bool(segments.column(name).metas[:, abi.M_NULLS].any())


def _num_words(is_a_number: bool, *, has_flag: bool) -> int:
    return has_flag + (1 if is_a_number else sort_keys.TEXT_WORDS)


def _kinds(plan: ScanPlan, numbers: Sequence[bool], flags: Sequence[bool]) -> list[int]:
    """Of the words of a row: all keys, and the place."""
    kinds = []
    for by, is_a_number, has_flag in zip(plan.context.order_by, numbers, flags, strict=True):
        if has_flag:
            kinds.append(sort_keys.K_WORD)
        if is_a_number:
            kinds.append(sort_keys.K_WORD)
        else:
            kinds += [
                sort_keys.K_TEXT if by.ascending else sort_keys.K_TEXT_DESCENDING,
                sort_keys.K_PLACE,
                sort_keys.K_PLACE,
            ]
    return [*kinds, sort_keys.K_WORD]


def _emit(shape: Shape, names: Sequence[str], numbers: Sequence[bool], flags: Sequence[bool]) -> None:
    """Key words into registers 0, 1, …; after each key, docs that are behind already are dropped. By ids where there is
    a dictionary: then the words themselves are made at the end, for the few that are left.
    """
    context = shape.plan.context
    total = sum(
        _num_words(is_a_number, has_flag=has_flag) for is_a_number, has_flag in zip(numbers, flags, strict=True)
    )
    targets = [shape.allocate() for _ in range(total)]
    assert targets == list(range(total)), "key words must lie side by side"
    tied = shape.allocate()
    place, known, later = 0, 0, []
    for name, by, is_a_number, has_flag in zip(names, context.order_by, numbers, flags, strict=True):
        if place == 0 and (is_a_number or shape.has_dictionary(name)):
            nulls = (_LAST if _nulls_last(by) else _FIRST) if has_flag else _NONE
            shape.emit(top_n_threshold.drop_behind_threshold.address, shape.meta(name), int(not by.ascending), nulls)
        if has_flag:
            _emit_flag(shape, name, by, place)
            known |= 1 << place
            shape.emit(top_n.drop_behind_worst.address, place, place + 1, tied, int(place == 0), 0, known)
            place += 1
        end = place + _num_words(is_a_number, has_flag=False)
        is_first, is_last = int(place == 0), int(end == total)
        # The first key by value where it can be: a block's own bound keeps out what is before all rows so far.
        if shape.has_dictionary(name) and not (is_first and is_a_number):
            ids = shape.fetch_ids(name)
            shape.emit(
                dictionary_sort_keys.drop_ids_behind_worst.address,
                ids,
                shape.meta(name),
                int(not by.ascending),
                place,
                tied,
                is_first,
                is_last,
                known,
            )
            shape.release(ids)
            later.append((name, by, place, is_a_number))
        else:
            _emit_key(shape, name, by, place, is_a_number)
            known |= (1 << end) - (1 << place)
            if is_first:
                _emit_bound(shape, end)
            shape.emit(top_n.drop_behind_worst.address, place, end, tied, is_first, is_last, known)
        place = end
    for key in later:
        _emit_key(shape, *key)
    shape.emit(top_n.keep_rows.address, total)


def _emit_bound(shape: Shape, num_words: int) -> None:
    vectors = shape.allocate()
    shape.emit(top_n.tell_bound.address, vectors, num_words)
    shape.release(vectors)


def _nulls_last(by: OrderBy) -> bool:
    return by.ascending if by.nulls_last is None else by.nulls_last


def _emit_flag(shape: Shape, name: str, by: OrderBy, target: int) -> None:
    # Rows of all shapes meet in one buffer, so the flag is there for columns without nulls too.
    flags = shape.fetch_nulls(name)
    if flags is None:
        flags = shape.allocate()
        shape.emit(sort_keys.no_nulls.address, flags)
    shape.emit(sort_keys.key_of_nulls.address, target, flags, int(not _nulls_last(by)))
    shape.release(flags)


def _emit_key(shape: Shape, name: str, by: OrderBy, target: int, is_a_number: bool) -> None:
    descending = int(not by.ascending)
    if not is_a_number:
        shape.emit(sort_keys.key_of_texts.address, target, shape.meta(name), descending)
        return
    values = shape.fetch_values(name)
    is_integer = columns_by_name(shape.plan.context)[name].data_type.stored.is_integer
    shape.emit(
        (sort_keys.key_of_integers if is_integer else sort_keys.key_of_floats).address, target, values, descending
    )
    shape.release(values)
