"""Proves that filters which are run 64 docs at a time select the docs that numpy selects, and that the byte masks
select: ids of every width, raw numbers of every type, runs, nulls, chains of arithmetic, negation, known predicates;
units that begin and end anywhere, selections that are empty, few, mixed, dense and all, interrupted after every few
blocks; and that they count the values that a predicate reads.
"""

from __future__ import annotations

import ctypes
import mmap
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from pinotpy.kernels.filter import bitmap_scan, expression_predicate, predicates
from pinotpy.kernels.filter.predicate_frame import PREDICATE_ALWAYS, PREDICATE_NEVER, PREDICATE_RUN
from pinotpy.kernels.runtime import abi
from pinotpy.kernels.runtime.abi import block_function, selection, words
from pinotpy.kernels.runtime.clock import clock_address
from pinotpy.kernels.scan import driver
from pinotpy.kernels.vector import fetch, fused_program
from pinotpy.kernels.vector import fused_instruction as fused
from pinotpy.query.runtime.control import QueryControl

_CLOCK = clock_address()
_I64 = np.iinfo(np.int64)
_MPROTECT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int)(
    ("mprotect", ctypes.CDLL(None))
)


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


class _Predicate:
    """A random predicate: its instruction and, by numpy, the docs that pass and whether it reads values."""

    def __init__(self, rng: np.random.Generator, n: int) -> None:
        self.nulls = rng.random(n) < 0.3
        self.null_bits = np.packbits(self.nulls, bitorder="little")
        self.meta = np.zeros(abi.META_WORDS, np.int64)
        self.row = np.zeros(abi.INSTRUCTION_WORDS, np.int64)
        self.meta[abi.M_CARDINALITY], self.meta[abi.M_NUM_DOCS], self.meta[abi.M_NUM_VALUES] = -1, n, n
        has_nulls, nulls_fail, negated = rng.random(3) < 0.4
        self.meta[abi.M_NULLS] = self.null_bits.ctypes.data if has_nulls else 0
        kind = rng.choice(["ids", "ids", "runs", "raw", "null", "program", "program"])
        test: NDArray[Any] = getattr(self, f"_{kind}")(rng, n)
        mode = rng.choice(
            [
                PREDICATE_RUN,
                PREDICATE_RUN,
                PREDICATE_RUN,
                PREDICATE_RUN,
                PREDICATE_RUN,
                PREDICATE_ALWAYS,
                PREDICATE_NEVER,
            ]
        )
        self.reads = kind != "null" and mode == PREDICATE_RUN
        self.passes = {
            PREDICATE_RUN: test ^ negated,
            PREDICATE_ALWAYS: np.ones(n, np.bool_),
            PREDICATE_NEVER: np.zeros(n, np.bool_),
        }[mode]
        if nulls_fail and has_nulls:
            self.passes = self.passes & ~self.nulls
        self.row[abi.I_FLAGS] = abi.I_PREDICATE if kind in ("null", "program") else abi.I_SCAN_PREDICATE
        self.row[abi.A0], self.row[abi.A0 + 3], self.row[abi.A0 + 4], self.row[abi.A0 + 5] = (
            self.meta.ctypes.data,
            mode,
            negated,
            nulls_fail,
        )

    def _fill_ids(self, rng: np.random.Generator, n: int) -> int:
        width = int(rng.choice([1, 2, 4]))
        cardinality = int(rng.choice({1: [2, 9, 256], 2: [300, 65_536], 4: [70_000]}[width]))
        self.data = rng.integers(0, cardinality, n).astype(f"u{width}")
        if rng.random() < 0.2:
            self.data = np.sort(self.data)
        self.meta[abi.M_WIDTH], self.meta[abi.M_DATA], self.meta[abi.M_CARDINALITY] = (
            width,
            self.data.ctypes.data,
            cardinality,
        )
        return cardinality

    def _run(self, rng: np.random.Generator, cardinality: int) -> tuple[int, int]:
        low, high = sorted(rng.integers(0, cardinality + 1, 2).tolist())
        return (low, high) if high - low < cardinality else (0, cardinality - 1)

    def _ids(self, rng: np.random.Generator, n: int) -> NDArray[np.bool_]:
        low, high = self._run(rng, self._fill_ids(rng, n))
        self.row[0], self.row[abi.A0 + 6], self.row[abi.A0 + 7] = predicates.ids_range.address, low, high
        return (self.data >= low) & (self.data < high)

    def _runs(self, rng: np.random.Generator, n: int) -> NDArray[np.bool_]:
        cardinality = self._fill_ids(rng, n)
        self.runs = np.array([self._run(rng, cardinality) for _ in range(rng.integers(1, 5))], np.int64)
        self.row[0], self.row[abi.A0 + 6], self.row[abi.A0 + 7] = (
            predicates.ids_runs.address,
            self.runs.ctypes.data,
            len(self.runs),
        )
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
        self.row[0], self.row[abi.A0 + 6 : abi.A0 + 8] = predicates.raw_range.address, bounds
        return (self.data >= low) & (self.data <= high)

    def _null(self, _rng: np.random.Generator, n: int) -> NDArray[np.bool_]:
        self.data = np.zeros(n, np.int64)
        self.row[0] = predicates.is_null.address
        return self.nulls if self.meta[abi.M_NULLS] else np.zeros(n, np.bool_)

    def _program(self, rng: np.random.Generator, n: int) -> NDArray[np.bool_]:
        """(first + second) * 0.5 against a constant, of columns of any kind that lies in a row. The predicate's own
        meta is that of a raw column here.
        """
        self.columns = [_fused_column(rng, n) for _ in range(2)]
        registers = [abi.NUM_REGISTERS, abi.NUM_REGISTERS + 1]
        truth = abi.NUM_REGISTERS + 2
        comparison = int(
            rng.choice([fused_program.GREATER, fused_program.LESS_OR_EQUAL, fused_program.EQUAL, fused_program.BETWEEN])
        )
        low, high = sorted(rng.choice([-1.5, -0.25, 0.0, 0.5, 40.0, 99.0], 2).tolist())
        bits = np.array([0.5, low, high]).view(np.int64)
        self.steps = np.array(
            [
                [fused.COLUMN, fused_program.SET, 0, 0],
                [fused.COLUMN, fused_program.ADD, 1, 0],
                [fused_program.CONSTANT, fused_program.MULTIPLY, bits[0], 0],
                [fused_program.CONSTANT, comparison, bits[1], bits[2]],
            ],
            np.int64,
        )
        self.program = np.zeros((3, abi.INSTRUCTION_WORDS), np.int64)
        for number, (_, meta, _) in enumerate(self.columns):
            self.program[number, 0] = fetch.fetch_unless_in_a_row.address
            self.program[number, abi.A0 : abi.A0 + 2] = registers[number], meta.ctypes.data
        metas = [meta.ctypes.data for _, meta, _ in self.columns]
        self.program[2, 0] = fused.fused_doubles.address
        self.program[2, abi.A0 : abi.A0 + 8] = (
            truth,
            self.steps.ctypes.data,
            len(self.steps),
            2,
            metas[0],
            registers[0],
            metas[1],
            registers[1],
        )
        self.row[0], self.row[abi.A0 + 6 : abi.A0 + 10] = (
            expression_predicate.expression_test.address,
            (self.program.ctypes.data, 3, truth, -1),
        )
        with np.errstate(all="ignore"):
            a = (self.columns[0][2] + self.columns[1][2]) * 0.5
            found: NDArray[np.bool_] = {
                fused_program.GREATER: a > low, fused_program.LESS_OR_EQUAL: a <= low, fused_program.EQUAL: a == low,
                    fused_program.BETWEEN: (a >= low) & (a <= high),
            }[comparison]  # fmt: skip
        return found


