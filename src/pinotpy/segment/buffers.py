"""The buffers of a column: written one after the other, read as typed views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinotpy.errors import SegmentCorruptError
from pinotpy.segment import layout
from pinotpy.segment.checksum import crc32c
from pinotpy.segment.directory import SegmentDraft
from pinotpy.segment.metadata import BufferEntry, ColumnMetadata

# (what is wrong, expected, found) → the error, which knows column and file.
Wrong = Callable[[str, object, object], SegmentCorruptError]


class BufferWriter:
    """Appends buffers to one columns file of a draft, aligned, each with the CRC of its bytes and the zeros behind it."""

    def __init__(self, draft: SegmentDraft, file: int = 0) -> None:
        self._draft = draft
        self._file = file
        self.name = layout.COLUMNS if file == 0 else f"{layout.COLUMNS}.{file}"
        self.size_bytes = layout.COLUMNS_HEADER_BYTES
        draft.append(self.name, layout.columns_header())

    def append(self, kind: str, *parts: NDArray[Any]) -> BufferEntry:
        """Write one buffer, given in contiguous parts."""
        offset, size, crc = self.size_bytes, 0, 0
        for part in parts:
            plain = np.ascontiguousarray(part)
            self._draft.append(self.name, plain)
            crc = crc32c(plain, crc)
            size += plain.nbytes
        padding = bytes(layout.aligned(size) - size)
        self._draft.append(self.name, padding)
        self.size_bytes += size + len(padding)
        return BufferEntry(kind, self._file, offset, size, crc32c(padding, crc))


class ColumnBuffers:
    """Typed read-only views of one column's buffers in mapped files. Only valid after `verify.check_structure`."""

    def __init__(self, column: ColumnMetadata, files: list[NDArray[np.uint8]], location: str) -> None:
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

    def check(self, kind: str) -> None:
        """Compare the buffer with its CRC once more: files may be damaged while they are open. Raises SegmentCorruptError."""
        entry = self._entries[kind]
        found = crc32c(self._files[entry.file][entry.offset : entry.offset + layout.aligned(entry.size_bytes)])
        if found != entry.crc:
            raise SegmentCorruptError(
                f"buffer '{kind}' of column '{self._column}' was damaged after the segment was loaded",
                file=self.location,
                expected=f"CRC {entry.crc}",
                found=f"CRC {found}",
                column=self._column,
            )

    def address(self, kind: str) -> int:
        """Where the buffer begins in memory."""
        entry = self._entries[kind]
        base: int = self._files[entry.file].__array_interface__["data"][0]
        return base + entry.offset
