"""Sets of values as bits: a unit has a bit for every global id of the column (query/global_ids.py) in each of its groups, so that
sets of units are united by OR and counted, and no value is compared.

    begin_bits   A0 word of the distribution in the context, A1 groups, A2 words of a set             begin
    add_bits     A0 groups or -1, A1 ids, A2 distribution, A3 flags of rows that do not count or -1, A4 address of int32 global ids by
                 dict id, A5 cardinality                                                              select
    end_bits     A0 distribution                                                                      end, after the rows

What a unit leaves in `runs` of the distribution: (arena row, address of its set, words) of each group that has values.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int64, njit, uint64

from pinotpy.kernels.abi import A0, E_OK, INSTRUCTION_WORDS, S_SELECTED, S_USER, STATE_WORDS, block_function, register_u8, register_u32, words
from pinotpy.kernels.bits import num_bits
from pinotpy.kernels.memory import POOL_WORDS, V_ADDRESS, V_USED, reserve, take
from pinotpy.kernels.result_context import D_COUNTS, D_FIRST, D_POOL, D_RUN_WORDS, D_RUNS, G_CONTROL, G_ROW_WORDS, G_TABLE, SET_WORDS, context_of, vector_at
from pinotpy.kernels.value_runs import RUN_ENTRY_WORDS
from pinotpy.kernels.views import view_i32, view_u8, view_u64

# Words that are united at once: what is counted is still in the first level cache.
_STRETCH: Final = 1024


@block_function
def begin_bits(state_address: int, args_address: int) -> Any:
    """Empty sets of the unit's groups."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, own = context_of(state), words(state[S_USER] + args[A0] * 8, SET_WORDS)
    size = args[A0 + 1] * args[A0 + 2]
    code, address = take(context[G_CONTROL], own[D_POOL : D_POOL + POOL_WORDS], size)
    if code == E_OK:
        words(address, size)[:] = 0
        own[D_FIRST], own[D_RUN_WORDS], own[D_COUNTS] = address, args[A0 + 2], args[A0 + 1]
    return code


@njit(nogil=True)
def _add(sets: Any, size: Any, groups: Any, ids: Any, remap: Any) -> None:
    for i in range(len(ids)):
        value = uint64(remap[ids[i]])
        sets[uint64(groups[i]) * size + (value >> uint64(6))] |= uint64(1) << (value & uint64(63))


@njit(nogil=True)
def _add_single(sets: Any, ids: Any, remap: Any) -> None:
    for i in range(len(ids)):
        value = uint64(remap[ids[i]])
        sets[value >> uint64(6)] |= uint64(1) << (value & uint64(63))


@njit(nogil=True)
def _add_unless(sets: Any, size: Any, groups: Any, single: bool, ids: Any, remap: Any, skip: Any) -> None:
    for i in range(len(ids)):
        value = uint64(remap[ids[i]])
        group = uint64(0) if single else uint64(groups[i])
        sets[group * size + (value >> uint64(6))] |= uint64(skip[i] ^ 1) << (value & uint64(63))


@block_function
def add_bits(state_address: int, args_address: int) -> Any:
    """Set the bits of the block's values."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    own, n = words(state[S_USER] + args[A0 + 2] * 8, SET_WORDS), state[S_SELECTED]
    single = args[A0] < 0
    sets = view_u64(own[D_FIRST], own[D_COUNTS] * own[D_RUN_WORDS])
    groups, ids = register_u32(state, 0 if single else args[A0])[:n], register_u32(state, args[A0 + 1])[:n]
    remap, size = view_i32(args[A0 + 4], args[A0 + 5]), uint64(own[D_RUN_WORDS])
    if args[A0 + 3] >= 0:
        _add_unless(sets, size, groups, single, ids, remap, register_u8(state, args[A0 + 3])[:n])
    elif single:
        _add_single(sets, ids, remap)
    else:
        _add(sets, size, groups, ids, remap)
    return E_OK


@njit(nogil=True)
def _has_bits(bits: Any) -> Any:
    at = 0
    while at < len(bits) and bits[at] == 0:
        at += 1
    return at < len(bits)


@block_function
def end_bits(state_address: int, args_address: int) -> Any:
    """Name the arena rows of the sets that are not empty: word 0 of the groups' rows."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, own = context_of(state), words(state[S_USER] + args[A0] * 8, SET_WORDS)
    code = reserve(context[G_CONTROL], vector_at(own, D_RUNS), own[D_COUNTS] * RUN_ENTRY_WORDS)
    if code != E_OK:
        return code
    size = own[D_RUN_WORDS]
    for group in range(own[D_COUNTS]):
        address = own[D_FIRST] + group * size * 8
        if _has_bits(words(address, size)):
            entry = words(own[D_RUNS + V_ADDRESS] + own[D_RUNS + V_USED] * 8, RUN_ENTRY_WORDS)
            entry[0] = words(context[G_TABLE + V_ADDRESS] + group * context[G_ROW_WORDS] * 8, 1)[0]
            entry[1], entry[2] = address, size
            own[D_RUNS + V_USED] += RUN_ENTRY_WORDS
    return E_OK


@njit(cache=True, nogil=True)
def count_united(addresses: Any, starts: Any, first: int, last: int, counts: Any) -> None:
    """counts[g] (int64[groups]) += bits of the united sets of each group, in words first … last - 1 of them.

    Args:
        addresses: of all sets, by group; starts: int64[groups + 1], sets of a group.
    """
    united = np.empty(_STRETCH, np.int64)
    for group in range(len(counts)):
        total = int64(0)
        for low in range(first, last, _STRETCH):
            own = united[: min(_STRETCH, last - low)]
            own[:] = 0
            for i in range(starts[group], starts[group + 1]):
                bits = words(addresses[i] + low * 8, len(own))
                for k in range(len(own)):
                    own[k] |= bits[k]
            for k in range(len(own)):
                total += int64(num_bits(uint64(own[k])))
        counts[group] += total


@njit(cache=True, nogil=True)
def flag_ids(remaps: Any, cardinalities: Any, first: int, last: int, flags: Any) -> None:
    """flags[id] = 1 (uint8[global ids]) of every value of dictionaries first … last - 1.

    Args:
        remaps: addresses of int32 global ids by dict id; cardinalities: how many each has.
    """
    # A byte an id: bits would be read and written again for each, one after the other.
    out = view_u8(flags.ctypes.data, len(flags))
    for dictionary in range(first, last):
        ids = view_i32(remaps[dictionary], cardinalities[dictionary])
        for i in range(len(ids)):
            out[uint64(ids[i])] = np.uint8(1)


@njit(cache=True, nogil=True)
def count_flagged(flags: Any) -> int:
    """How many ids some row of flags (uint8[rows, global ids]) has."""
    united = np.empty(_STRETCH, np.uint8)
    total = 0
    for low in range(0, flags.shape[1], _STRETCH):
        own = united[: min(_STRETCH, flags.shape[1] - low)]
        own[:] = 0
        for row in range(len(flags)):
            for k in range(len(own)):
                own[k] |= flags[row, low + k]
        for k in range(len(own)):
            total += int(own[k])
    return total


def warm() -> None:
    """Compile for the argument types that queries use."""
    count_united(np.empty(0, np.int64), np.zeros(2, np.int64), 0, 1, np.zeros(1, np.int64))
    flag_ids(np.empty(0, np.int64), np.empty(0, np.int64), 0, 0, np.zeros(1, np.uint8))
    count_flagged(np.zeros((1, 1), np.uint8))
