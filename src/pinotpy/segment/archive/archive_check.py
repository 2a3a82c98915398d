"""An archive of unknown origin is read to its last byte, to learn whether it is a segment: in memory if there is room,
else on disk.

What is only looked at needs no file. A segment that is unpacked to a disk costs its bytes once more on their way there,
and the disk the work to forget them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pinotpy.errors import UnsafeArchiveError
from pinotpy.kernels.cache_loading import load_without_compiler
from pinotpy.segment import layout
from pinotpy.segment.archive.archive import segment_entries, unpack_segment
from pinotpy.segment.archive.tar_stream import ArchiveLimits, Entry
from pinotpy.segment.directory.directory import SegmentDirectory
from pinotpy.segment.directory.file_directory import FileDirectory
from pinotpy.segment.directory.memory_directory import MemoryDirectory, empty_file
from pinotpy.segment.metadata import SegmentMetadata


class Room(Protocol):
    """Memory that all checks share."""

    def take(self, size_bytes: int) -> bool:
        """Whether there are so many bytes; they are the caller's until they are given back. Never waits."""
        ...

    def give_back(self, size_bytes: int) -> None: ...


def check_archive(archive: Path, scratch: Path, *, limits: ArchiveLimits, room: Room) -> SegmentMetadata:
    """The metadata of a packed segment of which every byte was read and checked.

    Args:
        scratch: an empty folder that the caller removes; used where the segment does not fit into `room`.

    Raises:
        UnsafeArchiveError: no archive of a segment, or one whose folder has another name, or with a file that the
            metadata does not name.
        SegmentCorruptError, UnsupportedVersionError: its bytes cannot be trusted.
    """
    with _held(archive, limits, room) as held:
        if held is not None:
            return _checked(held[1], held[0])
    folder = unpack_segment(archive, scratch, limits=limits, is_durable=False)
    return _checked(FileDirectory(folder), folder.name)


def _checked(directory: SegmentDirectory, name: str) -> SegmentMetadata:
    # Controllers come here for a few kernels, and would keep the compiler's tables for good: 12 MB.
    load_without_compiler()
    from pinotpy.segment.immutable import open_segment

    with open_segment(directory, verify=True) as segment:
        metadata = segment.metadata
    if name != metadata.segment_name:
        raise UnsafeArchiveError(
            f"the archive's folder is '{name[:200]}', its metadata says segment '{metadata.segment_name[:200]}'"
        )
    # No check has read their bytes. In a server's folder an unfinished reload may leave one; nobody packs it.
    named = {file for file, _ in metadata.files}
    unnamed = sorted(file for file in directory.fingerprint() if layout.is_columns_file(file) and file not in named)
    if unnamed:
        raise UnsafeArchiveError(
            f"archive has '{', '.join(unnamed)[:200]}', which the segment's metadata does not name: expected "
            f"{layout.METADATA}, {', '.join(sorted(named))[:200]}"
        )
    return metadata


@contextmanager
def _held(archive: Path, limits: ArchiveLimits, room: Room) -> Iterator[tuple[str, MemoryDirectory] | None]:
    """(name of its folder, its files), None where they do not fit: told by a header, before what it announces is
    read.
    """
    taken_bytes = 0
    try:
        files: dict[str, NDArray[np.uint8]] = {}
        name = ""
        with archive.open("rb") as source:
            for folder, file, entry in segment_entries(source, limits):
                if not file:
                    continue
                name = folder
                if not room.take(entry.size_bytes):
                    files.clear()
                    break
                taken_bytes += entry.size_bytes
                files[file] = _read(entry)
        yield (name, MemoryDirectory.holding(name, files)) if files else None
    finally:
        room.give_back(taken_bytes)


def _read(entry: Entry) -> NDArray[np.uint8]:
    data = empty_file(entry.size_bytes)
    view, position = data.data, 0
    for piece in entry.contents:
        view[position : position + len(piece)] = piece
        position += len(piece)
    return data
