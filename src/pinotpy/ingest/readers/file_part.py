"""A part of a file, read as if it were a file of its own: what leads every part, and some of what follows.

Of text and Avro a part is a range of bytes behind the file's header, which every part begins with; of Parquet and ORC
it is some row groups or stripes. Whoever cuts a file (`sniffing/splitting.py`) puts no cut into a row.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any, BinaryIO


@dataclass(frozen=True, slots=True)
class FilePart:
    """Attributes:
    number: from 0. head_end: the file's first bytes, up to here, come before those of each part.
    begin, end: bytes of the file; the first part begins with its header (0 = head_end). Of formats with row groups:
        their numbers.
    """

    number: int
    head_end: int
    begin: int
    end: int
    has_groups: bool = False

    @property
    def size_bytes(self) -> int:
        """Bytes that are read; of row groups that is not known."""
        return self.head_end + self.end - self.begin

    def groups(self, total: int) -> range:
        """The row groups of the part, of as many as the file has."""
        return range(self.begin, min(self.end, total))


class PartStream(io.RawIOBase):
    """The bytes of a part; can be sought."""

    def __init__(self, raw: BinaryIO, part: FilePart) -> None:
        super().__init__()
        self._raw, self._part = raw, part
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_CUR:
            offset += self._position
        elif whence == io.SEEK_END:
            offset += self._part.size_bytes
        self._position = max(0, min(offset, self._part.size_bytes))
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, target: Any) -> int:
        head_end = self._part.head_end
        is_head = self._position < head_end
        place = self._position if is_head else self._part.begin + self._position - head_end
        room = (head_end if is_head else self._part.end) - place
        self._raw.seek(place)
        content = self._raw.read(min(len(target), max(room, 0)))
        target[: len(content)] = content
        self._position += len(content)
        return len(content)

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()
