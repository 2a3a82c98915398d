"""Which files the rows of a unit's segment come from: their URIs, bytes and checksums, and how many rows each gave."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Final

from pinotpy.fs.uris import LOCAL_SCHEMES, file_uri, local_path, scheme_of
from pinotpy.ingest.jobs.input_files import InputEntry
from pinotpy.ingest.jobs.plan import Unit
from pinotpy.segment.checksum import crc32c
from pinotpy.segment.input_list import FILES_MAX, INPUT_LIST_MAX_BYTES, InputList, SegmentInput

FileIdentity = tuple[int, ...]

_READ_BYTES: Final = 1 << 20
_USER: Final = re.compile(r"(?<=//)(?:[^/@?#]*:[^/@?#]*|\*+)@")
_WEB_USER: Final = re.compile(r"(?<=//)[^/@?#]*@")


def input_list(unit: Unit, num_docs: int) -> InputList | None:
    """The list of a segment that was built of a unit; None where its rows come from no files, or from more than a list
    can have.
    """
    counts = [rows.count for rows in unit.slices] or [num_docs]
    files = [
        SegmentInput(
            listed_uri(entry.uri),
            entry.size_bytes if entry.part is None else -1,
            entry.checksum,
            count,
            # Of a part, nobody knows the rows of the others.
            entry.num_rows if unit.slices or entry.part is not None else num_docs,
        )
        for entry, count in zip(unit.inputs, counts, strict=True)
        if entry.checksum or entry.file_format
    ]
    listed = InputList.of(files)
    return listed if files and len(files) <= FILES_MAX and len(listed.to_bytes()) <= INPUT_LIST_MAX_BYTES else None


def listed_uri(uri: str) -> str:
    """A file's URI as lists have it: absolute, without user info, query and fragment; the same of `masked(uri)`."""
    scheme = scheme_of(uri)
    if scheme in LOCAL_SCHEMES:
        # As it was written, links and all: `current/a.csv` is one file, whichever release `current` leads to.
        return file_uri(Path(os.path.abspath(local_path(uri))))
    if scheme in ("http", "https"):
        return _WEB_USER.sub("", re.split(r"[?#]", uri, maxsplit=1)[0])
    return _USER.sub("", uri)


def identity_of(path: Path) -> FileIdentity | None:
    """Tells whether a path still leads to the same, unchanged file; None where there is none."""
    try:
        return _identity(path.stat())
    except OSError:  # whoever reads it says so
        return None


def with_content(entry: InputEntry, path: Path, opened: FileIdentity | None) -> InputEntry:
    """An entry with the size and the checksum of the bytes that were read.

    Args:
        path: the file, or its local copy.
        opened: `identity_of` it when it began to be read. If it is another file now, what was read is gone, and the
            checksum unknown.
    """
    try:
        with path.open("rb") as stream:
            if _identity(os.fstat(stream.fileno())) != opened:
                return entry
            size_bytes, checksum = content_of(stream)
    except FileNotFoundError:
        return entry
    return replace(entry, size_bytes=size_bytes, checksum=checksum)


def content_of(stream: BinaryIO) -> tuple[int, str]:
    """The number of bytes of a stream, and their checksum as of SegmentInput."""
    crc, size_bytes = 0, 0
    while chunk := stream.read(_READ_BYTES):
        crc, size_bytes = crc32c(chunk, crc), size_bytes + len(chunk)
    return size_bytes, f"crc32c:{crc:08x}"


def _identity(stat: os.stat_result) -> FileIdentity:
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns
