"""The segment directory door: where a segment's files are written and mapped.

`FileDirectory` (file_directory.py) is a folder on disk, `MemoryDirectory` (memory_directory.py) its in-memory twin. A
segment is written through a *draft*: nothing is visible before `commit`, which makes the files durable and read-only
and names them in one step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pinotpy.errors import SegmentCorruptError

READ_BYTES: Final = 1 << 20  # of one piece of `chunks`

Fingerprint = dict[str, tuple[int, int]]  # file name → size in bytes, modification time in ns


class FileState(NamedTuple):
    """What a file system tells of a file; another one means that it was touched. Times in ns."""

    size_bytes: int
    modified_ns: int
    changed_ns: int


class SegmentDraft(Protocol):
    """A segment that is being written."""

    def append(self, name: str, data: bytes | NDArray[Any]) -> None:
        """Append bytes, or the bytes of a contiguous array, to the file `name`."""
        ...

    def written(self, name: str) -> NDArray[np.uint8]:
        """What `append` wrote to a file so far, read-only; stays valid as long as the array or a view of it lives."""
        ...

    def commit(self) -> None:
        """Make the segment durable, read-only and visible. Raises AlreadyExistsError if there is one."""
        ...

    def abort(self) -> None:
        """Leave nothing behind. Harmless after `commit`."""
        ...


class SegmentDirectory(Protocol):
    """The place of one segment."""

    location: str  # for messages

    def exists(self) -> bool: ...

    def create(self) -> SegmentDraft: ...

    def amend(self) -> SegmentDraft:
        """Add files to a segment and replace its metadata, which is written last: before that nothing has changed. A
        file of the same name that an earlier, unfinished amendment left is replaced. Raises NotFoundError if there is
        no segment.
        """
        ...

    def fingerprint(self) -> Fingerprint:
        """Size and modification time of every file. Raises NotFoundError if there is no segment."""
        ...

    def state_of(self, name: str, data: NDArray[np.uint8]) -> FileState | None:
        """The state of the file `name` whose bytes `data` shows, which `map` gave; None if it does not stand behind
        them (any more), as when a newer file has its name: nobody can change them.
        """
        ...

    def map(self, name: str) -> NDArray[np.uint8]:
        """All bytes of a file, read-only, zero-copy; they stay valid as long as the array or a view of it lives.
        Raises SegmentCorruptError if the file is missing."""
        ...

    def release(self, data: NDArray[np.uint8], start: int, end: int) -> None:
        """Let go of the memory of bytes [start, end) of `data`, which `map` of this directory gave. No byte changes:
        only where they come again from a file is there anything to let go of.
        """
        ...

    def read(self, name: str, *, size_max: int) -> bytes:
        """A small file whole. Raises SegmentCorruptError if it is missing or larger than `size_max`."""
        ...

    def chunks(self, name: str) -> Iterator[bytes]:
        """A file piece by piece through read(), never through the map: a vanished page is an error and not a SIGBUS."""
        ...

    def put_marker(self, name: str, data: bytes) -> None:
        """Replace a small local file beside the segment's own; best effort on a read-only place."""
        ...

    def delete(self) -> None:
        """Remove the segment; maps stay valid. Harmless if there is none."""
        ...


def frozen(array: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The array itself, read-only from now on."""
    array.flags.writeable = False
    return array


def check_size(size: int, size_max: int, file: str) -> None:
    """Raise SegmentCorruptError if a file has more than `size_max` bytes; `file` is for the message."""
    if size > size_max:
        raise SegmentCorruptError(
            "file is too large", file=file, expected=f"<= {size_max} bytes", found=f"{size} bytes"
        )
