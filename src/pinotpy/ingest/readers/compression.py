"""Compressed input files, told by their first bytes, whatever they are called: gzip, bzip2 and Zstandard."""

from __future__ import annotations

import bz2
import gzip
import io
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO, Final, cast

import pyarrow as pa

_MAGIC_BYTES_MAX: Final = 10
_CHUNK_BYTES: Final = 1 << 16


class DamagedArchiveError(OSError):
    """What a compressed file holds cannot be unpacked: it is cut, or its bytes are others than were written."""


def decompressed(raw: BinaryIO) -> BinaryIO:
    """The stream, or what is packed in it. Closing it closes the stream below."""
    start = raw.read(_MAGIC_BYTES_MAX)
    raw.seek(0)
    for is_packed, unpack in _KINDS:
        if is_packed(start):
            # A buffer, since readers ask for lines and small pieces.
            return cast(BinaryIO, _Unpacked(raw, unpack(raw)))
    return raw


class _Bzip2:
    """Members one after the other, each checked. (Python's own file takes what is no member for the end, so that a
    damaged one and all behind it would be lost without a word.)
    """

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._member = bz2.BZ2Decompressor()
        self._started = False

    def read(self, size: int) -> bytes:
        while True:
            rest = self._member.unused_data
            if self._member.eof:
                self._member, self._started = bz2.BZ2Decompressor(), False
            if not rest and self._member.needs_input:
                rest = self._raw.read(_CHUNK_BYTES)
                if not rest and self._started:
                    raise EOFError("it ends within a member")
                if not rest:
                    return b""
            self._started = True
            content = self._member.decompress(rest, size)
            if content:
                return content

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        pass


def _zstandard(raw: BinaryIO) -> Any:
    return pa.CompressedInputStream(pa.PythonFile(raw, "r"), "zstd")


_KINDS: Final[tuple[tuple[Callable[[bytes], bool], Callable[[BinaryIO], Any]], ...]] = (
    (lambda start: start.startswith(b"\x1f\x8b"), lambda raw: gzip.GzipFile(fileobj=raw, mode="rb")),
    # Blocks begin with the digits of pi; the digits of its square root mark the end.
    (lambda start: start.startswith(b"BZh") and start[4:] in (b"1AY&SY", b"\x17rE8P\x90"), _Bzip2),
    # Tools that work in parallel begin with a frame to be skipped.
    (
        lambda start: (
            start.startswith(b"\x28\xb5\x2f\xfd") or (start[1:4] == b"\x2a\x4d\x18" and 0x50 <= start[0] <= 0x5F)
        ),
        _zstandard,
    ),
)


class _Unpacked(io.RawIOBase):
    """The unpacked bytes; can be read from the start on, and sought where the library can."""

    def __init__(self, raw: BinaryIO, stream: Any) -> None:
        super().__init__()
        self._raw, self._stream = raw, stream

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._stream.seekable())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._stream.seek(offset, whence))

    def tell(self) -> int:
        return int(self._stream.tell())

    def readinto(self, target: Any) -> int:
        try:
            chunk = self._stream.read(len(target))
        except (EOFError, zlib.error, gzip.BadGzipFile, pa.ArrowInvalid) as error:
            raise DamagedArchiveError(_cause(error)) from error
        except OSError as error:
            # bz2 and Arrow tell damage this way; what the system or a file system refuses carries a number.
            if error.errno is not None:
                raise
            raise DamagedArchiveError(_cause(error)) from error
        target[: len(chunk)] = chunk
        return len(chunk)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
            self._raw.close()
        super().close()


def _cause(error: Exception) -> str:
    return f"damaged compressed file: {str(error).splitlines()[0].lower() if str(error) else type(error).__name__}"
