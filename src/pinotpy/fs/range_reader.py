"""A file of a remote storage as a stream that can be read anywhere: ranges are asked for, a MiB or more at a time."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, BinaryIO, cast

from pinotpy.errors import NotFoundError, RemoteError
from pinotpy.fs.file_system import FileEntry
from pinotpy.fs.uris import masked

BUFFER_BYTES = 1 << 20
# Of a file that is read to its end; Python's own would ask for 8 KiB at a time.
_REST_BYTES = 8 << 20


ReadRange = Callable[[int, int], bytes]
"""(offset, length ≥ 1, within the file) → the bytes."""


def of_one_version(uri: str, read_range: ReadRange, stat: Callable[[], FileEntry], opened: FileEntry) -> ReadRange:
    """Ranges of a storage that gives each from whatever the file is at that moment: it is asked again after each of
    them.

    Args:
        stat: what the file is now.
        opened: what it was when it was opened.
    """

    def checked(offset: int, length: int) -> bytes:
        content = read_range(offset, length)
        if stat() != opened:
            raise RemoteError(f"'{masked(uri)}' was replaced while it was read: try again", uri=masked(uri))
        return content

    return checked


def open_ranges(uri: str, size_bytes: int, read_range: ReadRange, close: Callable[[], None] | None = None) -> BinaryIO:
    """A buffered, seekable stream; its reads raise RemoteError if fewer or more bytes come than were asked for, or the
    file is gone.

    Args:
        uri: for messages.
        size_bytes: length of the file.
        read_range: bytes of one version of the file.
        close: called once, when the stream is closed.
    """
    return cast(BinaryIO, io.BufferedReader(_RangeReader(uri, size_bytes, read_range, close), BUFFER_BYTES))


class _RangeReader(io.RawIOBase):
    def __init__(self, uri: str, size_bytes: int, read_range: ReadRange, close: Callable[[], None] | None) -> None:
        super().__init__()
        self._uri, self._size_bytes, self._read_range, self._on_close, self._position = (
            uri,
            size_bytes,
            read_range,
            close,
            0,
        )

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size_bytes}[whence]
        if start + offset < 0:
            raise ValueError(f"a position before the file: {start + offset}")
        self._position = start + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        length = min(len(buffer), self._size_bytes - self._position)
        if length <= 0:
            return 0
        try:
            content = self._read_range(self._position, length)
        except NotFoundError as error:
            raise RemoteError(
                f"'{masked(self._uri)}' was replaced or deleted while it was read: try again", uri=masked(self._uri)
            ) from error
        if len(content) != length:
            raise RemoteError(
                f"'{masked(self._uri)}' broke off: expected {length} bytes at {self._position}, found {len(content)}",
                uri=masked(self._uri),
            )
        buffer[:length] = content
        self._position += length
        return length

    def readall(self) -> bytes:
        return b"".join(iter(lambda: self.read(_REST_BYTES) or b"", b""))

    def close(self) -> None:
        if not self.closed and self._on_close is not None:
            self._on_close()
        super().close()
