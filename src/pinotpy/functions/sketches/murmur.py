"""The hashes of the sketches, over whole arrays: MurmurHash2 as HyperLogLog's library writes it, MurmurHash3 of theta
sketches.

Source: facts about stream-lib 2.7 (checked register by register against recorded answers) and the public definition of
MurmurHash3_x64_128. Integer arithmetic wraps, as in Java.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array

_M: Final = np.uint32(0x5BD1E995)


def byte_strings(values: pa.Array) -> tuple[Int64Array, Int64Array, NDArray[np.uint8]]:
    """(begin, length, bytes) of a binary or string array without nulls; `bytes` has 16 more behind the last."""
    _, offsets, body = values.buffers()
    wide = pa.types.is_large_binary(values.type) or pa.types.is_large_string(values.type)
    ends = np.frombuffer(offsets, np.int64 if wide else np.int32)[
        values.offset : values.offset + len(values) + 1
    ].astype(np.int64)
    if not len(values):
        return np.empty(0, np.int64), np.empty(0, np.int64), np.zeros(16, np.uint8)
    used = np.frombuffer(body, np.uint8)[ends[0] : ends[-1]] if body is not None else np.empty(0, np.uint8)
    padded = np.zeros(len(used) + 16, np.uint8)
    padded[: len(used)] = used
    return ends[:-1] - ends[0], np.diff(ends), padded


def _words_at(
    data: NDArray[np.uint8], width: type[np.uint32] | type[np.uint64]
) -> NDArray[np.uint32] | NDArray[np.uint64]:
    """Little-endian words that begin at every byte of `data` (a view)."""
    kind = np.dtype(width).newbyteorder("<")
    return np.ndarray((len(data) - kind.itemsize + 1,), kind, data.data, strides=(1,))


# --- MurmurHash2, 32 bits ------------------------------------------------------------------------------------------


def murmur2_longs(values: Int64Array) -> NDArray[np.uint32]:
    """HyperLogLog's hash of 64-bit values."""
    words = np.ascontiguousarray(values).view(np.uint64)
    low = _mixed((words & np.uint64(0xFFFFFFFF)).astype(np.uint32))
    high = _mixed((words >> np.uint64(32)).astype(np.uint32))
    return _finished(low * _M ^ high)


def murmur2_bytes(values: pa.Array) -> NDArray[np.uint32]:
    """HyperLogLog's hash of byte strings: the bytes of an incomplete last word count from the end and with their
    sign.
    """
    begin, length, data = byte_strings(values)
    words = _words_at(data, np.uint32)
    hashes = (length ^ -1).astype(np.uint32)
    active = np.arange(len(length))
    position = 0
    while len(active := active[length[active] >= position + 4]):
        hashes[active] = hashes[active] * _M ^ _mixed(words[begin[active] + position].astype(np.uint32))
        position += 4
    tail_sizes, signed, end = length & 3, data.view(np.int8), begin + length
    for distance in (3, 2, 1):
        here = np.flatnonzero(tail_sizes >= distance)
        hashes[here] ^= (signed[end[here] - distance].astype(np.int32) << (8 * (distance - 1))).view(np.uint32)
    hashes[tail_sizes > 0] *= _M
    return _finished(hashes)


def _mixed(word: NDArray[np.uint32]) -> NDArray[np.uint32]:
    word = word * _M
    return (word ^ (word >> np.uint32(24))) * _M


def _finished(hashes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    hashes = (hashes ^ (hashes >> np.uint32(13))) * _M
    return hashes ^ (hashes >> np.uint32(15))


# --- MurmurHash3, 128 bits -----------------------------------------------------------------------------------------

_C1: Final = np.uint64(0x87C37B91114253D5)
_C2: Final = np.uint64(0x4CF5AD432745937F)


def murmur3_words(words: NDArray[np.uint64], seed: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """MurmurHash3_x64_128 of the 8 little-endian bytes of each word: its first and second 64 bits."""
    start = np.full(len(words), seed, np.uint64)
    return _finished3(start ^ _mixed1(words), start, np.full(len(words), 8, np.uint64))


def murmur3_ints(words: NDArray[np.uint32], seed: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """MurmurHash3_x64_128 of the 4 little-endian bytes of each word."""
    start = np.full(len(words), seed, np.uint64)
    return _finished3(start ^ _mixed1(words.astype(np.uint64)), start, np.full(len(words), 4, np.uint64))


def murmur3_bytes(values: pa.Array, seed: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """MurmurHash3_x64_128 of byte strings."""
    begin, length, data = byte_strings(values)
    words = _words_at(data, np.uint64)
    first, second = np.full(len(length), seed, np.uint64), np.full(len(length), seed, np.uint64)
    active = np.arange(len(length))
    position = 0
    while len(active := active[length[active] >= position + 16]):
        offsets = begin[active] + position
        h1, h2 = first[active], second[active]
        h1 = _rotated(h1 ^ _mixed1(words[offsets].astype(np.uint64)), 27) + h2
        h1 = h1 * np.uint64(5) + np.uint64(0x52DCE729)
        h2 = _rotated(h2 ^ _mixed2(words[offsets + 8].astype(np.uint64)), 31) + h1
        first[active], second[active] = h1, h2 * np.uint64(5) + np.uint64(0x38495AB5)
        position += 16
    tail_sizes, tail = length & 15, begin + (length & ~15)
    more = np.flatnonzero(tail_sizes > 8)
    second[more] ^= _mixed2(_leading_bytes(words[tail[more] + 8].astype(np.uint64), tail_sizes[more] - 8))
    some = np.flatnonzero(tail_sizes > 0)
    first[some] ^= _mixed1(_leading_bytes(words[tail[some]].astype(np.uint64), np.minimum(tail_sizes[some], 8)))
    return _finished3(first, second, length.astype(np.uint64))


def _leading_bytes(words: NDArray[np.uint64], count: Int64Array) -> NDArray[np.uint64]:
    """The first 1 to 8 bytes of each word, the others 0."""
    return words & (np.uint64(2**64 - 1) >> (np.uint64(8) * (8 - count).astype(np.uint64)))


def _rotated(words: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))


def _mixed1(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return _rotated(words * _C1, 31) * _C2


def _mixed2(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return _rotated(words * _C2, 33) * _C1


def _avalanched(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    words = (words ^ (words >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    words = (words ^ (words >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return words ^ (words >> np.uint64(33))


def _finished3(
    first: NDArray[np.uint64], second: NDArray[np.uint64], length: NDArray[np.uint64]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    first, second = first ^ length, second ^ length
    first = first + second
    second = second + first
    first, second = _avalanched(first), _avalanched(second)
    first = first + second
    return first, second + first
