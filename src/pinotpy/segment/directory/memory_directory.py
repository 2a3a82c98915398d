"""A segment's files in memory: the twin of file_directory.py without a disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinotpy.errors import AlreadyExistsError, NotFoundError, SegmentCorruptError
from pinotpy.segment.directory.directory import READ_BYTES, FileState, Fingerprint, check_size, frozen


class MemoryDirectory:
    """The twin without a disk. Not meant to be shared between threads while it is written."""

    def __init__(self, name: str = "segment") -> None:
        self.location = f"memory:{name}"
        self._files: dict[str, NDArray[np.uint8]] | None = None
        self._markers: dict[str, NDArray[np.uint8]] = {}
        self._version = 0

    @classmethod
    def holding(cls, location: str, files: dict[str, NDArray[np.uint8]]) -> MemoryDirectory:
        """One that has these files, without a copy of them; arrays of `empty_file`, which nobody writes to any more."""
        held = cls()
        held.location = location
        held._files = {name: frozen(data) for name, data in files.items()}
        return held

    def exists(self) -> bool:
        return self._files is not None

    def create(self) -> _MemoryDraft:
        if self._files is not None:
            raise AlreadyExistsError(
                f"there is a segment at '{self.location}' already: delete it or choose another folder",
                path=self.location,
            )
        return _MemoryDraft(self)

    def amend(self) -> _MemoryDraft:
        if self._files is None:
            raise NotFoundError(f"no segment at '{self.location}'", path=self.location)
        return _MemoryDraft(self, amends=True)

    def fingerprint(self) -> Fingerprint:
        if self._files is None:
            raise NotFoundError(f"no segment at '{self.location}'", path=self.location)
        return {name: (len(data), self._version) for name, data in (self._files | self._markers).items()}

    def state_of(self, name: str, data: NDArray[np.uint8]) -> FileState | None:
        return None  # what `map` gave never changes

    def map(self, name: str) -> NDArray[np.uint8]:
        data = ((self._files or {}) | self._markers).get(name)
        if data is None:
            raise SegmentCorruptError(
                "file cannot be opened",
                file=f"{self.location}/{name}",
                expected="a readable file",
                found="No such file or directory",
            )
        return data

    def release(self, data: NDArray[np.uint8], start: int, end: int) -> None:
        """Nothing: its bytes are nowhere else."""

    def read(self, name: str, *, size_max: int) -> bytes:
        data = self.map(name)
        check_size(len(data), size_max, f"{self.location}/{name}")
        return data.tobytes()

    def chunks(self, name: str) -> Iterator[bytes]:
        data = self.map(name)
        for start in range(0, len(data), READ_BYTES):
            yield data[start : start + READ_BYTES].tobytes()

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
            raise AlreadyExistsError(
                f"there is a segment at '{self.location}' already: delete it or choose another folder",
                path=self.location,
            )
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


def empty_file(size_bytes: int) -> NDArray[np.uint8]:
    """Room for a file. Maps begin at a page; this one at a multiple of 64, as the format promises to kernels."""
    space = np.empty(size_bytes + 64, np.uint8)
    begin = -space.ctypes.data % 64
    return space[begin : begin + size_bytes]


def _aligned_copy(data: bytes | bytearray) -> NDArray[np.uint8]:
    array = empty_file(len(data))
    array[:] = np.frombuffer(data, np.uint8)
    return frozen(array)
