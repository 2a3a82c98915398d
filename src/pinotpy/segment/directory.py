"""The segment directory door: where a segment's files are written and mapped.

`FileDirectory` is a folder on disk, `MemoryDirectory` its in-memory twin. A segment is written through a *draft*: nothing
is visible before `commit`, which makes the files durable and read-only and names them in one step.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import mmap
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pinotpy.errors import AlreadyExistsError, NotFoundError, SegmentCorruptError, UserError
from pinotpy.segment.layout import METADATA

_log = logging.getLogger(__name__)
_READ_BYTES = 1 << 20
_NAME_MAX_BYTES = 255  # of one folder on every usual file system
_AMENDING = ".amending.tmp"

Fingerprint = dict[str, tuple[int, int]]  # file name → size in bytes, modification time in ns


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
        """Add files to a segment and replace its metadata, which is written last: before that nothing has changed. A file of
        the same name that an earlier, unfinished amendment left is replaced. Raises NotFoundError if there is no segment."""
        ...

    def fingerprint(self) -> Fingerprint:
        """Size and modification time of every file. Raises NotFoundError if there is no segment."""
        ...

    def map(self, name: str) -> NDArray[np.uint8]:
        """All bytes of a file, read-only, zero-copy; they stay valid as long as the array or a view of it lives.
        Raises SegmentCorruptError if the file is missing."""
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


class FileDirectory:
    """A folder. Files are 0444 once committed and never edited in place."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.location = str(path)

    def exists(self) -> bool:
        return self.path.is_dir()

    def create(self, *, is_durable: bool = True) -> _FileDraft:
        """`is_durable`: what is committed survives a crash; false for what is looked at and thrown away."""
        return _FileDraft(self.path, is_durable=is_durable)

    def amend(self) -> _FileAmendment:
        return _FileAmendment(self.path)

    def fingerprint(self) -> Fingerprint:
        try:
            return {entry.name: (stat.st_size, stat.st_mtime_ns) for entry in os.scandir(self.path) if (stat := entry.stat(follow_symlinks=False))}
        except (FileNotFoundError, NotADirectoryError):
            raise NotFoundError(f"no segment at '{self.location}'", path=self.location) from None

    def map(self, name: str) -> NDArray[np.uint8]:
        with self._open(name) as descriptor:
            size = os.fstat(descriptor).st_size
            if size == 0:
                return _frozen(np.empty(0, np.uint8))
            return np.frombuffer(mmap.mmap(descriptor, size, access=mmap.ACCESS_READ), np.uint8)

    def read(self, name: str, *, size_max: int) -> bytes:
        with self._open(name) as descriptor:
            _check_size(size := os.fstat(descriptor).st_size, size_max, f"{self.location}/{name}")
            with os.fdopen(os.dup(descriptor), "rb") as file:
                return file.read(size)

    def chunks(self, name: str) -> Iterator[bytes]:
        with self._open(name) as descriptor:
            while data := os.read(descriptor, _READ_BYTES):
                yield data

    def put_marker(self, name: str, data: bytes) -> None:
        try:
            descriptor, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=self.path)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            os.replace(temporary, self.path / name)
        except OSError as error:
            _log.debug("marker not written path=%s name=%s error=%s", self.location, name, error)

    def delete(self) -> None:
        if not self.path.is_dir():
            return
        # Moved away first, so that nobody opens half a segment.
        doomed = Path(tempfile.mkdtemp(prefix=".deleted.", suffix=".tmp", dir=self.path.parent))
        with contextlib.suppress(FileNotFoundError):
            os.rename(self.path, doomed / "segment")
        shutil.rmtree(doomed, ignore_errors=True)

    @contextlib.contextmanager
    def _open(self, name: str) -> Iterator[int]:
        try:
            descriptor = os.open(self.path / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise SegmentCorruptError("file cannot be opened", file=f"{self.location}/{name}", expected="a readable file", found=error.strerror) from None
        try:
            yield descriptor
        finally:
            os.close(descriptor)


class _FileDraft:
    def __init__(self, target: Path, *, is_durable: bool = True) -> None:
        if len(os.fsencode(target.name)) > _NAME_MAX_BYTES:
            raise UserError(f"segment name has {len(os.fsencode(target.name))} bytes, a folder's name has at most {_NAME_MAX_BYTES}", name=target.name)
        if target.exists():
            raise AlreadyExistsError(f"there is a segment at '{target}' already: delete it or choose another folder", path=str(target))
        target.parent.mkdir(parents=True, exist_ok=True)
        self._target = target
        self._is_durable = is_durable
        self._folder: Path | None = Path(tempfile.mkdtemp(prefix=f".{target.name[:100]}.", suffix=".tmp", dir=target.parent))
        self._descriptors: dict[str, int] = {}

    def append(self, name: str, data: bytes | NDArray[Any]) -> None:
        assert self._folder is not None
        descriptor = self._descriptors.get(name)
        if descriptor is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = self._descriptors[name] = os.open(self._folder / name, flags, 0o644)
        _write(descriptor, data)

    def written(self, name: str) -> NDArray[np.uint8]:
        assert self._folder is not None
        return FileDirectory(self._folder).map(name)

    def commit(self) -> None:
        assert self._folder is not None
        try:
            for descriptor in self._descriptors.values():
                os.fchmod(descriptor, 0o444)
                if self._is_durable:
                    os.fsync(descriptor)
            self._close()
            os.chmod(self._folder, 0o755)
            if self._is_durable:
                _sync_folder(self._folder)
            try:
                os.rename(self._folder, self._target)
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                    raise
                raise AlreadyExistsError(
                    f"there is a segment at '{self._target}' already: delete it or choose another folder", path=str(self._target)
                ) from None
            self._folder = None
            if self._is_durable:
                _sync_folder(self._target.parent)
        finally:
            self.abort()

    def abort(self) -> None:
        self._close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _close(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])


