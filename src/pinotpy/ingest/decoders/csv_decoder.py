"""Records that are one row of CSV without a header (Pinot: CSVMessageDecoder).

Properties mean what they mean to the reader of files (readers/csv_config.py). Of a record with several rows the first
one is taken, as the reference does.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from pinotpy.config.document import describe, refuse
from pinotpy.config.schema import Schema
from pinotpy.config.stream_configs import StreamConfig
from pinotpy.config.table import TableConfig
from pinotpy.errors import DecodeError, Fault, InvalidConfigError
from pinotpy.ingest.decoders.ledger import SAMPLE_CHARACTERS_MAX
from pinotpy.ingest.decoders.piped_decoder import PipedDecoder, parse_of_lists, stream_pipeline
from pinotpy.ingest.decoders.properties import key_of, unknown_properties
from pinotpy.ingest.readers.csv_config import CsvReaderConfig, read_config
from pinotpy.ingest.readers.csv_dialect import RecordTooLongError, RewrittenCsv
from pinotpy.ingest.readers.csv_format import BlockParser, input_rows, reason_of
from pinotpy.ingest.readers.csv_header import names_of_header
from pinotpy.ingest.readers.spec import InputBatch, ReaderColumn, Reject

# Of the reader's settings, those that say something of one row.
PROPERTIES: Final = (
    "fileFormat",
    "header",
    "delimiter",
    "multiValueDelimiter",
    "multiValueDelimiterEnabled",
    "quoteCharacter",
    "escapeCharacter",
    "commentMarker",
    "nullStringValue",
    "ignoreEmptyLines",
    "ignoreSurroundingSpaces",
)


def make(stream: StreamConfig, schema: Schema, table_config: TableConfig) -> PipedDecoder:
    """The decoder of a table."""
    settings = _settings(stream)
    pipeline = stream_pipeline(schema, table_config)
    names = _header(stream, settings, pipeline.reader_columns, schema)
    return PipedDecoder(pipeline, parse_of_lists(_Rows(settings, names, pipeline.reader_columns)))


def _settings(stream: StreamConfig) -> CsvReaderConfig:
    faults = unknown_properties(stream, PROPERTIES)
    try:
        settings = read_config({name: stream.decoder_properties[name] for name in _known(stream.decoder_properties)})
    except InvalidConfigError as error:
        settings = None
        faults += [
            Fault(key_of(stream, fault.path.removeprefix("$.")), fault.found, fault.allowed) for fault in error.faults
        ]
    refuse("csv decoder", faults)
    assert settings is not None
    return settings


def _known(properties: Mapping[str, str]) -> list[str]:
    return [name for name in properties if name in PROPERTIES]


def _header(
    stream: StreamConfig, settings: CsvReaderConfig, columns: Sequence[ReaderColumn], schema: Schema
) -> list[str]:
    """Names of the fields of a row: those of the property `header`, else the schema's columns."""
    header, delimiter = settings.header, settings.effective_delimiter
    expected = ""
    try:
        names = names_of_header(header, settings) if header is not None else list(schema.field_specs)
    except csv.Error as error:
        names, expected = [], f"names of columns joined by {delimiter!r}: {error}"
    if twice := sorted({name for name in names if names.count(name) > 1}):
        expected = f"each name once; more than once: {', '.join(repr(name[:60]) for name in twice[:5])}"
    elif not expected and not any(column.name in names for column in columns):
        shown = ", ".join(column.name for column in columns[:5]) or "there are none"
        expected = f"some of the table's columns ({shown}), joined by {delimiter!r}"
    if expected:
        found = describe(header) if header is not None else "nothing"
        refuse("csv decoder", [Fault(key_of(stream, "header"), found, expected)])
    return names


