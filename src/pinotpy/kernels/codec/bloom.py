"""Split-block Bloom filters: 64-bit hashes of values, setting and testing bits, for one filter or those of all
segments.

A filter is uint32[8 * num_blocks]. A hash picks a block by its upper half and one bit in each of the block's eight
words by its lower half, so that a test touches one cache line (docs/format/bloom-filter.md).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit

from pinotpy.kernels.runtime.abi import M_BLOOM, M_BLOOM_BLOCKS, inner
from pinotpy.kernels.runtime.views import view_u32

BLOCK_WORDS: Final = 8
# Odd constants of the eight words (square roots of the first primes); the product's upper five bits name the bit.
_SALTS = np.array(
    [0x6A09E667, 0xBB67AE85, 0x3C6EF373, 0xA54FF53B, 0x510E527F, 0x9B05688D, 0x1F83D9AB, 0x5BE0CD19], np.uint32
)
_SEED = np.uint64(0x9E3779B97F4A7C15)
_ROUND = np.uint64(0xBF58476D1CE4E5B9)
_FINAL = np.uint64(0x94D049BB133111EB)
_HALF = np.uint64(0xFFFFFFFF)


@inner
def _mixed(h: Any) -> Any:
    h = (h ^ (h >> np.uint64(30))) * _ROUND
    h = (h ^ (h >> np.uint64(27))) * _FINAL
    return h ^ (h >> np.uint64(31))


@njit(cache=True, nogil=True)
def hash_words(values: Any, out: Any) -> None:
    """uint64 hashes of 64-bit words (uint64): whole numbers as they are, floats as the bits of the double."""
    for i in range(len(out)):
        out[i] = _mixed(values[i] + _SEED)


@njit(cache=True, nogil=True)
def hash_texts(offsets: Any, data: Any, out: Any) -> None:
    """uint64 hashes of byte strings: int64 offsets, shape (n + 1,), and uint8 bytes."""
    for i in range(len(out)):
        position, end = offsets[i], offsets[i + 1]
        h = np.uint64(end - position) * _SEED
        while position < end:
            word = np.uint64(0)
            for k in range(min(8, end - position)):
                word |= np.uint64(data[position + k]) << np.uint64(8 * k)
            h = _mixed((h ^ word) + _SEED)
            position += 8
        out[i] = _mixed(h + _SEED)


@njit(cache=True, nogil=True)
def set_bits(hashes: Any, blocks: Any) -> None:
    """Enter hashes (uint64) into a filter."""
    num_blocks = np.uint64(len(blocks) // BLOCK_WORDS)
    for h in hashes:
        first = np.int64(((h >> np.uint64(32)) * num_blocks) >> np.uint64(32)) * BLOCK_WORDS
        low = np.uint32(h & _HALF)
        for k in range(BLOCK_WORDS):
            blocks[first + k] |= np.uint32(1) << (np.uint32(low * _SALTS[k]) >> np.uint32(27))


@inner
def _may_hold(blocks: Any, num_blocks: int, h: Any) -> Any:
    first = np.int64(((h >> np.uint64(32)) * np.uint64(num_blocks)) >> np.uint64(32)) * BLOCK_WORDS
    low = np.uint32(h & _HALF)
    for k in range(BLOCK_WORDS):  # compiled code has no all()
        if (blocks[first + k] >> (np.uint32(low * _SALTS[k]) >> np.uint32(27))) & np.uint32(1) == 0:
            return False
    return True


@njit(cache=True, nogil=True)
def exclude(metas: Any, hashes: Any, out: Any) -> None:
    """out[s] = 1 where the column of segment s has a filter, and none of the values with these hashes is in it (uint8).

    `metas` is int64[num_segments, META_WORDS].
    """
    for s in range(len(metas)):
        out[s] = 0
        num_blocks = metas[s, M_BLOOM_BLOCKS]
        if metas[s, M_BLOOM] != 0 and num_blocks > 0:
            blocks = view_u32(metas[s, M_BLOOM], num_blocks * BLOCK_WORDS)
            may_hold = False
            for h in hashes:
                if _may_hold(blocks, num_blocks, h):
                    may_hold = True
                    break
            out[s] = 0 if may_hold else 1
