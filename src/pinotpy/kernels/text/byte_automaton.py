"""Automata of bytes: made from the positions of a pattern (query/filter/text/automaton.py), and run over a text."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, uint32, uint64

from pinotpy.kernels.runtime.abi import inner
from pinotpy.kernels.runtime.byte_words import trailing_zeros
from pinotpy.kernels.runtime.hashing import absorb, finish, first_slot, probe, start
from pinotpy.kernels.runtime.views import view_i32, view_u8, view_u32, view_u64


@inner
def _hash(words: Any) -> Any:
    h = start(len(words))
    for i in range(len(words)):
        h = absorb(h, words[i])
    return finish(h)


@inner
def _holds_set(slots: Any, slot: Any, sets: Any, target: Any) -> Any:
    first, different = uint64(slots[slot]) * uint64(len(target)), uint64(0)
    for i in range(len(target)):
        different |= sets[first + uint64(i)] ^ target[i]
    return different == 0


_find_set = probe(_holds_set)


@inner
def _meets(a: Any, b: Any) -> Any:
    common = uint64(0)
    for i in range(len(a)):
        common |= a[i] & b[i]
    return common != 0


@njit(cache=True, nogil=True)
def determine(follow: Any, members: Any, ends: Any, begin: Any, table: Any) -> int:
    """Fill the table of an automaton, states as Automaton has them; gives how many, -1 if they do not fit.

    Args:
        follow: uint64[positions + 1, words], the positions behind each; the last row is of the place before the text.
        members: uint64[classes, words], the positions that take the bytes of a class.
        ends: uint64[3, words]: the positions that are tried at every byte, those that end a match, those that end it at
            the end of the text.
        begin: uint64[words], the set of the place before the text alone.
        table: uint32[states, classes + 1], of zeros.
    """
    num_words, num_classes = follow.shape[1], members.shape[0]
    most, stride = table.shape[0], num_classes + 1
    sets = np.zeros((most, num_words), np.uint64)
    size = 4096
    while size < 4 * most:
        size *= 2
    index, slot_mask = np.zeros(size, np.int32), uint64(size - 1)
    slots, known = view_i32(index.ctypes.data, size), view_u64(sets.ctypes.data, sets.size)
    reached, room = np.zeros(num_words, np.uint64), np.zeros(num_words, np.uint64)
    target = view_u64(room.ctypes.data, num_words)
    table[1] = stride
    sets[2] = begin
    count, state = 3, 2
    while state < count:
        reached[:] = ends[0]
        for word in range(num_words):
            bits = sets[state, word]
            while bits != 0:
                position = word * 64 + trailing_zeros(bits)
                bits &= bits - uint64(1)
                for i in range(num_words):
                    reached[i] |= follow[position, i]
        for byte_class in range(num_classes):
            together = uint64(0)
            for i in range(num_words):
                target[i] = reached[i] & members[byte_class, i]
                together |= target[i]
            if _meets(target, ends[1]):
                table[state, byte_class] = stride
                continue
            if together == 0 and not ends[0].any():
                continue
            slot = _find_set(slots, first_slot(_hash(target), slot_mask), slot_mask, known, target)
            if index[slot] == 0:
                if count == most:
                    return -1
                index[slot] = count
                sets[count] = room
                count += 1
            table[state, byte_class] = index[slot] * stride
        if _meets(sets[state], ends[2]):
            table[state, num_classes] = stride
        state += 1
    return count


@inner
def accepts(text: int, length: int, table_address: int, num_entries: int, classes_address: int, stride: int) -> Any:
    """Whether the automaton matches a text."""
    table, classes, data = view_u32(table_address, num_entries), view_u8(classes_address, 256), view_u8(text, length)
    matched = uint32(stride)
    state = uint32(2 * stride)
    for i in range(length):
        state = table[state + uint32(classes[data[i]])]
        if state <= matched:
            return state == matched
    return table[state + uint32(stride - 1)] == matched
