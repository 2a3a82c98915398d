"""Sets of docs as Roaring bitmaps in their published portable format: written, checked, and read where they lie.

A bitmap is cut into containers by the upper 16 bits of docs; a container lists the lower ones, or has a bit for each of
65,536, or lists runs, whatever is smallest:

    u32 12346, u32 containers                                 if there are no runs, else
    u32 12347 | (containers - 1) << 16, a bit a container     1 = it has runs
    per container u16 key, u16 docs - 1
    per container u32 where it begins in the bitmap           left out with runs and less than four containers
    array u16[docs] | bits u64[1024] | u16 runs, (u16 first, u16 length - 1)[runs]

Nothing is aligned: a container begins wherever the one before it ended.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int64, njit, uint64
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.kernels.runtime.abi import inner
from pinotpy.kernels.runtime.bits import lowest_bit, num_bits, u16_at, u32_at, word_at

COOKIE: Final = 12346
COOKIE_OF_RUNS: Final = 12347
_ARRAY_MAX: Final = 4096  # docs; more need bits
_BITS_BYTES: Final = 8192
_WORDS: Final = 1024  # of a container
# With runs, so many containers have the table of their places.
_PLACED_MIN: Final = 4


# --- writing ---------------------------------------------------------------------------------------------------------


@inner
def _header_bytes(containers: int, has_runs: bool) -> Any:
    if not has_runs:
        return 8 + 8 * containers
    return 4 + ((containers + 7) >> 3) + (8 if containers >= _PLACED_MIN else 4) * containers


@inner
def _container(docs: Any, first: int) -> Any:
    # End of the container that begins at docs[first], and its runs.
    key, end, runs = docs[first] >> 16, first + 1, 1
    while end < len(docs) and docs[end] >> 16 == key:
        runs += docs[end] != docs[end - 1] + 1
        end += 1
    return end, runs


@inner
def _has_runs(count: int, runs: int) -> Any:
    return 2 + 4 * runs < (2 * count if count <= _ARRAY_MAX else _BITS_BYTES)


@inner
def _container_bytes(count: int, runs: int) -> Any:
    if _has_runs(count, runs):
        return 2 + 4 * runs
    return 2 * count if count <= _ARRAY_MAX else _BITS_BYTES


@inner
def _measure(docs: Any) -> Any:
    # Containers, whether one has runs, and bytes behind the header.
    containers, any_runs, size, position = 0, False, 0, 0
    while position < len(docs):
        end, runs = _container(docs, position)
        any_runs |= _has_runs(end - position, runs)
        size += _container_bytes(end - position, runs)
        containers += 1
        position = end
    return containers, any_runs, size


@njit(cache=True, nogil=True)
def bitmap_offsets(offsets: Any, docs: Any, out: Any) -> None:
    """out (int64[lists + 1]) = where the bitmap of each list begins. List i is docs[offsets[i] : offsets[i + 1]],
    ascending int32.
    """
    out[0] = 0
    for i in range(len(offsets) - 1):
        containers, any_runs, size = _measure(docs[int64(offsets[i]) : int64(offsets[i + 1])])
        out[i + 1] = out[i] + _header_bytes(containers, any_runs) + size


@inner
def _put(out: Any, position: int, value: int, size: int) -> None:
    for k in range(size):
        out[position + k] = np.uint8((value >> (8 * k)) & 0xFF)


@inner
def _write_array(docs: Any, out: Any) -> None:
    for i in range(len(docs)):
        out[2 * i], out[2 * i + 1] = np.uint8(docs[i] & 0xFF), np.uint8((docs[i] >> 8) & 0xFF)


@inner
def _write_bits(docs: Any, out: Any) -> None:
    out[:] = 0
    for i in range(len(docs)):
        out[(docs[i] & 0xFFFF) >> 3] |= np.uint8(1 << (docs[i] & 7))


@inner
def _write_runs(docs: Any, out: Any) -> None:
    position, first = 2, 0
    for i in range(len(docs)):
        if i + 1 == len(docs) or docs[i + 1] != docs[i] + 1:
            _put(out, position, docs[first] & 0xFFFF, 2)
            _put(out, position + 2, i - first, 2)
            position, first = position + 4, i + 1
    _put(out, 0, (position - 2) >> 2, 2)


@inner
def _write(docs: Any, out: Any) -> None:
    containers, any_runs, _ = _measure(docs)
    flags = 4
    if any_runs:
        _put(out, 0, COOKIE_OF_RUNS | ((containers - 1) << 16), 4)
        keys = flags + ((containers + 7) >> 3)
        out[flags:keys] = 0
    else:
        _put(out, 0, COOKIE, 4)
        _put(out, 4, containers, 4)
        keys = 8
    places = keys + 4 * containers
    is_placed = not any_runs or containers >= _PLACED_MIN
    begin, position = _header_bytes(containers, any_runs), 0
    for i in range(containers):
        end, runs = _container(docs, position)
        members = docs[position:end]
        size = _container_bytes(end - position, runs)
        _put(out, keys + 4 * i, int64(docs[position]) >> 16, 2)
        _put(out, keys + 4 * i + 2, end - position - 1, 2)
        if is_placed:
            _put(out, places + 4 * i, begin, 4)
        if _has_runs(end - position, runs):
            out[flags + (i >> 3)] |= np.uint8(1 << (i & 7))
            _write_runs(members, out[begin : begin + size])
        elif end - position <= _ARRAY_MAX:
            _write_array(members, out[begin : begin + size])
        else:
            _write_bits(members, out[begin : begin + size])
        begin, position = begin + size, end


@njit(cache=True, nogil=True)
def write_bitmaps(offsets: Any, docs: Any, begins: Any, out: Any) -> None:
    """The bitmaps of all lists into `out` (uint8), at `begins` (bitmap_offsets)."""
    for i in range(len(offsets) - 1):
        _write(docs[int64(offsets[i]) : int64(offsets[i + 1])], out[begins[i] : begins[i + 1]])


# --- reading ---------------------------------------------------------------------------------------------------------


@inner
def _open(address: int) -> Any:
    # Number of containers, addresses of their flags (0: none has runs), of their keys, and of the first of them.
    cookie = u32_at(address)
    if cookie & 0xFFFF == COOKIE_OF_RUNS:
        containers = (cookie >> 16) + 1
        keys = address + 4 + ((containers + 7) >> 3)
        return containers, address + 4, keys, address + _header_bytes(containers, True)
    containers = u32_at(address + 4)
    return containers, int64(0), address + 8, address + _header_bytes(containers, False)


@inner
def _is_run(flags: int, container: int) -> Any:
    return flags != 0 and (u16_at(flags + (container >> 3)) >> (container & 7)) & 1 != 0


@inner
def _add_array(address: int, count: int, words: Any) -> None:
    for i in range(count):
        low = uint64(u16_at(address + 2 * i))
        words[low >> uint64(6)] |= uint64(1) << (low & uint64(63))


@inner
def _add_bits(address: int, words: Any) -> None:
    for i in range(len(words)):
        words[i] |= word_at(address + 8 * i)


@inner
def _add_run(first: int, end: int, words: Any) -> None:
    # Bits [first, end), not empty.
    low, high = first >> 6, (end - 1) >> 6
    head, tail = ~uint64(0) << uint64(first & 63), ~uint64(0) >> uint64(63 - ((end - 1) & 63))
    if low == high:
        words[low] |= head & tail
        return
    words[low] |= head
    words[low + 1 : high] = ~uint64(0)
    words[high] |= tail


@inner
def add_bitmap(address: int, bits: Any) -> None:
    """Add the docs of a checked bitmap to the set `bits`: uint64 words that have a bit for every doc of the
    segment.
    """
    containers, flags, keys, position = _open(address)
    for i in range(containers):
        first, count = u16_at(keys + 4 * i) * _WORDS, u16_at(keys + 4 * i + 2) + 1
        # The last container of a segment has bits for docs that do not exist, all zero.
        words = bits[first : min(first + _WORDS, len(bits))]
        if _is_run(flags, i):
            runs = u16_at(position)
            for k in range(runs):
                start = u16_at(position + 2 + 4 * k)
                _add_run(start, start + u16_at(position + 4 + 4 * k) + 1, words)
            position += 2 + 4 * runs
        elif count <= _ARRAY_MAX:
            _add_array(position, count, words)
            position += 2 * count
        else:
            _add_bits(position, words)
            position += _BITS_BYTES


@inner
def _list_array(address: int, base: int, out: Any) -> None:
    for i in range(len(out)):
        out[i] = base + u16_at(address + 2 * i)


@inner
def _list_bits(address: int, base: int, out: Any) -> None:
    position = 0
    for i in range(_WORDS):
        bits = word_at(address + 8 * i)
        while bits != uint64(0):
            out[position] = base + i * 64 + int64(lowest_bit(bits))
            bits &= bits - uint64(1)
            position += 1


@inner
def _list_run(first: int, out: Any) -> None:
    for i in range(len(out)):
        out[i] = first + i


@inner
def list_bitmap(address: int, out: Any) -> None:
    """The docs of a checked bitmap, ascending; `out` is int32 and has room for just them."""
    containers, flags, keys, position = _open(address)
    filled = int64(0)
    for i in range(containers):
        base, count = u16_at(keys + 4 * i) << 16, u16_at(keys + 4 * i + 2) + 1
        members = out[filled : filled + count]
        if _is_run(flags, i):
            runs, done = u16_at(position), int64(0)
            for k in range(runs):
                length = u16_at(position + 4 + 4 * k) + 1
                _list_run(base + u16_at(position + 2 + 4 * k), members[done : done + length])
                done += length
            position += 2 + 4 * runs
        elif count <= _ARRAY_MAX:
            _list_array(position, base, members)
            position += 2 * count
        else:
            _list_bits(position, base, members)
            position += _BITS_BYTES
        filled += count


# --- checking --------------------------------------------------------------------------------------------------------


@inner
def _check_array(address: int, count: int) -> Any:
    # The last value, -1 unless they ascend.
    last = int64(-1)
    for i in range(count):
        value = u16_at(address + 2 * i)
        if value <= last:
            return int64(-1)
        last = value
    return last


@inner
def _check_bits(address: int, count: int) -> Any:
    total, last = int64(0), int64(-1)
    for i in range(_WORDS):
        bits = word_at(address + 8 * i)
        total += int64(num_bits(bits))
        while bits != uint64(0):
            last = i * 64 + int64(lowest_bit(bits))
            bits &= bits - uint64(1)
    return last if total == count else int64(-1)


@inner
def _check_runs(address: int, runs: int, count: int) -> Any:
    total, last = int64(0), int64(-2)
    for k in range(runs):
        first, length = u16_at(address + 2 + 4 * k), u16_at(address + 4 + 4 * k) + 1
        # Runs that touch would be one.
        if first <= last + 1:
            return int64(-1)
        total, last = total + length, first + length - 1
    return last if total == count and last < 65536 else int64(-1)


@inner
def _check(address: int, size: int, num_docs: int) -> Any:
    if size < 8:
        return int64(-1)
    containers, flags, keys, position = _open(address)
    if containers > (num_docs + 65535) >> 16 or position - address > size or (flags == 0 and u32_at(address) != COOKIE):
        return int64(-1)
    end, total, key_before = address + size, int64(0), int64(-1)
    is_placed = flags == 0 or containers >= _PLACED_MIN
    for i in range(containers):
        key, count = u16_at(keys + 4 * i), u16_at(keys + 4 * i + 2) + 1
        if key <= key_before or (is_placed and u32_at(keys + 4 * containers + 4 * i) != position - address):
            return int64(-1)
        if _is_run(flags, i):
            own = int64(2)
            if position + own <= end:
                own += 4 * u16_at(position)
            if position + own > end:
                return int64(-1)
            last = _check_runs(position, u16_at(position), count)
        else:
            own = int64(2 * count if count <= _ARRAY_MAX else _BITS_BYTES)
            if position + own > end:
                return int64(-1)
            last = _check_array(position, count) if count <= _ARRAY_MAX else _check_bits(position, count)
        if last < 0 or (key << 16) + last >= num_docs:
            return int64(-1)
        key_before, total, position = key, total + count, position + own
    return total if position == end else int64(-1)


@njit(cache=True, nogil=True)
def first_bad_bitmap(address: int, begins: Any, counts: Any, num_docs: int) -> int:
    """Number of the first list whose bitmap is not sound, does not fill [begins[i], begins[i + 1]), or does not hold
    counts[i + 1] - counts[i] docs below `num_docs`; -1 if all are sound. Reads nothing outside of those bytes.

    Args:
        address: of the bytes; begins: int64[lists + 1], ascending from 0 to their number; counts: uint32[lists + 1],
            ascending.
    """
    for i in range(len(begins) - 1):
        if _check(address + begins[i], begins[i + 1] - begins[i], num_docs) != int64(counts[i + 1]) - int64(counts[i]):
            return i
    return -1


@njit(cache=True, nogil=True)
def docs_of_bitmap(address: int, out: Any) -> None:
    """`list_bitmap` for callers in Python."""
    list_bitmap(address, out)


def bitmaps_at(offsets: NDArray[np.uint32], docs: NDArray[np.int32], begins: Int64Array) -> NDArray[np.uint8]:
    """The bitmaps of all lists, at the places that `bitmap_offsets` found."""
    out = np.empty(int(begins[-1]), np.uint8)
    write_bitmaps(offsets, docs, begins, out)
    return out
