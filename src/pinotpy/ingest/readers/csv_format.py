"""CSV with the reader config of the manual. All values are text; an empty field is no value (as Pinot's CSVRecordExtractor)."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, BinaryIO, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from pydantic import BeforeValidator, Field

from pinotpy.config.date_pattern import DatePattern
from pinotpy.config.document import Document, Text, Truth, collect, describe, named, refuse, unrecognized
from pinotpy.errors import Fault
from pinotpy.ingest.readers.spec import BufferedStream, InputBatch, InputFile, Progress, ReaderColumn, Reject, buffered_reader, column_names

BLOCK_BYTES: Final = 1 << 20
HEADER_BYTES_MAX: Final = 1 << 20
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class CsvFileFormat(StrEnum):
    """Dialects of Commons CSV."""

    DEFAULT = "DEFAULT"
    EXCEL = "EXCEL"
    MYSQL = "MYSQL"
    RFC4180 = "RFC4180"
    TDF = "TDF"


def _character(value: Any) -> Any:
    if not isinstance(value, str) or len({"\\t": "\t"}.get(value, value)) != 1 or not value.isascii():
        raise ValueError("one ASCII character")
    return {"\\t": "\t"}.get(value, value)


Character = Annotated[str, BeforeValidator(_character)]


class CsvReaderConfig(Document):
    """Reader config of the manual (`-readerConfigFile`) and of `recordReaderSpec.configs`."""

    file_format: Annotated[CsvFileFormat, named(CsvFileFormat)] = Field(CsvFileFormat.DEFAULT, description="DEFAULT, EXCEL, MYSQL, RFC4180 or TDF.")
    header: Text | None = Field(None, description="Column names joined by the delimiter; the file then has no header row.")
    skip_header: Truth = Field(False, description="Leave out the file's first row although `header` is given.")
    delimiter: Character | None = Field(None, description="Between fields; default: by fileFormat.")
    multi_value_delimiter: Character | None = Field(";", description="Between the values of a multi-valued column.")
    quote_character: Character | None = Field(None, description="Around fields; default: by fileFormat.")
    escape_character: Character | None = Field(None, description="Before a character that stands for itself.")
    null_string_value: Text | None = Field(None, description="A text that means no value, besides the empty one.")
    ignore_empty_lines: Truth | None = Field(None, description="Default: by fileFormat.")
    ignore_surrounding_spaces: Truth | None = Field(None, description="Default: by fileFormat.")
    date_format: Text = Field("mm-dd-yyyy", description="Pattern of the date columns; mm without hours means the month.")
    date_columns: tuple[Text, ...] = Field((), description="Columns that are read by dateFormat into milliseconds since 1970-01-01 UTC.")

    @property
    def effective_delimiter(self) -> str:
        tab = self.file_format in (CsvFileFormat.MYSQL, CsvFileFormat.TDF)
        return self.delimiter or ("\t" if tab else ",")

    @property
    def quote(self) -> str | None:
        return self.quote_character or (None if self.file_format is CsvFileFormat.MYSQL else '"')

    @property
    def escape(self) -> str | None:
        return self.escape_character or ("\\" if self.file_format is CsvFileFormat.MYSQL else None)

    @property
    def skips_empty_lines(self) -> bool:
        if self.ignore_empty_lines is not None:
            return self.ignore_empty_lines
        return self.file_format in (CsvFileFormat.DEFAULT, CsvFileFormat.TDF)

    @property
    def trims(self) -> bool:
        return self.ignore_surrounding_spaces if self.ignore_surrounding_spaces is not None else self.file_format is CsvFileFormat.TDF

    @property
    def null_texts(self) -> list[str]:
        own = [self.null_string_value] if self.null_string_value is not None else []
        return ["", *own]

    @property
    def date_pattern(self) -> DatePattern:
        pattern = self.date_format
        # The manual's own default "mm-dd-yyyy" means the month; minutes without hours are meant by nobody.
        if "M" not in pattern and "H" not in pattern and "h" not in pattern:
            pattern = pattern.replace("m", "M")
        return DatePattern.compile(pattern)


def read_config(config: Mapping[str, Any]) -> CsvReaderConfig:
    """Check a reader config; unknown keys are refused, since each changes how every row is read."""
    faults: list[Fault] = []
    parsed = collect(CsvReaderConfig, dict(config), "$", faults)
    if parsed is not None:
        allowed = "one of " + ", ".join(str(field.alias) for field in CsvReaderConfig.model_fields.values())
        faults.extend(Fault(f"$.{pointer[1:]}", "an unknown key", allowed) for pointer in unrecognized(parsed))
        try:
            _ = parsed.date_pattern
        except ValueError as error:
            faults.append(Fault("$.dateFormat", describe(parsed.date_format), str(error)))
    refuse("csv reader config", faults)
    assert parsed is not None
    return parsed


def read(file: InputFile, columns: Sequence[ReaderColumn], config: Mapping[str, Any], reject: Reject, progress: Progress) -> Iterator[InputBatch]:
    """Read a CSV file; see `readers.spec.ReadFile`."""
    settings = read_config(config)
    with file.open() as stream:
        # MYSQL writes no value as \N, which the parser would read as an escaped N.
        tail = _Tail(cast(BinaryIO, _WithoutNulls(stream)) if settings.file_format is CsvFileFormat.MYSQL else stream)
        buffered = buffered_reader(cast(BinaryIO, tail))
        names = _header(file, buffered, settings)
        if not buffered.peek(1):
            return
        wanted = [column for column in columns if column.name in names]
        if columns and not wanted:
            shown = ", ".join(repr(name[:60]) for name in names[:5])
            raise file.broken(
                f"the header has none of the schema's columns, found {shown}{' …' if len(names) > 5 else ''}, expected some of "
                f"{', '.join(column.name for column in columns[:5])}; check the header and the delimiter (now {settings.effective_delimiter!r})",
                row=0,
            )
        skipped: list[int] = []
        reader = _open(file, buffered, settings, names, wanted, skipped, reject)
        next_row = 1
        last_value: Any = None
        while True:
            batch = _next_batch(file, reader, next_row)
            if batch is None:
                _refuse_open_quote(file, last_value, tail.content, settings.quote, next_row - 1)
                break
            last_value = batch.column(names[-1])[-1].as_py() if batch.num_rows else last_value
            row_numbers = _row_numbers(next_row, batch.num_rows, skipped)
            next_row = int(row_numbers[-1]) + 1 if batch.num_rows else next_row
            yield InputBatch(_converted(file, batch, wanted, settings, row_numbers, reject), row_numbers)
            progress(file.position_bytes, file.size_bytes)


def _header(file: InputFile, stream: BufferedStream, settings: CsvReaderConfig) -> list[str]:
    """Column names; the stream then stands at the first row."""
    if settings.header is not None:
        names = next(csv.reader([settings.header], delimiter=settings.effective_delimiter))
        if settings.skip_header:
            stream.readline(HEADER_BYTES_MAX)
        return column_names(file, [name.strip() for name in names])
    line = b"\n"
    while line.strip(b"\r\n") == b"" and line:
        line = stream.readline(HEADER_BYTES_MAX)
    if not line:
        return []
    if len(line) >= HEADER_BYTES_MAX:
        raise file.broken(f"the header is longer than {HEADER_BYTES_MAX} bytes", row=0)
    try:
        text = line.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise file.broken("the header is not UTF-8", row=0) from error
    quote = settings.quote
    names = next(csv.reader([text], delimiter=settings.effective_delimiter, quotechar=quote or '"', quoting=csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE))
    return column_names(file, [name.strip() for name in names])


class _WithoutNulls(io.RawIOBase):
    """A stream of tab separated lines whose fields `\\N` are empty. Fields hold no line breaks: MYSQL does not quote."""

    _NULL: Final = re.compile(rb"(?m)(^|(?<=\t))\\N(?=\t|\r?$)")
    _CHUNK_BYTES: Final = 1 << 20

    def __init__(self, below: BinaryIO) -> None:
        super().__init__()
        self._below = below
        self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        if not self._ready:
            lines = self._below.read(self._CHUNK_BYTES)
            lines += self._below.readline() if lines else b""
            self._ready = self._NULL.sub(b"", lines)
        part = self._ready[: len(target)]
        self._ready = self._ready[len(part) :]
        target[: len(part)] = part
        return len(part)


class _Tail(io.RawIOBase):
    """A stream that remembers the last bytes that were read of it."""

    _BYTES: Final = 256

    def __init__(self, below: BinaryIO) -> None:
        super().__init__()
        self._below = below
        self.content = b""

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        chunk = self._below.read(len(target)) or b""
        target[: len(chunk)] = chunk
        self.content = (self.content + chunk[-self._BYTES :])[-self._BYTES :]
        return len(chunk)


def _refuse_open_quote(file: InputFile, last_value: bytes | None, tail: bytes, quote: str | None, row: int) -> None:
    """The parser takes the end of the file for a missing closing quote: the rows after the opening one would be lost in a field.

    In another column than the last this shows as a row with too few fields.
    """
    if quote is None or last_value is None or b"\n" not in last_value or tail.rstrip(b" \t\r\n").endswith(quote.encode()):
        return
    raise file.broken(f"a quote ({quote}) that is opened in the last column is never closed", row=row)


def _open(
    file: InputFile, stream: BufferedStream, settings: CsvReaderConfig, names: list[str], wanted: list[ReaderColumn], skipped: list[int], reject: Reject
) -> pacsv.CSVStreamingReader:
    def on_bad_row(row: Any) -> str:
        number = len(skipped) + 1 if row.number is None else int(row.number)
        skipped.append(number)
        reject(number, "", f"{row.actual_columns} fields, expected {row.expected_columns}")
        return "skip"

    # The file's last column, wanted or not: it shows whether a quote was left open.
    included = list(dict.fromkeys([*(column.name for column in wanted), names[-1]]))
    try:
        return pacsv.open_csv(
            stream,
            read_options=pacsv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES, column_names=names),
            parse_options=pacsv.ParseOptions(
                delimiter=settings.effective_delimiter,
                quote_char=settings.quote or False,
                double_quote=settings.quote is not None,
                escape_char=settings.escape or False,
                newlines_in_values=settings.quote is not None,
                ignore_empty_lines=settings.skips_empty_lines,
                invalid_row_handler=on_bad_row,
            ),
            convert_options=pacsv.ConvertOptions(
                # Bytes first: text that is not UTF-8 is then found by row instead of failing a block.
                column_types=dict.fromkeys(included, pa.binary()),
                include_columns=included,
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
                null_values=settings.null_texts,
            ),
        )
    except pa.ArrowInvalid as error:
        raise file.broken(_reason(error)) from error


def _next_batch(file: InputFile, reader: pacsv.CSVStreamingReader, next_row: int) -> pa.RecordBatch | None:
    try:
        return reader.read_next_batch()
    except StopIteration:
        return None
    except (pa.ArrowInvalid, EOFError, OSError) as error:
        raise file.broken(f"cannot be read from about here on: {_reason(error)}", row=next_row) from error


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0].removeprefix("CSV parse error: ")[:300].lower()


def _row_numbers(next_row: int, count: int, skipped: list[int]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Numbers of the delivered rows, stepping over those that were left out."""
    ahead = np.array([row for row in skipped if row >= next_row], dtype=np.int64)
    numbers = np.arange(next_row, next_row + count + ahead.size, dtype=np.int64)
    return np.setdiff1d(numbers, ahead, assume_unique=True)[:count] if ahead.size else numbers


