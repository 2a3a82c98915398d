"""Proves that chains compute what numpy does, bit for bit: every source, every operation, whole blocks and the end of a
column, docs in a row and picked ones.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numba import njit

from pinotpy.kernels.runtime import abi
from pinotpy.kernels.vector import fetch, fused_instruction, fused_program

_CALL = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
_DOCS = 5_000
_RNG = np.random.default_rng(8)
_HOSTILE = np.array([0.0, -0.0, 1.5, -2.25, np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 0.1, 2.0**53 + 2, -7.0])
_DOUBLES = _HOSTILE[_RNG.integers(0, len(_HOSTILE), _DOCS)]
_OTHERS = _HOSTILE[_RNG.integers(0, len(_HOSTILE), _DOCS)]


def _bits(value: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


def _meta(values: np.ndarray[Any, Any], dictionary: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
    """Of raw values, or of ids of a dictionary."""
    stored = {"i4": abi.T_INT, "i8": abi.T_LONG, "f4": abi.T_FLOAT, "f8": abi.T_DOUBLE}[
        (values if dictionary is None else dictionary).dtype.str[1:]
    ]
    meta = np.zeros(abi.META_WORDS, np.int64)
    meta[abi.M_WIDTH], meta[abi.M_DATA], meta[abi.M_NUM_VALUES], meta[abi.M_STORED] = (
        values.itemsize,
        values.ctypes.data,
        len(values),
        stored,
    )
    meta[abi.M_CARDINALITY] = -1
    if dictionary is not None:
        meta[abi.M_CARDINALITY], meta[abi.M_DICTIONARY] = len(dictionary), dictionary.ctypes.data
    return meta


def _run(
    metas: Sequence[np.ndarray[Any, Any]], steps: Sequence[Sequence[int]], docs: np.ndarray[Any, Any], *, dense: bool
) -> abi.State:
    """The state after the instructions of a chain over `docs`; its outcome is in register 0."""
    state = abi.State(np.zeros(abi.CONTROL_WORDS, np.int64))
    state.words[abi.S_SELECTED], state.words[abi.S_BASE], state.words[abi.S_DENSE] = len(docs), docs[0], int(dense)
    state.selection[0, : len(docs)] = docs
    planned = np.array(steps, np.int64)
    row = np.zeros(abi.INSTRUCTION_WORDS, np.int64)
    row[abi.A0 : abi.A0 + 4] = 0, planned.ctypes.data, len(planned), len(metas)
    for number, meta in enumerate(metas):
        register = number + 1
        own = np.zeros(abi.INSTRUCTION_WORDS, np.int64)
        own[abi.A0 : abi.A0 + 2] = register, meta.ctypes.data
        row[abi.A0 + 4 + 2 * number : abi.A0 + 6 + 2 * number] = meta.ctypes.data, register
        assert _CALL(fetch.fetch_unless_in_a_row.address)(state.address, own.ctypes.data) == abi.E_OK
    assert _CALL(fused_instruction.fused_doubles.address)(state.address, row.ctypes.data) == abi.E_OK
    return state


_RUNS = {
    "a block": (np.arange(1_000, 1_000 + abi.BLOCK), True),
    "a part of a block": (np.arange(17, 17 + 777), True),
    "the end of the column": (np.arange(_DOCS - 333, _DOCS), True),
    "one doc at the end": (np.arange(_DOCS - 1, _DOCS), True),
    "picked docs": (np.sort(_RNG.choice(_DOCS, 777, replace=False)), False),
}
_LONG_RUN = 2**53 + np.arange(300)
_GAPS = np.array([-5, 3, 2**60])
_IDS = _RNG.integers(0, 200, _DOCS)
_COLUMNS: dict[str, tuple[np.ndarray[Any, Any], np.ndarray[Any, Any] | None]] = {
    "doubles": (_DOUBLES, None),
    "floats": (_DOUBLES.clip(-1e30, 1e30).astype(np.float32), None),
    "longs": (_RNG.integers(-(2**63), 2**63 - 1, _DOCS), None),
    "ints": (_RNG.integers(-(2**31), 2**31 - 1, _DOCS).astype(np.int32), None),
    "ids of one byte": (_IDS.astype(np.uint8), np.arange(-3, 250, dtype=np.int32)),
    "ids of two bytes": (_IDS.astype(np.uint16), _LONG_RUN),
    "ids of four bytes": (_IDS.astype(np.uint32), _LONG_RUN),
    "a dictionary with gaps": ((_IDS % 3).astype(np.uint8), _GAPS),
    "a dictionary of doubles": ((_IDS % len(_HOSTILE)).astype(np.uint8), _HOSTILE.copy()),
}


@pytest.mark.parametrize("run", _RUNS)
@pytest.mark.parametrize("name", _COLUMNS)
def test_columns_are_read_as_doubles(name: str, run: str) -> None:
    values, dictionary = _COLUMNS[name]
    docs, dense = _RUNS[run]
    state = _run(
        [_meta(values, dictionary)],
        [(fused_instruction.COLUMN, fused_program.SET, 0, 0), (fused_program.CONSTANT, fused_program.STORE, 0, 0)],
        docs,
        dense=dense,
    )
    wanted = (values if dictionary is None else dictionary[values])[docs].astype(np.float64)
    assert np.array_equal(state.registers[0, : len(docs)], wanted.view(np.int64))


_BINARY: dict[int, Callable[[Any, Any], Any]] = {
    fused_program.ADD: np.add,
    fused_program.SUBTRACT: np.subtract,
    fused_program.SUBTRACT_FROM: lambda a, v: v - a,
    fused_program.MULTIPLY: np.multiply,
    fused_program.DIVIDE: np.divide,
    fused_program.DIVIDE_INTO: lambda a, v: v / a,
}
_UNARY: dict[int, Callable[[Any], Any]] = {
    fused_program.ABSOLUTE: np.abs,
    fused_program.NEGATE: np.negative,
    fused_program.FLOOR: np.floor,
    fused_program.CEIL: np.ceil,
    fused_program.SQUARE_ROOT: np.sqrt,
    fused_program.CANONICAL: lambda a: np.where(np.isnan(a), np.nan, a + 0.0),
}


def _same_bits(found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> bool:
    """NaN is NaN: which one is not said before CANONICAL."""
    nan = np.isnan(wanted)
    return bool(
        np.array_equal(np.isnan(found), nan) and np.array_equal(found[~nan].view(np.int64), wanted[~nan].view(np.int64))
    )


@pytest.mark.parametrize("run", _RUNS)
def test_operations_are_those_of_ieee_754(run: str) -> None:
    docs, dense = _RUNS[run]
    metas = [_meta(_DOUBLES), _meta(_OTHERS)]
    a, v = _DOUBLES[docs], _OTHERS[docs]
    first, end = (
        (fused_instruction.COLUMN, fused_program.SET, 0, 0),
        (fused_program.CONSTANT, fused_program.STORE, 0, 0),
    )
    with np.errstate(all="ignore"):
        for operation, compute in _BINARY.items():
            found = (
                _run(metas, [first, (fused_instruction.COLUMN, operation, 1, 0), end], docs, dense=dense)
                .registers[0, : len(docs)]
                .view(np.float64)
            )
            assert _same_bits(found, compute(a, v)), operation
            found = (
                _run(metas, [first, (fused_program.CONSTANT, operation, _bits(-0.3), 0), end], docs, dense=dense)
                .registers[0, : len(docs)]
                .view(np.float64)
            )
            assert _same_bits(found, compute(a, np.float64(-0.3))), operation
        for unary, of_one in _UNARY.items():
            found = (
                _run(metas, [first, (fused_program.CONSTANT, unary, 0, 0), end], docs, dense=dense)
                .registers[0, : len(docs)]
                .view(np.float64)
            )
            assert _same_bits(found, of_one(a)), unary


@pytest.mark.parametrize("run", _RUNS)
def test_what_is_kept_comes_back(run: str) -> None:
    """(a + v) * a − (v / 3 − (a − v)), three slots deep."""
    docs, dense = _RUNS[run]
    column, keep = (
        (fused_instruction.COLUMN, fused_program.SET, 0, 0),
        [(fused_program.KEPT, fused_program.KEEP, slot, 0) for slot in range(2)],
    )
    steps = [
        column, (fused_instruction.COLUMN, fused_program.ADD, 1, 0),
            (fused_instruction.COLUMN, fused_program.MULTIPLY, 0, 0), keep[0],
        (fused_instruction.COLUMN, fused_program.SET, 1, 0),
        (fused_program.CONSTANT, fused_program.DIVIDE, _bits(3.0), 0), keep[1],
        column, (fused_instruction.COLUMN, fused_program.SUBTRACT, 1, 0),
            (fused_program.KEPT, fused_program.SUBTRACT_FROM, 1, 0),
            (fused_program.KEPT, fused_program.SUBTRACT_FROM, 0, 0),
        (fused_program.CONSTANT, fused_program.STORE, 0, 0),
    ]  # fmt: skip
    a, v = _DOUBLES[docs], _OTHERS[docs]
    found = _run([_meta(_DOUBLES), _meta(_OTHERS)], steps, docs, dense=dense).registers[0, : len(docs)].view(np.float64)
    with np.errstate(all="ignore"):
        assert _same_bits(found, (a + v) * a - (v / 3 - (a - v)))


@pytest.mark.parametrize("run", _RUNS)
def test_comparisons_write_flags(run: str) -> None:
    docs, dense = _RUNS[run]
    a, v = _DOUBLES[docs], _OTHERS[docs]
    equal = (a == v) | (np.isnan(a) & np.isnan(v))
    wanted = {
        fused_program.EQUAL: equal, fused_program.NOT_EQUAL: ~equal, fused_program.LESS: a < v,
        fused_program.LESS_OR_EQUAL: a <= v,
        fused_program.GREATER: a > v, fused_program.GREATER_OR_EQUAL: a >= v,
    }  # fmt: skip
    first = (fused_instruction.COLUMN, fused_program.SET, 0, 0)
    for comparison, flags in wanted.items():
        state = _run(
            [_meta(_DOUBLES), _meta(_OTHERS)], [first, (fused_instruction.COLUMN, comparison, 1, 0)], docs, dense=dense
        )
        assert np.array_equal(state.registers[0].view(np.uint8)[: len(docs)], flags), comparison
    state = _run(
        [_meta(_DOUBLES)],
        [first, (fused_program.CONSTANT, fused_program.BETWEEN, _bits(-3.0), _bits(1.5))],
        docs,
        dense=dense,
    )
    assert np.array_equal(state.registers[0].view(np.uint8)[: len(docs)], (a >= -3.0) & (a <= 1.5))


@pytest.mark.parametrize("docs", [fused_program.CHUNK, 3 * fused_program.CHUNK, abi.BLOCK])
def test_comparisons_write_bits(docs: int) -> None:
    """A bit a doc, from the chunk on that is asked for: what lies before it stays as it was."""
    a, v = _DOUBLES[:docs], _OTHERS[:docs]
    equal = (a == v) | (np.isnan(a) & np.isnan(v))
    wanted = {
        fused_program.EQUAL: equal, fused_program.NOT_EQUAL: ~equal, fused_program.LESS: a < v,
        fused_program.LESS_OR_EQUAL: a <= v,
        fused_program.GREATER: a > v, fused_program.GREATER_OR_EQUAL: a >= v,
            fused_program.BETWEEN: (a >= v) & (a <= 1.5),
    }  # fmt: skip
    first_byte = fused_program.CHUNK // 8 if docs > fused_program.CHUNK else 0
    for comparison, flags in wanted.items():
        steps = np.array(
            [
                [fused_program.DOUBLES, fused_program.SET, _DOUBLES.ctypes.data, 0],
                [fused_program.DOUBLES, comparison + fused_program.AS_BITS, _OTHERS.ctypes.data, _bits(1.5)],
            ],
            np.int64,
        )
        out = np.full(docs // 8 + 8, 0xA5, np.uint8)
        _bits_of_chunks(
            steps.ctypes.data,
            len(steps),
            first_byte * 8 // fused_program.CHUNK,
            docs // fused_program.CHUNK,
            out.ctypes.data,
        )
        assert np.array_equal(out[first_byte : docs // 8], np.packbits(flags, bitorder="little")[first_byte:]), (
            comparison
        )
        assert (out[:first_byte] == 0xA5).all() and (out[docs // 8 :] == 0xA5).all()


@njit
def _bits_of_chunks(steps: int, num_steps: int, first: int, end: int, out: int) -> None:
    fused_program.run_steps(steps, num_steps, first, end, out)
