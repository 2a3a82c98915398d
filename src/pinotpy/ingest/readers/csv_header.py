"""The header of a CSV file: names of its columns, and rows that are the header once more."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.arrays import Int64Array
from pinotpy.ingest.readers.csv_config import CsvReaderConfig
from pinotpy.ingest.readers.spec import BufferedStream, InputFile, Reject, column_names

HEADER_BYTES_MAX: Final = 1 << 20


def read_header(
    file: InputFile, stream: BufferedStream, settings: CsvReaderConfig, delimiter: str, quote: str | None
) -> tuple[list[str], list[str] | None]:
    """(column names, the fields of the file's own header or None); the stream then stands at the first row."""
    if settings.header is None:
        names = _header_fields(file, stream, delimiter, quote)
        return column_names(file, names), names
    own: list[str] | None = None
    if settings.skip_header and settings.skip_repeated_header:
        own = _header_fields(file, stream, delimiter, quote)
    elif settings.skip_header:
        _first_record(file, stream, delimiter, quote)
        own = []
    return column_names(file, names_of_header(settings.header, settings)), own


def leave_out_lines(file: InputFile, stream: BufferedStream, settings: CsvReaderConfig) -> None:
    """Read over the lines before the header (`skipRows`); quotes mean nothing there."""
    for _ in range(settings.skip_rows):
        if not _first_record(file, stream, settings.effective_delimiter, None):
            return


def _header_fields(file: InputFile, stream: BufferedStream, delimiter: str, quote: str | None) -> list[str]:
    line = b"\n"
    while line.strip(b"\r\n") == b"" and line:
        line = _first_record(file, stream, delimiter, quote)
    if not line:
        return []
    try:
        text = line.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise file.broken("the header is not UTF-8", row=0) from error
    lines = io.StringIO(text, newline="")
    if quote is not None:
        names = next(csv.reader(lines, delimiter=delimiter, quotechar=quote))
    else:
        names = next(csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE))
    return [name.strip() for name in names]


def without_headers(
    batch: pa.RecordBatch, numbers: Int64Array, header: Mapping[str, str], reject: Reject
) -> tuple[pa.RecordBatch, Int64Array]:
    """The rows that are not the header again; `header`: its fields by column name, none: all rows stay."""
    keep = np.zeros(batch.num_rows, np.bool_)
    expected = [(name, header[name]) for name in batch.schema.names if header.get(name)]
    for name, text in expected:
        keep |= ~np.asarray(pc.fill_null(pc.equal(batch.column(name), text.encode()), False))
        if keep.all():
            break
    if not expected or keep.all():
        return batch, numbers
    for row in np.flatnonzero(~keep).tolist():
        reject(int(numbers[row]), "", "the header again", "", allowed=True)
    return batch.filter(pa.array(keep)), numbers[keep]


def names_of_header(header: str, settings: CsvReaderConfig) -> list[str]:
    """Column names of the setting `header`."""
    return [name.strip() for name in next(csv.reader([header], delimiter=settings.effective_delimiter))]


def _first_record(file: InputFile, stream: BufferedStream, delimiter: str, quote: str | None) -> bytes:
    """The bytes up to the first line end (LF, CR LF or CR) outside of quotes."""
    record = b""
    is_quoted = False
    mark = ord(quote) if quote is not None else -1
    # A quote begins a quoted field at its beginning only, and goes on with one as the second of two.
    before = ord(delimiter)
    while len(record) < HEADER_BYTES_MAX:
        window = stream.peek(1)[:HEADER_BYTES_MAX]
        if not window:
            return record
        for offset, byte in enumerate(window):
            if byte == mark and (is_quoted or before in (ord(delimiter), mark)):
                is_quoted = not is_quoted
            elif byte in b"\r\n" and not is_quoted:
                record += stream.read(offset + 1)
                if byte == 13 and stream.peek(1)[:1] == b"\n":
                    record += stream.read(1)
                return record
            before = byte
        record += stream.read(len(window))
    raise file.broken(f"the header is longer than {HEADER_BYTES_MAX} bytes", row=0)
