"""Group numbers of hashed tables: for raw key columns, and where packed keys of dict ids would be too many.

A key is G_KEY_WORDS words: dict ids, 64-bit values, and behind it a word with the null flag for a column that is raw
and nullable in some morsel (A4 = 1). Groups are numbered by appearance in the morsel, up to the context's limit, if it
has one: rows of further keys have the number of the limit. Keys and rows of groups lie behind each other, so memory
follows the groups that exist. The index is open addressing. An entry is one word, the upper half of the hash as a tag
and group + 1; for keys of one word it is two, the key itself and group + 1, so that a row costs one cache miss.

    begin_hashed   A0 number of expected groups at first                               begin
    key_ids        A0 ids, A1 word of the key, A2 null flags or -1, A3 id of null, A4 flag word      select
    key_values     A0 values, A1 word of the key, A2 null flags or -1, A3 doubles, A4 flag word      select
    find_groups    A0 out: groups
    end_hashed                                                                         end: rows → arena, overflow
    clear_hashed                                                                       end
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int64, njit, uint32, uint64

from pinotpy.kernels.aggregate.exact_sums import end_overflow
from pinotpy.kernels.aggregate.result_context import (
    G_ARENA,
    G_CONTROL,
    G_CUT,
    G_CUT_ROWS,
    G_INDEX,
    G_INDEX_MASK,
    G_KEY_BLOCK,
    G_KEY_WORDS,
    G_KEYS,
    G_LIMIT,
    G_NUM_GROUPS,
    G_ROW_WORDS,
    G_SCRATCH,
    G_TABLE,
    SCRATCH_WORDS,
    context_of,
    vector_at,
)
from pinotpy.kernels.group.direct_table import open_morsel
from pinotpy.kernels.runtime.abi import (
    A0,
    BLOCK,
    E_OK,
    INSTRUCTION_WORDS,
    S_MORSEL,
    S_SELECTED,
    STATE_WORDS,
    block_function,
    inner,
    register_i64,
    register_u8,
    register_u32,
    words,
)
from pinotpy.kernels.runtime.growable import V_ADDRESS, V_USED, grow_zeroed, reserve, reserve_zeroed
from pinotpy.kernels.runtime.hashing import (
    NUMBER_MASK,
    TAG_MASK,
    absorb,
    find_empty,
    find_pair,
    finish,
    first_slot,
    mix,
    probe,
    start,
)
from pinotpy.kernels.runtime.views import view_f64

_FIRST: Final = 1 << 13


@njit(nogil=True, inline="always")
def _entry_words(context: Any) -> Any:
    return 2 if context[G_KEY_WORDS] == 1 else 1


@njit(nogil=True)
def start_hashed(context: Any) -> Any:
    """An empty table."""
    context[G_NUM_GROUPS], context[G_INDEX_MASK] = 0, _FIRST - 1
    context[G_KEYS + V_USED] = 0
    code = reserve_zeroed(context[G_CONTROL], vector_at(context, G_SCRATCH), SCRATCH_WORDS)
    if code == E_OK:
        code = reserve_zeroed(context[G_CONTROL], vector_at(context, G_INDEX), _FIRST * _entry_words(context))
    if code == E_OK:
        code = reserve_zeroed(context[G_CONTROL], vector_at(context, G_KEY_BLOCK), BLOCK * context[G_KEY_WORDS])
    return code


@block_function
def begin_hashed(state_address: int, args_address: int) -> Any:
    """An empty table for a morsel."""
    return start_hashed(context_of(words(state_address, STATE_WORDS)))


@njit(nogil=True)
def _place_ids(block: Any, stride: int, ids: Any) -> None:
    for i in range(len(ids)):
        block[i * stride] = ids[i]


@njit(nogil=True)
def _place_constant(block: Any, stride: int, count: int) -> None:
    for i in range(count):
        block[i * stride] = 0


@njit(nogil=True)
def _place_nullable_ids(block: Any, stride: int, ids: Any, nulls: Any, null_id: int) -> None:
    for i in range(len(ids)):
        block[i * stride] = null_id if nulls[i] else int64(ids[i])


@block_function
def key_ids(state_address: int, args_address: int) -> Any:
    """Dict ids as a word of the block's keys."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, n = context_of(state), state[S_SELECTED]
    stride = context[G_KEY_WORDS]
    block = words(context[G_KEY_BLOCK + V_ADDRESS] + args[A0 + 1] * 8, BLOCK * stride - args[A0 + 1])
    ids = register_u32(state, args[A0])[:n]
    if args[A0 + 2] < 0:
        _place_ids(block, stride, ids)
    else:
        _place_nullable_ids(block, stride, ids, register_u8(state, args[A0 + 2])[:n], args[A0 + 3])
    if args[A0 + 4] != 0:
        _place_constant(block[1:], stride, n)
    return E_OK


