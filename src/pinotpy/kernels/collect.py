"""Collecting selected docs: the first n, all of them in batches, or the n that sort first.

Collector context (int64 words): CW_COUNT rows collected, CW_CAPACITY rows that fit, CW_WANTED rows wanted (collection
stops there; 0: all, with E_FLUSH when another block might not fit), CW_UNITS and CW_DOCS addresses of int32 buffers.

Top context (int64 words): TW_COUNT rows held, TW_CAPACITY rows wanted, TW_WIDTH words a row, TW_ROWS address of the rows:
a max-heap of rows of key words (ascending order as unsigned numbers) followed by unit and doc. Equal keys keep the rows
that came first.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import carray, types, uint64

from pinotpy.kernels.abi import (
    A0,
    BLOCK,
    E_FLUSH,
    E_OK,
    E_STOP,
    INSTRUCTION_WORDS,
    S_DOCS_SCANNED,
    S_REGISTERS,
    S_SELECTED,
    S_UNIT,
    S_USER,
    STATE_WORDS,
    block_function,
    inner,
    pointer,
    register_f64,
    register_i64,
    register_u8,
    register_u32,
    selection,
    words,
)
from pinotpy.kernels.views import view_i32

CW_COUNT: Final = 0
CW_CAPACITY: Final = 1
CW_WANTED: Final = 2
CW_UNITS: Final = 3
CW_DOCS: Final = 4
COLLECTOR_WORDS: Final = 8

TW_COUNT: Final = 0
TW_CAPACITY: Final = 1
TW_WIDTH: Final = 2
TW_ROWS: Final = 3
TOP_WORDS: Final = 8

KEYS_MAX: Final = 12


@inner
def _append(units: Any, docs: Any, at: int, unit: int, selected: Any, count: int) -> None:
    for i in range(count):
        units[at + i] = unit
        docs[at + i] = selected[i]


@block_function
def collect_docs(state_address: int, _args_address: int) -> Any:
    """Append (unit, doc) of the selected docs to the thread's collector."""
    state = words(state_address, STATE_WORDS)
    collector = words(state[S_USER], COLLECTOR_WORDS)
    count, wanted, selected = collector[CW_COUNT], collector[CW_WANTED], state[S_SELECTED]
    taken = min(selected, wanted - count) if wanted > 0 else selected
    capacity = collector[CW_CAPACITY]
    _append(view_i32(collector[CW_UNITS], capacity), view_i32(collector[CW_DOCS], capacity), count, state[S_UNIT], selection(state), taken)
    collector[CW_COUNT] = count + taken
    # Docs that the answer does not need were not scanned for it.
    state[S_DOCS_SCANNED] -= selected - taken
    if wanted > 0 and count + taken >= wanted:
        return E_STOP
    if wanted == 0 and collector[CW_COUNT] + BLOCK > capacity:
        return E_FLUSH
    return E_OK


# --- sort keys as unsigned words: A0 register to fill, A1 register to read, A2 1 = descending ----------------------------

_SIGN: Final = np.uint64(1 << 63)


@inner
def _words_of_ids(out: Any, ids: Any, flip: Any) -> None:
    for i in range(len(out)):
        out[i] = uint64(ids[i]) ^ flip


@inner
def _words_of_integers(out: Any, values: Any, flip: Any) -> None:
    for i in range(len(out)):
        out[i] = (uint64(values[i]) ^ _SIGN) ^ flip


@inner
def _words_of_floats(out: Any, values: Any, flip: Any) -> None:
    for i in range(len(out)):
        value = values[i] + 0.0
        bits = np.float64(value).view(np.uint64)
        if np.isnan(value):
            ordered = uint64(0xFFFFFFFFFFFFFFFF)  # NaN last
        elif bits & _SIGN:
            ordered = ~bits
        else:
            ordered = bits | _SIGN
        out[i] = ordered ^ flip


@inner
def _words_of_flags(out: Any, flags: Any, flip: Any) -> None:
    for i in range(len(out)):
        out[i] = uint64(flags[i]) ^ flip


@inner
def _flip(args: Any) -> Any:
    return uint64(0xFFFFFFFFFFFFFFFF) if args[A0 + 2] != 0 else uint64(0)


@inner
def _key_register(state: Any, index: int) -> Any:
    return register_i64(state, index)[: state[S_SELECTED]]


