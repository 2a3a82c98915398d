"""The list of a segment's input files: where each of its rows came from.

It lies beside the segment's archive as `<segment name>.inputs.json` and is part of no archive and no checksum, so that
equal rows give equal archives wherever their files lie. Pushes compare the lists of the segments that a table has with
those that they bring: the rows of one file shall be in the table once. Format: docs/format/input-list.md.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import orjson

from pinotpy.errors import SegmentCorruptError

INPUT_LIST_SUFFIX: Final = ".inputs.json"
INPUT_LIST_MAX_BYTES: Final = 16 << 20
FILES_MAX: Final = 50_000
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class SegmentInput:
    """One input file of a segment.

    uri: where it lay, without user info and query. size_bytes: its size, -1 if the storage tells none. checksum:
    `crc32c:<8 hex digits>` of its bytes, or `etag:<text>` as the storage tells it; "" if neither is known. num_rows:
    its rows in this segment.
    file_rows: its rows in all segments that were built of it together; -1 if that was not written down.
    """

    uri: str
    size_bytes: int
    checksum: str
    num_rows: int
    file_rows: int = -1

    @property
    def content(self) -> tuple[int, str] | None:
        """What files of equal bytes have in common; None where the checksum is unknown."""
        return (self.size_bytes, self.checksum) if self.checksum else None


@dataclass(frozen=True, slots=True)
class InputList:
    """The input files of one segment, by URI ascending, each once."""

    files: tuple[SegmentInput, ...]

    @staticmethod
    def of(files: Iterable[SegmentInput]) -> InputList:
        return InputList(tuple(sorted(files, key=lambda file: file.uri)))

    def to_bytes(self) -> bytes:
        """UTF-8 JSON; equal lists give equal bytes."""
        return orjson.dumps(
            {"version": _VERSION, "files": [_plain(file) for file in self.files]}, option=orjson.OPT_INDENT_2
        )

    @property
    def digest(self) -> str:
        """SHA-256 of the bytes, as hex: what the segment's record in ZooKeeper holds."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    @staticmethod
    def from_bytes(data: bytes, where: str) -> InputList:
        """Raises SegmentCorruptError, with `where` as the file, for anything but a list of this or an older version."""
        if len(data) > INPUT_LIST_MAX_BYTES:
            raise SegmentCorruptError(
                "list of input files is too large",
                file=where,
                expected=f"<= {INPUT_LIST_MAX_BYTES} bytes",
                found=f"{len(data)} bytes",
            )
        try:
            document = orjson.loads(data)
            if document["version"] != _VERSION:
                raise _corrupt(where, f"version {document['version']!r:.40}")
            files = tuple(_file(each, where) for each in document["files"])
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise _corrupt(where, f"{type(error).__name__}: {error}"[:200]) from error
        if len(files) > FILES_MAX:
            raise _corrupt(where, f"{len(files)} files, at most {FILES_MAX} are possible")
        if any(later.uri <= earlier.uri for earlier, later in itertools.pairwise(files)):
            raise _corrupt(where, "files that are not ascending by URI")
        return InputList(files)


def _plain(file: SegmentInput) -> dict[str, Any]:
    plain = {"uri": file.uri, "sizeInBytes": file.size_bytes, "checksum": file.checksum, "rows": file.num_rows}
    return plain if file.file_rows < 0 else {**plain, "fileRows": file.file_rows}


def _file(plain: Any, where: str) -> SegmentInput:
    file = SegmentInput(plain["uri"], plain["sizeInBytes"], plain["checksum"], plain["rows"], plain.get("fileRows", -1))
    expected = (str, int, str, int, int)
    if (
        tuple(map(type, (file.uri, file.size_bytes, file.checksum, file.num_rows, file.file_rows))) != expected
        or file.num_rows < 0
    ):
        raise _corrupt(where, f"{plain!r:.200}")
    return file


def _corrupt(where: str, found: str) -> SegmentCorruptError:
    return SegmentCorruptError(
        "list of input files cannot be read",
        file=where,
        expected=f"version {_VERSION} of docs/format/input-list.md",
        found=found,
    )
