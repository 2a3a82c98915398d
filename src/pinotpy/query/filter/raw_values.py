"""Predicates of columns without dictionary: each test reads the values of the docs, unless the least and the greatest
of a segment decide.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import StoredType
from pinotpy.errors import QueryExecutionError
from pinotpy.kernels.filter import predicates, text_predicates
from pinotpy.kernels.filter.hash_set import float_words, hash_set
from pinotpy.kernels.filter.predicate_frame import PREDICATE_ALWAYS
from pinotpy.kernels.runtime import abi
from pinotpy.kernels.text import substring_search
from pinotpy.query.filter.bound_predicate import COST_PATTERN, COST_RAW, COST_SET, COST_STRINGS, BoundPredicate, Flags
from pinotpy.query.filter.pruning import as_object
from pinotpy.query.filter.text.blooms import text_blooms
from pinotpy.query.filter.text.needle import TextNeedle, equality, needle_of, text_sample
from pinotpy.query.model.predicate import FixedMembers, TextTest, VarMembers, VarRange
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.segments.column_metas import ColumnMetas
from pinotpy.query.segments.segment_set import ColumnRanges


def on_raw_values(
    resolved: BoundPredicate, metas: ColumnMetas, words: Int64Array, raw: Int64Array, control: QueryControl
) -> None:
    test = resolved.typed.test
    resolved.cost = COST_RAW
    if isinstance(test, FixedMembers):
        table = hash_set(test.values if test.values.dtype == np.int64 else float_words(test.values))
        resolved.keep_alive.append(table)
        resolved.function[raw] = predicates.raw_set.address
        resolved.tests[raw, :2] = table.ctypes.data, len(table) // 2 - 1
        resolved.cost = COST_SET
    elif isinstance(test, VarRange):
        resolved.cost = COST_STRINGS
        if test.end == test.low + b"\0":  # the successor of `low`: nothing but it is in between
            metas.ready(resolved.typed.column, raw)
            needle = equality(test.low, text_sample(words[raw[0]]))
            _search(resolved, raw, needle)
            if not needle.is_often:
                resolved.tests[raw, 1], held = text_blooms(metas.segments, resolved.typed.column, words, raw, control)
                resolved.keep_alive.append(held)
        else:
            low, end = kernel_bytes(test.low or b"\0"), kernel_bytes(test.end or b"\0")
            resolved.keep_alive += [low, end]
            resolved.function[raw] = text_predicates.var_range.address
            resolved.tests[raw] = (
                low.ctypes.data,
                end.ctypes.data,
                len(test.low),
                -1 if test.end is None else len(test.end),
            )
    elif isinstance(test, VarMembers):
        resolved.keep_alive.append(test)
        resolved.function[raw] = text_predicates.var_members.address
        resolved.tests[raw, :3] = test.data.ctypes.data, test.offsets.ctypes.data, len(test.offsets) - 1
        resolved.cost = COST_STRINGS
    else:
        assert isinstance(test, TextTest)
        column = metas.column(resolved.typed.column)
        if column.data_type.stored is not StoredType.VAR:
            raise QueryExecutionError(
                f"a pattern needs text: column '{column.name}' is {column.data_type} without dictionary; cast it to "
                "STRING"
            )
        metas.ready(resolved.typed.column, raw)
        searched = needle_of(test.pattern, text_sample(words[raw[0]]))
        if searched is not None:
            _search(resolved, raw, searched)
        else:
            resolved.computed[raw] = True
            resolved.function[raw], resolved.flags[raw] = predicates.doc_flags.address, abi.I_PREDICATE
            resolved.cost = 0.2
    if isinstance(test, VarRange):
        ranges = metas.segments.ranges(resolved.typed.column).take(raw)
        resolved.mode[raw[_values_inside(test, ranges)]] = PREDICATE_ALWAYS


def _search(resolved: BoundPredicate, raw: Int64Array, needle: TextNeedle) -> None:
    resolved.keep_alive.append(needle)
    resolved.function[raw], resolved.tests[raw, 0] = substring_search.var_search.address, needle.address
    resolved.cost = COST_PATTERN if needle.words[substring_search.W_TEST] == substring_search.MATCHING else COST_STRINGS


def _values_inside(test: VarRange, ranges: ColumnRanges) -> Flags:
    """Segments whose smallest and largest value pass."""
    within = ranges.least >= as_object(test.low)
    if test.end is not None:
        within &= ranges.most < as_object(test.end)
    return ranges.known & within.astype(np.bool_)


def kernel_bytes(value: bytes) -> NDArray[np.uint8]:
    # numba tells read-only arrays from others: always hand over the same kind.
    return np.array(bytearray(value), np.uint8)