@block_function
def key_of_ids(state_address: int, args_address: int) -> Any:
    """Key words of dict ids."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    _words_of_ids(_key_register(state, args[A0]), register_u32(state, args[A0 + 1]), _flip(args))
    return E_OK


@block_function
def key_of_integers(state_address: int, args_address: int) -> Any:
    """Key words of INT and LONG values."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    _words_of_integers(_key_register(state, args[A0]), register_i64(state, args[A0 + 1]), _flip(args))
    return E_OK


@block_function
def key_of_floats(state_address: int, args_address: int) -> Any:
    """Key words of FLOAT and DOUBLE values: −0.0 equals 0.0, NaN sorts last."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    _words_of_floats(_key_register(state, args[A0]), register_f64(state, args[A0 + 1]), _flip(args))
    return E_OK


@block_function
def key_of_nulls(state_address: int, args_address: int) -> Any:
    """Key words of null flags: nulls last, or first where A2 is 1."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    _words_of_flags(_key_register(state, args[A0]), register_u8(state, args[A0 + 1]), _flip(args))
    return E_OK


@block_function
def no_nulls(state_address: int, args_address: int) -> Any:
    """Null flags of a column without nulls: zeros into register A0."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    register_u8(state, args[A0])[: state[S_SELECTED]] = 0
    return E_OK


# --- the rows that sort first -------------------------------------------------------------------------------------------


@inner
def _after(rows: Any, width: int, a: int, b: int) -> Any:
    # Row a sorts after row b: by the keys, then by unit and doc (all of them unsigned words).
    for k in range(width):
        left, right = rows[a * width + k], rows[b * width + k]
        if left != right:
            return left > right
    return False


@inner
def _swap(rows: Any, width: int, a: int, b: int) -> None:
    for k in range(width):
        rows[a * width + k], rows[b * width + k] = rows[b * width + k], rows[a * width + k]


@inner
def _sift_up(rows: Any, width: int, at: int) -> None:
    while at > 0:
        parent = (at - 1) >> 1
        if not _after(rows, width, at, parent):
            return
        _swap(rows, width, at, parent)
        at = parent


@inner
def _sift_down(rows: Any, width: int, count: int) -> None:
    at = 0
    while True:
        child = 2 * at + 1
        if child >= count:
            return
        if child + 1 < count and _after(rows, width, child + 1, child):
            child += 1
        if not _after(rows, width, child, at):
            return
        _swap(rows, width, at, child)
        at = child


@inner
def _before_root(rows: Any, keys: Any, num_keys: int, i: int) -> Any:
    # Row i of the block sorts before the root by its keys alone: at equal keys the root came first.
    for k in range(num_keys):
        word = keys[k * BLOCK + i]
        if word != rows[k]:
            return word < rows[k]
    return False


@inner
def _offer(top: Any, rows: Any, keys: Any, num_keys: int, unit: int, docs: Any) -> None:
    width, capacity, count = num_keys + 2, top[TW_CAPACITY], top[TW_COUNT]
    first = keys[:BLOCK]
    for i in range(len(docs)):
        if count == capacity:
            if first[i] > rows[0] or not _before_root(rows, keys, num_keys, i):
                continue
            at = 0
        else:
            at = count
        for k in range(num_keys):
            rows[at * width + k] = keys[k * BLOCK + i]
        rows[at * width + num_keys] = uint64(unit)
        rows[at * width + num_keys + 1] = uint64(docs[i])
        if count == capacity:
            _sift_down(rows, width, count)
        else:
            count += 1
            _sift_up(rows, width, at)
    top[TW_COUNT] = count


@block_function
def keep_top(state_address: int, args_address: int) -> Any:
    """Offer the selected docs to the top context at A0; the key words lie in A2 registers one after another from A1 on."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    top = words(args[A0], TOP_WORDS)
    if top[TW_CAPACITY] > 0:
        rows = carray(pointer(top[TW_ROWS], types.uint64), top[TW_CAPACITY] * top[TW_WIDTH])
        num_keys = args[A0 + 2]
        keys = carray(pointer(state[S_REGISTERS] + args[A0 + 1] * BLOCK * 8, types.uint64), num_keys * BLOCK)
        _offer(top, rows, keys, num_keys, state[S_UNIT], selection(state))
    return E_OK
