"""A segment whose files are read into memory when it is opened (`loadMode` HEAP) instead of being mapped.

Mapped pages come when they are first read, and the system takes them back for others: a query that looks into indexes
of many segments then waits for the disk. What is resident costs its size in memory of the process and never waits;
large arrays lie on huge pages. Everything but `map` is the directory's own.
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pinotpy.segment.directory.directory import FileState, Fingerprint, SegmentDirectory, SegmentDraft, frozen


class ResidentDirectory:
    """`directory`, whose files are read into memory. A SegmentDirectory itself."""

    def __init__(self, directory: SegmentDirectory) -> None:
        self.directory = directory
        self.location = directory.location

    def state_of(self, name: str, data: NDArray[np.uint8]) -> FileState | None:
        return None  # a copy: what becomes of the file does not matter to it

    def map(self, name: str) -> NDArray[np.uint8]:
        """A copy of the file's bytes, read-only."""
        mapped = self.directory.map(name)
        data = _pages(len(mapped))
        data[:] = mapped
        return frozen(data)

    def release(self, data: NDArray[np.uint8], start: int, end: int) -> None:
        """Nothing: its bytes are nowhere else."""

    def exists(self) -> bool:
        return self.directory.exists()

    def create(self) -> SegmentDraft:
        return self.directory.create()

    def amend(self) -> SegmentDraft:
        return self.directory.amend()

    def fingerprint(self) -> Fingerprint:
        return self.directory.fingerprint()

    def read(self, name: str, *, size_max: int) -> bytes:
        return self.directory.read(name, size_max=size_max)

    def chunks(self, name: str) -> Iterator[bytes]:
        return self.directory.chunks(name)

    def put_marker(self, name: str, data: bytes) -> None:
        self.directory.put_marker(name, data)

    def delete(self) -> None:
        self.directory.delete()


def placed(directory: SegmentDirectory, *, resident: bool) -> SegmentDirectory:
    """The same directory, its files read into memory or mapped."""
    if isinstance(directory, ResidentDirectory):
        return directory if resident else directory.directory
    return ResidentDirectory(directory) if resident else directory


def _pages(size_bytes: int) -> NDArray[np.uint8]:
    """Room for a file on pages of its own: when it is let go of they go back to the system, which the C library does
    not promise.
    """
    pages = mmap.mmap(-1, max(size_bytes, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):  # Linux
        with contextlib.suppress(OSError):  # a kernel without huge pages
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, np.uint8, size_bytes)
