"""Numbers of the distinct texts of a raw column in all its segments, part by part.

A text is an entry of three words: its hash with, in the lowest byte, its length (LONG: more than INLINE_BYTES); then
its bytes, padded with zeros, or the address and the length of a long one. So most texts are compared without being read
again, and entries are equal exactly where the texts are. Entries are dealt by hash to parts whose tables fit a cache;
equal texts meet in one part, so that nothing has to be put together afterwards. The number of a text is its place in
its part * parts + part.

    partition_texts    the texts of a run of docs → entries, by part
    number_part   the entries of one part in several runs → numbers, and the table of distinct entries
    see_ids       which numbers some docs have
    text_lengths, copy_texts    numbers → texts
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int64, njit, uint32, uint64
from numpy.typing import NDArray

from pinotpy.kernels.runtime.abi import inner, words
from pinotpy.kernels.runtime.byte_words import hash_bytes, load_word, same_bytes, tail_word
from pinotpy.kernels.runtime.hashing import absorb, find_empty, finish, first_slot, probe, start, stir
from pinotpy.kernels.runtime.partitioning import partition_of, take_place
from pinotpy.kernels.runtime.views import view_i64, view_u8, view_u32, view_u64

ENTRY_WORDS: Final = 3
INLINE_BYTES: Final = 16
PARTS_MAX: Final = 1 << 10  # as many as the bits of a hash above _PART_SHIFT tell apart
RUN_WORDS: Final = 4  # of number_part: addresses of entries, docs and ids, docs of the segment

_LONG: Final = 255
_CODE: Final = np.uint64(255)
_PART_SHIFT: Final = 54
_TABLE_FIRST: Final = 64  # entries


# --- dealing ---------------------------------------------------------------------------------------------------------


@inner
def _second_word(address: int, length: int) -> Any:
    # Of a text of up to INLINE_BYTES.
    return uint64(0) if length <= 8 else load_word(address + length - 8) >> uint64(8 * (INLINE_BYTES - length))


@inner
def _first_word(address: int, length: int) -> Any:
    return tail_word(address, length) if length < 8 else load_word(address)


@inner
def _hash(address: int, length: int) -> Any:
    if length > INLINE_BYTES:
        return hash_bytes(address, length)
    return finish(stir(absorb(start(length), _first_word(address, length)), _second_word(address, length)))


@njit(cache=True, nogil=True)
def partition_texts(
    data: int,
    starts_address: int,
    docs: Any,
    first_doc: int,
    hash_mask: Any,
    hashes: Any,
    entries: Any,
    docs_out: Any,
    ends: Any,
) -> None:
    """The texts of a run of docs as entries, by part.

    Args:
        data, starts_address: addresses of the column's bytes and of its int64 offsets.
        docs: int32[n], or empty: the docs from first_doc on.
        hash_mask: bits of a hash that count, all of them but in tests.
        hashes: uint64[n], to work in. entries: uint64[n * ENTRY_WORDS]; docs_out: uint32[n], the doc of every entry.
        ends: int64[parts + 1] of zeros: gets where the entries of each part begin and, one on, end. parts: a power of
            two.
    """
    parts = len(ends) - 1
    n, listed = len(hashes), len(docs) > 0
    for i in range(n):
        doc = uint64(docs[i]) if listed else uint64(first_doc + i)
        two = view_i64(starts_address + int64(doc) * 8, 2)
        h = _hash(data + two[0], two[1] - two[0]) & hash_mask
        hashes[i] = h
        ends[partition_of(h, _PART_SHIFT, parts) + uint64(1)] += 1
    for part in range(parts):
        ends[part + 1] += ends[part]
    copied = ends[:parts].copy()
    places = words(copied.ctypes.data, parts)
    for i in range(n):
        doc = uint64(docs[i]) if listed else uint64(first_doc + i)
        two = view_i64(starts_address + int64(doc) * 8, 2)
        address, length = data + two[0], two[1] - two[0]
        h = hashes[i]
        place = take_place(places, h, _PART_SHIFT)
        position = place * uint64(ENTRY_WORDS)
        docs_out[place] = uint32(doc)
        if length > INLINE_BYTES:
            entries[position], entries[position + uint64(1)], entries[position + uint64(2)] = (
                h | _CODE,
                uint64(address),
                uint64(length),
            )
        else:
            entries[position] = (h & ~_CODE) | uint64(length)
            entries[position + uint64(1)], entries[position + uint64(2)] = (
                _first_word(address, length),
                _second_word(address, length),
            )
    copied[0] = 0  # numba gives an array back after its last use


# --- shared dictionary
# -------------------------------------------------------------------------------------------------------


@inner
def _holds_text(slots: Any, place: Any, table: Any, entry: Any) -> Any:
    one, second, third = entry
    position = (uint64(slots[place]) - uint64(1)) * uint64(ENTRY_WORDS)
    if table[position] != one or table[position + uint64(2)] != third:
        return False
    if one & _CODE != uint64(_LONG):
        return table[position + uint64(1)] == second
    return same_bytes(int64(table[position + uint64(1)]), int64(second), int64(third))


_find_text = probe(_holds_text)


@inner
def _number_run(
    entries: Any, docs: Any, ids: Any, wanted: bool, part: Any, parts: Any, table: Any, index: Any, count: Any
) -> Any:
    mask = uint64(len(index) - 1)
    slots, known = view_u32(index.ctypes.data, len(index)), view_u64(table.ctypes.data, len(table))
    for i in range(len(docs)):
        position = uint64(i) * uint64(ENTRY_WORDS)
        one, second, third = entries[position], entries[position + uint64(1)], entries[position + uint64(2)]
        place = _find_text(slots, first_slot(one, mask), mask, known, (one, second, third))
        number = uint64(slots[place])
        if number == uint64(0):
            new = count * uint64(ENTRY_WORDS)
            known[new], known[new + uint64(1)], known[new + uint64(2)] = one, second, third
            count += uint64(1)
            number = count
            slots[place] = uint32(number)
        if wanted:
            ids[uint64(docs[i])] = uint32((number - uint64(1)) * parts + part)
    return count


@inner
def _indexed(table: Any, count: int, size: int) -> Any:
    index = np.zeros(size, np.uint32)
    slots, known, mask = view_u32(index.ctypes.data, size), view_u64(table.ctypes.data, len(table)), uint64(size - 1)
    for number in range(count):
        h = known[uint64(number) * uint64(ENTRY_WORDS)]
        slots[find_empty(slots, first_slot(h, mask), mask, known, h)] = uint32(number + 1)
    return index


@njit(cache=True, nogil=True)
def number_part(runs: Any, ends: Any, part: int, table: Any, index: Any, count: int) -> Any:
    """Numbers of the entries of one part.

    Args:
        runs: int64[runs, RUN_WORDS]: of every run the addresses of its entries, of its docs, and of uint32 ids by doc,
            to be written (0: not wanted); and the docs of its segment. ends: int64[runs, parts + 1], of
            partition_texts.
        table: uint64[k * ENTRY_WORDS], the distinct entries by place, `count` so far; index: uint32, a power of two,
            open addressing of place + 1, at most half full. Both are empty at first.

    Returns: (table, index, count), made anew where they had to grow.
    """
    parts = ends.shape[1] - 1
    for run in range(len(runs)):
        first, last = ends[run, part], ends[run, part + 1]
        most = count + last - first
        if most * ENTRY_WORDS > len(table):
            room = max(_TABLE_FIRST, len(table) // ENTRY_WORDS)
            while room < most:
                room *= 2
            larger = np.empty(room * ENTRY_WORDS, np.uint64)
            larger[: count * ENTRY_WORDS] = table[: count * ENTRY_WORDS]
            table = larger
        if most * 2 > len(index):
            size = max(2 * _TABLE_FIRST, len(index))
            while size < most * 2:
                size *= 2
            index = _indexed(table, count, size)
        entries = view_u64(runs[run, 0] + first * ENTRY_WORDS * 8, (last - first) * ENTRY_WORDS)
        docs, ids = view_u32(runs[run, 1] + first * 4, last - first), view_u32(runs[run, 2], runs[run, 3])
        count = int64(
            _number_run(entries, docs, ids, runs[run, 2] != 0, uint64(part), uint64(parts), table, index, uint64(count))
        )
    return table, index, count


@inner
def _see(ids: Any, docs: Any, seen: Any) -> None:
    for i in range(len(docs)):
        number = ids[uint64(docs[i])]
        # Threads share `seen`, and a line that nobody writes to stays in all caches.
        if seen[number] == 0:
            seen[number] = 1


@inner
def _see_all(ids: Any, seen: Any) -> None:
    for i in range(len(ids)):
        if seen[ids[i]] == 0:
            seen[ids[i]] = 1


@njit(cache=True, nogil=True)
def see_ids(ids: Any, docs: Any, first_doc: int, count: int, seen: Any) -> None:
    """seen (uint8) = 1 at the ids (uint32, by doc) of `docs` (int32), or where that is empty of `count` docs from the
    first on.
    """
    if len(docs) > 0:
        _see(ids, docs, seen)
    else:
        _see_all(ids[first_doc : first_doc + count], seen)


# --- texts of numbers ------------------------------------------------------------------------------------------------


@inner
def _entry(tables: Any, number: Any) -> Any:
    # Address of an entry.
    parts = uint64(len(tables))
    return tables[number % parts, 0] + int64(number // parts) * (ENTRY_WORDS * 8)


@inner
def _length(entry: int) -> Any:
    entry_words = view_u64(entry, ENTRY_WORDS)
    return int64(entry_words[2]) if entry_words[0] & _CODE == uint64(_LONG) else int64(entry_words[0] & _CODE)


@njit(cache=True, nogil=True)
def text_lengths(tables: Any, numbers: Any, offsets: Any) -> None:
    """Ends of the texts of numbers laid one behind another, into int64 offsets[n + 1]; a number that none has is empty.

    Args:
        tables: int64[parts, 2]: address of the entries of each part, and how many. numbers: int64[n].
    """
    offsets[0] = 0
    for i in range(len(numbers)):
        number = uint64(numbers[i])
        is_used = int64(number // uint64(len(tables))) < tables[number % uint64(len(tables)), 1]
        offsets[i + 1] = offsets[i] + (_length(_entry(tables, number)) if is_used else 0)


@njit(cache=True, nogil=True)
def copy_texts(tables: Any, numbers: Any, offsets: Any, out: Any) -> None:
    """The bytes of the texts of numbers into uint8 `out`; `offsets`: of text_lengths."""
    for i in range(len(numbers)):
        size = offsets[i + 1] - offsets[i]
        if size > 0:
            entry = _entry(tables, uint64(numbers[i]))
            source = view_u8(int64(view_u64(entry, 2)[1]) if size > INLINE_BYTES else entry + 8, size)
            target = out[offsets[i] : offsets[i + 1]]
            for k in range(size):
                target[k] = source[k]


def warm() -> None:
    """Compile, or load from the cache, all of this."""
    starts, text, all_bits = np.array([0, 1, 2], np.int64), np.zeros(8, np.uint8), np.uint64(2**64 - 1)
    hashes, entries, docs = np.zeros(2, np.uint64), np.zeros(2 * ENTRY_WORDS, np.uint64), np.zeros(2, np.uint32)
    ends = np.zeros((1, 2), np.int64)
    partition_texts(
        text.ctypes.data, starts.ctypes.data, np.zeros(0, np.int32), 0, all_bits, hashes, entries, docs, ends[0]
    )
    runs = np.array([[entries.ctypes.data, docs.ctypes.data, 0, 2]], np.int64)
    table, _, count = number_part(runs, ends, 0, np.zeros(0, np.uint64), np.zeros(0, np.uint32), 0)
    tables, offsets = np.array([[table.ctypes.data, count]], np.int64), np.zeros(2, np.int64)
    text_lengths(tables, np.zeros(1, np.int64), offsets)
    copy_texts(tables, np.zeros(1, np.int64), offsets, text)
    ids: NDArray[np.uint32] = np.zeros(2, np.uint32)
    ids.flags.writeable = False  # as those that are kept
    see_ids(ids, np.zeros(0, np.int32), 0, 2, text)
