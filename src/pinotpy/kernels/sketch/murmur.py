"""The hash of HyperLogLogs (functions/sketches/murmur.py says where it comes from): of numbers a block at a time, of
texts alone, or many short ones together, a word of each in a lane.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int32, int64, njit, uint32, uint64

from pinotpy.kernels.runtime.abi import inner
from pinotpy.kernels.runtime.byte_words import load_byte, load_word, tail_word

_M: Final = np.uint32(0x5BD1E995)
# Texts that are hashed together, and so many words of eight bytes they may have.
_LANES: Final = 256
_WORDS_MAX: Final = 16


@inner
def _mixed(word: Any) -> Any:
    word = uint32(word * _M)
    return uint32((word ^ (word >> uint32(24))) * _M)


@inner
def _finished(value: Any) -> Any:
    value = uint32((value ^ (value >> uint32(13))) * _M)
    return uint32(value ^ (value >> uint32(15)))


@inner
def _hash_word(word: Any) -> Any:
    low, high = _mixed(uint32(word)), _mixed(uint32(word >> uint64(32)))
    return _finished(uint32(uint32(low * _M) ^ high))


@inner
def hash_longs(out: Any, values: Any) -> None:
    """uint32 hashes of integers."""
    for i in range(len(out)):
        out[i] = _hash_word(uint64(values[i]))


@inner
def hash_doubles(out: Any, values: Any) -> None:
    """The same of doubles: −0.0 as 0.0, one NaN."""
    for i in range(len(out)):
        value = np.float64(np.nan) if np.isnan(values[i]) else values[i] + 0.0
        out[i] = _hash_word(np.float64(value).view(np.uint64))


@inner
def hash_floats(out: Any, values: Any) -> None:
    """The same of floats."""
    for i in range(len(out)):
        value = np.float32(np.nan) if np.isnan(values[i]) else np.float32(values[i] + 0.0)
        # The 32 bits, with their sign.
        out[i] = _hash_word(uint64(np.int64(np.float32(value).view(np.int32))))


@inner
def _hash_text(address: int, length: int) -> Any:
    """The hash of a byte string. The bytes of an incomplete last word count from the end and with their sign."""
    value = uint32(np.int64(length) ^ np.int64(-1))
    position, full = 0, length & ~3
    while position + 8 <= full:
        word = load_word(address + position)
        value = uint32(uint32(value * _M) ^ _mixed(uint32(word)))
        value = uint32(uint32(value * _M) ^ _mixed(uint32(word >> uint64(32))))
        position += 8
    if position < full:
        value = uint32(uint32(value * _M) ^ _mixed(uint32(tail_word(address + position, 4))))
    tail_bytes = length & 3
    for distance in range(tail_bytes, 0, -1):
        value = uint32(
            value ^ uint32(np.int64(np.int8(load_byte(address + length - distance))) << np.int64(8 * (distance - 1)))
        )
    if tail_bytes > 0:
        value = uint32(value * _M)
    return _finished(value)


@njit(cache=True, nogil=True)
def hash_texts(offsets: Any, data: Any, out: Any) -> None:
    """out (uint32) = the hashes of byte strings: int32 or int64 offsets[n + 1] into uint8 data."""
    for i in range(len(out)):
        out[i] = _hash_text(data.ctypes.data + int(offsets[i]), int(offsets[i + 1]) - int(offsets[i]))


@inner
def _signed_byte(word: Any, shift: Any) -> Any:
    return uint32(int32(uint32(word << shift)) >> int32(24))


@njit(nogil=True)
def _hash_words(out: Any, lengths: Any, tails: Any, rows: Any, num_rows: int) -> None:
    """out = the hashes of len(out) short texts, whose bytes stand in columns of uint64 rows, eight in each; all lanes
    at once.
    """
    for i in range(len(out)):
        out[i] = ~lengths[i]
        tails[i] = uint32(0)
    for row in range(num_rows):
        lanes, low, high = rows[row], uint32(2 * row), uint32(2 * row + 1)
        for i in range(len(out)):
            full, word = lengths[i] >> uint32(2), lanes[i]
            value, tail, first, second = out[i], tails[i], uint32(word), uint32(word >> uint64(32))
            value = uint32(uint32(value * _M) ^ _mixed(first)) if low < full else value
            value = uint32(uint32(value * _M) ^ _mixed(second)) if high < full else value
            tail = first if low == full else tail
            tails[i] = second if high == full else tail
            out[i] = value
    for i in range(len(out)):
        # The bytes of an incomplete last word, as _hash_text takes them; without a branch, so that all lanes go
        # together.
        tail_bytes, tail, value = lengths[i] & uint32(3), tails[i], out[i]
        one, two, three = _signed_byte(tail, uint32(24)), _signed_byte(tail, uint32(16)), _signed_byte(tail, uint32(8))
        rest = uint32(uint32(one << uint32(8)) ^ two)
        longer = uint32(uint32(rest << uint32(8)) ^ three)
        if tail_bytes == uint32(1):
            rest = one
        if tail_bytes == uint32(3):
            rest = longer
        rest = uint32(uint32(value ^ rest) * _M)
        if tail_bytes != uint32(0):
            value = rest
        out[i] = _finished(value)


@njit(nogil=True)
def _spans_of_run(begins: Any, ends: Any, positions: Any, lengths: Any) -> Any:
    """Where texts that follow each other begin, and their lengths; gives that of the longest."""
    longest = int64(0)
    for i in range(len(begins)):
        positions[i] = begins[i]
        length = ends[i] - begins[i]
        lengths[i] = uint32(length)
        longest = max(longest, length)
    return longest


@njit(nogil=True)
def _spans_of_docs(starts: Any, docs: Any, positions: Any, lengths: Any) -> Any:
    """The same of the texts of docs."""
    longest = int64(0)
    for i in range(len(docs)):
        doc = uint64(docs[i])
        first = starts[doc]
        length = starts[doc + uint64(1)] - first
        positions[i] = first
        lengths[i] = uint32(length)
        longest = max(longest, length)
    return longest


@njit(nogil=True)
def _spread(data: int, positions: Any, rows: Any, num_rows: int) -> None:
    """The first bytes of texts into columns of `rows`."""
    row = 0
    while row + 1 < num_rows:
        first, second, address = rows[row], rows[row + 1], data + row * 8
        for i in range(len(positions)):
            first[i] = load_word(address + positions[i])
            second[i] = load_word(address + positions[i] + 8)
        row += 2
    if row < num_rows:
        first, address = rows[row], data + row * 8
        for i in range(len(positions)):
            first[i] = load_word(address + positions[i])


@njit(nogil=True)
def hash_texts_of_docs(out: Any, data: int, starts: Any, docs: Any) -> None:
    """uint32 hashes of the texts of ascending docs: text i is the bytes from data + starts[i] up to those of the
    next.
    """
    rows, positions = np.empty((_WORDS_MAX, _LANES), np.uint64), np.empty(_LANES, np.int64)
    lengths, tails = np.empty(_LANES, np.uint32), np.empty(_LANES, np.uint32)
    end = starts[len(starts) - 1]
    for first in range(0, len(out), _LANES):
        block = docs[first : first + _LANES]
        low, n = np.int64(block[0]), len(block)
        if np.int64(block[n - 1]) - low == n - 1:
            longest = _spans_of_run(starts[low : low + n], starts[low + 1 : low + n + 1], positions, lengths)
        else:
            longest = _spans_of_docs(starts, block, positions, lengths)
        num_rows = (longest + 7) >> 3
        # Docs ascend: the last text begins last.
        if num_rows <= _WORDS_MAX and positions[n - 1] + num_rows * 8 <= end:
            _spread(data, positions[:n], rows, num_rows)
            _hash_words(out[first : first + n], lengths, tails, rows, num_rows)
            continue
        for i in range(n):
            out[first + i] = _hash_text(data + positions[i], np.int64(lengths[i]))


def warm() -> None:
    """Compile for the argument types that queries use."""
    hash_texts(np.zeros(2, np.int32), np.zeros(1, np.uint8), np.zeros(1, np.uint32))
