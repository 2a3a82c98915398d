"""Sets of values as bits: while a unit is read there is a bit for every dict id of the column in each of its groups,
few enough to stay in a core's own cache. What is left of a unit is the shared codes (query/segments/shared_codes.py) of
each group; sets of units are united and counted, and no value is compared.

    begin_bitmaps   A0 word of the value set in the context, A1 groups, A2 words of a set               begin
    add_to_bitmaps  A0 groups or -1, A1 ids, A2 value set, A3 flags of rows that do not count or -1     select
    end_bitmaps     A0 value set, A1 address of int32 shared codes by dict id, A2 cardinality           end, after rows

What a unit leaves in `runs` of the value set: (arena row, address of ascending uint32 ids, how many) of each group
that has values.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int64, njit, uint64

from pinotpy.kernels.aggregate.result_context import (
    D_COUNTS,
    D_POOL,
    D_RUN_WORDS,
    D_RUNS,
    D_TABLE,
    G_CONTROL,
    G_ROW_WORDS,
    G_TABLE,
    SET_WORDS,
    context_of,
    vector_at,
)
from pinotpy.kernels.aggregate.value_lists import RUN_ENTRY_WORDS
from pinotpy.kernels.runtime.abi import (
    A0,
    E_OK,
    INSTRUCTION_WORDS,
    S_SELECTED,
    S_USER,
    STATE_WORDS,
    block_function,
    register_u8,
    register_u32,
    words,
)
from pinotpy.kernels.runtime.bits import lowest_bit, num_bits
from pinotpy.kernels.runtime.growable import POOL_WORDS, V_ADDRESS, V_USED, reserve, reserve_zeroed, take
from pinotpy.kernels.runtime.views import view_i32, view_u8, view_u32, view_u64

# Words that are united at once: what is counted is still in the first level cache.
_STRETCH: Final = 1024


@block_function
def begin_bitmaps(state_address: int, args_address: int) -> Any:
    """Empty sets of the unit's groups: the thread's own, which every unit leaves empty."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, value_set = context_of(state), words(state[S_USER] + args[A0] * 8, SET_WORDS)
    value_set[D_RUN_WORDS], value_set[D_COUNTS] = args[A0 + 2], args[A0 + 1]
    return reserve_zeroed(context[G_CONTROL], vector_at(value_set, D_TABLE), args[A0 + 1] * args[A0 + 2])


@njit(nogil=True)
def _add(sets: Any, size: Any, groups: Any, ids: Any) -> None:
    for i in range(len(ids)):
        value = uint64(ids[i])
        sets[uint64(groups[i]) * size + (value >> uint64(6))] |= uint64(1) << (value & uint64(63))


@njit(nogil=True)
def _add_single(sets: Any, ids: Any) -> None:
    for i in range(len(ids)):
        value = uint64(ids[i])
        sets[value >> uint64(6)] |= uint64(1) << (value & uint64(63))


@njit(nogil=True)
def _add_unless(sets: Any, size: Any, groups: Any, single: bool, ids: Any, skip: Any) -> None:
    for i in range(len(ids)):
        value = uint64(ids[i])
        group = uint64(0) if single else uint64(groups[i])
        sets[group * size + (value >> uint64(6))] |= uint64(skip[i] ^ 1) << (value & uint64(63))