class _FileAmendment:
    """Files with temporary names in the segment's folder until `commit`."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise NotFoundError(f"no segment at '{folder}'", path=str(folder))
        self._folder = folder
        self._descriptors: dict[str, int] = {}
        for left in folder.glob(f".*{_AMENDING}"):
            # Of an amendment that a crash ended.
            left.unlink(missing_ok=True)

    def append(self, name: str, data: bytes | NDArray[Any]) -> None:
        descriptor = self._descriptors.get(name)
        if descriptor is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = self._descriptors[name] = os.open(self._temporary(name), flags, 0o644)
        _write(descriptor, data)

    def written(self, name: str) -> NDArray[np.uint8]:
        return FileDirectory(self._folder).map(self._temporary(name).name)

    def commit(self) -> None:
        try:
            for descriptor in self._descriptors.values():
                os.fchmod(descriptor, 0o444)
                os.fsync(descriptor)
            # The metadata names the other files: they have to be durable before it is.
            for name in sorted(self._descriptors, key=lambda name: name == METADATA):
                if name == METADATA:
                    _sync_folder(self._folder)
                os.replace(self._temporary(name), self._folder / name)
            _sync_folder(self._folder)
        finally:
            self.abort()

    def abort(self) -> None:
        while self._descriptors:
            name, descriptor = self._descriptors.popitem()
            os.close(descriptor)
            self._temporary(name).unlink(missing_ok=True)

    def _temporary(self, name: str) -> Path:
        return self._folder / f".{name}{_AMENDING}"


class MemoryDirectory:
    """The twin without a disk. Not meant to be shared between threads while it is written."""

    def __init__(self, name: str = "segment") -> None:
        self.location = f"memory:{name}"
        self._files: dict[str, NDArray[np.uint8]] | None = None
        self._markers: dict[str, NDArray[np.uint8]] = {}
        self._version = 0

    def exists(self) -> bool:
        return self._files is not None

    def create(self) -> _MemoryDraft:
        if self._files is not None:
            raise AlreadyExistsError(f"there is a segment at '{self.location}' already: delete it or choose another folder", path=self.location)
        return _MemoryDraft(self)

    def amend(self) -> _MemoryDraft:
        if self._files is None:
            raise NotFoundError(f"no segment at '{self.location}'", path=self.location)
        return _MemoryDraft(self, amends=True)

    def fingerprint(self) -> Fingerprint:
        if self._files is None:
            raise NotFoundError(f"no segment at '{self.location}'", path=self.location)
        return {name: (len(data), self._version) for name, data in (self._files | self._markers).items()}

    def map(self, name: str) -> NDArray[np.uint8]:
        data = ((self._files or {}) | self._markers).get(name)
        if data is None:
            raise SegmentCorruptError("file cannot be opened", file=f"{self.location}/{name}", expected="a readable file", found="No such file or directory")
        return data

    def read(self, name: str, *, size_max: int) -> bytes:
        data = self.map(name)
        _check_size(len(data), size_max, f"{self.location}/{name}")
        return data.tobytes()

    def chunks(self, name: str) -> Iterator[bytes]:
        data = self.map(name)
        for start in range(0, len(data), _READ_BYTES):
            yield data[start : start + _READ_BYTES].tobytes()

    def put_marker(self, name: str, data: bytes) -> None:
        self._markers[name] = np.frombuffer(data, np.uint8)

    def delete(self) -> None:
        self._files = None
        self._markers = {}

    def replace(self, name: str, data: bytes) -> None:
        """Put other bytes into a committed file, as a damaged disk would; for tests of damage."""
        assert self._files is not None
        self._version += 1
        self._files[name] = _aligned_copy(data)

    def _commit(self, files: dict[str, bytearray]) -> None:
        if self._files is not None:
            raise AlreadyExistsError(f"there is a segment at '{self.location}' already: delete it or choose another folder", path=self.location)
        self._version += 1
        self._files = {name: _aligned_copy(data) for name, data in files.items()}

    def _amend(self, files: dict[str, bytearray]) -> None:
        assert self._files is not None
        self._version += 1
        # A new dict: maps that were handed out keep the arrays of the old one.
        self._files = self._files | {name: _aligned_copy(data) for name, data in files.items()}


class _MemoryDraft:
    def __init__(self, directory: MemoryDirectory, *, amends: bool = False) -> None:
        self._directory = directory
        self._amends = amends
        self._files: dict[str, bytearray] = {}

    def append(self, name: str, data: bytes | NDArray[Any]) -> None:
        self._files.setdefault(name, bytearray()).extend(data.tobytes() if isinstance(data, np.ndarray) else data)

    def written(self, name: str) -> NDArray[np.uint8]:
        return _aligned_copy(self._files[name])

    def commit(self) -> None:
        if self._amends:
            self._directory._amend(self._files)
        else:
            self._directory._commit(self._files)
        self._files = {}

    def abort(self) -> None:
        self._files = {}


def release_pages(data: NDArray[np.uint8], start: int, end: int) -> None:
    """Take a mapped file's bytes out of this process's memory; they come again when they are read. Nothing happens to other arrays."""
    owner: Any = data
    while isinstance(owner, np.ndarray | memoryview):
        owner = owner.base if isinstance(owner, np.ndarray) else owner.obj
    first, last = start & -mmap.PAGESIZE, end & -mmap.PAGESIZE
    if isinstance(owner, mmap.mmap) and last > first:
        owner.madvise(mmap.MADV_DONTNEED, first, last - first)


def _write(descriptor: int, data: bytes | NDArray[Any]) -> None:
    view = data.reshape(-1).view(np.uint8).data if isinstance(data, np.ndarray) else memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _aligned_copy(data: bytes | bytearray) -> NDArray[np.uint8]:
    # Maps begin at a page; the twin's arrays begin at a multiple of 64, as the format promises to kernels.
    space = np.empty(len(data) + 64, np.uint8)
    begin = -space.ctypes.data % 64
    array = space[begin : begin + len(data)]
    array[:] = np.frombuffer(data, np.uint8)
    return _frozen(array)


def _frozen(array: NDArray[np.uint8]) -> NDArray[np.uint8]:
    array.flags.writeable = False
    return array


def _check_size(size: int, size_max: int, file: str) -> None:
    if size > size_max:
        raise SegmentCorruptError("file is too large", file=file, expected=f"<= {size_max} bytes", found=f"{size} bytes")


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
