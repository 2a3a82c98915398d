"""A tar.gz read as a stream, one bounded piece at a time, by a reader that knows regular files and one directory only.

Python's tarfile is not used for reading: its filters have been bypassed more than once (CVE-2025-4517 and others), and
they bound neither the number of entries nor sizes. Here what is not understood is refused, and nothing is ever seeked
or trusted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from pinotpy.errors import UnsafeArchiveError
from pinotpy.segment.archive.inflate import INFLATE_ERRORS, gunzip

BLOCK: Final = 512
_READ_BYTES: Final = 128 << 10
_NAME_MAX_BYTES: Final = 4096
_REGULAR, _DIRECTORY, _PAX, _LONG_NAME = b"0", b"5", b"x", b"L"
_REFUSED: Final = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a character device",
    b"4": "a block device",
    b"6": "a fifo",
    b"7": "a contiguous file",
    b"S": "a sparse file",
    b"g": "a global pax header",
    b"K": "a long link name",
    b"D": "a dump directory",
    b"M": "a continued file",
    b"V": "a volume header",
}


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """What an archive may hold. The ratio counts from `ratio_floor_bytes` on: segments of constant columns shrink a
    thousandfold, and a small output hurts nobody."""

    entries_max: int = 64
    file_max_bytes: int = 16 << 30
    total_max_bytes: int = 16 << 30
    ratio_max: int = 100
    ratio_floor_bytes: int = 64 << 20

    @classmethod
    def of(cls, entries_max: int, unpacked_max_bytes: int) -> ArchiveLimits:
        """The limits that the settings of a daemon name."""
        return cls(entries_max=entries_max, file_max_bytes=unpacked_max_bytes, total_max_bytes=unpacked_max_bytes)


@dataclass(frozen=True, slots=True)
class Entry:
    """A regular file or a directory. The contents must be consumed before the next entry is asked for."""

    name: str
    is_directory: bool
    size_bytes: int
    contents: Iterator[bytes]


class _Inflater:
    """Plain bytes of one gzip stream, refused when they grow beyond the limits."""

    def __init__(self, source: BinaryIO, limits: ArchiveLimits) -> None:
        self._source = source
        self._limits = limits
        self._gunzip = gunzip()
        self._ready = b""
        self._num_read = 0
        self._num_plain = 0

    def read(self, size: int) -> bytes:
        """Up to `size` bytes, at least one; b"" only at the end of the stream."""
        while not self._ready:
            if self._gunzip.eof:
                if self._gunzip.unused_data or self._source.read(1):
                    raise UnsafeArchiveError("archive has bytes behind its gzip stream")
                return b""
            packed = self._gunzip.unconsumed_tail or self._source.read(_READ_BYTES)
            if not self._gunzip.unconsumed_tail:
                self._num_read += len(packed)
            if not packed:
                raise UnsafeArchiveError("archive is truncated: its gzip stream does not end")
            try:
                self._ready = self._gunzip.decompress(packed, _READ_BYTES)
            except INFLATE_ERRORS as error:
                raise UnsafeArchiveError(f"archive is not a gzip stream: {error}") from None
            self._num_plain += len(self._ready)
            self._check_growth()
        piece, self._ready = self._ready[:size], self._ready[size:]
        return piece

    def exactly(self, size: int, what: str) -> bytes:
        pieces = []
        while size:
            piece = self.read(size)
            if not piece:
                raise UnsafeArchiveError(f"archive is truncated in {what}")
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def _check_growth(self) -> None:
        limits = self._limits
        # Headers and padding come on top of the files.
        if self._num_plain > limits.total_max_bytes + (limits.entries_max + 20) * 3 * BLOCK + _READ_BYTES:
            raise UnsafeArchiveError(
                f"archive unpacks to more than {limits.total_max_bytes} bytes",
                found=self._num_plain,
                allowed=limits.total_max_bytes,
            )
        if self._num_plain > limits.ratio_floor_bytes and self._num_plain > limits.ratio_max * self._num_read:
            raise UnsafeArchiveError(
                f"archive unpacks to more than {limits.ratio_max} times its size ({self._num_read} bytes gave "
                f"{self._num_plain} so far)",
                found=self._num_plain // max(1, self._num_read),
                allowed=limits.ratio_max,
            )


def read_entries(source: BinaryIO, limits: ArchiveLimits) -> Iterator[Entry]:
    """Entries of a tar.gz in order; raises UnsafeArchiveError at the first thing that is not allowed."""
    stream = _Inflater(source, limits)
    num_headers = total = 0
    extended: dict[str, str] = {}
    while True:
        header = stream.exactly(BLOCK, "a header")
        if not header.strip(b"\0"):
            _check_end(stream)
            return
        num_headers += 1
        if num_headers > limits.entries_max:
            raise UnsafeArchiveError(f"archive has more than {limits.entries_max} entries", allowed=limits.entries_max)
        kind, name, size = _parse_header(header)
        if kind in (_PAX, _LONG_NAME):
            if size > _NAME_MAX_BYTES:
                raise UnsafeArchiveError(f"archive has an extended header of {size} bytes, allowed: {_NAME_MAX_BYTES}")
            body = stream.exactly(size + -size % BLOCK, "an extended header")[:size]
            extended |= _parse_pax(body) if kind == _PAX else {"path": _text(body.rstrip(b"\0"))}
            continue
        name = extended.get("path", name)
        size = _decimal(extended["size"]) if "size" in extended else size
        extended = {}
        total += size
        if size > limits.file_max_bytes:
            raise UnsafeArchiveError(
                f"archive entry '{name[:200]}' has {size} bytes, allowed: {limits.file_max_bytes}", found=size
            )
        if total > limits.total_max_bytes:
            raise UnsafeArchiveError(
                f"archive unpacks to more than {limits.total_max_bytes} bytes",
                found=total,
                allowed=limits.total_max_bytes,
            )
        if kind == _DIRECTORY and size:
            raise UnsafeArchiveError(f"archive directory '{name[:200]}' has contents")
        contents = _contents(stream, size, name)
        yield Entry(name, kind == _DIRECTORY, size, contents)
        for _ in contents:
            pass
        if stream.exactly(-size % BLOCK, "padding").strip(b"\0"):
            raise UnsafeArchiveError(f"archive entry '{name[:200]}' has bytes in its padding")


def _contents(stream: _Inflater, size: int, name: str) -> Iterator[bytes]:
    while size:
        piece = stream.read(min(size, _READ_BYTES))
        if not piece:
            raise UnsafeArchiveError(f"archive is truncated in '{name[:200]}'")
        size -= len(piece)
        yield piece


def _check_end(stream: _Inflater) -> None:
    # A second zero block ends a tar; writers pad to 10 KiB or more with zeros.
    while piece := stream.read(_READ_BYTES):
        if piece.strip(b"\0"):
            raise UnsafeArchiveError("archive goes on behind its end mark")


def _parse_header(header: bytes) -> tuple[bytes, str, int]:
    """Type, name and size of a header block."""
    try:
        recorded = int(header[148:156].strip(b" \0") or b"0", 8)
    except ValueError:
        raise UnsafeArchiveError("archive is not a tar: header without checksum") from None
    if recorded != sum(header[:148]) + 8 * 0x20 + sum(header[156:]):
        raise UnsafeArchiveError("archive is not a tar: header does not match its checksum")
    name = header[:100].split(b"\0", 1)[0]
    if header[257:263] == b"ustar\0" and header[345]:
        name = header[345:500].split(b"\0", 1)[0] + b"/" + name
    kind = header[156:157]
    # Old tars mark a regular file by NUL, and a directory by a slash at the end of the name alone.
    if kind == b"\0":
        kind = _DIRECTORY if name.endswith(b"/") else _REGULAR
    if kind not in (_REGULAR, _DIRECTORY, _PAX, _LONG_NAME):
        raise UnsafeArchiveError(
            f"archive entry '{_text(name)[:200]}' is {_REFUSED.get(kind, f'of unknown type {kind!r}')}: only regular "
            "files are allowed"
        )
    return kind, _text(name), _number(header[124:136])


def _number(field: bytes) -> int:
    if field[0] & 0x80:
        if field[0] != 0x80:
            raise UnsafeArchiveError("archive entry has a negative or absurd size")
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    if not all(0x30 <= digit <= 0x37 for digit in digits):
        raise UnsafeArchiveError(f"archive entry has a size that is no number: {field!r}")
    return int(digits or b"0", 8)


def _parse_pax(body: bytes) -> dict[str, str]:
    records = {}
    while body:
        length_text, separator, _ = body.partition(b" ")
        if not separator or len(length_text) > 4 or not length_text.isdigit():
            raise UnsafeArchiveError("archive has a malformed pax header")
        length = int(length_text)
        record, body = body[len(length_text) + 1 : length], body[length:]
        key, separator, value = record.removesuffix(b"\n").partition(b"=")
        if length < len(length_text) + 4 or not record.endswith(b"\n") or not separator:
            raise UnsafeArchiveError("archive has a malformed pax header")
        if key.startswith(b"GNU.sparse"):
            raise UnsafeArchiveError("archive has a sparse file: only plain regular files are allowed")
        if key in (b"path", b"size"):
            records[key.decode()] = _text(value)
    return records


def _decimal(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise UnsafeArchiveError(f"archive entry has a size that is no number: '{text[:40]}'")
    return int(text)


def _text(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise UnsafeArchiveError(f"archive has a name that is not UTF-8: {name[:100]!r}") from None
