"""COVAR_POP(x, y), COVAR_SAMP: the covariance of two numbers of a row, exact and rounded once.

The state is the number of rows and the exact sums of x, y and x * y (docs/adr/0003-sums.md; a product is the sum of two
doubles): the same rows give the same bits for any split. Over- or underflowing products are as doubles have them. Under
null handling a row counts where neither x nor y is null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.decimals import decode_decimal
from pinotpy.errors import InvalidQueryError
from pinotpy.functions.spec import AggregateExample, AggregateFunction, Argument, Groups, check_number
from pinotpy.functions.state.exact_sums import (
    UNIT_BIAS,
    WINDOW_SPECIAL,
    exact_array,
    exact_integers,
    merge_exact,
    round_exact,
)
from pinotpy.functions.state.plans import RowBlock, RowPlan
from pinotpy.functions.state.states import merge_counts
from pinotpy.pql.ast import Dialect

Doubles = NDArray[np.float64]


class Covariance(AggregateFunction):
    result_type: ClassVar[DataType] = DataType.DOUBLE
    sql_only: ClassVar[bool] = True
    num_expressions: ClassVar[int] = 2
    reads_rows: ClassVar[bool] = True
    parameters: ClassVar[str] = ", y"
    examples: ClassVar[Mapping[str, AggregateExample]]

    def __init__(self, name: str, display_name: str, *, sample: bool, example: AggregateExample) -> None:
        self.name, self.display_name, self.examples = name, display_name, {name: example}  # type: ignore[misc]
        self.summary = f"The {'sample' if sample else 'population'} covariance of two numbers of a row."  # type: ignore[misc]
        self._sample = sample

    def check(self, arguments: Sequence[Argument], dialect: Dialect) -> None:
        for argument in (arguments[0], *arguments[0].further):
            if not argument.single_value:
                raise InvalidQueryError(f"{self.display_name} takes single values, found {argument.name}")
            check_number(self, argument, dialect)

    def state_fields(self, argument: Argument) -> list[pa.Field]:
        sums = [pa.field(name, pa.list_(pa.int64())) for name in ("sumx", "sumy", "sumxy")]
        return [pa.field("count", pa.int64()), *sums]

    def plan(self, argument: Argument, *, sum_fits_long: bool) -> RowPlan:
        return RowPlan(_collect)

    def merge(self, states: Sequence[pa.Array], groups: Groups, num_groups: int) -> list[pa.Array]:
        return [
            merge_counts(states[0], groups, num_groups),
            *(merge_exact(state, groups, num_groups) for state in states[1:]),
        ]

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        counts = pc.fill_null(states[0], 0).to_numpy(zero_copy_only=False)
        rounded = [round_exact(state) for state in states[1:]]
        finite = np.logical_and.reduce([np.isfinite(column) for column in rounded]).tolist()
        integers = [[value << bit for value in values] for values, bit, _ in map(exact_integers, states[1:])]
        out: list[float | None] = []
        for row, count in enumerate(counts.tolist()):
            divisor = count - 1 if self._sample else count
            if divisor <= 0:
                out.append(None if null_handling else float("-inf"))
            elif finite[row]:
                out.append(_covariance(count, divisor, *(column[row] for column in integers)))
            else:
                x, y, xy = (float(column[row]) for column in rounded)
                out.append((xy - x * y / count) / divisor)
        return pa.array(out, pa.float64())


def _covariance(count: int, divisor: int, x: int, y: int, xy: int) -> float:
    """(xy - x * y / count) / divisor of sums in units of 2^-UNIT_BIAS, rounded once."""
    try:
        return ((xy * count << UNIT_BIAS) - x * y) / (count * divisor << 2 * UNIT_BIAS)
    except OverflowError:
        return float("inf") if (xy * count << UNIT_BIAS) > x * y else float("-inf")


def _collect(block: RowBlock, num_rows: int) -> list[pa.Array]:
    from pinotpy.kernels.aggregate.row_states import products

    first, second, rows = block.argument(0), block.argument(1), block.rows
    if first.null_count or second.null_count:
        valid = pc.and_(first.is_valid(), second.is_valid())
        first, second, rows = first.filter(valid), second.filter(valid), rows[valid.to_numpy(zero_copy_only=False)]
    x, y = _doubles(first), _doubles(second)
    high, low = np.empty_like(x), np.empty_like(x)
    products(x, y, high, low)
    counts = np.bincount(rows, minlength=num_rows).astype(np.int64)
    return [pa.array(counts), *(_sums(rows, parts, num_rows) for parts in ((x,), (y,), (high, low)))]


def _sums(rows: Int64Array, parts: Sequence[Doubles], num_rows: int) -> pa.Array:
    """Exact sums of each row, of all parts together."""
    from pinotpy.kernels.aggregate.row_states import sum_windows, window_range

    ranges = [window_range(part.view(np.uint64)) for part in parts]
    first, last = min(low for low, _ in ranges), max(high for _, high in ranges)
    width = max(int(last - first) + 1, 1)
    low, high, flags = (
        np.zeros((num_rows, width), np.int64),
        np.zeros((num_rows, width), np.int64),
        np.zeros(num_rows, np.int64),
    )
    for part in parts:
        sum_windows(rows, part.view(np.uint64), first, low, high, flags)
    positions, window = np.nonzero((low != 0) | (high != 0))
    special = np.flatnonzero(flags)
    overflow = (
        np.concatenate([positions, special]),
        np.concatenate([window + first, np.full(len(special), WINDOW_SPECIAL)]),
        np.concatenate([low[positions, window], flags[special]]),
        np.concatenate([high[positions, window], np.zeros(len(special), np.int64)]),
    )
    none = np.zeros(num_rows, np.int64)
    return exact_array(none, none, np.ones(num_rows, np.bool_), overflow)


def _doubles(values: pa.Array) -> Doubles:
    """Numbers without nulls as doubles."""
    if pa.types.is_binary(values.type):  # BIG_DECIMAL: its values are decoded once each
        encoded = values.dictionary_encode()
        decoded: Any = np.array([float(decode_decimal(value)) for value in encoded.dictionary.to_pylist()], np.float64)
        return (
            np.ascontiguousarray(decoded[encoded.indices.to_numpy(zero_copy_only=False)])
            if len(values)
            else np.empty(0, np.float64)
        )
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    return np.ascontiguousarray(values.to_numpy(zero_copy_only=False).astype(np.float64))


FUNCTIONS = (
    Covariance(
        "covarpop", "covarPop", sample=False, example=AggregateExample("COVARPOP(points, score)", 3.1222222222222222)
    ),
    Covariance(
        "covarsamp", "covarSamp", sample=True, example=AggregateExample("COVARSAMP(points, score)", 3.7466666666666666)
    ),
)
