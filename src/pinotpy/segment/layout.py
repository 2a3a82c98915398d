"""The bytes of a segment directory: names, magic words, headers, buffer kinds (docs/format/segment.md).

columns      64-byte header, then every buffer, each at a multiple of 64 bytes, zeros between
columns.N    the same, appended by the N-th reload
metadata     32-byte header, then JSON: what lies where, with a CRC of every buffer
verified     local marker, never part of an archive: what was fully checked on this machine
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from pinotpy.errors import SegmentCorruptError, UnsupportedVersionError
from pinotpy.segment.checksum import crc32c

FORMAT_VERSION: Final = 1
SUPPORTED_VERSIONS: Final = (1,)

COLUMNS: Final = "columns"
METADATA: Final = "metadata"
VERIFIED: Final = "verified"
_COLUMNS_NAME: Final = re.compile(r"columns(\.[1-9][0-9]{0,2})?")

ALIGNMENT: Final = 64
DOCS_MAX: Final = 2**31 - 1  # doc ids are int32
VALUES_MAX: Final = 2**32 - 1  # multi-value offsets are uint32
METADATA_MAX_BYTES: Final = 64 << 20

COLUMNS_HEADER_BYTES: Final = 64
_COLUMNS_MAGIC: Final = b"PINOTPYC"
_COLUMNS_HEADER: Final = struct.Struct("<8sI48xI")  # magic, version, zeros, CRC of the 60 bytes before

METADATA_HEADER_BYTES: Final = 32
_METADATA_MAGIC: Final = b"PINOTPYM"
_METADATA_HEADER: Final = struct.Struct("<8sIIQ8x")  # magic, version, CRC of all bytes from 16 on, JSON length, zeros

# Kinds of buffers.
DICTIONARY: Final = "dictionary"
DICTIONARY_OFFSETS: Final = "dictionary.offsets"
FORWARD: Final = "forward"
FORWARD_OFFSETS: Final = "forward.offsets"
FORWARD_CHUNKS: Final = "forward.chunks"
MV_OFFSETS: Final = "mv.offsets"
NULLS: Final = "nulls"
SORTED_STARTS: Final = "sorted.starts"
INVERTED_OFFSETS: Final = "inverted.offsets"
INVERTED_DOCS: Final = "inverted.docs"
INVERTED_COUNTS: Final = "inverted.counts"
BITMAP_OFFSETS: Final = "inverted.bitmaps.offsets"
BITMAPS: Final = "inverted.bitmaps"
RANGE_BOUNDS: Final = "range.bounds"
RANGE_OFFSETS: Final = "range.offsets"
RANGE_DOCS: Final = "range.docs"
BLOOM: Final = "bloom"
JSON_TERMS: Final = "json.terms"
JSON_TERMS_OFFSETS: Final = "json.terms.offsets"
JSON_OFFSETS: Final = "json.offsets"
JSON_RECORDS: Final = "json.records"
JSON_ENTRIES: Final = "json.entries"
TEXT_TERMS: Final = "text.terms"
TEXT_TERMS_OFFSETS: Final = "text.terms.offsets"
TEXT_OFFSETS: Final = "text.offsets"
TEXT_DOCS: Final = "text.docs"
TEXT_POSITIONS: Final = "text.positions"
# Before the kinds of indexes that a reload dropped, which readers skip.
DROPPED: Final = "dropped."


@dataclass(frozen=True, slots=True)
class BufferEntry:
    """One buffer: its kind, the index of its file in `SegmentMetadata.files`, and its bytes. `settings`: by which it
    was built, as JSON with ordered keys; "" where there are none, or an older release did not record them.
    """

    kind: str
    file: int
    offset: int
    size_bytes: int
    crc: int
    settings: str = ""


def settings_text(settings: Mapping[str, Any]) -> str:
    """The settings of an index as they stand in a BufferEntry."""
    return orjson.dumps(settings, option=orjson.OPT_SORT_KEYS).decode()


def built_kind(kind: str) -> str:
    """The kind that a buffer had before a reload dropped its index."""
    return kind.removeprefix(DROPPED).rstrip("~") if kind.startswith(DROPPED) else kind


def is_columns_file(name: str) -> bool:
    """`columns`, `columns.1` … `columns.999`."""
    return _COLUMNS_NAME.fullmatch(name) is not None


def is_segment_file(name: str) -> bool:
    """Whether a file of this name belongs into a segment and its archive."""
    return name == METADATA or is_columns_file(name)


def aligned(size: int) -> int:
    """`size` rounded up to the alignment of buffers."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def columns_header() -> bytes:
    """The first 64 bytes of a columns file."""
    head = _COLUMNS_HEADER.pack(_COLUMNS_MAGIC, FORMAT_VERSION, 0)[:60]
    return head + struct.pack("<I", crc32c(head))


