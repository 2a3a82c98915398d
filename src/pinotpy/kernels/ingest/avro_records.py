"""Decodes records of Avro's binary encoding into columns of words, one call for many blocks; what is not wanted is
stepped over.

A schema is a table of nodes (`Nodes`), made by `ingest/readers/avro_schema.py`. A node with a slot leaves one entry a
visit:

    BOOLEAN, INT, LONG, ENUM   the value                    FLOAT, DOUBLE   its bits
    TEXT (string or bytes)     start in the data, length    FIXED           start in the data
    UNION                      number of the branch         ARRAY, MAP      number of items (keys of a map: a TEXT node)
    LAZY (of any type)         start in the data, length

Nothing in the data is believed: every read is checked against its block, depth and items have limits, and an error
gives its place.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numba import njit

from pinotpy.arrays import Int64Array
from pinotpy.kernels.runtime.abi import inner

NULL: Final = 0
BOOLEAN: Final = 1
INT: Final = 2
LONG: Final = 3
FLOAT: Final = 4
DOUBLE: Final = 5
TEXT: Final = 6
FIXED: Final = 7
ENUM: Final = 8
RECORD: Final = 9
UNION: Final = 10
ARRAY: Final = 11
MAP: Final = 12
LAZY: Final = 13

# What `decode` ended with. FULL: the slot in state[DETAIL] has no more room; nothing of the call counts.
DONE: Final = 0
FULL: Final = 1
CUT: Final = 2
LONG_NUMBER: Final = 3
NO_BRANCH: Final = 4
NO_SYMBOL: Final = 5
NEGATIVE_LENGTH: Final = 6
TOO_DEEP: Final = 7
TOO_MANY_ITEMS: Final = 8
REST: Final = 9
NO_BOOLEAN: Final = 10
INT_RANGE: Final = 11

# Words of the state: where decoding goes on, records decoded by this call, and what an error is about (slot or node).
BLOCK: Final = 0
RECORD_OF_BLOCK: Final = 1
POSITION: Final = 2
RECORDS: Final = 3
DETAIL: Final = 4
STATE_WORDS: Final = 5

DEPTH_MAX: Final = 128


class Nodes(NamedTuple):
    """A schema. int64, one entry a node: its kind; where its children begin in `children` and how many there are (for
    FIXED and ENUM: bytes and symbols); its slot or -1. A map's children are its key (TEXT) and its value.
    """

    kinds: Int64Array
    firsts: Int64Array
    counts: Int64Array
    slots: Int64Array
    children: Int64Array


class Slots(NamedTuple):
    """int64, one entry a slot: where its words begin, how many fit, how many there are."""

    begins: Int64Array
    rooms: Int64Array
    filled: Int64Array


class Blocks(NamedTuple):
    """int64, one entry a block: where its bytes begin and end in the data, and how many records it has."""

    begins: Int64Array
    ends: Int64Array
    counts: Int64Array


@inner
def _number(data: Any, position: Any, end: Any) -> Any:
    """(zigzag varint, position behind it); the position is -CUT or -LONG_NUMBER where there is none."""
    word = np.uint64(0)
    shift = np.uint64(0)
    while True:
        if position >= end:
            return np.int64(0), np.int64(-CUT)
        byte = data[position]
        position += 1
        word |= np.uint64(byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += np.uint64(7)
        if shift > 63:
            return np.int64(0), np.int64(-LONG_NUMBER)
    return np.int64(word >> np.uint64(1)) ^ -np.int64(word & np.uint64(1)), np.int64(position)


@inner
def _bits(data: Any, position: Any, width: Any) -> Any:
    word = np.uint64(0)
    for i in range(width):
        word |= np.uint64(data[position + i]) << np.uint64(8 * i)
    return np.int64(word)


@inner
def _put(words: Any, slots: Any, slot: Any, word: Any) -> Any:
    filled = slots.filled[slot]
    if filled >= slots.rooms[slot]:
        return False
    words[slots.begins[slot] + filled] = word
    slots.filled[slot] = filled + 1
    return True


@inner
def _record(
    data: Any, position: Any, end: Any, nodes: Any, slots: Any, words: Any, frames: Any, items_left: Any, state: Any
) -> Any:
    """One value of node 0 from `position`: (how it ended, position behind it, items left). Frames: node, next child or
    items left, items.
    """
    depth = 0
    node = np.int64(0)
    while True:
        # A value of `node`.
        kind = nodes.kinds[node]
        slot = nodes.slots[node]
        state[DETAIL] = node
        if kind in (INT, LONG, ENUM, UNION):
            value, position = _number(data, position, end)
            if position < 0:
                return -position, position, items_left
            if kind == INT and (value > 2147483647 or value < -2147483648):
                return np.int64(INT_RANGE), position, items_left
            if kind == ENUM and (value < 0 or value >= nodes.counts[node]):
                return np.int64(NO_SYMBOL), position, items_left
            if kind == UNION and (value < 0 or value >= nodes.counts[node]):
                return np.int64(NO_BRANCH), position, items_left
            if slot >= 0 and not _put(words, slots, slot, value):
                state[DETAIL] = slot
                return np.int64(FULL), position, items_left
            if kind == UNION:
                node = nodes.children[nodes.firsts[node] + value]
                continue
        elif kind == TEXT:
            length, position = _number(data, position, end)
            if position < 0:
                return -position, position, items_left
            if length < 0:
                return np.int64(NEGATIVE_LENGTH), position, items_left
            if length > end - position:
                return np.int64(CUT), position, items_left
            if slot >= 0 and not (_put(words, slots, slot, position) and _put(words, slots, slot, length)):
                state[DETAIL] = slot
                return np.int64(FULL), position, items_left
            position += length
        elif kind in (FLOAT, DOUBLE, FIXED, BOOLEAN):
            width = nodes.counts[node]
            if width > end - position:
                return np.int64(CUT), position, items_left
            if kind == BOOLEAN and data[position] > 1:
                return np.int64(NO_BOOLEAN), position, items_left
            if slot >= 0 and not _put(words, slots, slot, position if kind == FIXED else _bits(data, position, width)):
                state[DETAIL] = slot
                return np.int64(FULL), position, items_left
            position += width
        elif kind != NULL:
            if depth >= DEPTH_MAX:
                return np.int64(TOO_DEEP), position, items_left
            frames[depth, 0], frames[depth, 1], frames[depth, 2] = node, 0, 0
            depth += 1
            if kind == LAZY and not _put(words, slots, slot, position):
                state[DETAIL] = slot
                return np.int64(FULL), position, items_left
        # The next value: of the innermost record, array or map that has one left.
        is_set = False
        while depth > 0:
            top = frames[depth - 1, 0]
            kind = nodes.kinds[top]
            if kind in (RECORD, LAZY):
                child = frames[depth - 1, 1]
                if child < nodes.counts[top]:
                    frames[depth - 1, 1] = child + 1
                    node = nodes.children[nodes.firsts[top] + child]
                    is_set = True
                    break
                if kind == LAZY:
                    slot = nodes.slots[top]
                    begin = words[slots.begins[slot] + slots.filled[slot] - 1]
                    if not _put(words, slots, slot, position - begin):
                        state[DETAIL] = slot
                        return np.int64(FULL), position, items_left
                depth -= 1
                continue
            if kind == MAP and frames[depth - 1, 1] < 0:  # behind a key comes its value
                frames[depth - 1, 1] = -frames[depth - 1, 1] - 1
                node = nodes.children[nodes.firsts[top] + 1]
                is_set = True
                break
            if frames[depth - 1, 1] == 0:
                count, position = _number(data, position, end)
                if position < 0:
                    return -position, position, items_left
                if count < 0:
                    _, position = _number(data, position, end)
                    if position < 0:
                        return -position, position, items_left
                    count = -count
                if count == 0:
                    if nodes.slots[top] >= 0 and not _put(words, slots, nodes.slots[top], frames[depth - 1, 2]):
                        state[DETAIL] = nodes.slots[top]
                        return np.int64(FULL), position, items_left
                    depth -= 1
                    continue
                if count < 0 or count > items_left:
                    state[DETAIL] = top
                    return np.int64(TOO_MANY_ITEMS), position, items_left
                items_left -= count
                frames[depth - 1, 1] = count
                frames[depth - 1, 2] += count
            if kind == MAP:
                # Items left without this one, as a negative number: its key comes first.
                frames[depth - 1, 1] = -frames[depth - 1, 1]
                node = nodes.children[nodes.firsts[top]]
            else:
                frames[depth - 1, 1] -= 1
                node = nodes.children[nodes.firsts[top]]
            is_set = True
            break
        if not is_set:
            return np.int64(DONE), np.int64(position), items_left


@njit(cache=True, nogil=True)
def decode(
    data: Any,
    blocks: Blocks,
    nodes: Nodes,
    slots: Slots,
    words: Any,
    frames: Any,
    state: Any,
    records_max: int,
    items_max: int,
) -> Any:
    """Decode up to `records_max` records from where `state` stands.

    Args:
        data: uint8, the bytes of all blocks.
        words: int64, the room of all slots.
        frames: int64 of (DEPTH_MAX, 3), scratch.
        state: int64 of STATE_WORDS; block, record and position move on, RECORDS is counted from 0.
        items_max: items of arrays and maps in this call.

    Returns: DONE, FULL, or what is wrong at state[POSITION].
    """
    block, number, position = state[BLOCK], state[RECORD_OF_BLOCK], state[POSITION]
    slots.filled[:] = 0
    done = 0
    items_left = np.int64(items_max)
    while block < blocks.counts.shape[0]:
        end = blocks.ends[block]
        while number < blocks.counts[block]:
            if done == records_max:
                state[BLOCK], state[RECORD_OF_BLOCK], state[POSITION], state[RECORDS] = block, number, position, done
                return DONE
            ended, behind, items_left = _record(data, position, end, nodes, slots, words, frames, items_left, state)
            if ended != DONE:
                state[RECORDS] = done
                return ended
            position = behind
            number += 1
            done += 1
        if position != end:
            state[RECORDS] = done
            return REST
        block += 1
        number = 0
        if block < blocks.counts.shape[0]:
            position = blocks.begins[block]
    state[BLOCK], state[RECORD_OF_BLOCK], state[POSITION], state[RECORDS] = block, number, position, done
    return DONE


@njit(cache=True, nogil=True)
def gather_bytes(data: Any, starts: Any, offsets: Any, out: Any) -> None:
    """out[offsets[i]:offsets[i + 1]] = the bytes of `data` from starts[i] on, for all i. uint8, int64, int32, uint8."""
    for i in range(starts.shape[0]):
        start = starts[i]
        for position in range(offsets[i], offsets[i + 1]):
            out[position] = data[start]
            start += 1


@njit(cache=True, nogil=True)
def gather_numbers(data: Any, starts: Any, lengths: Any, out: Any) -> int:
    """Big-endian two's complement numbers as little-endian ones of out.shape[1] bytes: the row of the first that does
    not fit, or -1.
    """
    width = out.shape[1]
    for i in range(starts.shape[0]):
        start, length = starts[i], lengths[i]
        sign = np.uint8(255) if length > 0 and data[start] >= 128 else np.uint8(0)
        for j in range(width):
            out[i, j] = data[start + length - 1 - j] if j < length else sign
        for j in range(length - width):
            if data[start + j] != sign:
                return i
        if length > width and (out[i, width - 1] >= 128) != (sign == 255):
            return i
    return -1
