"""Rows that a scan deals to parts by the hash of their key, and groups that are made of them part by part.

Hashed groups of a million keys cost a cache miss or two a row, and as much again to put threads together. Here a scan
only writes each selected row, its key and what the updates read, behind the others of its part. A part has few enough
groups for a table that stays in the second level cache, and is made into groups by one thread, from the rows of all
threads: nothing is put together afterwards.

    begin_partitioning   A0 64 − log2 of the parts, A1 words of a row, A2 bytes that may wait        begin
    partition_rows       A0 number of 64-bit fields, A1 number of flag fields, A2 … their            select
                    registers; E_FLUSH when too much waits

The key is the word that key instructions left in the key block (thread_hash_table.py). A row is its key, then a word a
field. Parts grow in chunks of CHUNK_ROWS rows of the pool; `chunks` holds (part, address) of each, `streams` the
address of the next row and of the end of the last chunk of each part.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int64, njit, uint8, uint64

from pinotpy.kernels.aggregate.exact_sums import leave_overflow
from pinotpy.kernels.aggregate.result_context import (
    G_ARENA,
    G_CHUNKS,
    G_CONTROL,
    G_INDEX,
    G_INDEX_MASK,
    G_KEY_BLOCK,
    G_KEYS,
    G_MORSELS,
    G_NUM_GROUPS,
    G_OVERFLOW_ARENA,
    G_OVERFLOW_USED,
    G_PARTITION_MAX,
    G_PARTITION_SHIFT,
    G_PARTITION_WORDS,
    G_POOL,
    G_ROW_WORDS,
    G_SCRATCH,
    G_STREAMS,
    G_TABLE,
    SCRATCH_WORDS,
    context_of,
    vector_at,
)
from pinotpy.kernels.group.hash_table import start_hashed
from pinotpy.kernels.group.top_n_groups import candidates
from pinotpy.kernels.runtime.abi import (
    A0,
    BLOCK,
    C_CANCEL,
    CONTROL_WORDS,
    E_CANCELLED,
    E_FLUSH,
    E_OK,
    INSTRUCTION_WORDS,
    S_SELECTED,
    STATE_WORDS,
    block_function,
    call_block,
    register_i64,
    register_u8,
    words,
)
from pinotpy.kernels.runtime.growable import (
    P_BYTES,
    POOL_WORDS,
    V_ADDRESS,
    V_CAPACITY,
    V_USED,
    release_pool,
    reserve,
    reserve_zeroed,
    take,
)
from pinotpy.kernels.runtime.hashing import mix
from pinotpy.kernels.runtime.partitioning import partition_of

CHUNK_ROWS: Final = 256
FIELDS_MAX: Final = INSTRUCTION_WORDS - A0 - 2
_OVERFLOW_ARENA_WORDS: Final = 5


@block_function
def begin_partitioning(state_address: int, args_address: int) -> Any:
    """Empty parts, before the thread's first morsel."""
    context, args = context_of(words(state_address, STATE_WORDS)), words(args_address, INSTRUCTION_WORDS)
    if context[G_STREAMS + V_CAPACITY] != 0:
        return E_OK
    context[G_PARTITION_SHIFT], context[G_PARTITION_WORDS], context[G_PARTITION_MAX] = (
        args[A0],
        args[A0 + 1],
        args[A0 + 2],
    )
    control = context[G_CONTROL]
    code = reserve_zeroed(control, vector_at(context, G_STREAMS), 2 << (64 - args[A0]))
    if code == E_OK:
        code = reserve_zeroed(control, vector_at(context, G_SCRATCH), SCRATCH_WORDS)
    if code == E_OK:
        code = reserve_zeroed(control, vector_at(context, G_KEY_BLOCK), BLOCK)
    return code


@njit(nogil=True)
def _parts(keys: Any, shift: Any, num_parts: Any, out: Any) -> None:
    for i in range(len(keys)):
        out[i] = int64(partition_of(mix(keys[i]), shift, num_parts))


@njit(nogil=True)
def _open(context: Any, part: int) -> Any:
    # (code, address) of a new chunk of a part.
    code = reserve(context[G_CONTROL], vector_at(context, G_CHUNKS), 2)
    if code != E_OK:
        return code, int64(0)
    code, address = take(
        context[G_CONTROL], context[G_POOL : G_POOL + POOL_WORDS], CHUNK_ROWS * context[G_PARTITION_WORDS]
    )
    if code == E_OK:
        entry = words(context[G_CHUNKS + V_ADDRESS] + context[G_CHUNKS + V_USED] * 8, 2)
        entry[0], entry[1] = part, address
        context[G_CHUNKS + V_USED] += 2
    return code, address


@njit(nogil=True)
def _place(context: Any, keys: Any, places: Any) -> Any:
    # `places` holds the parts and gets the address of each row.
    row_bytes = context[G_PARTITION_WORDS] * 8
    streams = words(context[G_STREAMS + V_ADDRESS], context[G_STREAMS + V_CAPACITY])
    for i in range(len(places)):
        stream = uint64(places[i]) * uint64(2)
        position = streams[stream]
        if position == streams[stream + uint64(1)]:
            code, position = _open(context, places[i])
            if code != E_OK:
                return code
            streams[stream + uint64(1)] = position + CHUNK_ROWS * row_bytes
        streams[stream] = position + row_bytes
        words(position, 1)[0] = keys[i]
        places[i] = position
    return E_OK