def check_columns_header(data: bytes, file: str) -> None:
    """Raises SegmentCorruptError or UnsupportedVersionError unless `data` (the first 64 bytes) is a header that we
    read.
    """
    if len(data) < COLUMNS_HEADER_BYTES:
        raise SegmentCorruptError(
            "columns file is too short for its header",
            file=file,
            expected=f">= {COLUMNS_HEADER_BYTES} bytes",
            found=f"{len(data)} bytes",
        )
    magic, version, crc = _COLUMNS_HEADER.unpack(data[:COLUMNS_HEADER_BYTES])
    if magic != _COLUMNS_MAGIC:
        raise SegmentCorruptError("not a columns file", file=file, expected=_COLUMNS_MAGIC, found=magic)
    if crc != (computed := crc32c(data[: COLUMNS_HEADER_BYTES - 4])):
        raise SegmentCorruptError(
            "header of the columns file does not match its CRC", file=file, expected=crc, found=computed
        )
    if version not in SUPPORTED_VERSIONS:
        raise UnsupportedVersionError(
            f"columns file '{file}' is of another format; upgrade this server",
            found=version,
            supported=SUPPORTED_VERSIONS,
            file=file,
        )


def metadata_bytes(body: bytes) -> bytes:
    """A metadata file around its JSON."""
    tail = _METADATA_HEADER.pack(_METADATA_MAGIC, FORMAT_VERSION, 0, len(body))[16:] + body
    return _METADATA_HEADER.pack(_METADATA_MAGIC, FORMAT_VERSION, crc32c(tail), len(body))[:16] + tail


def metadata_body(data: bytes, file: str) -> bytes:
    """The JSON of a metadata file; raises SegmentCorruptError or UnsupportedVersionError if it is none that we read."""
    if len(data) < METADATA_HEADER_BYTES:
        raise SegmentCorruptError(
            "metadata is too short for its header",
            file=file,
            expected=f">= {METADATA_HEADER_BYTES} bytes",
            found=f"{len(data)} bytes",
        )
    magic, version, crc, length = _METADATA_HEADER.unpack(data[:METADATA_HEADER_BYTES])
    if magic != _METADATA_MAGIC:
        raise SegmentCorruptError("not a metadata file", file=file, expected=_METADATA_MAGIC, found=magic)
    # The version stands before the CRC on purpose: a later format may move everything behind it.
    if version not in SUPPORTED_VERSIONS:
        raise UnsupportedVersionError(
            f"metadata '{file}' is of another format; upgrade this server",
            found=version,
            supported=SUPPORTED_VERSIONS,
            file=file,
        )
    if length != len(data) - METADATA_HEADER_BYTES:
        raise SegmentCorruptError(
            "metadata is truncated or has a tail",
            file=file,
            expected=f"{length} bytes of JSON",
            found=f"{len(data) - METADATA_HEADER_BYTES}",
        )
    if crc != (computed := crc32c(data[16:])):
        raise SegmentCorruptError("metadata does not match its CRC", file=file, expected=crc, found=computed)
    return data[METADATA_HEADER_BYTES:]
