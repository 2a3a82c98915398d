"""A segment's files in a folder on disk."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import logging
import mmap
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from stat import S_ISREG, filemode
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.errors import (
    AlreadyExistsError,
    DiskError,
    NotFoundError,
    SegmentCorruptError,
    UserError,
    is_lack_of_descriptors,
    storage_remedy,
)
from pinotpy.segment.directory.directory import READ_BYTES, FileState, Fingerprint, check_size, frozen
from pinotpy.segment.layout import METADATA

_log = logging.getLogger(__name__)
_NAME_MAX_BYTES: Final = 255  # of one folder on every usual file system
_AMENDING: Final = ".amending.tmp"
_MAP_FIXED: Final = 0x10  # of Linux and macOS; the module mmap does not name it
_MAP_FAILED: Final = ctypes.c_void_p(-1).value


class _FileMap(mmap.mmap):
    """A mapped file; `identity` (device, inode) tells it from another one that has its name now."""

    identity: tuple[int, int]


def _map_file(descriptor: int, stat: os.stat_result) -> NDArray[np.uint8]:
    """The bytes of an open file, read-only. No descriptor stays open for them: a server has many more segments than
    most systems let a process open files. mmap.mmap keeps one for a file, so the file is mapped over pages of its own.
    """
    mapped = _FileMap(-1, stat.st_size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ)
    mapped.identity = (stat.st_dev, stat.st_ino)
    data = np.frombuffer(mapped, np.uint8)
    flags = mmap.MAP_SHARED | _MAP_FIXED
    if _c_mmap()(data.ctypes.data, stat.st_size, mmap.PROT_READ, flags, descriptor, 0) == _MAP_FAILED:
        reason = ctypes.get_errno()
        raise OSError(reason, os.strerror(reason))
    return data


@functools.cache
def _c_mmap() -> Callable[[int, int, int, int, int, int], int | None]:
    # Of a library object of our own: what it is told of its arguments is nobody else's business.
    function = ctypes.CDLL(None, use_errno=True).mmap
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_longlong]
    function.restype = ctypes.c_void_p
    mapping: Callable[[int, int, int, int, int, int], int | None] = function
    return mapping


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
            return {
                entry.name: (stat.st_size, stat.st_mtime_ns)
                for entry in os.scandir(self.path)
                if (stat := entry.stat(follow_symlinks=False))
            }
        except (FileNotFoundError, NotADirectoryError):
            raise NotFoundError(f"no segment at '{self.location}'", path=self.location) from None

    def state_of(self, name: str, data: NDArray[np.uint8]) -> FileState | None:
        mapped = _map_of(data)
        if mapped is None:
            return None
        try:
            stat = os.stat(f"{self.location}/{name}")
        except OSError:
            return None
        # A new version of the segment lies in the same place while queries still read the old one.
        if (stat.st_dev, stat.st_ino) != mapped.identity:
            return None
        return FileState(stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)

    def map(self, name: str) -> NDArray[np.uint8]:
        with self._open(name) as descriptor:
            stat = os.fstat(descriptor)
            if stat.st_size == 0:
                return frozen(np.empty(0, np.uint8))
            return _map_file(descriptor, stat)

    def release(self, data: NDArray[np.uint8], start: int, end: int) -> None:
        # Only pages of a mapped file come again as they were; those of other maps come as zeros.
        mapped = _map_of(data)
        first, last = start & -mmap.PAGESIZE, end & -mmap.PAGESIZE
        if mapped is not None and last > first:
            mapped.madvise(mmap.MADV_DONTNEED, first, last - first)

    def read(self, name: str, *, size_max: int) -> bytes:
        with self._open(name) as descriptor:
            check_size(size := os.fstat(descriptor).st_size, size_max, f"{self.location}/{name}")
            with os.fdopen(os.dup(descriptor), "rb") as file:
                return file.read(size)

    def chunks(self, name: str) -> Iterator[bytes]:
        with self._open(name) as descriptor:
            start = 0
            while data := self._piece(descriptor, name):
                yield data
                if hasattr(os, "posix_fadvise"):
                    # Who reads a file whole reads it once: pages that nobody maps need not push out those of others.
                    os.posix_fadvise(descriptor, start, len(data), os.POSIX_FADV_DONTNEED)
                start += len(data)

    def _piece(self, descriptor: int, name: str) -> bytes:
        try:
            return os.read(descriptor, READ_BYTES)
        except OSError as error:  # a sector that the disk cannot read any more
            raise SegmentCorruptError(
                "file cannot be read", file=f"{self.location}/{name}", expected="its bytes", found=error.strerror
            ) from None

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
            # Without O_NONBLOCK a pipe of that name would hold the thread until somebody writes to it.
            flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            descriptor = os.open(self.path / name, flags)
        except OSError as error:
            if is_lack_of_descriptors(error):  # which says nothing of the file
                raise DiskError(
                    f"'{self.location}/{name}' cannot be opened: too many open files; {storage_remedy(error)}",
                    errno=error.errno,
                ) from None
            raise SegmentCorruptError(
                "file cannot be opened",
                file=f"{self.location}/{name}",
                expected="a readable file",
                found=error.strerror,
            ) from None
        try:
            if not S_ISREG(mode := os.fstat(descriptor).st_mode):
                raise SegmentCorruptError(
                    "not a file", file=f"{self.location}/{name}", expected="a regular file", found=filemode(mode)
                )
            yield descriptor
        finally:
            os.close(descriptor)


def _map_of(data: NDArray[np.uint8]) -> _FileMap | None:
    """The map that an array shows; None for an empty file, which has none."""
    owner: Any = data
    while isinstance(owner, np.ndarray | memoryview):
        owner = owner.base if isinstance(owner, np.ndarray) else owner.obj
    return owner if isinstance(owner, _FileMap) else None


class _FileDraft:
    def __init__(self, target: Path, *, is_durable: bool = True) -> None:
        if len(os.fsencode(target.name)) > _NAME_MAX_BYTES:
            raise UserError(
                f"segment name has {len(os.fsencode(target.name))} bytes, a folder's name has at most "
                f"{_NAME_MAX_BYTES}",
                name=target.name,
            )
        if target.exists():
            raise AlreadyExistsError(
                f"there is a segment at '{target}' already: delete it or choose another folder", path=str(target)
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        self._target = target
        self._is_durable = is_durable
        self._folder: Path | None = Path(
            tempfile.mkdtemp(prefix=f".{target.name[:100]}.", suffix=".tmp", dir=target.parent)
        )
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
                    f"there is a segment at '{self._target}' already: delete it or choose another folder",
                    path=str(self._target),
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
        for abandoned in folder.glob(f".*{_AMENDING}"):
            # Of an amendment that a crash ended.
            abandoned.unlink(missing_ok=True)

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


def _write(descriptor: int, data: bytes | NDArray[Any]) -> None:
    view = data.reshape(-1).view(np.uint8).data if isinstance(data, np.ndarray) else memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