@njit(nogil=True)
def _place_values(block: Any, stride: int, values: Any) -> None:
    for i in range(len(values)):
        block[i * stride] = values[i]


@njit(nogil=True)
def _place_nullable_values(block: Any, stride: int, values: Any, nulls: Any) -> None:
    for i in range(len(values)):
        block[i * stride] = int64(0) if nulls[i] else values[i]
        block[i * stride + 1] = nulls[i]


@njit(nogil=True)
def _normalize(values: Any) -> None:
    # One zero and one NaN: keys are compared by their bits.
    for i in range(len(values)):
        v = values[i] + 0.0
        values[i] = np.nan if np.isnan(v) else v


@block_function
def key_values(state_address: int, args_address: int) -> Any:
    """64-bit values as a word of the block's keys; A3 = 1: doubles, which are normalized in their register."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, n = context_of(state), state[S_SELECTED]
    stride = context[G_KEY_WORDS]
    block = words(context[G_KEY_BLOCK + V_ADDRESS] + args[A0 + 1] * 8, BLOCK * stride - args[A0 + 1])
    values = register_i64(state, args[A0])[:n]
    if args[A0 + 3] != 0:
        _normalize(view_f64(values.ctypes.data, n))
    if args[A0 + 2] < 0:
        _place_values(block, stride, values)
        if args[A0 + 4] != 0:
            _place_constant(block[1:], stride, n)
    else:
        _place_nullable_values(block, stride, values, register_u8(state, args[A0 + 2])[:n])
    return E_OK


@njit(nogil=True, inline="always")
def _hash(keys: Any, position: Any, count: Any) -> Any:
    h = start(keys[position])
    for k in range(1, count):
        h = absorb(h, keys[position + uint64(k)])
    return finish(h)


@inner
def _holds_key(index: Any, slot: Any, keys: Any, key: Any) -> Any:
    # Of several words: `key` is the tag, how many they are, and where they lie.
    entry = uint64(index[slot])
    tag, width, address = key
    if entry & TAG_MASK != tag:
        return False
    first = ((entry & NUMBER_MASK) - uint64(1)) * width
    stored = words(address, int64(width))
    for k in range(width):  # noqa: SIM110  # compiled code has no all()
        if keys[first + uint64(k)] != stored[uint64(k)]:
            return False
    return True


_find_key = probe(_holds_key)


@njit(nogil=True)
def _grow_index(context: Any, groups_max: int) -> Any:
    # At most half full; made anew from the keys, four times as large, when it grows.
    count = context[G_INDEX_MASK] + 1
    if groups_max * 2 <= count:
        return E_OK
    new_count = count * 4
    while groups_max * 2 > new_count:
        new_count *= 2
    entry = _entry_words(context)
    words(context[G_INDEX + V_ADDRESS], count * entry)[:] = 0
    code = reserve_zeroed(context[G_CONTROL], vector_at(context, G_INDEX), new_count * entry)
    if code != E_OK:
        return code
    context[G_INDEX_MASK] = new_count - 1
    index = words(context[G_INDEX + V_ADDRESS], new_count * entry)
    mask, width = uint64(new_count - 1), uint64(context[G_KEY_WORDS])
    keys = words(context[G_KEYS + V_ADDRESS], context[G_NUM_GROUPS] * context[G_KEY_WORDS])
    for group in range(context[G_NUM_GROUPS]):
        h = _hash(keys, uint64(group) * width, width)
        slot = first_slot(h, mask)
        if entry == 2:
            slot = uint64(2) * find_pair(index, slot, mask, index, keys[group])
            index[slot], index[slot + uint64(1)] = keys[group], group + 1
        else:
            slot = find_empty(index, slot, mask, keys, group)
            index[slot] = int64((h & TAG_MASK) | uint64(group + 1))
    return E_OK


@njit(nogil=True)
def _places(block: Any, mask: Any, places: Any) -> None:
    # Where each key would be.
    for i in range(len(places)):
        places[i] = int64(first_slot(mix(block[i]), mask))


@njit(nogil=True)
def _found_at_once(block: Any, index: Any, places: Any, out: Any, missed: Any) -> Any:
    # Groups of the keys that lie in their first place; the others are listed. Without branches, which could not be
    # foretold, and with loads that do not wait for each other, so that cache misses overlap.
    misses = uint64(0)
    for i in range(len(out)):
        slot = uint64(2) * uint64(places[i])
        group = index[slot + uint64(1)]
        out[i] = uint32(group - 1)
        missed[misses] = i
        misses += uint64((index[slot] != block[i]) | (group == 0))
    return int64(misses)


@njit(nogil=True, inline="always")
def _limit(context: Any) -> Any:
    return context[G_LIMIT] if context[G_LIMIT] > 0 else int64(NUMBER_MASK)


@njit(nogil=True)
def _find_single(context: Any, block: Any, out: Any) -> None:
    n = len(out)
    mask = uint64(context[G_INDEX_MASK])
    index = words(context[G_INDEX + V_ADDRESS], (context[G_INDEX_MASK] + 1) * 2)
    groups, limit, cut = context[G_NUM_GROUPS], _limit(context), 0
    keys = words(context[G_KEYS + V_ADDRESS], groups + n)
    places = words(context[G_SCRATCH + V_ADDRESS], BLOCK)[:n]
    missed = words(context[G_SCRATCH + V_ADDRESS] + BLOCK * 8, BLOCK)
    _places(block, mask, places)
    for j in range(_found_at_once(block, index, places, out, missed)):
        i = uint64(missed[j])
        key = block[i]
        slot = uint64(2) * find_pair(index, uint64(places[i]), mask, index, key)
        group = index[slot + uint64(1)] - 1
        if group < 0:
            group = groups
            if groups < limit:
                keys[uint64(groups)] = key
                groups += 1
                index[slot], index[slot + uint64(1)] = key, groups
            else:
                cut += 1
        out[i] = uint32(group)
    context[G_NUM_GROUPS] = groups
    context[G_KEYS + V_USED] = groups
    context[G_CUT_ROWS] += cut


@njit(nogil=True)
def _find(context: Any, block: Any, out: Any) -> None:
    width = uint64(context[G_KEY_WORDS])
    mask = uint64(context[G_INDEX_MASK])
    index = words(context[G_INDEX + V_ADDRESS], context[G_INDEX_MASK] + 1)
    groups, limit, cut = context[G_NUM_GROUPS], _limit(context), 0
    keys = words(context[G_KEYS + V_ADDRESS], (groups + len(out)) * context[G_KEY_WORDS])
    block_address = context[G_KEY_BLOCK + V_ADDRESS]
    for i in range(len(out)):
        row = uint64(i) * width
        h = _hash(block, row, width)
        tag = h & TAG_MASK
        key = (tag, width, block_address + int64(row) * 8)
        slot = _find_key(index, first_slot(h, mask), mask, keys, key)
        if index[slot] != 0:
            out[i] = uint32((uint64(index[slot]) & NUMBER_MASK) - uint64(1))
            continue
        out[i] = uint32(groups)
        if groups < limit:
            for k in range(width):
                keys[uint64(groups) * width + uint64(k)] = block[row + uint64(k)]
            groups += 1
            index[slot] = int64(tag | uint64(groups))
        else:
            cut += 1
    context[G_NUM_GROUPS] = groups
    context[G_KEYS + V_USED] = groups * context[G_KEY_WORDS]
    context[G_CUT_ROWS] += cut


@block_function
def find_groups(state_address: int, args_address: int) -> Any:
    """Group numbers of the block's keys; new keys get the next ones."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, n = context_of(state), state[S_SELECTED]
    control = context[G_CONTROL]
    groups_max = min(context[G_NUM_GROUPS] + n, _limit(context))
    code = reserve(control, vector_at(context, G_KEYS), n * context[G_KEY_WORDS])
    if code == E_OK:
        # One more for the rows beyond the limit.
        code = grow_zeroed(control, vector_at(context, G_TABLE), (groups_max + 1) * context[G_ROW_WORDS])
    if code == E_OK:
        code = _grow_index(context, groups_max)
    if code == E_OK:
        block, out = (
            words(context[G_KEY_BLOCK + V_ADDRESS], BLOCK * context[G_KEY_WORDS]),
            register_u32(state, args[A0])[:n],
        )
        if context[G_KEY_WORDS] == 1:
            _find_single(context, block, out)
        else:
            _find(context, block, out)
    return code


