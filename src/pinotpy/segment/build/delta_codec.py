"""Whole numbers in few bits: the chunk codec DELTA (docs/format/chunks.md).

A chunk holds either its values, less the smallest of them, or the differences between neighbours, less the smallest of
those, in as many bits as the largest needs, in the vertical layout of `kernels.codec.bit_packing`: whichever is
shorter. Ids and times that ascend shrink to a few bits, measures to their range.

    0   uint8    MODE_VALUES or MODE_DIFFERENCES
    1   uint8    bits of a number, 1 to 32
    8   int64    what is to be added to every number (wraps around)
    16  int64    MODE_DIFFERENCES: the first value, else 0
    24  uint32[] the numbers, packed
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.kernels.codec.bit_packing import WIDTH_MAX, pack, packed_words, unpack

MODE_VALUES: Final = 0
MODE_DIFFERENCES: Final = 1
_HEADER: Final = struct.Struct("<BB6xqq")


def compress_numbers(values: NDArray[Any]) -> bytes | None:
    """A chunk of int32 or int64 values, shape (n,), n ≥ 1; None where its range needs more than 32 bits in either
    way.
    """
    wide = values.astype(np.int64)
    ways = [(MODE_VALUES, wide, 0)]
    if len(wide) > 1:
        # Wraps around like the sum that undoes it.
        ways.append((MODE_DIFFERENCES, np.diff(wide), int(wide[0])))
    best: bytes | None = None
    for mode, numbers, first in ways:
        least = int(numbers.min())
        span = int(numbers.max()) - least
        width = max(1, span.bit_length())
        if width > WIDTH_MAX or (
            best is not None and _HEADER.size + 4 * packed_words(len(numbers), width) >= len(best)
        ):
            continue
        words = pack((numbers - least).astype(np.uint32), width)
        best = _HEADER.pack(mode, width, least, first) + words.tobytes()
    return best


def decompress_numbers(chunk: NDArray[np.uint8], out: NDArray[Any]) -> None:
    """Inverse of `compress_numbers`, into `out`, int32 or int64, shape (n,). Raises ValueError if the chunk is none of
    n values.
    """
    if len(chunk) < _HEADER.size:
        raise ValueError(f"{len(chunk)} bytes")
    mode, width, least, first = _HEADER.unpack(chunk[: _HEADER.size].tobytes())
    count = len(out) - 1 if mode == MODE_DIFFERENCES else len(out)
    if (
        mode not in (MODE_VALUES, MODE_DIFFERENCES)
        or not 1 <= width <= WIDTH_MAX
        or len(chunk) != _HEADER.size + 4 * packed_words(count, width)
    ):
        raise ValueError(f"mode {mode}, {width} bits, {len(chunk)} bytes")
    # Chunks lie at any byte; the kernel reads aligned words.
    words = np.frombuffer(chunk[_HEADER.size :].tobytes(), np.uint32)
    numbers = np.empty(count, np.uint32)
    unpack(words, width, 0, numbers)
    wide = numbers.astype(np.int64)
    with np.errstate(over="ignore"):
        wide += np.int64(least)
        if mode == MODE_VALUES:
            out[:] = wide
            return
        values = np.empty(len(out), np.int64)
        values[0] = first
        np.cumsum(wide, out=values[1:])
        values[1:] += np.int64(first)
        out[:] = values