class _Rows:
    """Implements ParseList: one row a payload."""

    def __init__(self, settings: CsvReaderConfig, names: list[str], columns: Sequence[ReaderColumn]) -> None:
        self._settings = settings
        self._columns = [column for column in columns if column.name in names]
        self._marks = RewrittenCsv(io.BytesIO(), settings).marks
        self._parser = BlockParser(settings, self._marks, names, self._columns)
        self._comment = (settings.comment_marker or "").encode()
        self._escape = (settings.escape or "").encode()
        quote = re.escape((self._marks[1] or '"').encode())
        self._one_row = re.compile(rb"(?:%b[^%b]*%b|[^%b\r\n]+)*+" % (quote, quote, quote, quote))

    def __call__(self, payloads: Sequence[bytes], numbers: Sequence[int], reject: Reject) -> InputBatch:
        payload_of = dict(zip(numbers, payloads, strict=True))
        lines: list[bytes] = []
        of_lines: list[int] = []
        alone: list[bytes] = []
        of_alone: list[int] = []
        for number in numbers:
            payload = payload_of[number].removeprefix(codecs.BOM_UTF8)
            line = payload.rstrip(b"\r\n")
            try:
                if self._is_one_row(line):
                    line.decode()
                    lines.append(line)
                    of_lines.append(number)
                else:
                    row = self._first_row(payload)
                    row.decode()
                    alone.append(row)
                    of_alone.append(number)
            except UnicodeDecodeError:
                # Here, since Arrow cannot hand over a row with too few fields that is not UTF-8.
                reject(number, "", "not UTF-8", _shown(payload))
            except ValueError as error:
                reject(number, "", str(error), _shown(payload))
        block = b""
        if lines:
            block, bad = self._rewritten(lines)
            for index, cause in bad.items():
                reject(of_lines[index], "", cause, _shown(lines[index]))
            of_lines = [number for index, number in enumerate(of_lines) if index not in bad]
        block += b"".join(row + b"\n" for row in alone)
        return self._parsed(block, [*of_lines, *of_alone], payload_of, reject)

    def _is_one_row(self, line: bytes) -> bool:
        """Whether a line, without the end of it, is one row wherever it stands, or none that can be read."""
        return not (
            not line
            or b"\n" in line
            or b"\r" in line
            or (self._comment and line.startswith(self._comment))
            or (self._escape and line.endswith(self._escape))
        )

    def _rewritten(self, lines: list[bytes]) -> tuple[bytes, dict[int, str]]:
        """(lines as the parser knows them, those that are no CSV: index and cause)."""
        # A quote ends with its line: it never takes in the next record.
        rewritten = RewrittenCsv(io.BytesIO(b"\n".join(lines) + b"\n"), self._settings, lines_alone=True)
        try:
            content = b"".join(iter(rewritten.next_records, b""))
        except RecordTooLongError as error:
            raise DecodeError(str(error)) from error
        bad = {each.records_before + before: each.cause for before, each in enumerate(rewritten.bad)}
        return content, bad

    def _first_row(self, payload: bytes) -> bytes:
        """The first row of a record, as the parser knows it; raises ValueError with the cause if there is none."""
        rewritten = RewrittenCsv(io.BytesIO(payload), self._settings)
        rows = rewritten.next_records()
        if rewritten.bad and rewritten.bad[0].records_before == 0:
            raise ValueError(rewritten.bad[0].cause)
        if self._settings.skips_empty_lines:
            rows = rows.lstrip(b"\r\n")
        if not rows:
            raise ValueError("no row")
        row = self._one_row.match(rows)
        assert row is not None, "the pattern takes the empty row as well"
        return row.group()

    def _parsed(self, block: bytes, numbers: list[int], payload_of: Mapping[int, bytes], reject: Reject) -> InputBatch:
        names = [column.name for column in self._columns]
        if not numbers:
            return InputBatch(pa.RecordBatch.from_arrays([pa.nulls(0)] * len(names), names), np.zeros(0, np.int64))
        try:
            rows, left_out = self._parser.parsed(block)
        except pa.ArrowInvalid as error:
            raise DecodeError(f"no CSV: {reason_of(error)}") from error
        if rows.num_rows + len(left_out) != len(numbers):
            raise DecodeError(f"no CSV: {rows.num_rows + len(left_out)} rows, expected {len(numbers)}")
        is_kept = np.ones(len(numbers), np.bool_)
        for row in left_out:
            number = numbers[row.number - 1]
            is_kept[row.number - 1] = False
            cause = f"{row.actual_columns} fields, expected {row.expected_columns}"
            reject(number, "", cause, _shown(payload_of[number]))
        of_rows = np.array(numbers, np.int64)[is_kept]
        # Records that were taken one by one stand behind the others.
        order = np.argsort(of_rows)
        rows = rows if np.array_equal(order, np.arange(len(order))) else rows.take(pa.array(order))
        return input_rows(rows, self._columns, self._settings, of_rows[order], reject)


def _shown(payload: bytes) -> str:
    return payload[: 4 * SAMPLE_CHARACTERS_MAX].decode("utf-8", "replace")
