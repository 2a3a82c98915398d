"""Bloom filter: which values a column may have, in few bytes; prunes segments for = and IN
(docs/format/bloom-filter.md).
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.kernels.codec.bloom import hash_texts, hash_words, set_bits
from pinotpy.segment import layout
from pinotpy.segment.buffers import BufferSink, Wrong
from pinotpy.segment.layout import BufferEntry

BLOCK_BYTES: Final = 32
DEFAULT_FPP: Final = 0.05
# The upper half of a hash picks the block.
_BLOCKS_MAX: Final = 1 << 25
_BITS_OF_A_VALUE: Final = 8

Stored = int | float | bytes


def write_bloom_filter(
    writer: BufferSink, values: NDArray[Any] | pa.Array | pa.ChunkedArray, fpp: float, max_bytes: int
) -> list[BufferEntry]:
    """Of stored values, which may repeat: a numpy array, or binary or large_binary without nulls.

    fpp: rate of values that the filter holds by mistake; max_bytes: largest size, which lets the rate grow; 0 = no
    limit.
    """
    hashes = value_hashes(values)
    blocks = np.zeros(num_blocks(_num_distinct(hashes), fpp, max_bytes) * BLOCK_BYTES // 4, np.uint32)
    set_bits(hashes, blocks)
    return [writer.append(layout.BLOOM, blocks)]


def value_hashes(values: NDArray[Any] | pa.Array | pa.ChunkedArray) -> NDArray[np.uint64]:
    """Hashes of stored values: equal values of INT and LONG, or of FLOAT and DOUBLE, have equal hashes."""
    if isinstance(values, np.ndarray):
        hashes = np.empty(len(values), np.uint64)
        wide = np.int64 if values.dtype.kind in "iu" else np.float64
        hash_words((values.astype(wide) + wide(0)).view(np.uint64), hashes)
        return hashes
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    return np.concatenate([np.zeros(0, np.uint64), *(_text_hashes(chunk) for chunk in chunks if len(chunk))])


def stored_hashes(values: list[Stored]) -> NDArray[np.uint64]:
    """Hashes of some values of one stored type, as literals have them."""
    if values and isinstance(values[0], bytes):
        return value_hashes(pa.array(values, pa.large_binary()))
    return value_hashes(np.array(values, np.float64 if any(isinstance(value, float) for value in values) else np.int64))


def num_blocks(num_values: int, fpp: float, max_bytes: int = 0) -> int:
    """Blocks that keep `num_values` distinct values at the rate `fpp`, at least one."""
    blocks = math.ceil(num_values / _values_of_a_block(fpp))
    if max_bytes:
        blocks = min(blocks, max_bytes // BLOCK_BYTES)
    return max(1, min(blocks, _BLOCKS_MAX))


def _values_of_a_block(fpp: float) -> float:
    """How many values a block may hold on average: the largest load, to 1/64, at which a value that is not in the
    filter passes at most at the rate `fpp`. Blocks are loaded unequally, by Poisson's distribution.
    """
    low, high = 1, 64 * 256
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _rate(middle / 64) <= fpp else (low, middle - 1)
    return low / 64


def _rate(load: float) -> float:
    total, share = 0.0, math.exp(-load)
    for values in range(int(load + 12 * math.sqrt(load) + 20)):
        total += share * (1 - (31 / 32) ** values) ** _BITS_OF_A_VALUE
        share *= load / (values + 1)
    return total


def _num_distinct(hashes: NDArray[np.uint64]) -> int:
    ordered = np.sort(hashes)
    return int(np.count_nonzero(ordered[1:] != ordered[:-1])) + min(1, len(hashes))


def _text_hashes(chunk: pa.Array) -> NDArray[np.uint64]:
    wide = np.int64 if pa.types.is_large_binary(chunk.type) else np.int32
    _, offsets, data = chunk.buffers()
    ends = np.frombuffer(offsets, wide)[chunk.offset : chunk.offset + len(chunk) + 1].astype(np.int64)
    hashes = np.empty(len(chunk), np.uint64)
    # numba tells read-only arrays from others: a buffer of Arrow is always read-only, so is the substitute for none.
    hash_texts(ends, np.frombuffer(data if data is not None and data.size else b"\0", np.uint8), hashes)
    return hashes


def check_bloom_size(sizes: dict[str, int], wrong: Wrong) -> None:
    """Raises unless the filter, if there is one, consists of whole blocks. Any bits make a filter."""
    size = sizes.get(layout.BLOOM)
    if size is not None and (size % BLOCK_BYTES or not BLOCK_BYTES <= size <= _BLOCKS_MAX * BLOCK_BYTES):
        raise wrong("size of the bloom filter", f"1 to {_BLOCKS_MAX} blocks of {BLOCK_BYTES} bytes", size)
