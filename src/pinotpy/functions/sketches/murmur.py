"""The hashes of the sketches, over whole arrays: MurmurHash2 as HyperLogLog's library writes it, MurmurHash3 of theta sketches.

Source: facts about stream-lib 2.7 (checked register by register against recorded answers) and the public definition of
MurmurHash3_x64_128. Integer arithmetic wraps, as in Java.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_M: Final = np.uint32(0x5BD1E995)


def byte_strings(values: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    """(begin, length, bytes) of a binary or string array without nulls; `bytes` has 16 more behind the last."""
    _, offsets, body = values.buffers()
    wide = pa.types.is_large_binary(values.type) or pa.types.is_large_string(values.type)
    ends = np.frombuffer(offsets, np.int64 if wide else np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    if not len(values):
        return np.empty(0, np.int64), np.empty(0, np.int64), np.zeros(16, np.uint8)
    used = np.frombuffer(body, np.uint8)[ends[0] : ends[-1]] if body is not None else np.empty(0, np.uint8)
    padded = np.zeros(len(used) + 16, np.uint8)
    padded[: len(used)] = used
    return ends[:-1] - ends[0], np.diff(ends), padded


def _words_at(data: NDArray[np.uint8], width: type[np.uint32] | type[np.uint64]) -> NDArray[np.uint32] | NDArray[np.uint64]:
    """Little-endian words that begin at every byte of `data` (a view)."""
    kind = np.dtype(width).newbyteorder("<")
    return np.ndarray((len(data) - kind.itemsize + 1,), kind, data.data, strides=(1,))


# --- MurmurHash2, 32 bits ------------------------------------------------------------------------------------------


def murmur2_longs(values: NDArray[np.int64]) -> NDArray[np.uint32]:
    """HyperLogLog's hash of 64-bit values."""
    words = np.ascontiguousarray(values).view(np.uint64)
    low = _mixed((words & np.uint64(0xFFFFFFFF)).astype(np.uint32))
    high = _mixed((words >> np.uint64(32)).astype(np.uint32))
    return _finished(low * _M ^ high)


def murmur2_bytes(values: pa.Array) -> NDArray[np.uint32]:
    """HyperLogLog's hash of byte strings: the bytes of an incomplete last word count from the end and with their sign."""
    begin, length, data = byte_strings(values)
    words = _words_at(data, np.uint32)
    hashes = (length ^ -1).astype(np.uint32)
    active = np.arange(len(length))
    position = 0
    while len(active := active[length[active] >= position + 4]):
        hashes[active] = hashes[active] * _M ^ _mixed(words[begin[active] + position].astype(np.uint32))
        position += 4
    left, signed, end = length & 3, data.view(np.int8), begin + length
    for distance in (3, 2, 1):
        here = np.flatnonzero(left >= distance)
        hashes[here] ^= (signed[end[here] - distance].astype(np.int32) << (8 * (distance - 1))).view(np.uint32)
    hashes[left > 0] *= _M
    return _finished(hashes)


def _mixed(word: NDArray[np.uint32]) -> NDArray[np.uint32]:
    word = word * _M
    return (word ^ (word >> np.uint32(24))) * _M


def _finished(hashes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    hashes = (hashes ^ (hashes >> np.uint32(13))) * _M
    return hashes ^ (hashes >> np.uint32(15))
