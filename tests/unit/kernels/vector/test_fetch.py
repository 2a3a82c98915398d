"""Proves that values are fetched as numpy takes them from the dictionary: dictionaries with and without gaps, of one
value and at the ends of their type, ids of every width, blocks read in a row and docs picked from them.
"""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from pinotpy.kernels.runtime import abi
from pinotpy.kernels.vector import fetch

_CALL = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
_I32, _I64 = np.iinfo(np.int32), np.iinfo(np.int64)
_DICTIONARIES = {
    "a run": np.arange(-3, 250),
    "one value": np.array([7]),
    "a gap": np.array([0, 1, 3]),
    "a gap as wide as the rest": np.array([1, 2, 4, 5]),
    "both ends": np.array([_I64.min, _I64.max]),
    "the lower end": _I64.min + np.arange(5),
    "the upper end": _I64.max - np.arange(300)[::-1],
    "ends of int": np.array([_I32.min, _I32.max]),
    "upper end of int": np.arange(_I32.max - 70_000, _I32.max + 1),
    "doubles": np.arange(5.0),
}


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("name", _DICTIONARIES)
def test_values_are_those_of_the_dictionary(name: str, dense: bool) -> None:
    rng = np.random.default_rng(3)
    values = _DICTIONARIES[name]
    integers = values.dtype.kind == "i"
    fits = integers and values[0] >= _I32.min and values[-1] <= _I32.max
    types = ([abi.T_INT] if fits else []) + ([abi.T_LONG] if integers else [abi.T_FLOAT, abi.T_DOUBLE])
    dtypes = {abi.T_INT: np.int32, abi.T_LONG: np.int64, abi.T_FLOAT: np.float32, abi.T_DOUBLE: np.float64}
    for stored in types:
        dictionary = np.ascontiguousarray(values.astype(dtypes[stored]))
        for width in (1, 2, 4):
            if len(values) > 1 << (8 * width):
                continue
            ids = rng.integers(0, len(values), 5_000).astype(f"u{width}")
            meta, row = np.zeros(abi.META_WORDS, np.int64), np.zeros(abi.INSTRUCTION_WORDS, np.int64)
            meta[abi.M_WIDTH], meta[abi.M_DATA], meta[abi.M_NUM_VALUES], meta[abi.M_STORED] = (
                width,
                ids.ctypes.data,
                len(ids),
                stored,
            )
            meta[abi.M_CARDINALITY], meta[abi.M_DICTIONARY] = len(dictionary), dictionary.ctypes.data
            row[abi.A0], row[abi.A0 + 1] = 2, meta.ctypes.data
            state = abi.State(np.zeros(abi.CONTROL_WORDS, np.int64))
            docs = np.arange(1_000, 1_777) if dense else np.sort(rng.choice(5_000, 777, replace=False))
            state.words[abi.S_SELECTED], state.words[abi.S_BASE], state.words[abi.S_DENSE] = (
                len(docs),
                docs[0],
                int(dense),
            )
            if not dense:
                state.selection[0, : len(docs)] = docs
            assert _CALL(fetch.fetch_values.address)(state.address, row.ctypes.data) == abi.E_OK
            found = state.registers[2, : len(docs)]
            wanted = dictionary[ids[docs]]
            assert np.array_equal(found if integers else found.view(np.float64), wanted)


@pytest.mark.parametrize("dictionary", [np.array([4, 9, 10, 2**40]), np.array([5, 6, 7, 8])], ids=["gaps", "a run"])
def test_blocks_of_one_id_of_a_sorted_column_read_nothing(
    dictionary: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> None:
    lengths = [1, 2_000, 999, 2_000]
    starts = np.cumsum([0, *lengths]).astype(np.uint32)
    ids = np.repeat(np.arange(4), lengths).astype(np.uint8)
    wrong = np.full(len(ids), 255, np.uint8)  # what nobody should read
    state = abi.State(np.zeros(abi.CONTROL_WORDS, np.int64))
    rng = np.random.default_rng(1)
    for first, end in [
        (0, 1),
        (0, 2),
        (1, 2_001),
        (500, 1_700),
        (1_999, 2_002),
        (2_001, 3_000),
        (2_900, 4_500),
        (3_000, 5_000),
        (4_999, 5_000),
    ]:
        for dense in (True, False):
            docs = np.arange(first, end)[:1_777] if dense else rng.permutation(np.arange(first, end))[:900]
            has_one = len(np.unique(ids[docs])) == 1
            meta, row = np.zeros(abi.META_WORDS, np.int64), np.zeros(abi.INSTRUCTION_WORDS, np.int64)
            meta[abi.M_WIDTH], meta[abi.M_DATA] = 1, (wrong if has_one else ids).ctypes.data
            meta[abi.M_NUM_VALUES], meta[abi.M_NUM_DOCS], meta[abi.M_STORED] = len(ids), len(ids), abi.T_LONG
            meta[abi.M_CARDINALITY], meta[abi.M_DICTIONARY] = len(dictionary), dictionary.ctypes.data
            meta[abi.M_SORTED], meta[abi.M_SORTED_STARTS] = 1, starts.ctypes.data
            row[abi.A0], row[abi.A0 + 1] = 2, meta.ctypes.data
            state.words[abi.S_SELECTED], state.words[abi.S_BASE], state.words[abi.S_DENSE] = (
                len(docs),
                docs[0],
                int(dense),
            )
            if not dense:
                state.selection[0, : len(docs)] = docs
            assert _CALL(fetch.fetch_ids.address)(state.address, row.ctypes.data) == abi.E_OK
            assert np.array_equal(state.registers[2].view(np.uint32)[: len(docs)], ids[docs])
            assert _CALL(fetch.fetch_values.address)(state.address, row.ctypes.data) == abi.E_OK
            assert np.array_equal(state.registers[2, : len(docs)], dictionary[ids[docs]])
