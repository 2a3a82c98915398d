"""Streams of text in other encodings as UTF-8, which is what readers read."""

from __future__ import annotations

import codecs
import io
from typing import Any, BinaryIO, Final

from pinotpy.ingest.readers.compression import DamagedArchiveError

_CHUNK_BYTES: Final = 1 << 20


class UndecodableTextError(DamagedArchiveError):
    """A byte that the encoding does not have."""


class Transcoded(io.RawIOBase):
    """UTF-8 of a stream of text. A byte order mark of UTF-16 and UTF-32 is left out.

    Reading raises UndecodableTextError, with the place, for bytes that the encoding does not have.
    """

    def __init__(self, below: BinaryIO, encoding: str) -> None:
        super().__init__()
        self._below, self._encoding = below, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)("strict")
        self._waiting = b""
        self._bytes_before = 0
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        while not self._waiting and not self._ended:
            chunk = self._below.read(_CHUNK_BYTES)
            self._ended = not chunk
            try:
                self._waiting = self._decoder.decode(chunk, self._ended).encode()
            except UnicodeDecodeError as error:
                raise UndecodableTextError(
                    f"bytes near {self._bytes_before + error.start:,} are no {self._encoding}: name another encoding"
                ) from error
            self._bytes_before += len(chunk)
        part = self._waiting[: len(target)]
        self._waiting = self._waiting[len(part) :]
        target[: len(part)] = part
        return len(part)
