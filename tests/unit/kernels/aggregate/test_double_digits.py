"""Proves that sums of many doubles are exact whatever their exponents: against math.fsum and Python's fractions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pinotpy.functions.state.exact_sums import round_exact, sum_doubles
from pinotpy.functions.state.grouping import KERNEL_ROWS

RANDOM = np.random.default_rng(7)
NUM_VALUES = KERNEL_ROWS + 1_000
VALUES = {
    "between 0 and 1": RANDOM.random(NUM_VALUES),
    "of every exponent": RANDOM.integers(-(2**63), 2**63 - 1, NUM_VALUES, endpoint=True).view(np.float64),
    "that cancel out": np.concatenate([RANDOM.random(NUM_VALUES // 2) * 1e300, [1.25]]),
    "subnormal": RANDOM.integers(0, 1 << 52, NUM_VALUES).view(np.float64),
    "zeros of both signs": np.where(RANDOM.random(NUM_VALUES) < 0.5, -0.0, 0.0),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("num_groups", [1, 17])
def test_sums_of_many_doubles_are_exact(name: str, num_groups: int) -> None:
    values = VALUES[name]
    values = np.where(np.isfinite(values), values, 0.5)
    values = values if name == "subnormal" else values * 2.0**-18  # so that fsum's own sums stay finite
    if name == "that cancel out":
        values = np.concatenate([values, -values[1:]])
    if len(values) < KERNEL_ROWS:
        values = np.concatenate([values, np.zeros(KERNEL_ROWS)])
    groups = RANDOM.integers(0, num_groups, len(values))
    found = round_exact(sum_doubles(groups, values, num_groups))
    assert found.tolist() == [math.fsum(values[groups == group]) for group in range(num_groups)]
