"""The door of file readers: a file of some format becomes Arrow batches in *input form*.

Input form: one Arrow column for each wanted column that the file has, typed as the file has it (CSV: text; JSON, Avro,
Parquet: what stands there), with null where there is no value. `ingest.pipeline` makes the storage form of it. A reader
is a module of this folder with `FORMAT` and `read`; the folder is scanned by `catalog`.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

import numpy as np
import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.errors import DecodeError, UserError
from pinotpy.ingest.readers.compression import decompressed
from pinotpy.ingest.readers.file_part import FilePart, PartStream

# Rows of a batch: large enough that a call into Arrow costs nothing a row, small enough for the caches.
BATCH_ROWS = 1 << 16

Progress = Callable[[int, int], None]
"""(bytes read, bytes of the file); called after each batch."""


class Reject(Protocol):
    """Called for each row that the reader leaves out: row from 1, column or '', cause, and the row's text where it is
    known.

    `allowed`: the reader's settings say that such a row may be left out; it is listed, and does not count for the
    largest share.
    """

    def __call__(self, row: int, column: str, cause: str, text: str = "", *, allowed: bool = False) -> None: ...


class FileFormat(StrEnum):
    """Formats of input files."""

    CSV = "csv"
    TSV = "tsv"
    JSON = "json"
    AVRO = "avro"
    PARQUET = "parquet"
    ORC = "orc"


@dataclass(frozen=True, slots=True)
class ReaderColumn:
    """A column that the caller wants, if the file has it.

    nested: records, lists and maps are wanted as Arrow's structs, lists and maps instead of text, for
    `ingest.complex_types`.
    """

    name: str
    data_type: DataType
    single_value: bool = True
    nested: bool = False


@dataclass(frozen=True, slots=True)
class InputBatch:
    """Rows in input form. `row_numbers` (int64, one a row) count from 1 in the file, also over rows that were left
    out.
    """

    batch: pa.RecordBatch
    row_numbers: Int64Array


@dataclass(slots=True)
class FileFields:
    """The fields of a file. `declared`: its header or schema names them; else each record names its own (JSON), and
    these were met so far: all that are wanted, and some of the others.
    """

    names: set[str]
    declared: bool = True


class InputFile:
    """A file to read, plain or compressed (gzip, bzip2, Zstandard, told by its first bytes), of this machine or
    another.

    Args:
        path: of the file. shown: in messages, instead of the path: where the user knows the file to be.
        opener: instead of opening the path; gives a stream that can be sought, to which size_bytes then belongs.
        part: of the file; None: all of it. Rows are numbered from 1 within it.
    """

    def __init__(
        self,
        path: Path,
        opener: Callable[[], BinaryIO] | None = None,
        size_bytes: int | None = None,
        part: FilePart | None = None,
        shown: str | None = None,
    ) -> None:
        self.path = path
        self._shown = shown
        self.part = part
        self._opener = opener
        self._raw: BinaryIO | None = None
        self._opened: os.stat_result | None = None  # as it was when it was opened first
        self._size_bytes = size_bytes
        self.fields: FileFields | None = None  # set by the reader; None where it has neither header nor rows

    @property
    def name(self) -> str:
        return self._shown or str(self.path)

    @property
    def size_bytes(self) -> int:
        """Bytes to read, before decompression where the file is compressed."""
        if self._size_bytes is None and self.part is not None and not self.part.has_groups:
            self._size_bytes = self.part.size_bytes
        if self._size_bytes is None:
            self._size_bytes = os.stat(self.path).st_size
        return self._size_bytes

    @property
    def position_bytes(self) -> int:
        """Bytes read so far, on the same scale as `size_bytes`."""
        if self._raw is None:
            return 0
        return self.size_bytes if self._raw.closed else self._raw.tell()

    def open(self) -> BinaryIO:
        """Open for reading from the start; the caller closes it. Raises UserError if it cannot be opened."""
        try:
            raw: BinaryIO = self._opener() if self._opener is not None else self.path.open("rb")
        except OSError as error:
            raise UserError(
                f"'{self.name}' cannot be opened: {(error.strerror or str(error)).lower()}", file=self.name
            ) from error
        if self._opener is None and self._opened is None:
            self._opened = os.fstat(raw.fileno())
        if self.part is not None and not self.part.has_groups:
            raw = cast(BinaryIO, PartStream(raw, self.part))
        self._raw = raw
        return decompressed(raw)

    def check_unchanged(self) -> None:
        """Raise DecodeError if somebody wrote to the file since it was opened: what was read may be half of a row, or
        rows of two versions.

        A file that was replaced or removed meanwhile was read as it had been.
        """
        with suppress(FileNotFoundError):
            if self._opened is not None and _is_written(self._opened, os.stat(self.path)):
                raise self.broken("it was written to while it was read; run again once it is whole")

    def open_seekable(self) -> BinaryIO:
        """Like `open`, for formats that are read from their end. Raises DecodeError for a file that is compressed from
        outside.
        """
        stream = self.open()
        if stream is not self._raw:
            stream.close()
            raise self.broken(
                "a compressed file around a format that is compressed within and read from its end; unpack it first"
            )
        return stream

    def broken(self, cause: str, row: int | None = None, column: str = "") -> DecodeError:
        """The error for content that cannot be read; `row` counts from 1."""
        where = "".join((f" row {row}" if row is not None else "", f" column '{column}'" if column else ""))
        return DecodeError(f"'{self.name}'{where}: {cause}", file=self.name, row=row, column=column or None)


def _is_written(opened: os.stat_result, now: os.stat_result) -> bool:
    is_same = (opened.st_dev, opened.st_ino) == (now.st_dev, now.st_ino)
    return is_same and (opened.st_size, opened.st_mtime_ns) != (now.st_size, now.st_mtime_ns)


class ReadFile(Protocol):
    """What a reader module's `read` is.

    Yields batches of about BATCH_ROWS rows. Rows that cannot be read at all go to `reject`; damage after which nothing
    can be read raises DecodeError with file and row; settings that the format does not know raise InvalidConfigError.
    """

    def __call__(
        self,
        file: InputFile,
        columns: Sequence[ReaderColumn],
        config: Mapping[str, Any],
        reject: Reject,
        progress: Progress,
    ) -> Iterator[InputBatch]: ...


def column_names(file: InputFile, names: Sequence[str]) -> list[str]:
    """Check the columns of a file: equal names would make one of them unreadable."""
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise file.broken(
            f"columns {', '.join(repr(name) for name in twice[:5])} stand more than once, expected each name once"
        )
    return list(names)


def numbered(first_row: int, count: int) -> Int64Array:
    """Row numbers of a batch without left-out rows."""
    return np.arange(first_row, first_row + count, dtype=np.int64)


class BufferedStream(Protocol):
    """A stream whose next bytes can be looked at."""

    def read(self, size: int = -1, /) -> bytes: ...

    def readline(self, size: int | None = -1, /) -> bytes: ...

    def peek(self, size: int = 0, /) -> bytes: ...


def buffered_reader(stream: BinaryIO) -> BufferedStream:
    """A stream with a buffer of 1 MiB; it goes with the stream below."""
    return cast(BufferedStream, io.BufferedReader(cast(io.RawIOBase, stream), 1 << 20))