@njit(nogil=True)
def _write_values(places: Any, offset: int, values: Any) -> None:
    for i in range(len(places)):
        words(places[i] + offset, 1)[0] = values[i]


@njit(nogil=True)
def _write_flags(places: Any, offset: int, flags: Any) -> None:
    for i in range(len(places)):
        words(places[i] + offset, 1)[0] = int64(flags[i])


@block_function
def partition_rows(state_address: int, args_address: int) -> Any:
    """Write the block's rows behind those of their parts."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, n = context_of(state), state[S_SELECTED]
    shift = uint64(context[G_PARTITION_SHIFT])
    keys = words(context[G_KEY_BLOCK + V_ADDRESS], BLOCK)[:n]
    places = words(context[G_SCRATCH + V_ADDRESS], BLOCK)[:n]
    _parts(keys, shift, int64(1) << (64 - context[G_PARTITION_SHIFT]), places)
    code = _place(context, keys, places)
    if code != E_OK:
        return code
    for field in range(args[A0]):
        _write_values(places, (1 + field) * 8, register_i64(state, args[A0 + 2 + field])[:n])
    for field in range(args[A0], args[A0] + args[A0 + 1]):
        _write_flags(places, (1 + field) * 8, register_u8(state, args[A0 + 2 + field])[:n])
    return E_FLUSH if context[G_POOL + P_BYTES] > context[G_PARTITION_MAX] else E_OK


# --- groups of parts -------------------------------------------------------------------------------------------------


@njit(nogil=True)
def _load(state: Any, key_block: Any, first: int, rows: Any, width: Any, num_values: int) -> None:
    # Rows of a chunk into the key block and registers 1 …, from position `first` on.
    count = len(rows) // width
    step = uint64(width)
    for i in range(count):
        key_block[first + i] = rows[uint64(i) * step]
    for field in range(1, width):
        position = uint64(field)
        if field <= num_values:
            values = register_i64(state, field)[first : first + count]
            for i in range(count):
                values[i] = rows[uint64(i) * step + position]
        else:
            flags = register_u8(state, field)[first : first + count]
            for i in range(count):
                flags[i] = uint8(rows[uint64(i) * step + position])


@njit(nogil=True)
def _run_rows(state: Any, state_address: int, program: int, num_instructions: int, n: int) -> Any:
    state[S_SELECTED] = n
    for i in range(num_instructions):
        row = program + i * INSTRUCTION_WORDS * 8
        code = call_block(words(row, 1)[0], state_address, row)
        if code != E_OK:
            return code
    return E_OK


@njit(nogil=True)
def _update(
    state: Any,
    state_address: int,
    context: Any,
    program: int,
    num_instructions: int,
    addresses: Any,
    sizes: Any,
    width: int,
    num_values: int,
) -> Any:
    # All rows of these chunks, a register full at a time.
    key_block = words(context[G_KEY_BLOCK + V_ADDRESS], BLOCK)
    filled = 0
    for i in range(len(addresses)):
        if filled + sizes[i] > BLOCK:
            code = _run_rows(state, state_address, program, num_instructions, filled)
            if code != E_OK:
                return code
            filled = 0
        _load(state, key_block, filled, words(addresses[i], sizes[i] * width), width, num_values)
        filled += sizes[i]
    return _run_rows(state, state_address, program, num_instructions, filled) if filled > 0 else E_OK


@njit(nogil=True)
def _clear(context: Any) -> None:
    # No groups, for the next part.
    words(context[G_TABLE + V_ADDRESS], context[G_NUM_GROUPS] * context[G_ROW_WORDS])[:] = 0
    words(context[G_INDEX + V_ADDRESS], (context[G_INDEX_MASK] + 1) * 2)[:] = 0
    context[G_NUM_GROUPS], context[G_KEYS + V_USED] = 0, 0


@njit(nogil=True)
def _leave(context: Any, rows: Any, every: bool) -> Any:
    # Rows and keys of the groups `rows` (of all, if `every`) behind those of earlier parts.
    width = context[G_ROW_WORDS]
    count = context[G_NUM_GROUPS] if every else len(rows)
    code = reserve(context[G_CONTROL], vector_at(context, G_ARENA), count * width)
    if code == E_OK:
        code = reserve(context[G_CONTROL], vector_at(context, G_MORSELS), count)
    if code != E_OK:
        return code
    table, keys = (
        words(context[G_TABLE + V_ADDRESS], context[G_NUM_GROUPS] * width),
        words(context[G_KEYS + V_ADDRESS], context[G_NUM_GROUPS]),
    )
    rows_out = words(context[G_ARENA + V_ADDRESS] + context[G_ARENA + V_USED] * 8, count * width)
    keys_out = words(context[G_MORSELS + V_ADDRESS] + context[G_MORSELS + V_USED] * 8, count)
    if every:
        rows_out[:] = table
        keys_out[:] = keys
    else:
        for i in range(count):
            keys_out[i] = keys[rows[i]]
            for k in range(width):
                rows_out[i * width + k] = table[rows[i] * width + k]
    context[G_ARENA + V_USED] += count * width
    context[G_MORSELS + V_USED] += count
    return E_OK


@njit(nogil=True)
def _end_part(context: Any, kind: int, word: int, seen_word: int, ascending: bool, heap: Any) -> Any:
    # Leave the part's groups, or those of them that can be among the first len(heap).
    width, groups = context[G_ROW_WORDS], context[G_NUM_GROUPS]
    none = np.empty(0, np.int64)
    if context[G_OVERFLOW_USED] > 0:
        before, first_row = context[G_OVERFLOW_ARENA + V_USED], context[G_ARENA + V_USED] // width
        code = leave_overflow(context)
        if code != E_OK:
            return code
        entries = words(context[G_OVERFLOW_ARENA + V_ADDRESS], context[G_OVERFLOW_ARENA + V_USED])
        for position in range(before, len(entries), _OVERFLOW_ARENA_WORDS):
            entries[position] += first_row
        return _leave(context, none, True)
    if kind < 0 or groups <= len(heap):
        return _leave(context, none, True)
    chosen = candidates(
        words(context[G_TABLE + V_ADDRESS], groups * width), width, kind, word, seen_word, ascending, heap
    )
    return _leave(context, chosen, chosen[0] < 0)


@njit(cache=True, nogil=True)
def group_parts(
    state: Any,
    state_address: int,
    program: Any,
    addresses: Any,
    sizes: Any,
    starts: Any,
    first: int,
    last: int,
    num_values: int,
    rank: Any,
    heap: Any,
) -> Any:
    """Make groups of the rows of parts first … last - 1: rows → G_ARENA, their keys → G_MORSELS of the state's context.
    Returns E_OK or an error word.

    Args:
        state: of a thread, with its own context; state_address: where it is.
        program: int64[k, INSTRUCTION_WORDS]: hashing.find_groups into register 0, then updates that read register 1 …
            as fields.
        addresses, sizes: of all chunks, by part: where its rows are, and how many; starts: int64[parts + 1], chunks of
            a part.
        num_values: fields of 64 bits, flags behind them.
        rank: int64[4]: kind, word, seen word and 1 for ascending, of top_groups.candidates; kind -1: all groups are
            left.
        heap: float64[k], scratch: so many groups are shown.
    """
    context = context_of(state)
    width = context[G_PARTITION_WORDS]
    if context[G_INDEX + V_CAPACITY] == 0:
        code = start_hashed(context)
        if code != E_OK:
            return code
    control = words(context[G_CONTROL], CONTROL_WORDS)
    for part in range(first, last):
        if control[C_CANCEL] != 0:
            return E_CANCELLED
        low, high = starts[part], starts[part + 1]
        if low == high:
            continue
        code = _update(
            state,
            state_address,
            context,
            program.ctypes.data,
            len(program),
            addresses[low:high],
            sizes[low:high],
            width,
            num_values,
        )
        if code == E_OK:
            code = _end_part(context, rank[0], rank[1], rank[2], rank[3] != 0, heap)
        if code != E_OK:
            return code
        _clear(context)
    return E_OK


@njit(cache=True, nogil=True)
def take_rows(state: Any, state_address: int, program: Any, addresses: Any, sizes: Any, num_values: int) -> Any:
    """Bring all rows that wait into one table of the thread, and forget them. Returns E_OK or an error word.

    Args: as of `group_parts`; the chunks are those of the state's own context.
    """
    context = context_of(state)
    if context[G_INDEX + V_CAPACITY] == 0:
        code = start_hashed(context)
        if code != E_OK:
            return code
    code = _update(
        state,
        state_address,
        context,
        program.ctypes.data,
        len(program),
        addresses,
        sizes,
        context[G_PARTITION_WORDS],
        num_values,
    )
    release_pool(context[G_CONTROL], context[G_POOL : G_POOL + POOL_WORDS])
    context[G_CHUNKS + V_USED] = 0
    words(context[G_STREAMS + V_ADDRESS], context[G_STREAMS + V_CAPACITY])[:] = 0
    return code


def warm() -> None:
    """Compile for the argument types that queries use."""
    from pinotpy.kernels.aggregate.result_context import ResultContext
    from pinotpy.kernels.runtime.abi import State

    control = np.zeros(CONTROL_WORDS, np.int64)
    context = ResultContext(control, 1, 1)
    state = State(control, context.address)
    program, none = np.zeros((0, INSTRUCTION_WORDS), np.int64), np.empty(0, np.int64)
    group_parts(
        state.words,
        state.address,
        program,
        none,
        none,
        np.zeros(2, np.int64),
        0,
        1,
        0,
        np.full(4, -1, np.int64),
        np.empty(1, np.float64),
    )
    take_rows(state.words, state.address, program, none, none, 0)
