"""Raw values in compressed chunks of 64 KiB (docs/format/chunks.md).

A chunk whose stored size equals its plain size is stored as it is; so incompressible data costs nothing but its table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.errors import SegmentCorruptError
from pinotpy.segment.build.delta_codec import compress_numbers, decompress_numbers

CHUNK_BYTES: Final = 64 << 10
_ARROW_CODECS: Final = {"LZ4": "lz4_raw", "ZSTANDARD": "zstd", "SNAPPY": "snappy"}
DELTA: Final = "DELTA"
CODECS: Final = (*_ARROW_CODECS, DELTA)
_ZSTD_LEVEL: Final = 3


def compress_chunks(data: NDArray[np.uint8], codec: str, itemsize: int) -> tuple[NDArray[np.uint8], Int64Array]:
    """Compress plain bytes; for DELTA those of integers of `itemsize` bytes, 4 or 8.

    Returns:
        (stored, table): chunk k lies in stored[table[k] : table[k+1]]; table has one entry more than there are chunks.
    """
    compress = _delta_compressor(itemsize) if codec == DELTA else _codec(codec).compress
    pieces = []
    for start in range(0, len(data), CHUNK_BYTES):
        plain = data[start : start + CHUNK_BYTES]
        packed = np.frombuffer(compress(plain) or plain, np.uint8)
        pieces.append(packed if len(packed) < len(plain) else plain)
    table = np.zeros(len(pieces) + 1, np.int64)
    np.cumsum([len(piece) for piece in pieces], out=table[1:])
    return np.concatenate([np.zeros(0, np.uint8), *pieces]), table


def decompress_chunks(
    stored: NDArray[np.uint8],
    table: Int64Array,
    plain_bytes: int,
    chunk_bytes: int,
    codec: str,
    itemsize: int,
    file: str,
    column: str,
) -> NDArray[np.uint8]:
    """Inverse of `compress_chunks` (table bounds were checked at load); raises SegmentCorruptError that names file and
    column.
    """
    decompressor = None if codec == DELTA else _codec(codec)
    out = np.empty(plain_bytes, np.uint8)
    for chunk in range(len(table) - 1):
        start = chunk * chunk_bytes
        size = min(chunk_bytes, plain_bytes - start)
        piece = stored[table[chunk] : table[chunk + 1]]
        if len(piece) == size:
            out[start : start + size] = piece
            continue
        if decompressor is None:
            try:
                decompress_numbers(piece, out[start : start + size].view(f"<i{itemsize}"))
            except ValueError as error:
                what = f"chunk {chunk} of column '{column}' cannot be decompressed"
                raise SegmentCorruptError(
                    what, file=file, expected=f"{size} bytes of {codec}", found=str(error), column=column
                ) from None
            continue
        try:
            plain = decompressor.decompress(pa.py_buffer(piece), size)
        except (OSError, pa.ArrowException) as error:
            what = f"chunk {chunk} of column '{column}' cannot be decompressed"
            raise SegmentCorruptError(
                what, file=file, expected=f"{size} bytes of {codec}", found=str(error), column=column
            ) from None
        if len(plain) != size:
            what = f"chunk {chunk} of column '{column}' has a wrong length"
            raise SegmentCorruptError(
                what, file=file, expected=f"{size} bytes of {codec}", found=f"{len(plain)} bytes", column=column
            )
        out[start : start + size] = np.frombuffer(plain, np.uint8)
    return out


def _delta_compressor(itemsize: int) -> Callable[[NDArray[np.uint8]], bytes | None]:
    return lambda plain: compress_numbers(plain.view(f"<i{itemsize}"))


def _codec(name: str) -> Any:
    if name == "ZSTANDARD":
        return pa.Codec("zstd", compression_level=_ZSTD_LEVEL)
    return pa.Codec(_ARROW_CODECS[name])
