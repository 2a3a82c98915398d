"""The door to files by URI: what readers, jobs, pushes and deep stores know of any storage.

A URI is a plain path (relative or absolute), `file:/…`, or `scheme://authority/path`. Paths of `file:` and `http(s):`
are percent-encoded, as their standards have it; all others are written as they are, as in Hadoop's and Amazon's tools.
A URI that `list` gives names the same file in every other call. `file_systems.file_system_for` finds the implementation
of a URI's scheme; one contract suite runs over all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, runtime_checkable

from pinotpy.errors import NotFoundError

# Unfinished files have such a name, if the storage has no better way; they are never listed.
UNFINISHED = ".unfinished-"


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file: its URI, its length (-1: the storage does not say), when it was last written (ms since the epoch, 0:
    unknown).
    """

    uri: str
    size_bytes: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class TransferLimits:
    """What one fetch may take: bytes of the file, seconds in all; None: no limit but those of the storage's single
    requests.
    """

    bytes_max: int | None = None
    timeout_s: float | None = None


class FileSystem(Protocol):
    """Files of one storage. All calls may come from any thread, and each has a deadline of its own.

    Errors of every call: UserError for a URI that names no file here, or an operation that this storage has not;
    NotFoundError for a file that is not there; RemoteError when storage cannot be reached or fails, and may be asked
    again; DataError when it refuses for good (no rights, disk full). No message has credentials.
    """

    def list(self, uri: str) -> Iterator[FileEntry]:
        """All files below a folder and its folders, by URI ascending; of a file, that file. None if there is
        neither.
        """
        ...

    def stat(self, uri: str) -> FileEntry:
        """One file."""
        ...

    def exists(self, uri: str) -> bool:
        """Whether there is such a file; a folder is none."""
        ...

    def open(self, uri: str) -> BinaryIO:
        """Open a file for reading, seekable; the caller closes it. Reads may raise what calls here raise."""
        ...

    def fetch(self, uri: str, target: Path, limits: TransferLimits | None = None) -> FileEntry:
        """Copy a file to a local path, whole or not at all, replacing what is there; `target`'s folder must exist.

        DataError for a file over the limit of bytes, RemoteError over the limit of time.
        """
        ...

    def put(self, uri: str, source: Path) -> FileEntry:
        """Store a local file, whole or not at all, replacing what is there. Folders come by themselves, the source
        stays.
        """
        ...

    def move(self, uri: str, new_uri: str) -> FileEntry:
        """Give a file another URI of this storage, replacing what is there. A reader finds it whole under one of them
        or both.
        """
        ...

    def delete(self, uri: str) -> bool:
        """Delete a file; whether there was one."""
        ...


@runtime_checkable
class WritesBeside(Protocol):
    """A file system on which a writer that was killed leaves an unfinished file. Those on which it leaves none have no
    such call.
    """

    def drop_unfinished(self, uri: str, before_ms: int) -> int:
        """Delete unfinished files below a folder that nobody wrote to since `before_ms`, by the storage's time; returns
        how many.

        Some storages tell when a file was begun, not when it was last written to: take a time before which none that is
        still being written can have begun.
        """
        ...


class FoundByStat:
    """`exists` for a storage whose `stat` says it."""

    def stat(self, uri: str) -> FileEntry:
        raise NotImplementedError

    def exists(self, uri: str) -> bool:
        try:
            self.stat(uri)
        except NotFoundError:
            return False
        return True
