"""Proves that sums of doubles are exact whatever their order and split, against fractions; and that the constants of
the kernels and of the merging side are the same.
"""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from group_harness import exact_sum, same
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pinotpy.functions.state import exact_sums
from pinotpy.functions.state.exact_sums import exact_array, merge_exact, round_exact
from pinotpy.kernels.aggregate import exact_sums as kernel

NOTHING = tuple(np.empty(0, np.int64) for _ in range(4))


def state(value: float) -> pa.Array:
    """A state column of one row that saw one value, made by hand from the value's bits."""
    bits = struct.unpack("<q", struct.pack("<d", value))[0]
    exponent, fraction = bits >> 52 & 0x7FF, bits & (1 << 52) - 1
    if exponent == 0x7FF:
        flag = (
            exact_sums.NOT_A_NUMBER if fraction else exact_sums.MINUS_INFINITY if bits < 0 else exact_sums.PLUS_INFINITY
        )
        window, number = exact_sums.WINDOW_SPECIAL, flag
    else:
        window = exponent // exact_sums.WINDOW
        number = (fraction | (1 << 52) if exponent else fraction) << (
            max(exponent, 1) - (exact_sums.WINDOW * window - 1)
        )
        number = -number if bits < 0 else number
    words = [np.array([part], np.int64) for part in _halves(number)]
    zero = np.zeros(1, np.int64)
    return exact_array(zero, zero, np.ones(1, np.bool_), (zero, np.array([window]), *words))


def _halves(number: int) -> tuple[int, int]:
    low = number & (1 << 64) - 1
    return (low - (1 << 64) if low >= 1 << 63 else low), number >> 64


def merged(states: Sequence[pa.Array]) -> pa.Array:
    together = pa.concat_arrays(list(states))
    return merge_exact(together, np.zeros(len(together), np.int64), 1)


DOUBLES = st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from(
    [0.0, -0.0, 5e-324, 1.7976931348623157e308, 0.1, 1e16, 1.0, -1e16]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(DOUBLES, min_size=1, max_size=30), st.randoms())
@example([1e308, 1e308, -1e308], random.Random(0))
@example([1.0, 1e100, 1.0, -1e100], random.Random(0))
@example([2.0**53, 1.0, 2.0**-60], random.Random(0))  # just above half an ulp: rounds up
def test_any_tree_of_merges_gives_the_exactly_rounded_sum(values: list[float], rng: Any) -> None:
    states = [state(value) for value in values]
    while len(states) > 1:
        rng.shuffle(states)
        size = rng.randint(2, len(states))
        states = [merged(states[:size]), *states[size:]]
    assert same(float(round_exact(states[0])[0]), exact_sum(values) + 0.0), values


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), DOUBLES), min_size=1, max_size=40))
def test_groups_merge_side_by_side(rows: list[tuple[int, float]]) -> None:
    together = pa.concat_arrays([state(value) for _, value in rows])
    found = merge_exact(together, np.array([group for group, _ in rows]), 5)
    sums = round_exact(found)
    for group in range(5):
        values = [value for g, value in rows if g == group]
        assert found[group].is_valid == bool(values)
        if values:
            assert same(float(sums[group]), exact_sum(values) + 0.0)


def test_negative_and_positive_sums_of_one_magnitude_cancel_to_a_plain_zero() -> None:
    assert math.copysign(1.0, round_exact(merged([state(1e-300), state(-1e-300)]))[0]) == 1.0


def test_null_states_add_nothing_and_stay_null_alone() -> None:
    null = pa.nulls(1, exact_sums_type())
    assert merged([null, state(2.5), null]).is_valid().to_pylist() == [True]
    assert round_exact(merged([null, state(2.5)])).tolist() == [2.5]
    assert merged([null, null]).null_count == 1


def exact_sums_type() -> pa.DataType:
    return state(1.0).type


def test_words_of_the_main_window_are_what_the_kernel_makes_of_doubles() -> None:
    rng = np.random.default_rng(5)
    values = np.concatenate(
        [
            rng.uniform(0.1, 8.0, 500) * rng.choice([-1, 1], 500) * 10.0 ** rng.integers(-3, 9, 500),
            [0.0, -0.0, 3.1e-5, 8.5e9, -8.5e9],
        ]
    )
    low, high = np.empty(len(values), np.int64), np.empty(len(values), np.int64)
    assert kernel.split_doubles(values.view(np.uint64), low, high) == 0
    for value, small, large in zip(values.tolist(), low.tolist(), high.tolist(), strict=True):
        number = large * 2**64 + small % 2**64
        assert Fraction(number) * Fraction(2) ** (
            exact_sums.WINDOW * exact_sums.WINDOW_MAIN - exact_sums.UNIT_BIAS
        ) == Fraction(value)


def test_values_outside_of_the_main_window_are_counted_and_left_out() -> None:
    values = np.array([1e-6, 1e10, math.inf, math.nan, 5e-324, 1.0, 0.0])
    low, high = np.empty(7, np.int64), np.empty(7, np.int64)
    assert kernel.split_doubles(values.view(np.uint64), low, high) == 5
    assert not low[:5].any() and not high[:5].any() and (low[5], high[5]) != (0, 0)


def test_both_sides_agree_on_the_layout() -> None:
    for name in (
        "WINDOW",
        "WINDOW_MAIN",
        "WINDOW_SPECIAL",
        "UNIT_BIAS",
        "PLUS_INFINITY",
        "MINUS_INFINITY",
        "NOT_A_NUMBER",
    ):
        assert getattr(kernel, name) == getattr(exact_sums, name)
