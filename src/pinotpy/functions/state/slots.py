"""Slot plans that aggregations share: what a scan keeps for sums and extremes, and how that becomes state columns.

Kernels are imported here when a plan is made, which only servers do.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.functions.spec import Argument
from pinotpy.functions.state.exact_sums import exact_array
from pinotpy.functions.state.plans import (
    Overflow,
    Plan,
    RankKind,
    SlotPlan,
    StateForm,
    Update,
    Values,
    ValueSetPlan,
    Word,
)
from pinotpy.functions.state.states import decimal_sums, extreme_array, extremes_of, wide_array

_WIDE = (Word.WIDE, Word.WIDE_HIGH)


def sum_plan(argument: Argument, *, sum_fits_long: bool, with_count: bool) -> Plan:
    """State columns: the sum and, `with_count`, the number of values."""
    data_type = argument.data_type
    assert data_type is not None
    if data_type is DataType.BIG_DECIMAL:
        return _decimal_plan(with_count)
    from pinotpy.kernels.aggregate import counts_and_sums, sums_of_doubles

    def columns(total: pa.Array, seen: Int64Array) -> list[pa.Array]:
        return [total, pa.array(seen)] if with_count else [total]

    def collect_long(slots: Int64Array, seen: Int64Array, overflow: Overflow) -> list[pa.Array]:
        low = np.ascontiguousarray(slots[:, 0])
        return columns(wide_array(low, low >> np.int64(63), seen > 0), seen)

    def collect_wide(slots: Int64Array, seen: Int64Array, overflow: Overflow) -> list[pa.Array]:
        return columns(wide_array(slots[:, 0], slots[:, 1], seen > 0), seen)

    def collect_double(slots: Int64Array, seen: Int64Array, overflow: Overflow) -> list[pa.Array]:
        parts = (overflow.rows, overflow.windows, overflow.low, overflow.high)
        return columns(exact_array(slots[:, 0], slots[:, 1], seen > 0, parts), seen)

    seen_form = (StateForm.SEEN,) if with_count else ()
    long_rank, wide_rank = (
        (RankKind.LONG_QUOTIENT, RankKind.WIDE_QUOTIENT) if with_count else (RankKind.LONG, RankKind.WIDE)
    )
    if data_type.stored.is_floating:
        return SlotPlan(
            _WIDE,
            (Update(sums_of_doubles.sum_double, sums_of_doubles.sum_double_single, 0, Values.DOUBLE),),
            collect_double,
            wide_rank,
            (StateForm.EXACT, *seen_form),
        )
    if sum_fits_long:
        return SlotPlan(
            (Word.ADD,),
            (Update(counts_and_sums.sum_long, counts_and_sums.sum_long_single, 0, Values.LONG),),
            collect_long,
            long_rank,
            (StateForm.LONG, *seen_form),
        )
    return SlotPlan(
        _WIDE,
        (Update(counts_and_sums.sum_wide, counts_and_sums.sum_wide_single, 0, Values.LONG),),
        collect_wide,
        wide_rank,
        (StateForm.WIDE, *seen_form),
    )


def _decimal_plan(with_count: bool) -> ValueSetPlan:
    def collect(rows: Int64Array, values: pa.Array, counts: Int64Array, num_rows: int) -> list[pa.Array]:
        total = decimal_sums(rows, values, counts, num_rows)
        if not with_count:
            return [total]
        seen = np.zeros(num_rows, np.int64)
        np.add.at(seen, rows, counts)
        return [total, pa.array(seen)]

    return ValueSetPlan(collect)


def extremes_plan(argument: Argument, which: tuple[str, ...]) -> Plan:
    """One state column for each of `which` ("min", "max")."""
    data_type = argument.data_type
    assert data_type is not None
    if data_type is DataType.BIG_DECIMAL:

        def collect_decimals(rows: Int64Array, values: pa.Array, counts: Int64Array, num_rows: int) -> list[pa.Array]:
            return [extremes_of(rows, values, num_rows, is_min=name == "min") for name in which]

        return ValueSetPlan(collect_decimals, counted=False)
    from pinotpy.kernels.aggregate import min_max

    floating = data_type.stored.is_floating
    blocks = {
        ("min", False): (min_max.min_long, min_max.min_long_single),
        ("max", False): (min_max.max_long, min_max.max_long_single),
        ("min", True): (min_max.min_double, min_max.min_double_single),
        ("max", True): (min_max.max_double, min_max.max_double_single),
    }
    values = Values.DOUBLE if floating else Values.LONG
    instructions = []
    for word, name in enumerate(which):
        grouped, single = blocks[name, floating]
        instructions.append(Update(grouped, single, word, values))

    def collect(slots: Int64Array, seen: Int64Array, overflow: Overflow) -> list[pa.Array]:
        out = []
        for word, name in enumerate(which):
            keys = np.ascontiguousarray(slots[:, word]).view(np.uint64)
            out.append(extreme_array(~keys if name == "min" else keys, seen > 0, floating=floating))
        return out

    ranks = {
        ("min", False): RankKind.LEAST_LONG,
        ("max", False): RankKind.GREATEST_LONG,
        ("min", True): RankKind.LEAST_DOUBLE,
        ("max", True): RankKind.GREATEST_DOUBLE,
    }
    return SlotPlan(
        (Word.GROW,) * len(which), tuple(instructions), collect, ranks[which[0], floating] if len(which) == 1 else None
    )