def _converted(
    file: InputFile, batch: pa.RecordBatch, wanted: list[ReaderColumn], settings: CsvReaderConfig, rows: np.ndarray[Any, np.dtype[np.int64]], reject: Reject
) -> pa.RecordBatch:
    arrays = []
    for column in wanted:
        text = _text(file, batch.column(column.name), column.name, rows)
        if settings.trims:
            text = pc.utf8_trim_whitespace(text)
        if column.name in settings.date_columns:
            arrays.append(_dates(file, text, settings.date_pattern, column.name, rows))
        elif not column.single_value and settings.multi_value_delimiter is not None:
            arrays.append(pc.split_pattern(text, settings.multi_value_delimiter))
        else:
            arrays.append(text)
    return pa.RecordBatch.from_arrays(arrays, [column.name for column in wanted])


def _text(file: InputFile, array: pa.Array, column: str, rows: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Array:
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        for value, row in zip(array, rows, strict=True):
            try:
                (value.as_py() or b"").decode()
            except UnicodeDecodeError as error:
                raise file.broken("not UTF-8", row=int(row), column=column) from error
        raise


def _dates(file: InputFile, text: pa.Array, pattern: DatePattern, column: str, rows: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Array:
    encoded = text.dictionary_encode()
    millis = []
    for value in encoded.dictionary.to_pylist():
        try:
            millis.append((pattern.parse(value, UTC) - _EPOCH) // timedelta(milliseconds=1))
        except (ValueError, OverflowError) as error:
            row = int(rows[pc.index(text, pa.scalar(value)).as_py()])
            raise file.broken(f"{error}; expected the date format {pattern.text}", row=row, column=column) from error
    return pa.array(millis, pa.int64()).take(encoded.indices)
