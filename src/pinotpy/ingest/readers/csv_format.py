"""CSV with the reader config of the manual. All values are text; an empty field is no value (as Pinot's
CSVRecordExtractor).

Arrow reads plain CSV; other dialects, and quotes, of which it takes any, are rewritten on the way (`csv_dialect.py`).
Rows with too few or too many fields, with text behind a closing quote, and values that are not UTF-8, are rejected
rows.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from pinotpy.arrays import Int64Array
from pinotpy.config.date_pattern import DatePattern
from pinotpy.ingest.conversion import Converted, by_unique, halving
from pinotpy.ingest.list_arrays import with_items
from pinotpy.ingest.readers.csv_config import CsvReaderConfig, read_config
from pinotpy.ingest.readers.csv_dialect import RecordTooLongError, RewrittenCsv, WithoutByteOrderMark
from pinotpy.ingest.readers.csv_header import leave_out_lines, read_header, without_headers
from pinotpy.ingest.readers.spec import (
    BufferedStream,
    FileFields,
    InputBatch,
    InputFile,
    Progress,
    ReaderColumn,
    Reject,
    buffered_reader,
)
from pinotpy.ingest.readers.transcoding import Transcoded

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OTHER_ENCODINGS: Final = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


def read(
    file: InputFile, columns: Sequence[ReaderColumn], config: Mapping[str, Any], reject: Reject, progress: Progress
) -> Iterator[InputBatch]:
    """Read a CSV file; see `readers.spec.ReadFile`."""
    settings = read_config(config)
    with file.open() as raw:
        text = cast(BinaryIO, Transcoded(raw, settings.encoding)) if settings.encoding is not None else raw
        unmarked = WithoutByteOrderMark(text)
        if settings.encoding is None and unmarked.start[:2] in _OTHER_ENCODINGS:
            raise file.broken(f"the file is {_OTHER_ENCODINGS[unmarked.start[:2]]}, expected UTF-8", row=0)
        below = cast(BinaryIO, unmarked)
        if settings.skip_rows:
            lines = buffered_reader(below)
            leave_out_lines(file, lines, settings)
            below = cast(BinaryIO, lines)
        rewritten = RewrittenCsv(below, settings)
        stream = buffered_reader(cast(BinaryIO, rewritten))
        delimiter, quote = rewritten.marks
        try:
            names, header = read_header(file, stream, settings, delimiter, quote)
        except RecordTooLongError as error:
            raise file.broken(str(error), row=0) from error
        if not names:
            return
        file.fields = FileFields(set(names))
        present = [column for column in columns if column.name in names]
        if columns and not present:
            shown = ", ".join(repr(name[:60]) for name in names[:5])
            raise file.broken(
                f"the header has none of the schema's columns, found {shown}{' …' if len(names) > 5 else ''}, "
                "expected some of "
                f"{', '.join(column.name for column in columns[:5])}; check the header and the delimiter (now "
                f"{settings.effective_delimiter!r})",
                row=0,
            )
        numbering = _Numbering(
            file, rewritten, int(header is not None), reject, allowed=settings.skip_un_parseable_lines
        )
        header_texts = dict(zip(names, header or [], strict=False)) if settings.skip_repeated_header else {}
        parser = BlockParser(settings, (delimiter, quote), names, present)
        # Closed before the file is, which its thread may be reading.
        with closing(_parsed(file, stream, rewritten, parser, numbering)) as batches:
            for block in batches:
                rows, numbers = without_headers(block.rows, numbering.of_block(block), header_texts, reject)
                yield input_rows(rows, present, settings, numbers, reject)
                progress(file.position_bytes, file.size_bytes)


class _Numbering:
    """Numbers of rows in the file, over those that were left out.

    Args:
        rewritten: knows rows that never reach Arrow, which counts the others from 1.
        num_headers: records before the first row.
        allowed: whether rows that are no CSV may be left out.
    """

    def __init__(
        self, file: InputFile, rewritten: RewrittenCsv, num_headers: int, reject: Reject, *, allowed: bool
    ) -> None:
        self._file, self._rewritten, self._num_headers, self._reject, self._allowed = (
            file,
            rewritten,
            num_headers,
            reject,
            allowed,
        )
        self.next_row = 1
        self._num_parsed = 0
        self._skipped: list[int] = []
        self._num_bad = 0

    def of_block(self, block: _Block) -> Int64Array:
        """Numbers of the rows that Arrow gave of the next block; those that it left out are rejected."""
        count = block.rows.num_rows
        for row in block.left_out:
            # Of an open quote later: these rows come before it.
            self._take_bad(block.num_bad, refuses_open=False)
            number = self._in_file(self._num_parsed + int(row.number))
            self._skipped.append(number)
            self._reject(
                number,
                "",
                f"{row.actual_columns} fields, expected {row.expected_columns}",
                row.text,
                allowed=self._allowed,
            )
        self._num_parsed += count + len(block.left_out)
        self._take_bad(block.num_bad)
        ahead = np.array(sorted(row for row in self._skipped if row >= self.next_row), np.int64)
        numbers = np.arange(self.next_row, self.next_row + count + ahead.size, dtype=np.int64)
        if ahead.size:
            numbers = np.setdiff1d(numbers, ahead, assume_unique=True)[:count]
        self.next_row = int(numbers[-1]) + 1 if count else self.next_row
        self._skipped = [row for row in ahead.tolist() if row >= self.next_row]
        return numbers

    def finish(self) -> None:
        """Reject what lies behind the last row."""
        self._take_bad(len(self._rewritten.bad))

    def _take_bad(self, end: int, *, refuses_open: bool = True) -> None:
        while self._num_bad < end:
            bad = self._rewritten.bad[self._num_bad]
            number = max(bad.records_before - self._num_headers, 0) + self._num_bad + 1
            if bad.is_open and not refuses_open:
                return
            if bad.is_open:
                raise self._file.broken(f"{bad.cause}; it begins at {bad.text[:40]!r}", row=number)
            self._num_bad += 1
            self._skipped.append(number)
            self._reject(number, "", bad.cause, bad.text, allowed=self._allowed)

    def _in_file(self, number: int) -> int:
        """The row that Arrow calls `number`: those that it never saw stand between."""
        return number + sum(max(bad.records_before - self._num_headers, 0) < number for bad in self._rewritten.bad)


def _blocks(stream: BufferedStream, rewritten: RewrittenCsv) -> Iterator[bytes]:
    """The records from here on, whole ones at a time, however large."""
    waiting = stream.read(len(stream.peek(1)))
    block = waiting + rewritten.next_records() if waiting else b""
    while block:
        yield block
        block = rewritten.next_records()


@dataclass(frozen=True, slots=True)
class _Block:
    """Rows that Arrow gave of a block; those of another number of fields, which it left out and which count within the
    block; and how many records of the file up to the block's end were no CSV: the next block is read meanwhile.
    """

    rows: pa.RecordBatch
    left_out: list[Any]
    num_bad: int


class BlockParser:
    """Arrow, given a block at a time. Its own reader of streams calls Python, for bytes and with rows that it leaves
    out, from threads of its own: while a batch is worked on, and when the process ends.
    """

    def __init__(
        self, settings: CsvReaderConfig, marks: tuple[str, str | None], names: list[str], wanted: list[ReaderColumn]
    ) -> None:
        delimiter, quote = marks
        self._names = names
        self._left_out: list[Any] = []
        self._parse = pacsv.ParseOptions(
            delimiter=delimiter,
            quote_char=quote or False,
            double_quote=quote is not None,
            escape_char=False,
            newlines_in_values=quote is not None,
            ignore_empty_lines=settings.skips_empty_lines,
            invalid_row_handler=self._leave_out,
        )
        # Rows without any wanted column are still rows.
        included = [column.name for column in wanted] or names[-1:]
        self._convert = pacsv.ConvertOptions(
            # Bytes first: text that is not UTF-8 is then found by row instead of failing a block.
            column_types=dict.fromkeys(included, pa.binary()),
            include_columns=included,
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
            null_values=settings.null_texts,
        )

    def parsed(self, block: bytes) -> tuple[pa.RecordBatch, list[Any]]:
        """(rows, those that were left out, which count within the block) of whole records; raises pa.ArrowInvalid."""
        # One of Arrow's own blocks, since it takes no record that reaches over two.
        options = pacsv.ReadOptions(use_threads=False, block_size=len(block), column_names=self._names)
        self._left_out = []
        table = pacsv.read_csv(
            pa.BufferReader(block), read_options=options, parse_options=self._parse, convert_options=self._convert
        )
        (batch,) = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
        return batch, self._left_out

    def _leave_out(self, row: Any) -> str:
        self._left_out.append(row)
        return "skip"


def _parsed(
    file: InputFile, stream: BufferedStream, rewritten: RewrittenCsv, parser: BlockParser, numbering: _Numbering
) -> Generator[_Block]:
    """The blocks, parsed; the next one is read and parsed meanwhile."""

    def parse_next() -> _Block | None:
        block = next(blocks, None)
        return _Block(*parser.parsed(block), len(rewritten.bad)) if block is not None else None

    blocks = _blocks(stream, rewritten)
    with ThreadPoolExecutor(1, "csv") as thread:
        ahead = thread.submit(parse_next)
        while True:
            try:
                next_block = ahead.result()
            except (pa.ArrowInvalid, RecordTooLongError, EOFError, OSError) as error:
                raise file.broken(
                    f"cannot be read from about here on: {reason_of(error)}", row=numbering.next_row
                ) from error
            if next_block is None:
                numbering.finish()
                return
            ahead = thread.submit(parse_next)
            yield next_block


def reason_of(error: Exception) -> str:
    """What Arrow says of text that it cannot read, in a line."""
    return str(error).splitlines()[0].removeprefix("CSV parse error: ")[:300].lower()


def input_rows(
    batch: pa.RecordBatch,
    columns: list[ReaderColumn],
    settings: CsvReaderConfig,
    rows: Int64Array,
    reject: Reject,
) -> InputBatch:
    """Input form of rows of bytes; those with a value that cannot be read are rejected.

    Args:
        rows: their numbers.
    """
    arrays = []
    bad: dict[int, tuple[str, str]] = {}
    for column in columns:
        text = _text(batch.column(column.name))
        values = text
        if column.name in settings.date_columns:
            values = _dates(text.array, settings.date_pattern).after(text)
        elif (
            not column.single_value
            and settings.multi_value_delimiter is not None
            and settings.multi_value_delimiter_enabled
        ):
            values = Converted(_split(text.array, settings.multi_value_delimiter), text.bad)
        for bad_value in values.bad:
            bad.setdefault(bad_value.row, (column.name, bad_value.cause))
        arrays.append(values.array)
    converted = pa.RecordBatch.from_arrays(arrays, [column.name for column in columns])
    if not bad:
        return InputBatch(converted, rows)
    keep = np.ones(batch.num_rows, np.bool_)
    for row in sorted(bad):
        keep[row] = False
        shown = settings.effective_delimiter.join(
            (value.as_py() or b"").decode("utf-8", "replace")
            for value in batch.slice(row, 1).to_struct_array()[0].values()
        )
        reject(int(rows[row]), *bad[row], shown)
    return InputBatch(converted.filter(pa.array(keep)), rows[keep])


def _text(array: pa.Array) -> Converted:
    def decode(content: bytes) -> str:
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise ValueError("not UTF-8") from None

    return halving(array, lambda piece: piece.cast(pa.string()), decode, pa.string())


def _split(texts: pa.Array, delimiter: str) -> pa.Array:
    """Lists of the parts; an empty part is no value, as an empty field is none."""
    lists = pc.split_pattern(texts, delimiter)
    items = lists.flatten()
    if pc.any(pc.equal(items, "")).as_py():
        return with_items(lists, pc.if_else(pc.equal(items, ""), pa.scalar(None, pa.string()), items))
    return lists


def _dates(text: pa.Array, pattern: DatePattern) -> Converted:
    def millis(value: str) -> int:
        try:
            return (pattern.parse(value, UTC) - _EPOCH) // timedelta(milliseconds=1)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{error}; expected the date format {pattern.text}") from error

    return by_unique(text, millis, pa.int64())
