"""Proves that filters which are run 64 docs at a time select the docs that numpy selects, and that the byte masks select: ids of
every width, raw numbers of every type, runs, nulls, negation, known legs; units that begin and end anywhere, selections that are
empty, few, mixed, dense and all, interrupted after every few blocks; and that they count the values that a leg reads."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from pinotpy.kernels import abi, driver, filters, range_scan
from pinotpy.kernels.abi import block_function, selection, words
from pinotpy.kernels.clock import clock_address
from pinotpy.kernels.legs import LEG_ALWAYS, LEG_NEVER, LEG_RUN
from pinotpy.query.control import QueryControl

_CLOCK = clock_address()
_I64 = np.iinfo(np.int64)


@njit
def _append(out: Any, docs: Any) -> None:
    for i in range(len(docs)):
        out[0] += 1
        out[out[0]] = docs[i]


@block_function
def note_docs(state_address: int, _args_address: int) -> Any:
    """Append the selected docs to the words at S_USER, the first of which is their number."""
    state = words(state_address, abi.STATE_WORDS)
    _append(words(state[abi.S_USER], 1 << 20), selection(state))
    return abi.E_OK


class _Leg:
    """A random leg: its instruction and, by numpy, the docs that pass and whether it reads values."""

    def __init__(self, rng: np.random.Generator, n: int) -> None:
        self.nulls = rng.random(n) < 0.3
        self.null_bits = np.packbits(self.nulls, bitorder="little")
        self.meta = np.zeros(abi.META_WORDS, np.int64)
        self.row = np.zeros(abi.INSTRUCTION_WORDS, np.int64)
        self.meta[abi.M_CARDINALITY], self.meta[abi.M_NUM_DOCS], self.meta[abi.M_NUM_VALUES] = -1, n, n
        has_nulls, nulls_fail, negated = rng.random(3) < 0.4
        self.meta[abi.M_NULLS] = self.null_bits.ctypes.data if has_nulls else 0
        kind = rng.choice(["ids", "ids", "runs", "raw", "null"])
        test: NDArray[Any] = getattr(self, f"_{kind}")(rng, n)
        mode = rng.choice([LEG_RUN, LEG_RUN, LEG_RUN, LEG_RUN, LEG_RUN, LEG_ALWAYS, LEG_NEVER])
        self.reads = kind != "null" and mode == LEG_RUN
        self.passes = {LEG_RUN: test ^ negated, LEG_ALWAYS: np.ones(n, np.bool_), LEG_NEVER: np.zeros(n, np.bool_)}[mode]
        if nulls_fail and has_nulls:
            self.passes = self.passes & ~self.nulls
        self.row[abi.I_FLAGS] = abi.I_LEG if kind == "null" else abi.I_SCAN_LEG
        self.row[abi.A0], self.row[abi.A0 + 3], self.row[abi.A0 + 4], self.row[abi.A0 + 5] = self.meta.ctypes.data, mode, negated, nulls_fail

    def _fill_ids(self, rng: np.random.Generator, n: int) -> int:
        width = int(rng.choice([1, 2, 4]))
        cardinality = int(rng.choice({1: [2, 9, 256], 2: [300, 65_536], 4: [70_000]}[width]))
        self.data = rng.integers(0, cardinality, n).astype(f"u{width}")
        if rng.random() < 0.2:
            self.data = np.sort(self.data)
        self.meta[abi.M_WIDTH], self.meta[abi.M_DATA], self.meta[abi.M_CARDINALITY] = width, self.data.ctypes.data, cardinality
        return cardinality

    def _run(self, rng: np.random.Generator, cardinality: int) -> tuple[int, int]:
        low, high = sorted(rng.integers(0, cardinality + 1, 2).tolist())
        return (low, high) if high - low < cardinality else (0, cardinality - 1)

    def _ids(self, rng: np.random.Generator, n: int) -> NDArray[np.bool_]:
        low, high = self._run(rng, self._fill_ids(rng, n))
        self.row[0], self.row[abi.A0 + 6], self.row[abi.A0 + 7] = filters.ids_range.address, low, high
        return (self.data >= low) & (self.data < high)

    def _runs(self, rng: np.random.Generator, n: int) -> NDArray[np.bool_]:
        cardinality = self._fill_ids(rng, n)
        self.runs = np.array([self._run(rng, cardinality) for _ in range(rng.integers(1, 5))], np.int64)
        self.row[0], self.row[abi.A0 + 6], self.row[abi.A0 + 7] = filters.ids_runs.address, self.runs.ctypes.data, len(self.runs)
        found = np.zeros(n, np.bool_)
        for low, high in self.runs:
            found |= (self.data >= low) & (self.data < high)
        return found

    def _raw(self, rng: np.random.Generator, n: int) -> NDArray[np.bool_]:
        stored = int(rng.choice([abi.T_INT, abi.T_LONG, abi.T_FLOAT, abi.T_DOUBLE]))
        dtype = {abi.T_INT: np.int32, abi.T_LONG: np.int64, abi.T_FLOAT: np.float32, abi.T_DOUBLE: np.float64}[stored]
        if stored in (abi.T_INT, abi.T_LONG):
            info = np.iinfo(dtype)
            choices = np.array([info.min, -1, 0, 1, info.max], dtype)
        else:
            choices = np.array([-np.inf, -1.5, -0.0, 0.0, 1e-40, 1.5, np.inf, np.nan], dtype)
        self.data = rng.choice(choices, n)
        low, high = rng.choice(choices, 2)
        bounds = np.array([low, high], np.int64 if stored in (abi.T_INT, abi.T_LONG) else np.float64).view(np.int64)
        self.meta[abi.M_DATA], self.meta[abi.M_STORED] = self.data.ctypes.data, stored
        self.row[0], self.row[abi.A0 + 6 : abi.A0 + 8] = filters.raw_range.address, bounds
        return (self.data >= low) & (self.data <= high)

    def _null(self, _rng: np.random.Generator, n: int) -> NDArray[np.bool_]:
        self.data = np.zeros(n, np.int64)
        self.row[0] = filters.is_null.address
        return self.nulls if self.meta[abi.M_NULLS] else np.zeros(n, np.bool_)


def _scan(legs: list[_Leg], units: list[tuple[int, int]], *, fused: bool, quantum_ns: int) -> tuple[list[int], int, list[int]]:
    """Docs in the order in which the select section saw them, values read, and docs of each unit."""
    program = np.array([*(leg.row for leg in legs), np.zeros(abi.INSTRUCTION_WORDS, np.int64)])
    for at in range(len(legs)):
        program[at, abi.A0 + 1], program[at, abi.A0 + 2] = -1 if at == 0 else 0, 0
    program[-1, abi.I_FUNCTION] = note_docs.address
    rows = np.zeros((len(units), abi.UNIT_WORDS), np.int64)
    rows[:, abi.U_LOW], rows[:, abi.U_HIGH] = np.array(units).T
    rows[:, abi.U_PROGRAM], rows[:, abi.U_NUM_FILTER], rows[:, abi.U_NUM_SELECT], rows[:, abi.U_GATHER] = program.ctypes.data, len(legs), 1, 1
    control = QueryControl(quantum_ns=quantum_ns).words
    if not fused:
        control[abi.C_FUSED_TESTS : abi.C_FUSED_TESTS + range_scan.NUM_FUSED_TESTS] = 0
    found = np.zeros(1 << 20, np.int64)
    state = abi.State(control, found.ctypes.data)
    cursor = driver.new_cursor(0)
    code = abi.E_MORE
    while code == abi.E_MORE:
        code = driver.step(rows, len(rows), state.words, state.address, cursor, cursor.ctypes.data + driver.K_TIMESPEC * 8, control, _CLOCK)
    assert code == abi.E_OK
    assert state.words[abi.S_DOCS_SCANNED] == found[0]
    return found[1 : found[0] + 1].tolist(), int(state.words[abi.S_ENTRIES_FILTER]), rows[:, abi.U_SELECTED].tolist()


@pytest.mark.parametrize("seed", range(60))
def test_ranges_select_what_numpy_selects(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.choice([1, 63, 64, 65, 2_048, 4_096, 4_097, 50_001]))
    legs = [_Leg(rng, n) for _ in range(rng.integers(1, 5))]
    borders = sorted({0, n, *rng.integers(0, n + 1, 3).tolist()})
    units = list(pairwise(borders))
    left, entries = np.ones(n, np.bool_), 0
    for leg in legs:
        entries += int(left.sum()) if leg.reads else 0
        left &= leg.passes
    for quantum_ns in (1, 10**12):
        docs, read, by_unit = _scan(legs, units, fused=True, quantum_ns=quantum_ns)
        assert docs == np.flatnonzero(left).tolist()
        assert read == entries
        assert by_unit == [int(left[low:high].sum()) for low, high in units]
        assert _scan(legs, units, fused=False, quantum_ns=quantum_ns) == (docs, read, by_unit)


def _keeping(passes: NDArray[np.bool_]) -> _Leg:
    leg = _Leg(np.random.default_rng(0), len(passes))
    leg.data = passes.astype(np.uint8)
    leg.meta[abi.M_WIDTH], leg.meta[abi.M_DATA], leg.meta[abi.M_CARDINALITY], leg.meta[abi.M_NULLS] = 1, leg.data.ctypes.data, 2, 0
    leg.row[0], leg.row[abi.I_FLAGS] = filters.ids_range.address, abi.I_SCAN_LEG
    leg.row[abi.A0 + 3 : abi.A0 + 8] = LEG_RUN, 0, 0, 1, 2
    return leg


@pytest.mark.parametrize("share", [0.0, 0.0003, 0.004, 0.05, 0.3, 0.9, 0.9995, 1.0])
def test_every_density_is_selected_in_order(share: float) -> None:
    rng = np.random.default_rng(7)
    passes = rng.random(200_000) < share
    # Chunks that pass whole stand between others.
    passes[40_960:61_440], passes[90_000:98_304], passes[120_000:140_000] = True, False, True
    for quantum_ns in (1, 10**12):
        docs, read, by_unit = _scan([_keeping(passes)], [(5, 99_999), (100_001, 200_000)], fused=True, quantum_ns=quantum_ns)
        wanted = np.flatnonzero(passes)
        assert docs == wanted[(wanted >= 5) & (wanted != 99_999) & (wanted != 100_000)].tolist()
        assert read == 199_993
        assert by_unit == [int(passes[5:99_999].sum()), int(passes[100_001:].sum())]


def test_extreme_bounds_of_words() -> None:
    leg = _keeping(np.ones(130, np.bool_))
    values = np.array([_I64.min, -1, 0, _I64.max] * 32 + [_I64.min, _I64.max], np.int64)
    leg.meta[abi.M_CARDINALITY], leg.meta[abi.M_DATA], leg.meta[abi.M_STORED] = -1, values.ctypes.data, abi.T_LONG
    leg.row[0], leg.row[abi.A0 + 6], leg.row[abi.A0 + 7] = filters.raw_range.address, _I64.min, -1
    assert _scan([leg], [(0, 130)], fused=True, quantum_ns=10**12)[0] == np.flatnonzero(values < 0).tolist()