def _fused_column(rng: np.random.Generator, n: int) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.float64]]:
    """Its data, its meta and its values; the data ends with the memory page, so that nobody reads behind it."""
    kind = str(rng.choice(["f8", "f4", "i8", "i4", "ids"]))
    values = (
        rng.choice([-3.0, -1.0, 0.0, 1.0, 80.0, 198.0, np.nan, np.inf], n)
        if kind in ("f8", "f4")
        else rng.integers(-3, 250, n).astype(np.float64)
    )
    meta = np.zeros(abi.META_WORDS, np.int64)
    meta[abi.M_CARDINALITY], meta[abi.M_NUM_DOCS], meta[abi.M_NUM_VALUES] = -1, n, n
    if kind == "ids":
        width = int(rng.choice([1, 2, 4]))
        data = _before_a_hole((values + 3).astype(f"u{width}"))
        meta[abi.M_CARDINALITY], meta[abi.M_DICTIONARY], meta[abi.M_STORED] = (
            len(_DICTIONARY),
            _DICTIONARY.ctypes.data,
            abi.T_INT,
        )
    else:
        data = _before_a_hole(values.astype(kind))
        meta[abi.M_STORED] = {"i4": abi.T_INT, "i8": abi.T_LONG, "f4": abi.T_FLOAT, "f8": abi.T_DOUBLE}[kind]
    meta[abi.M_WIDTH], meta[abi.M_DATA] = data.itemsize, data.ctypes.data
    return data, meta, values


