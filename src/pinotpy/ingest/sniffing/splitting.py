"""A large file → parts that are built beside each other, each by a process of its own, none of which cuts a row.

Lines of CSV are cut where the quotes before have been closed, counted from the file's beginning. That is right for what
writers of CSV write; where a quote stands in the middle of a field the count may be wrong. Then a part ends within
quotes, its reader says so, and the file is built whole (`building.py`): a cut that no reader complains of is between
rows, since the first part begins right and each one that ends right lets the next one begin right.
"""

from __future__ import annotations

import codecs
import mmap
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, BinaryIO, Final

import numpy as np
import orjson
import pyarrow.parquet as pq
from pyarrow import orc

from pinotpy.ingest.jobs.spare_workers import PACKED, PART_BYTES
from pinotpy.ingest.readers.arrow_damage import DAMAGE
from pinotpy.ingest.readers.avro_container import DamagedAvroError, read_header
from pinotpy.ingest.readers.file_part import FilePart
from pinotpy.ingest.readers.spec import FileFormat, InputFile

_WINDOW_BYTES: Final = 1 << 20
# A cut is looked for this far; what has no line end by then has no lines.
_SEARCHED_BYTES: Final = 64 << 20
_LF: Final = 10
# Encodings in which bytes below 128 are ASCII, and nothing else.
_LIKE_ASCII: Final = ("utf-8", "cp125", "iso8859", "latin", "mac-", "cp437", "cp850", "cp852", "koi8")


def parts_of(
    file: InputFile,
    file_format: FileFormat,
    reader_config: Mapping[str, Any],
    part_bytes: int = PART_BYTES,
) -> list[FilePart]:
    """The parts of a file, in its order, each of `part_bytes` or more; none where it is too small, or nothing tells
    where a row begins.
    """
    number = file.size_bytes // part_bytes
    if number < 2:
        return []
    try:
        if file_format is FileFormat.PARQUET:
            with file.open_seekable() as stream:
                return _groups(pq.ParquetFile(stream).num_row_groups, number)
        if file_format is FileFormat.ORC:
            with file.open_seekable() as stream:
                return _groups(orc.ORCFile(stream).nstripes, number)
        with file.path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _byte_parts(stream, content, file_format, reader_config, number)
    except (*DAMAGE, DamagedAvroError):
        return []  # whoever reads it says what is wrong


def _groups(total: int, number: int) -> list[FilePart]:
    number = min(number, total)
    ends = [total * part // number for part in range(number + 1)] if number > 1 else []
    return [FilePart(part, 0, begin, end, has_groups=True) for part, (begin, end) in enumerate(pairwise(ends))]


def _byte_parts(
    stream: BinaryIO, content: mmap.mmap, file_format: FileFormat, config: Mapping[str, Any], number: int
) -> list[FilePart]:
    if content[:4].startswith(PACKED):
        return []
    size, head_end = len(content), 0
    found: Iterator[int | None]
    targets = [size * part // number for part in range(1, number)]
    if file_format is FileFormat.AVRO:
        header = read_header(stream)
        head_end = stream.tell()
        found = (_behind(content, target, header.sync) for target in targets)
    elif file_format is FileFormat.JSON:
        if not _is_of_lines(content):
            return []
        found = (_behind(content, target, b"\n") for target in targets)
    else:
        known = _csv_head(content, config)
        if known is None:
            return []
        head_end = known
        found = _csv_cuts(content, targets, _quote(config))
    cuts = sorted({cut for cut in found if cut is not None and head_end < cut < size})
    edges = [head_end, *cuts, size]
    if len(edges) < 3:
        return []
    return [FilePart(part, head_end, begin, end) for part, (begin, end) in enumerate(pairwise(edges))]


def _behind(content: mmap.mmap, start: int, mark: bytes) -> int | None:
    place = content.find(mark, start, start + _SEARCHED_BYTES)
    return place + len(mark) if place >= 0 else None


def _is_of_lines(content: mmap.mmap) -> bool:
    """Whether the first line is an object by itself, as the reader has it."""
    end = content.find(b"\n", 0, _SEARCHED_BYTES)
    if end < 0:
        return False
    try:
        return isinstance(orjson.loads(content[:end].removeprefix(codecs.BOM_UTF8)), dict)
    except ValueError:
        return False


def _quote(config: Mapping[str, Any]) -> int:
    return ord(str(config.get("quoteCharacter") or '"'))


def _csv_head(content: mmap.mmap, config: Mapping[str, Any]) -> int | None:
    """Where the first row begins, behind the file's own header; None: rows of such a file are not found by lines."""
    encoding = codecs.lookup(str(config.get("encoding") or "utf-8")).name
    others = ("escapeCharacter", "commentMarker", "skipRows")
    if not encoding.startswith(_LIKE_ASCII) or any(config.get(name) for name in others):
        return None
    end = content.find(b"\n", 0, _SEARCHED_BYTES)
    if end < 0 or content.find(b"\r", 0, end) not in (-1, end - 1):
        return None  # CR alone ends its lines
    line = content[: end + 1]
    is_plain = line.strip() != b"" and line.count(_quote(config)) % 2 == 0
    if not is_plain:
        return None
    has_own = "header" not in config or config.get("skipHeader")
    return end + 1 if has_own else 0


def _csv_cuts(content: mmap.mmap, targets: list[int], quote: int) -> Iterator[int]:
    """The first line ends behind the targets that are outside of quotes."""
    data = np.frombuffer(content, np.uint8)
    position, is_open = 0, False
    for target in targets:
        while position < target:
            end = min(position + _WINDOW_BYTES, target)
            is_open ^= bool(np.count_nonzero(data[position:end] == quote) & 1)
            position = end
        limit = min(len(data), target + _SEARCHED_BYTES)
        while position < limit:
            window = data[position : position + _WINDOW_BYTES]
            open_after = np.logical_xor.accumulate(window == quote) ^ is_open
            ends = np.flatnonzero((window == _LF) & ~open_after)
            if len(ends):
                position, is_open = position + int(ends[0]) + 1, False
                yield position
                break
            position, is_open = position + len(window), bool(open_after[-1])