@njit(nogil=True)
def _is_cut(context: Any) -> Any:
    # Whether rows of the morsel are beyond its limit.
    groups = context[G_NUM_GROUPS]
    return (
        groups > 0
        and groups == context[G_LIMIT]
        and words(context[G_TABLE + V_ADDRESS] + groups * context[G_ROW_WORDS] * 8, 1)[0] != 0
    )


@block_function
def end_hashed(state_address: int, args_address: int) -> Any:
    """Move all groups into the arena."""
    state = words(state_address, STATE_WORDS)
    context = context_of(state)
    code = open_morsel(context, state[S_MORSEL])
    if code != E_OK:
        return code
    groups, key_words, width = context[G_NUM_GROUPS], context[G_KEY_WORDS], context[G_ROW_WORDS]
    if _is_cut(context):
        # A row like those of groups, so that sets and overflow may name it; its key says nothing.
        code = reserve(context[G_CONTROL], vector_at(context, G_CUT), 1)
        if code == E_OK:
            code = reserve(context[G_CONTROL], vector_at(context, G_KEYS), key_words)
        if code != E_OK:
            return code
        words(context[G_KEYS + V_ADDRESS] + groups * key_words * 8, key_words)[:] = 0
        words(context[G_CUT + V_ADDRESS] + context[G_CUT + V_USED] * 8, 1)[0] = (
            context[G_ARENA + V_USED] // (key_words + width) + groups
        )
        context[G_CUT + V_USED] += 1
        groups += 1
    code = reserve(context[G_CONTROL], vector_at(context, G_ARENA), groups * (key_words + width))
    if code != E_OK:
        return code
    used = context[G_ARENA + V_USED]
    out = words(context[G_ARENA + V_ADDRESS] + used * 8, groups * (key_words + width))
    keys = words(context[G_KEYS + V_ADDRESS], groups * key_words)
    table = words(context[G_TABLE + V_ADDRESS], groups * width)
    first_row = used // (key_words + width)
    for group in range(groups):
        position = group * (key_words + width)
        for k in range(key_words):
            out[position + k] = keys[group * key_words + k]
        for i in range(width):
            out[position + key_words + i] = table[group * width + i]
            table[group * width + i] = 0
        table[group * width] = first_row + group
    context[G_ARENA + V_USED] = used + groups * (key_words + width)
    return end_overflow(context)


@block_function
def clear_hashed(state_address: int, args_address: int) -> Any:
    """Make table and index zero again."""
    context = context_of(words(state_address, STATE_WORDS))
    width, groups = context[G_ROW_WORDS], context[G_NUM_GROUPS]
    if groups > 0 and groups == context[G_LIMIT]:
        groups += 1
    table = words(context[G_TABLE + V_ADDRESS], groups * width)
    for group in range(groups):
        table[group * width] = 0
    words(context[G_INDEX + V_ADDRESS], (context[G_INDEX_MASK] + 1) * _entry_words(context))[:] = 0
    return E_OK