_DICTIONARY = np.arange(-3, 253, dtype=np.int32)


def _before_a_hole(values: NDArray[Any]) -> NDArray[Any]:
    """A copy that ends where a page ends that is followed by one that may not be read."""
    size = -(-values.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    pages = mmap.mmap(-1, size + mmap.PAGESIZE)
    whole = np.frombuffer(pages, np.uint8)
    assert _MPROTECT(whole.ctypes.data + size, mmap.PAGESIZE, 0) == 0
    copy = whole[size - values.nbytes : size].view(values.dtype)
    copy[:] = values
    return copy


def _scan(
    all_predicates: list[_Predicate], morsels: list[tuple[int, int]], *, fused: bool, quantum_ns: int
) -> tuple[list[int], int, list[int]]:
    """Docs in the order in which the select section saw them, values read, and docs of each unit."""
    program = np.array([*(predicate.row for predicate in all_predicates), np.zeros(abi.INSTRUCTION_WORDS, np.int64)])
    for at in range(len(all_predicates)):
        program[at, abi.A0 + 1], program[at, abi.A0 + 2] = -1 if at == 0 else 0, 0
    program[-1, abi.I_FUNCTION] = note_docs.address
    rows = np.zeros((len(morsels), abi.MORSEL_WORDS), np.int64)
    rows[:, abi.U_LOW], rows[:, abi.U_HIGH] = np.array(morsels).T
    rows[:, abi.U_PROGRAM], rows[:, abi.U_NUM_FILTER], rows[:, abi.U_NUM_SELECT], rows[:, abi.U_GATHER] = (
        program.ctypes.data,
        len(all_predicates),
        1,
        1,
    )
    control = QueryControl(quantum_ns=quantum_ns).words
    if not fused:
        control[abi.C_FUSED_TESTS : abi.C_FUSED_TESTS + bitmap_scan.NUM_FUSED_TESTS] = 0
    found = np.zeros(1 << 20, np.int64)
    state = abi.State(control, found.ctypes.data)
    cursor = driver.new_cursor(0)
    code = abi.E_MORE
    while code == abi.E_MORE:
        code = driver.step(
            rows,
            len(rows),
            state.words,
            state.address,
            cursor,
            cursor.ctypes.data + driver.K_TIMESPEC * 8,
            control,
            _CLOCK,
        )
    assert code == abi.E_OK
    assert state.words[abi.S_DOCS_SCANNED] == found[0]
    return found[1 : found[0] + 1].tolist(), int(state.words[abi.S_ENTRIES_FILTER]), rows[:, abi.U_SELECTED].tolist()


@pytest.mark.parametrize("seed", range(60))
def test_ranges_select_what_numpy_selects(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.choice([1, 63, 64, 65, 2_048, 4_096, 4_097, 50_001]))
    all_predicates = [_Predicate(rng, n) for _ in range(rng.integers(1, 5))]
    borders = sorted({0, n, *rng.integers(0, n + 1, 3).tolist()})
    morsels = list(pairwise(borders))
    left, entries = np.ones(n, np.bool_), 0
    for predicate in all_predicates:
        entries += int(left.sum()) if predicate.reads else 0
        left &= predicate.passes
    for quantum_ns in (1, 10**12):
        docs, read, by_unit = _scan(all_predicates, morsels, fused=True, quantum_ns=quantum_ns)
        assert docs == np.flatnonzero(left).tolist()
        assert read == entries
        assert by_unit == [int(left[low:high].sum()) for low, high in morsels]
        assert _scan(all_predicates, morsels, fused=False, quantum_ns=quantum_ns) == (docs, read, by_unit)


def _keeping(passes: NDArray[np.bool_]) -> _Predicate:
    predicate = _Predicate(np.random.default_rng(0), len(passes))
    predicate.data = passes.astype(np.uint8)
    (
        predicate.meta[abi.M_WIDTH],
        predicate.meta[abi.M_DATA],
        predicate.meta[abi.M_CARDINALITY],
        predicate.meta[abi.M_NULLS],
    ) = (
        1,
        predicate.data.ctypes.data,
        2,
        0,
    )
    predicate.row[0], predicate.row[abi.I_FLAGS] = predicates.ids_range.address, abi.I_SCAN_PREDICATE
    predicate.row[abi.A0 + 3 : abi.A0 + 8] = PREDICATE_RUN, 0, 0, 1, 2
    return predicate


@pytest.mark.parametrize("share", [0.0, 0.0003, 0.004, 0.05, 0.3, 0.9, 0.9995, 1.0])
def test_every_density_is_selected_in_order(share: float) -> None:
    rng = np.random.default_rng(7)
    passes = rng.random(200_000) < share
    # Chunks that pass whole stand between others.
    passes[40_960:61_440], passes[90_000:98_304], passes[120_000:140_000] = True, False, True
    for quantum_ns in (1, 10**12):
        docs, read, by_unit = _scan(
            [_keeping(passes)], [(5, 99_999), (100_001, 200_000)], fused=True, quantum_ns=quantum_ns
        )
        wanted = np.flatnonzero(passes)
        assert docs == wanted[(wanted >= 5) & (wanted != 99_999) & (wanted != 100_000)].tolist()
        assert read == 199_993
        assert by_unit == [int(passes[5:99_999].sum()), int(passes[100_001:].sum())]


@pytest.mark.parametrize("seed", range(8))
def test_chains_after_a_selective_leg(seed: int) -> None:
    """Only words that have docs left are computed."""
    rng = np.random.default_rng(seed)
    n = 50_001
    few, fused_program = _keeping(rng.random(n) < 0.002), _keeping(np.ones(n, np.bool_))
    wanted = (few.data == 1) & fused_program._program(rng, n)
    fused_program.row[abi.A0 + 5], fused_program.row[abi.I_FLAGS] = 0, abi.I_PREDICATE
    docs, read, _ = _scan([few, fused_program], [(0, n)], fused=True, quantum_ns=10**12)
    assert docs == np.flatnonzero(wanted).tolist()
    assert read == n + few.data.sum()


def test_extreme_bounds_of_words() -> None:
    predicate = _keeping(np.ones(130, np.bool_))
    values = np.array([_I64.min, -1, 0, _I64.max] * 32 + [_I64.min, _I64.max], np.int64)
    predicate.meta[abi.M_CARDINALITY], predicate.meta[abi.M_DATA], predicate.meta[abi.M_STORED] = (
        -1,
        values.ctypes.data,
        abi.T_LONG,
    )
    predicate.row[0], predicate.row[abi.A0 + 6], predicate.row[abi.A0 + 7] = predicates.raw_range.address, _I64.min, -1
    assert _scan([predicate], [(0, 130)], fused=True, quantum_ns=10**12)[0] == np.flatnonzero(values < 0).tolist()


def _is_run_here(predicate: _Predicate) -> bool:
    row = predicate.row.copy()
    row[abi.A0 + 1] = -1
    control = QueryControl()
    control.know_fused_tests()
    return bool(bitmap_scan.are_ranges(control.words, row.ctypes.data, 1))


def test_chains_that_must_be_run_a_block_at_a_time_are_left_alone() -> None:
    predicate = _keeping(np.ones(130, np.bool_))
    predicate._program(np.random.default_rng(1), 130)
    assert _is_run_here(predicate)
    unknown = predicate.row[abi.A0 + 9]
    predicate.row[abi.A0 + 9] = abi.NUM_REGISTERS + 3
    assert not _is_run_here(predicate), "flags of docs whose truth is unknown"
    predicate.row[abi.A0 + 9] = unknown
    operation = predicate.steps[-1, 1]
    predicate.steps[-1, 1] = fused_program.STORE
    assert not _is_run_here(predicate), "values instead of flags"
    predicate.steps[-1, 1] = operation
    predicate.steps[1, 0] = fused.DOUBLE_REGISTER
    assert not _is_run_here(predicate), "an operand that another instruction computes"
    predicate.steps[1, 0] = fused.COLUMN
    predicate.program[0, 0] = fetch.fetch_values.address
    assert not _is_run_here(predicate), "a program that does more"
    predicate.program[0, 0] = fetch.fetch_unless_in_a_row.address
    gaps = np.array([1, 5, 6], np.int32)
    predicate.columns[1][1][[abi.M_CARDINALITY, abi.M_DICTIONARY, abi.M_STORED]] = (
        len(gaps),
        gaps.ctypes.data,
        abi.T_INT,
    )
    assert not _is_run_here(predicate), "a column whose ids are not its values"
