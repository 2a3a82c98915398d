"""Java's and Kafka's text hashes over many byte strings at once: offsets int64[n + 1] and bytes in, one hash each out.

`segment.partition` holds the same functions for one value, and says where they come from.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def murmur2_texts(offsets: Any, data: Any, out: Any) -> None:
    """Kafka's murmur2 (seed 0x9747b28c) into uint32 `out`."""
    m = np.uint32(0x5BD1E995)
    for text in range(out.shape[0]):
        begin, end = offsets[text], offsets[text + 1]
        length = end - begin
        h = np.uint32(np.uint32(0x9747B28C) ^ np.uint32(length))
        full = begin + (length & ~3)
        for i in range(begin, full, 4):
            k = (
                np.uint32(data[i])
                | np.uint32(data[i + 1]) << np.uint32(8)
                | np.uint32(data[i + 2]) << np.uint32(16)
                | np.uint32(data[i + 3]) << np.uint32(24)
            )
            k = np.uint32(k * m)
            k = np.uint32((k ^ (k >> np.uint32(24))) * m)
            h = np.uint32(np.uint32(h * m) ^ k)
        if full < end:
            tail = np.uint32(0)
            for i in range(full, end):
                tail |= np.uint32(data[i]) << np.uint32(8 * (i - full))
            h = np.uint32((h ^ tail) * m)
        h = np.uint32((h ^ (h >> np.uint32(13))) * m)
        out[text] = h ^ (h >> np.uint32(15))


@njit(cache=True, nogil=True)
def string_hash_codes(offsets: Any, data: Any, out: Any) -> None:
    """String.hashCode of valid UTF-8 texts, over their UTF-16 code units, into uint32 `out` (the bits of Java's
    int).
    """
    for text in range(out.shape[0]):
        h = np.uint32(0)
        i, end = offsets[text], offsets[text + 1]
        while i < end:
            lead = np.uint32(data[i])
            following = 0 if lead < 0x80 else 1 if lead < 0xE0 else 2 if lead < 0xF0 else 3
            point = lead if following == 0 else lead & np.uint32(0x3F >> following)
            for k in range(1, following + 1):
                point = np.uint32(point << np.uint32(6)) | (np.uint32(data[min(i + k, end - 1)]) & np.uint32(0x3F))
            if point < 0x10000:
                h = np.uint32(h * np.uint32(31) + point)
            else:
                point -= np.uint32(0x10000)
                h = np.uint32(h * np.uint32(31) + np.uint32(0xD800 + (point >> np.uint32(10))))
                h = np.uint32(h * np.uint32(31) + np.uint32(0xDC00 + (point & np.uint32(0x3FF))))
            i += following + 1
        out[text] = h


@njit(cache=True, nogil=True)
def bytes_hash_codes(offsets: Any, data: Any, out: Any) -> None:
    """Arrays.hashCode(byte[]) into uint32 `out` (the bits of Java's int)."""
    for text in range(out.shape[0]):
        h = np.uint32(1)
        for i in range(offsets[text], offsets[text + 1]):
            h = np.uint32(h * np.uint32(31) + np.uint32(np.int32(np.int8(data[i]))))
        out[text] = h
