"""The buffers of a column: written one after the other, read as typed views."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pinotpy.errors import SegmentCorruptError
from pinotpy.segment import layout
from pinotpy.segment.checksum import crc32c
from pinotpy.segment.directory.directory import SegmentDraft
from pinotpy.segment.layout import BufferEntry

# (what is wrong, expected, found) → the error, which knows column and file.
Wrong = Callable[[str, object, object], SegmentCorruptError]


class StagedBuffers:
    """Buffers that are ready to be written, kept in memory until it is their turn: so columns are encoded on several
    threads and still lie in the file in one order.
    """

    def __init__(self) -> None:
        self._staged: list[tuple[BufferEntry, list[NDArray[Any]]]] = []

    def append(self, kind: str, *parts: NDArray[Any], settings: str = "") -> BufferEntry:
        """Keep one buffer, given in contiguous parts; its entry has no place yet. The parts must not change any
        more.
        """
        plain = [np.ascontiguousarray(part) for part in parts]
        size, crc = 0, 0
        for part in plain:
            crc = crc32c(part, crc)
            size += part.nbytes
        # The CRC covers the zeros behind the bytes as well.
        entry = BufferEntry(kind, 0, 0, size, crc32c(bytes(layout.aligned(size) - size), crc), settings)
        self._staged.append((entry, plain))
        return entry

    def drain(self) -> Iterator[tuple[BufferEntry, list[NDArray[Any]]]]:
        """The buffers in order, each let go as it is taken."""
        staged, self._staged = self._staged[::-1], []
        while staged:
            yield staged.pop()


class HeldBuffers:
    """Buffers that stay in memory, where they are read as typed views: of a column that has no file."""

    def __init__(self) -> None:
        self._arrays: dict[str, NDArray[np.uint8]] = {}

    def append(self, kind: str, *parts: NDArray[Any], settings: str = "") -> BufferEntry:
        """Keep one buffer, given in contiguous parts, as a copy."""
        data = np.concatenate([np.zeros(0, np.uint8), *(part.reshape(-1).view(np.uint8) for part in parts)])
        data.flags.writeable = False
        self._arrays[kind] = data
        return BufferEntry(kind, 0, 0, data.nbytes, 0, settings)

    def view(self, kind: str, dtype: Any) -> NDArray[Any]:
        """The buffer as an array of `dtype`."""
        return self._arrays[kind].view(dtype)


class BufferWriter:
    """Appends buffers to one columns file of a draft, aligned, each with the CRC of its bytes and the zeros behind
    it.
    """

    def __init__(self, draft: SegmentDraft, file: int = 0) -> None:
        self._draft = draft
        self._file = file
        self.name = layout.COLUMNS if file == 0 else f"{layout.COLUMNS}.{file}"
        self.size_bytes = layout.COLUMNS_HEADER_BYTES
        draft.append(self.name, layout.columns_header())

    def write(self, buffers: StagedBuffers) -> list[BufferEntry]:
        """Write staged buffers in their order; gives their entries, in place."""
        return [self._write(entry, parts) for entry, parts in buffers.drain()]

    def append(self, kind: str, *parts: NDArray[Any], settings: str = "") -> BufferEntry:
        """Write one buffer, given in contiguous parts."""
        staged = StagedBuffers()
        staged.append(kind, *parts, settings=settings)
        return self.write(staged)[0]

    def _write(self, entry: BufferEntry, parts: list[NDArray[Any]]) -> BufferEntry:
        offset = self.size_bytes
        for part in parts:
            self._draft.append(self.name, part)
        end = offset + layout.aligned(entry.size_bytes)
        self._draft.append(self.name, bytes(end - offset - entry.size_bytes))
        self.size_bytes = end
        return replace(entry, file=self._file, offset=offset)


class BufferSink(Protocol):
    """Where the buffers of a column go: a file, or memory until it is the column's turn."""

    def append(self, kind: str, *parts: NDArray[Any], settings: str = "") -> BufferEntry: ...


class BufferViews(Protocol):
    """Where the buffers of a column are read."""

    def view(self, kind: str, dtype: Any) -> NDArray[Any]:
        """The buffer as an array of `dtype`."""
        ...


class BufferOwner(Protocol):
    """A column's or star-tree's metadata."""

    @property
    def name(self) -> str: ...

    @property
    def buffers(self) -> tuple[BufferEntry, ...]: ...


class ColumnBuffers:
    """Typed read-only views of the buffers of one column (or star-tree) in mapped files. Only valid after
    `verify.check_structure`.
    """

    def __init__(self, column: BufferOwner, files: list[NDArray[np.uint8]], location: str) -> None:
        self._column = column.name
        self._entries = {entry.kind: entry for entry in column.buffers}
        self._files = files
        self.location = location

    def __contains__(self, kind: str) -> bool:
        return kind in self._entries

    def view(self, kind: str, dtype: Any) -> NDArray[Any]:
        """The buffer as an array of `dtype`."""
        entry = self._entries[kind]
        return self._files[entry.file][entry.offset : entry.offset + entry.size_bytes].view(dtype)

    def size(self, kind: str) -> int:
        """Bytes of the buffer."""
        return self._entries[kind].size_bytes

    def check(self, kind: str) -> None:
        """Compare the buffer with its CRC once more: files may be damaged while they are open. Raises
        SegmentCorruptError.
        """
        entry = self._entries[kind]
        crc = crc32c(self._files[entry.file][entry.offset : entry.offset + layout.aligned(entry.size_bytes)])
        if crc != entry.crc:
            raise SegmentCorruptError(
                f"buffer '{kind}' of column '{self._column}' was damaged after the segment was loaded",
                file=self.location,
                expected=f"CRC {entry.crc}",
                found=f"CRC {crc}",
                column=self._column,
            )

    def address(self, kind: str) -> int:
        """Where the buffer begins in memory."""
        entry = self._entries[kind]
        base: int = self._files[entry.file].__array_interface__["data"][0]
        return base + entry.offset
