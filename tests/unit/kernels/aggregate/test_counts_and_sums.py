"""Proves that what updates add to the states of groups is exact: counts, integer sums of one and two words, and sums of
doubles with their overflow, for few groups (added in copies) and many, flagged rows, hostile values, in any order and
any cut into blocks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pinotpy.kernels.aggregate import counts_and_sums, sums_of_doubles
from pinotpy.kernels.aggregate.exact_sums import (
    MINUS_INFINITY,
    NOT_A_NUMBER,
    PLUS_INFINITY,
    UNIT_BIAS,
    WINDOW,
    WINDOW_MAIN,
    WINDOW_SPECIAL,
)
from pinotpy.kernels.aggregate.replicated_counters import FEW
from pinotpy.kernels.aggregate.result_context import G_OVERFLOW, G_OVERFLOW_MASK, G_TABLE, ResultContext
from pinotpy.kernels.runtime import abi
from pinotpy.kernels.runtime.growable import V_ADDRESS, V_CAPACITY

GROUPS, VALUES, FLAGS = 0, 1, 2
WIDTH, SLOT = 4, 2
NUM_GROUPS = (1, 2, 12, FEW - 1, FEW, FEW + 1, 700)
I64 = np.iinfo(np.int64)


class Table:
    """The states of some groups, and a thread that updates them."""

    def __init__(self, num_groups: int) -> None:
        control = np.zeros(abi.CONTROL_WORDS, np.int64)
        self.rows = np.zeros((num_groups, WIDTH), np.int64)
        self.context = ResultContext(control, WIDTH)
        self.context.words[G_TABLE + V_ADDRESS] = self.rows.ctypes.data
        self.context.words[G_TABLE + V_CAPACITY] = self.rows.size
        self.state = abi.State(control, self.context.address)

    def update(
        self, function: Any, groups: NDArray[np.uint32], values: NDArray[Any], skip: NDArray[np.uint8] | None
    ) -> None:
        """One block."""
        n = len(groups)
        self.state.words[abi.S_SELECTED] = n
        self.state.registers[GROUPS].view(np.uint32)[:n] = groups
        self.state.registers[VALUES][:n] = values.view(np.int64)
        if skip is not None:
            self.state.registers[FLAGS].view(np.uint8)[:n] = skip
        args = np.zeros(abi.INSTRUCTION_WORDS, np.int64)
        args[abi.A0 : abi.A0 + 4] = GROUPS, VALUES, SLOT, -1 if skip is None else FLAGS
        assert function.ctypes(self.state.address, args.ctypes.data) == abi.E_OK

    def overflow(self) -> Iterator[tuple[int, int, int]]:
        """(group, window, 128-bit number) of what lies outside the main window."""
        entries = (
            self.context.words_at(G_OVERFLOW, int(self.context.words[G_OVERFLOW_MASK] + 1) * 3).reshape(-1, 3)
            if self.context.words[G_OVERFLOW_MASK]
            else []
        )
        for key, low, high in (map(int, entry) for entry in entries):
            if key != 0:
                assert (key - 1) >> 8 & 0xFFFF == SLOT
                yield (key - 1) >> 24, (key - 1) & 0xFF, high * 2**64 + low % 2**64

    def close(self) -> None:
        self.context.words[G_TABLE : G_TABLE + 3] = 0
        self.context.close()


@pytest.fixture(params=NUM_GROUPS)
def table(request: pytest.FixtureRequest) -> Iterator[Table]:
    found = Table(request.param)
    yield found
    found.close()


def blocks(n: int, rng: np.random.Generator) -> list[slice]:
    """A random cut of n rows."""
    ends = [0]
    while ends[-1] < n:
        ends.append(min(n, ends[-1] + int(rng.choice([1, 2, 9, 100, abi.BLOCK]))))
    return [slice(low, high) for low, high in pairwise(ends)] or [slice(0, 0)]


def rows(table: Table, rng: np.random.Generator, n: int) -> tuple[NDArray[np.uint32], NDArray[np.uint8] | None]:
    """Skewed groups, and flags half the time."""
    most = len(table.rows)
    groups = np.minimum(rng.geometric(0.3, n) - 1, most - 1) if rng.random() < 0.5 else rng.integers(0, most, n)
    return groups.astype(np.uint32), (rng.random(n) < 0.3).astype(np.uint8) if rng.random() < 0.5 else None


@pytest.mark.parametrize("seed", range(4))
def test_counts_equal_bincount(table: Table, seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups, skip = rows(table, rng, 5_000)
    for block in blocks(len(groups), rng):
        flags = None if skip is None else skip[block]
        table.update(counts_and_sums.count_rows, groups[block], np.zeros(len(groups[block]), np.int64), flags)
        table.update(counts_and_sums.count_values, groups[block], np.zeros(len(groups[block]), np.int64), flags)
    counts = groups if skip is None else groups[skip == 0]
    assert table.rows[:, 0].tolist() == np.bincount(groups, minlength=len(table.rows)).tolist()
    assert table.rows[:, SLOT].tolist() == np.bincount(counts, minlength=len(table.rows)).tolist()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("most", [1000, (1 << 63) // abi.BLOCK - 1, (1 << 63) // abi.BLOCK, I64.max])
def test_sums_of_integers_equal_those_of_whole_numbers(table: Table, seed: int, most: int) -> None:
    rng = np.random.default_rng([seed, most % 1000])
    groups, skip = rows(table, rng, 6_000)
    values = (
        rng.integers(-most, most, len(groups), endpoint=True)
        if rng.random() < 0.5
        else np.full(len(groups), rng.choice([-1, 1]) * most)
    )
    if most == I64.max:
        values[rng.integers(0, len(values), 50)] = I64.min
    for block in blocks(len(groups), rng):
        table.update(counts_and_sums.sum_wide, groups[block], values[block], None if skip is None else skip[block])
    expected = [0] * len(table.rows)
    for group, value, skipped in zip(
        groups.tolist(), values.tolist(), [0] * len(groups) if skip is None else skip.tolist(), strict=True
    ):
        expected[group] += 0 if skipped else value
    assert [int(high) * 2**64 + int(low) % 2**64 for low, high in table.rows[:, SLOT : SLOT + 2]] == expected
    if most == 1000:
        before = table.rows[:, SLOT].copy()
        table.rows[:] = 0
        table.update(counts_and_sums.sum_long, groups[: abi.BLOCK], values[: abi.BLOCK], None)
        table.update(counts_and_sums.sum_long, groups[: abi.BLOCK], -values[: abi.BLOCK], None)
        assert not table.rows.any()
        for block in blocks(len(groups), rng):
            table.update(counts_and_sums.sum_long, groups[block], values[block], None if skip is None else skip[block])
        assert table.rows[:, SLOT].tolist() == before.tolist()


def doubles(kind: str, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    if kind == "prices":
        return np.round(rng.gamma(2.0, 20.0, n), 2) * rng.choice([-1.0, 1.0], n)
    if kind == "borders":
        edge = np.ldexp(1.0, [-16, -15, -14, 31, 32, 33, 34])
        return np.asarray(
            rng.choice(np.concatenate([edge, -edge, np.nextafter(edge, 0), np.nextafter(edge, np.inf), [0.0, -0.0]]), n)
        )
    if kind == "largest":
        return np.full(n, np.nextafter(2.0**33, 0) * rng.choice([-1.0, 1.0]))
    if kind == "cancelling":
        return np.asarray(rng.choice([1e308, -1e308, 1e-300, 5e-324, -5e-324, 1.0, 2.0**-60], n))
    if kind == "special":
        return np.where(rng.random(n) < 0.01, rng.choice([math.nan, math.inf, -math.inf], n), rng.normal(0, 1, n))
    return rng.integers(0, 2**63, n, np.int64).view(np.float64)  # any bits


def flags_of(values: NDArray[np.float64]) -> int:
    return (
        (PLUS_INFINITY if (values == math.inf).any() else 0)
        | (MINUS_INFINITY if (values == -math.inf).any() else 0)
        | (NOT_A_NUMBER if np.isnan(values).any() else 0)
    )


def morsel(window: int) -> Fraction:
    return Fraction(2) ** (WINDOW * window - UNIT_BIAS)


@pytest.mark.parametrize("kind", ["prices", "borders", "largest", "cancelling", "special", "bits"])
@pytest.mark.parametrize("single", [False, True], ids=["grouped", "single"])
def test_sums_of_doubles_are_exact_in_any_order_and_cut(table: Table, kind: str, single: bool) -> None:
    rng = np.random.default_rng(len(table.rows))
    groups, skip = rows(table, rng, 4_100)
    values = doubles(kind, len(groups), rng)
    order = rng.permutation(len(groups))
    groups, values, skip = groups[order], values[order], None if skip is None else skip[order]
    if single:
        groups[:] = 0
    for block in blocks(len(groups), rng):
        function = sums_of_doubles.sum_double_single if single else sums_of_doubles.sum_double
        table.update(function, groups[block], values[block], None if skip is None else skip[block])
    found = [
        morsel(WINDOW_MAIN) * (int(high) * 2**64 + int(low) % 2**64) for low, high in table.rows[:, SLOT : SLOT + 2]
    ]
    flags = [0] * len(found)
    for group, window, number in table.overflow():
        if window == WINDOW_SPECIAL:
            flags[group] |= number
        else:
            found[group] += morsel(window) * number
    counts = np.ones(len(groups), np.bool_) if skip is None else skip == 0
    for group in range(len(found)):
        mine = values[counts & (groups == group)]
        assert flags[group] == flags_of(mine)
        finite = mine[np.isfinite(mine)]
        assert found[group] == sum(map(Fraction, finite.tolist()), Fraction(0))
        if kind == "prices":
            assert float(found[group]) == math.fsum(finite)


def test_an_empty_block_adds_nothing(table: Table) -> None:
    empty = np.empty(0, np.int64)
    for function in (
        counts_and_sums.count_rows,
        counts_and_sums.count_values,
        counts_and_sums.sum_long,
        counts_and_sums.sum_wide,
        sums_of_doubles.sum_double,
        sums_of_doubles.sum_double_single,
    ):
        table.update(function, empty.astype(np.uint32), empty, None)
    assert not table.rows.any()