@block_function
def add_to_bitmaps(state_address: int, args_address: int) -> Any:
    """Set the bits of the block's values."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    value_set, n = words(state[S_USER] + args[A0 + 2] * 8, SET_WORDS), state[S_SELECTED]
    single = args[A0] < 0
    sets, size = (
        view_u64(value_set[D_TABLE + V_ADDRESS], value_set[D_COUNTS] * value_set[D_RUN_WORDS]),
        uint64(value_set[D_RUN_WORDS]),
    )
    groups, ids = register_u32(state, 0 if single else args[A0])[:n], register_u32(state, args[A0 + 1])[:n]
    if args[A0 + 3] >= 0:
        _add_unless(sets, size, groups, single, ids, register_u8(state, args[A0 + 3])[:n])
    elif single:
        _add_single(sets, ids)
    else:
        _add(sets, size, groups, ids)
    return E_OK


@njit(nogil=True)
def _number_of_bits(bits: Any) -> Any:
    total = int64(0)
    for k in range(len(bits)):
        total += int64(num_bits(bits[k]))
    return total


@njit(nogil=True)
def _ids_of(bits: Any, code_map: Any, ids: Any) -> None:
    """The shared codes of the set bits, ascending; every word is 0 afterwards."""
    position, ascends, before = 0, True, np.uint32(0)
    for k in range(len(bits)):
        word = bits[k]
        if word == uint64(0):
            continue
        bits[k] = uint64(0)
        while word != uint64(0):
            value = np.uint32(code_map[(uint64(k) << uint64(6)) | uint64(lowest_bit(word))])
            word &= word - uint64(1)
            if value < before:
                ascends = False
            ids[position] = before = value
            position += 1
    if not ascends:  # values that came later were appended to the shared dictionary
        ids[:] = np.sort(ids)


@block_function
def end_bitmaps(state_address: int, args_address: int) -> Any:
    """Keep the sets that are not empty, by the arena rows of their groups: word 0 of the groups' rows. The thread's
    bits are 0 then.
    """
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, value_set = context_of(state), words(state[S_USER] + args[A0] * 8, SET_WORDS)
    code = reserve(context[G_CONTROL], vector_at(value_set, D_RUNS), value_set[D_COUNTS] * RUN_ENTRY_WORDS)
    size, code_map = value_set[D_RUN_WORDS], view_i32(args[A0 + 1], args[A0 + 2])
    for group in range(value_set[D_COUNTS]):
        bits = view_u64(value_set[D_TABLE + V_ADDRESS] + group * size * 8, size)
        number = _number_of_bits(bits)
        if number == 0 or code != E_OK:
            continue
        code, address = take(context[G_CONTROL], value_set[D_POOL : D_POOL + POOL_WORDS], (number + 1) >> 1)
        if code == E_OK:
            entry = words(value_set[D_RUNS + V_ADDRESS] + value_set[D_RUNS + V_USED] * 8, RUN_ENTRY_WORDS)
            entry[0] = words(context[G_TABLE + V_ADDRESS] + group * context[G_ROW_WORDS] * 8, 1)[0]
            entry[1], entry[2] = address, number
            _ids_of(bits, code_map, view_u32(address, number))
            value_set[D_RUNS + V_USED] += RUN_ENTRY_WORDS
    return code


@njit(nogil=True)
def _place_of(ids: Any, value: int) -> Any:
    """How many ascending ids are less than `value`."""
    low, high = int64(0), int64(len(ids))
    while low < high:
        middle = (low + high) >> 1
        if int64(ids[middle]) < value:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def count_distinct(addresses: Any, sizes: Any, starts: Any, first: int, last: int, counts: Any) -> None:
    """counts[g] (int64[groups]) += ids of the united sets of each group, of those whose bits are in words first … last
    - 1.

    Args:
        addresses, sizes: int64[sets], as units left them, by group; starts: int64[groups + 1], sets of a group.
    """
    deduplicated = np.empty(_STRETCH, np.uint64)
    places = np.zeros(len(addresses), np.int64)  # ids of a set that are counted already
    for group in range(len(counts)):
        total = int64(0)
        for i in range(starts[group], starts[group + 1]):
            places[i] = _place_of(view_u32(addresses[i], sizes[i]), int64(first) << 6)
        for low in range(first, last, _STRETCH):
            stretch = deduplicated[: min(_STRETCH, last - low)]
            stretch[:] = uint64(0)
            begin, end = uint64(low) << uint64(6), uint64(low + len(stretch)) << uint64(6)
            for i in range(starts[group], starts[group + 1]):
                ids, position = view_u32(addresses[i], sizes[i]), places[i]
                while position < len(ids) and uint64(ids[position]) < end:
                    value = uint64(ids[position]) - begin
                    stretch[value >> uint64(6)] |= uint64(1) << (value & uint64(63))
                    position += 1
                places[i] = position
            total += _number_of_bits(stretch)
        counts[group] += total


@njit(cache=True, nogil=True)
def flag_ids(code_maps: Any, cardinalities: Any, first: int, last: int, flags: Any) -> None:
    """flags[id] = 1 (uint8[shared codes]) of every value of dictionaries first … last - 1.

    Args:
        code_maps: addresses of int32 shared codes by dict id; cardinalities: how many each has.
    """
    # A byte an id: bits would be read and written again for each, one after the other.
    out = view_u8(flags.ctypes.data, len(flags))
    for dictionary in range(first, last):
        ids = view_i32(code_maps[dictionary], cardinalities[dictionary])
        for i in range(len(ids)):
            out[uint64(ids[i])] = np.uint8(1)


@njit(cache=True, nogil=True)
def count_flagged(flags: Any) -> int:
    """How many ids some row of flags (uint8[rows, shared codes]) has."""
    deduplicated = np.empty(_STRETCH, np.uint8)
    total = 0
    for low in range(0, flags.shape[1], _STRETCH):
        stretch = deduplicated[: min(_STRETCH, flags.shape[1] - low)]
        stretch[:] = 0
        for row in range(len(flags)):
            for k in range(len(stretch)):
                stretch[k] |= flags[row, low + k]
        for k in range(len(stretch)):
            total += int(stretch[k])
    return total


def warm() -> None:
    """Compile for the argument types that queries use."""
    count_distinct(np.empty(0, np.int64), np.empty(0, np.int64), np.zeros(2, np.int64), 0, 1, np.zeros(1, np.int64))
    flag_ids(np.empty(0, np.int64), np.empty(0, np.int64), 0, 0, np.zeros(1, np.uint8))
    count_flagged(np.zeros((1, 1), np.uint8))
