"""Avro object container files: the header, and blocks unpacked under limits."""

from __future__ import annotations

import binascii
import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

import pyarrow as pa

from pinotpy.ingest.readers.avro_schema import AvroType, parse_schema

_MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16
_HEADER_BYTES_MAX: Final = 16 << 20
# Of a block, packed or not. Writers make blocks of 16 KiB to a few MiB.
BLOCK_BYTES_MAX: Final = 256 << 20
# Records that take no bytes at all (of nulls only) are limited, so that a few bytes cannot encode years' worth of them.
EMPTY_RECORDS_MAX: Final = 1 << 24


class DamagedAvroError(ValueError):
    """The bytes are not what Avro writes, or pass a limit."""


@dataclass(frozen=True, slots=True)
class Header:
    """schema: of the records. sync: what follows each block. unpack: (packed bytes) → bytes."""

    schema: AvroType
    sync: bytes
    unpack: Callable[[bytes], bytes]


def read_header(stream: BinaryIO) -> Header:
    """Read up to the first block. Raises DamagedAvroError."""
    if stream.read(len(_MAGIC)) != _MAGIC:
        raise DamagedAvroError("it does not begin with 'Obj' and 1")
    entries: dict[str, bytes] = {}
    size_bytes = 0
    while (count := _long(stream)) != 0:
        if count < 0:
            count = -count
            _long(stream)
        for _ in range(count):
            key, value = _sized(stream), _sized(stream)
            size_bytes += len(key) + len(value) + 2
            if size_bytes > _HEADER_BYTES_MAX:
                raise DamagedAvroError(f"a header of more than {_HEADER_BYTES_MAX} bytes")
            entries[key.decode("utf-8", "replace")] = value
    if "avro.schema" not in entries:
        raise DamagedAvroError("no schema in its header")
    try:
        schema = parse_schema(entries["avro.schema"])
    except ValueError as error:
        raise DamagedAvroError(f"its schema is not valid: {str(error)[:200]}") from error
    codec = entries.get("avro.codec", b"null").decode("utf-8", "replace")
    if codec not in _CODECS:
        raise DamagedAvroError(f"codec '{codec[:40]}', expected one of {', '.join(_CODECS)}")
    return Header(schema, _exactly(stream, _SYNC_BYTES), _CODECS[codec])


def read_blocks(stream: BinaryIO, header: Header) -> Iterator[tuple[int, bytes]]:
    """(number of records, their bytes) block by block. Raises DamagedAvroError."""
    while (start := stream.read(1)) != b"":
        count = _long(stream, start)
        size = _long(stream)
        if count < 0 or not 0 <= size <= BLOCK_BYTES_MAX:
            raise DamagedAvroError(
                f"a block of {count} records in {size} bytes, expected at most {BLOCK_BYTES_MAX} bytes"
            )
        packed = _exactly(stream, size)
        if _exactly(stream, _SYNC_BYTES) != header.sync:
            raise DamagedAvroError("a block does not end with the file's sync marker")
        content = header.unpack(packed)
        if count > EMPTY_RECORDS_MAX + 8 * len(content):
            raise DamagedAvroError(f"a block of {count} records in {len(content)} bytes")
        if count:
            yield count, content


def _long(stream: BinaryIO, start: bytes = b"") -> int:
    word, shift = 0, 0
    while True:
        byte = (start or _exactly(stream, 1))[0]
        start = b""
        word |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (word >> 1) ^ -(word & 1)
        shift += 7
        if shift > 63:
            raise DamagedAvroError("a number of more than 64 bits")


def _sized(stream: BinaryIO) -> bytes:
    length = _long(stream)
    if not 0 <= length <= _HEADER_BYTES_MAX:
        raise DamagedAvroError(f"{length} bytes in the header, expected at most {_HEADER_BYTES_MAX}")
    return _exactly(stream, length)


def _exactly(stream: BinaryIO, size: int) -> bytes:
    content = stream.read(size)
    while len(content) < size:
        more = stream.read(size - len(content))
        if not more:
            raise DamagedAvroError("it ends within a block or the header")
        content += more
    return content


# --- codecs -----------------------------------------------------------------------------------------------------------


def _too_large() -> DamagedAvroError:
    return DamagedAvroError(f"a block unpacks to more than {BLOCK_BYTES_MAX} bytes")


def _deflate(packed: bytes) -> bytes:
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        content = unpacker.decompress(packed, BLOCK_BYTES_MAX + 1)
    except zlib.error as error:
        raise DamagedAvroError(f"damaged deflate: {error}") from error
    if len(content) > BLOCK_BYTES_MAX:
        raise _too_large()
    if not unpacker.eof:
        raise DamagedAvroError("cut deflate")
    return content


def _bzip2(packed: bytes) -> bytes:
    return _by_unpacker(bz2.BZ2Decompressor(), packed)


def _xz(packed: bytes) -> bytes:
    return _by_unpacker(lzma.LZMADecompressor(memlimit=BLOCK_BYTES_MAX), packed)


def _by_unpacker(unpacker: bz2.BZ2Decompressor | lzma.LZMADecompressor, packed: bytes) -> bytes:
    try:
        content = unpacker.decompress(packed, BLOCK_BYTES_MAX + 1)
    except (OSError, lzma.LZMAError, EOFError) as error:
        raise DamagedAvroError(f"damaged compression: {error}") from error
    if len(content) > BLOCK_BYTES_MAX:
        raise _too_large()
    if not unpacker.eof:
        raise DamagedAvroError("cut compression")
    return content


def _zstandard(packed: bytes) -> bytes:
    try:
        with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
            content: bytes = stream.read(BLOCK_BYTES_MAX + 1)
    except (OSError, pa.ArrowInvalid) as error:
        raise DamagedAvroError(f"damaged zstandard: {str(error)[:100]}") from error
    if len(content) > BLOCK_BYTES_MAX:
        raise _too_large()
    return content


def _snappy(packed: bytes) -> bytes:
    """Snappy, then the CRC-32 of the content, big-endian. The content says its length first, so that it can be
    refused.
    """
    body, check = packed[:-4], packed[-4:]
    length, shift = 0, 0
    for byte in body[:5]:
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        raise DamagedAvroError("damaged snappy: no length")
    if length > BLOCK_BYTES_MAX:
        raise _too_large()
    try:
        content: bytes = pa.Codec("snappy").decompress(body, length, asbytes=True)
    except (OSError, pa.ArrowInvalid) as error:
        raise DamagedAvroError(f"damaged snappy: {str(error)[:100]}") from error
    if binascii.crc32(content).to_bytes(4, "big") != check:
        raise DamagedAvroError("damaged snappy: its checksum is another")
    return content


_CODECS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "null": lambda packed: packed,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": _bzip2,
    "xz": _xz,
}
