"""Adding at places that repeat: numpy's `add.at` is the oracle, on both sides of the number of rows from which a kernel
does it.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from pinotpy.arrays import distinct
from pinotpy.functions.state.exact_sums import exact_array, merge_exact, round_exact, sum_doubles
from pinotpy.functions.state.grouping import KERNEL_ROWS
from pinotpy.functions.state.scattering import add_at
from pinotpy.functions.state.states import merge_counts


@pytest.mark.parametrize("num_rows", [0, 1, KERNEL_ROWS - 1, KERNEL_ROWS, 3 * KERNEL_ROWS])
def test_values_are_added_at_places_that_repeat(num_rows: int) -> None:
    rng = np.random.default_rng(num_rows)
    both = rng.integers(-(2**63), 2**63, (num_rows, 2), np.int64)
    places, values = rng.integers(0, 1_000, num_rows), both[:, 0]  # not contiguous
    total, expected = np.zeros((2, 1_000), np.int64)
    add_at(total, places, values)
    np.add.at(expected, places, values)  # wraps
    assert np.array_equal(total, expected)
    assert merge_counts(pa.array(values), places, 1_000).to_pylist() == expected.tolist()  # nobody may write these


def test_sums_of_many_rows_are_those_of_few() -> None:
    rng = np.random.default_rng(5)
    values = rng.standard_normal(2 * KERNEL_ROWS) * 10.0 ** rng.integers(-30, 30, 2 * KERNEL_ROWS)
    groups = rng.integers(0, 500, len(values))
    each = sum_doubles(np.arange(len(values)), values, len(values))
    merged, summed = merge_exact(each, groups, 500), sum_doubles(groups, values, 500)
    assert round_exact(merged).tolist() == round_exact(summed).tolist()
    in_parts = [
        merge_exact(each.slice(start, 1_000), groups[start : start + 1_000], 500)
        for start in range(0, len(values), 1_000)
    ]
    again = merge_exact(pa.concat_arrays(in_parts), np.tile(np.arange(500), len(in_parts)), 500)
    assert round_exact(again).tolist() == round_exact(summed).tolist()


def test_words_of_the_main_window_are_a_column() -> None:
    """The main window begins at bit 48 * 21 of units of 2^-1076; Python's own fractions are the oracle."""
    rng = np.random.default_rng(7)
    low, high = rng.integers(-(2**62), 2**62, (2, 200))
    high >>= np.int64(30)
    seen, none = rng.random(200) < 0.9, np.zeros(0, np.int64)
    made = exact_array(low, high, seen, (none, none, none, none))
    unit = Fraction(2) ** (48 * 21 - 1076)
    words = zip(low.tolist(), high.tolist(), seen.tolist(), strict=True)
    expected = [float((top * 2**64 + bottom % 2**64) * unit) if is_seen else 0.0 for bottom, top, is_seen in words]
    assert round_exact(made).tolist() == expected
    assert made.null_count == 200 - int(seen.sum())


def test_distinct_values_ascend() -> None:
    rng = np.random.default_rng(1)
    for values in (rng.integers(0, 50, 1_000), np.zeros(0, np.int64), np.array([3], np.int32), rng.random(100)):
        assert np.array_equal(distinct(values), np.unique(values)) and distinct(values).dtype == values.dtype
