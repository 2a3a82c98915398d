"""Exact sums of the first powers of numbers: the state of variances, skewness and kurtosis, and what is computed from
it.

State columns `count` (int64) and `sum1`, `sum2`, … (exact sums as in exact_sums.py; that of power p in units of
2^(-1076 p), so that all are integers). They are put together like integers and every result is one rational number,
rounded once: the same bits for any split, thread count and order, and no cancellation however large the values are
beside their spread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, ldexp, nan, sqrt
from sys import float_info
from typing import Any, ClassVar, Final

import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.functions.spec import AggregateFunction, Argument, Groups, check_types
from pinotpy.functions.state.exact_sums import (
    EXACT_HEADER,
    UNIT_BIAS,
    WINDOW,
    WINDOW_MAIN,
    exact_array,
    exact_integers,
    exact_of_columns,
    merge_exact,
)
from pinotpy.functions.state.plans import Overflow, SlotPlan, Update, Values, Word
from pinotpy.functions.state.states import EXACT, merge_counts
from pinotpy.pql.ast import Dialect

_TYPES: Final = (DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE, DataType.BOOLEAN, DataType.TIMESTAMP)
_PQL_TYPES: Final = tuple(data_type for data_type in _TYPES if data_type is not DataType.BOOLEAN)


@dataclass(frozen=True, slots=True)
class Powers:
    """Of one group: the number of values, and the sums of their powers 1, 2, … in units of 2^(exponent p) for power p.
    `is_finite`: no infinity or NaN was among them.
    """

    count: int
    sums: tuple[int, ...]
    exponent: int
    is_finite: bool

    def spread(self) -> int:
        """count² times the variance, in units of 2^(2 exponent); 0 if all values are equal."""
        return self.count * self.sums[1] - self.sums[0] ** 2

    def cubes(self) -> int:
        """count³ times the third central moment, in units of 2^(3 exponent)."""
        n, (s1, s2, s3) = self.count, self.sums[:3]
        return n * n * s3 - 3 * n * s1 * s2 + 2 * s1**3

    def fourths(self) -> int:
        """count⁴ times the fourth central moment, in units of 2^(4 exponent)."""
        n, (s1, s2, s3, s4) = self.count, self.sums
        return n**3 * s4 - 4 * n * n * s1 * s3 + 6 * n * s1 * s1 * s2 - 3 * s1**4


class PowerSums(AggregateFunction):
    """Numbers in, a DOUBLE out. `power`: the highest one that is summed; `nothing`: what no values give without null
    handling. A function adds `value`.
    """

    result_type: ClassVar[DataType] = DataType.DOUBLE
    power: ClassVar[int] = 2
    nothing: ClassVar[float] = -inf

    def __init__(self, name: str, display_name: str) -> None:
        self.name, self.display_name = name, display_name  # type: ignore[misc]

    def value(self, powers: Powers) -> float | None:
        """The result of at least one value; None if there are too few."""
        raise NotImplementedError

    def check_type(self, argument: Argument, dialect: Dialect) -> None:
        taken = _TYPES if dialect is Dialect.SQL else _PQL_TYPES
        check_types(self, argument, taken, "INT, LONG, FLOAT, DOUBLE, BOOLEAN or TIMESTAMP values", dialect)

    def state_fields(self, argument: Argument) -> list[pa.Field]:
        return [pa.field("count", pa.int64()), *(pa.field(f"sum{power}", EXACT) for power in range(1, self.power + 1))]

    def plan(self, argument: Argument, *, sum_fits_long: bool) -> SlotPlan:
        from pinotpy.kernels.aggregate import counts_and_sums, moments, sums_of_doubles

        assert argument.data_type is not None
        floating = argument.data_type.stored.is_floating
        values = Values.DOUBLE if floating else Values.LONG
        plain = (
            (sums_of_doubles.sum_double, sums_of_doubles.sum_double_single)
            if floating
            else (counts_and_sums.sum_wide, counts_and_sums.sum_wide_single)
        )
        kernels: dict[int, Any] = {
            2: moments.double_squares if floating else moments.long_squares,
            3: moments.double_cubes if floating else moments.long_cubes,
            4: moments.double_fourths if floating else moments.long_fourths,
        }
        widths = moments.WORDS_DOUBLE if floating else moments.WORDS_LONG
        words: list[Word] = [Word.WIDE, Word.WIDE_HIGH]
        instructions = [Update(*plain, 0, values)]
        places: list[tuple[int, int, int]] = []  # power, first word, words
        for power in range(2, self.power + 1):
            instructions.append(Update(kernels[power], kernels[power], len(words), values))
            places.append((power, len(words), widths[power]))
            words += [Word.ADD] * widths[power]

        def collect(slots: Int64Array, seen: Int64Array, overflow: Overflow) -> list[pa.Array]:
            def overflow_of(word: int, window: int) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
                hits = overflow.words == word
                return (overflow.rows[hits], overflow.windows[hits] - window, overflow.low[hits], overflow.high[hits])

            some = seen > 0
            if floating:
                columns = [exact_array(slots[:, 0], slots[:, 1], some, overflow_of(0, 0))]
            else:
                columns = [exact_of_columns([(UNIT_BIAS, slots[:, 0], slots[:, 1])], overflow_of(0, 0), some)]
            for power, first, count in places:
                base = power * (WINDOW * WINDOW_MAIN if floating else UNIT_BIAS)
                limbs = [
                    (base + j * moments.LIMB_BITS, slots[:, first + j], slots[:, first + j] >> 63) for j in range(count)
                ]
                rows, windows, low, high = overflow_of(first, moments.WINDOW_FIRST)
                columns.append(exact_of_columns(limbs, (rows, windows * WINDOW, low, high), some))
            return [pa.array(seen), *columns]

        return SlotPlan(tuple(words), tuple(instructions), collect)

    def merge(self, states: Sequence[pa.Array], groups: Groups, num_groups: int) -> list[pa.Array]:
        return [
            merge_counts(states[0], groups, num_groups),
            *(merge_exact(state, groups, num_groups) for state in states[1:]),
        ]

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        counts, columns = states[0].to_pylist(), [exact_integers(state) for state in states[1:]]
        shifts, exponent = _one_unit([bit for _, bit, _ in columns])
        finite = (columns[0][2] == 0).tolist()
        sums = zip(*(integers for integers, _, _ in columns), strict=True)
        groups = (
            Powers(
                count, tuple([total << shift for total, shift in zip(totals, shifts, strict=True)]), exponent, is_finite
            )
            if count
            else None
            for count, totals, is_finite in zip(counts, sums, finite, strict=True)
        )
        return pa.array(self._results(groups, null_handling), pa.float64())

    def finish_values(self, states: Sequence[Sequence[Any]], *, null_handling: bool) -> list[Any]:
        return self._results(
            (powers_of(count, sums) if count else None for count, *sums in zip(*states, strict=True)), null_handling
        )

    def _results(self, groups: Iterable[Powers | None], null_handling: bool) -> list[float | None]:
        unseen = None if null_handling else self.nothing
        out: list[float | None] = []
        for powers in groups:
            result = None if powers is None else self.value(powers) if powers.is_finite else nan
            out.append(unseen if result is None else result + 0.0)
        return out


def _one_unit(bits: Sequence[int]) -> tuple[list[int], int]:
    """(shifts, exponent): sums of powers 1, 2, … that count from these bits, moved up by `shifts`, are integers in
    units of 2^(exponent p) for power p.
    """
    lowest = min(bit // power for power, bit in enumerate(bits, 1))
    return [bit - power * lowest for power, bit in enumerate(bits, 1)], lowest - UNIT_BIAS


def powers_of(count: int, sums: Sequence[list[int]]) -> Powers:
    """The state of one group that has seen values, as integers of one unit."""
    totals = []
    for words in sums:
        total = 0
        for digit in reversed(words[1:]):
            total = (total << 32) + digit
        totals.append(total)
    shifts, exponent = _one_unit([words[0] % EXACT_HEADER * 32 for words in sums])
    whole = tuple([total << shift for total, shift in zip(totals, shifts, strict=True)])
    return Powers(count, whole, exponent, sums[0][0] < EXACT_HEADER)


def quotient(numerator: int, denominator: int, exponent: int) -> float:
    """numerator / denominator * 2^exponent, rounded once; denominator > 0."""
    try:
        ratio = numerator / denominator
        scaled = ldexp(ratio, exponent)
        if numerator == 0 or min(abs(ratio), abs(scaled)) >= float_info.min:
            return scaled  # both have all their digits: one rounding
    except OverflowError:
        pass
    try:
        return (numerator << exponent) / denominator if exponent >= 0 else numerator / (denominator << -exponent)
    except OverflowError:
        return inf if numerator > 0 else -inf


def root(numerator: int, denominator: int, exponent: int) -> float:
    """The square root of numerator / denominator * 2^(2 exponent); neither overflows nor underflows before the root
    does.
    """
    shift = (numerator.bit_length() - denominator.bit_length()) // 2
    return ldexp(sqrt(quotient(numerator, denominator, -2 * shift)), exponent + shift)
