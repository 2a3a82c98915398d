"""JSON: one object a line, several objects one after the other, or an array of objects.

Objects are parsed by orjson, many lines at once where each is one object, and columns made of many. Arrow's JSON reader
is no choice: damaged lines can end the process.
"""

from __future__ import annotations

import codecs
import json
import math
import re
import secrets
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, TypeGuard

import numpy as np
import orjson
import pyarrow as pa

from pinotpy.data_types import DataType
from pinotpy.errors import Fault, InvalidConfigError
from pinotpy.ingest import json_text
from pinotpy.ingest.readers.columns import array_from_values
from pinotpy.ingest.readers.spec import (
    BATCH_ROWS,
    BufferedStream,
    FileFields,
    InputBatch,
    InputFile,
    Progress,
    ReaderColumn,
    Reject,
    buffered_reader,
)

LINE_BYTES_MAX: Final = 64 << 20
# Keys that no column wants are noted up to this many, for messages.
_FIELDS_NOTED_MAX: Final = 1000
# Who wants the first rows only does not pay for a whole batch; the next ones are twice as large each.
_FIRST_ROWS: Final = 1 << 13
_CHUNK_BYTES: Final = 1 << 20
_BLANKS: Final = re.compile(r"[ \t\r\n,]*")
# orjson makes doubles of integers beyond 64 bits; a text of that many digits in a row may hold one.
_DIGITS: Final = bytes.maketrans(b"123456789", b"000000000")
_MANY_DIGITS: Final = b"0" * 19
# What `surrogateescape` makes of bytes that are not UTF-8.
_NO_UTF8: Final = re.compile("[\udc80-\udcff]")


def read(
    file: InputFile, columns: Sequence[ReaderColumn], config: Mapping[str, Any], reject: Reject, progress: Progress
) -> Iterator[InputBatch]:
    """Read a JSON file; see `readers.spec.ReadFile`. A line that is no object is left out; unended text ends the
    reading.
    """
    if config:
        raise InvalidConfigError(
            "json reader config is not valid:",
            tuple(Fault(f"$.{key}", "an unknown key", "no keys: JSON has no settings") for key in config),
        )
    with file.open() as stream:
        file.fields = fields = FileFields(set(), declared=False)
        exact = any(column.data_type is DataType.BIG_DECIMAL for column in columns)
        rows: list[dict[str, Any]] = []
        numbers: list[int] = []
        batch_rows = _FIRST_ROWS
        for number, run in _runs(file, buffered_reader(stream), JsonParser(exact), reject):
            place = 0
            while place < len(run):
                taken = run[place : place + batch_rows - len(rows)]
                rows += taken
                numbers += range(number + place, number + place + len(taken))
                place += len(taken)
                if len(rows) == batch_rows:
                    yield batch_of_records(rows, numbers, columns, exact, reject, fields)
                    progress(file.position_bytes, file.size_bytes)
                    rows, numbers = [], []
                    batch_rows = min(2 * batch_rows, BATCH_ROWS)
        if rows:
            yield batch_of_records(rows, numbers, columns, exact, reject, fields)
        progress(file.position_bytes, file.size_bytes)


def field_names(file: InputFile, rows_max: int) -> list[str]:
    """The keys of the first records, in the order in which they are met."""
    with file.open() as stream:
        names: dict[str, None] = {}
        reject: Reject = lambda row, column, cause, text="", *, allowed=False: None  # noqa: E731
        for number, run in _runs(file, buffered_reader(stream), JsonParser(exact=False), reject):
            for record in run[: rows_max - number + 1]:
                names.update(dict.fromkeys(record))
            if number + len(run) > rows_max:
                break
        return list(names)


def batch_of_records(
    rows: list[dict[str, Any]],
    numbers: list[int],
    columns: Sequence[ReaderColumn],
    exact: bool,
    reject: Reject,
    fields: FileFields,
) -> InputBatch:
    """Input form of parsed objects; those that hold what no column of that type can take are rejected.

    Args:
        numbers: of the rows. exact: whether the parser made decimals of fractions. fields: takes the names of keys.
    """
    arrays = []
    if len(fields.names) < _FIELDS_NOTED_MAX:
        fields.names.update(*rows)
    bad: dict[int, tuple[str, str]] = {}
    for column in columns:
        values = [row.get(column.name) for row in rows]
        if exact and column.data_type is not DataType.BIG_DECIMAL:
            values = [_with_doubles(value) for value in values]
        converted = array_from_values(values, column)
        for bad_value in converted.bad:
            bad.setdefault(bad_value.row, (column.name, bad_value.cause))
        if column.name not in fields.names and (
            converted.array.null_count < len(rows) or any(column.name in row for row in rows)
        ):
            fields.names.add(column.name)
        arrays.append(converted.array)
    batch = pa.RecordBatch.from_arrays(arrays, [column.name for column in columns])
    row_numbers = np.array(numbers, dtype=np.int64)
    if not bad:
        return InputBatch(batch, row_numbers)
    keep = np.ones(len(rows), np.bool_)
    for row in sorted(bad):
        keep[row] = False
        reject(numbers[row], *bad[row], _text_of(rows[row]))
    return InputBatch(batch.filter(pa.array(keep)), row_numbers[keep])


def _with_doubles(value: Any) -> Any:
    """The value as it is without a column of BIG_DECIMAL beside it."""
    match value:
        case Decimal():
            return value if math.isinf(double := float(value)) else double
        case list():
            return [_with_doubles(item) for item in value]
        case dict():
            return {key: _with_doubles(item) for key, item in value.items()}
    return value


def _double_of(text: str) -> float | Decimal:
    """A double; a number that none reaches keeps its digits, for columns of text."""
    return json_text.decimal_of(text) if math.isinf(double := float(text)) else double


class JsonParser:
    """Texts → values.

    Args:
        exact: whether fractions are decimals instead of doubles.
    """

    def __init__(self, exact: bool) -> None:
        self._exact = exact
        self._mark = "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(24))
        self._between = f',"{self._mark}",'.encode()
        self._parse_fraction: Callable[[str], Any] = json_text.decimal_of if exact else _double_of
        self._decoder = json.JSONDecoder(parse_float=self._parse_fraction)

    def loads(self, line: bytes) -> Any:
        """The value of a line; raises ValueError, also for halves of characters, which `value_at` takes."""
        if not self._exact and _MANY_DIGITS not in line.translate(_DIGITS):
            return orjson.loads(line)
        try:
            return json.loads(line.decode(), parse_float=self._parse_fraction)
        except RecursionError:
            raise ValueError("nested too deeply") from None

    def objects_of_lines(self, lines: Sequence[bytes]) -> list[dict[str, Any]] | None:
        """The objects of lines that are not blank, one each, none nested deeper than DEPTH_MAX; None: some line may be
        something else, or takes `loads`.
        """
        if self._exact:
            return None
        # Between two lines a text that none of them can foresee: values that begin in one line and end in another are
        # not taken for values of lines.
        text = b"[" + self._between.join(lines) + b"]"
        if _MANY_DIGITS in text.translate(_DIGITS):
            return None
        # Every object opens once.
        if text.count(b"{") + text.count(b"[") > len(lines) + json_text.DEPTH_MAX and any(
            map(json_text.may_be_deep, lines)
        ):
            return None
        try:
            values = orjson.loads(text)
        except ValueError:
            return None
        objects, marks = values[::2], values[1::2]
        is_one_each = len(values) == 2 * len(lines) - 1 and marks.count(self._mark) == len(marks)
        return objects if is_one_each and set(map(type, objects)) == {dict} else None

    def objects_of_array(self, text: str) -> list[dict[str, Any]] | None:
        """The objects of some of an array's text, which begins with one and ends with one; None: it ends within one, or
        takes `value_at`.
        """
        if self._exact:
            return None
        try:
            encoded = b"[" + text.encode() + b"]"
            if _MANY_DIGITS in encoded.translate(_DIGITS):
                return None
            objects: list[dict[str, Any]] = orjson.loads(encoded)
        except ValueError:
            return None
        return objects if set(map(type, objects)) == {dict} else None

    def value_at(self, text: str, position: int) -> tuple[Any, int]:
        """(the value that begins there, the position behind it); raises ValueError."""
        try:
            return self._decoder.raw_decode(text, position)
        except RecursionError:
            raise ValueError("nested too deeply") from None

    def values_of_line(self, line: bytes) -> list[Any]:
        """Values that stand side by side in one line."""
        text = line.decode().strip()
        position = 0
        values = []
        while position < len(text):
            value, position = self.value_at(text, position)
            values.append(value)
            position = _behind_blanks(text, position)
        return values


def _runs(
    file: InputFile, stream: BufferedStream, parser: JsonParser, reject: Reject
) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """(row number of the first, objects whose rows follow each other); the first line decides whether lines or running
    text follow.
    """
    _refuse_other_encodings(file, stream)
    number = 0
    if file.part is None or file.part.number == 0:  # a part behind the first one has lines, as its file
        line = b"\n"
        while line and not line.strip():
            line = stream.readline(_CHUNK_BYTES).removeprefix(b"\xef\xbb\xbf")
        if len(line) >= _CHUNK_BYTES - 3 and not line.endswith(b"\n"):
            if line.lstrip()[:1] == b"[":
                yield from _running_text(file, stream, line, parser, reject)  # an array need not be in memory whole
                return
            line = _whole(file, line + stream.readline(LINE_BYTES_MAX), 0)
        try:
            several = _values_of(parser, line) if line else []
        except ValueError:
            yield from _running_text(file, stream, line, parser, reject)
            return
        may_be_deep = json_text.may_be_deep(line)  # once: it may be a whole array
        for number, record in enumerate(several, 1):
            if is_row(record, number, may_be_deep, reject):
                yield number, [record]
    while block := stream.read(_CHUNK_BYTES):
        lines = (block + stream.readline(LINE_BYTES_MAX)).split(b"\n")
        lines = [line for line in lines if line.strip()]
        objects = parser.objects_of_lines(lines) if lines else []
        if objects is not None:
            if objects:
                yield number + 1, objects
            number += len(objects)
            continue
        for line in lines:
            number = yield from _one_by_one(file, line, number, parser, reject)


def _one_by_one(
    file: InputFile, line: bytes, number: int, parser: JsonParser, reject: Reject
) -> Generator[tuple[int, list[dict[str, Any]]], None, int]:
    """The objects of a line, which follows row `number`; gives the number of its last row."""
    is_json = _whole(file, line, number).lstrip()[:1] in (b"{", b"[")
    try:
        several = _values_of(parser, line) if is_json else [parser.loads(line)]
    except ValueError as error:
        reject(number + 1, "", f"no JSON: {_reason(error)}" if is_json else "no JSON object", _shown(line))
        return number + 1
    may_be_deep = json_text.may_be_deep(line)
    for record in several:
        number += 1
        if is_row(record, number, may_be_deep, reject):
            yield number, [record]
    return number


def _whole(file: InputFile, line: bytes, number: int) -> bytes:
    """The line that follows row `number`, if it is not too long."""
    if len(line) >= LINE_BYTES_MAX:
        raise file.broken(f"a line longer than {LINE_BYTES_MAX} bytes", row=number + 1)
    return line


def _values_of(parser: JsonParser, line: bytes) -> list[Any]:
    """The values of a line: of an array its items, or those that stand side by side. Raises ValueError."""
    try:
        value = parser.loads(line)
    except ValueError:
        return parser.values_of_line(line)
    return value if isinstance(value, list) else [value]


def _refuse_other_encodings(file: InputFile, stream: BufferedStream) -> None:
    start = stream.peek(4)[:4]
    # JSON has no NUL, and the first character of a document is ASCII.
    if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) or b"\x00" in start:
        raise file.broken("UTF-16 or UTF-32 by its first bytes, expected UTF-8: convert it first", row=1)


def is_row(record: Any, number: int, may_be_deep: bool, reject: Reject) -> TypeGuard[dict[str, Any]]:
    """Whether a parsed value is an object that can be a row; rejects it if not."""
    if may_be_deep and json_text.is_too_deep(record):
        reject(number, "", f"nested deeper than {json_text.DEPTH_MAX}")
        return False
    if not isinstance(record, dict):
        reject(number, "", f"a JSON {type(record).__name__}, expected an object", _text_of(record))
        return False
    return True


def _running_text(
    file: InputFile, stream: BufferedStream, start: bytes, parser: JsonParser, reject: Reject
) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Objects over several lines, in arrays or not. After damage nothing tells where the next object begins: that ends
    the reading.
    """
    decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
    text, position, number, tried_to = decode(start), 0, 0, -1
    in_array, ended = False, False
    while True:
        position = _behind_blanks(text, position)
        mark = text[position : position + 1]
        if mark and mark == ("]" if in_array else "["):
            in_array = not in_array
            position += 1
            continue
        if in_array and mark == "{" and position > tried_to:
            # All that is here, but what follows the last object: where brackets and quotes are closed it is one.
            end = text.rfind("},", position) + 1
            objects = parser.objects_of_array(text[position:end]) if end > position else None
            if objects is not None:
                opens = text.count("{", position, end) + text.count("[", position, end)
                if opens > len(objects) + json_text.DEPTH_MAX:
                    objects = None
            if objects is not None:
                yield number + 1, objects
                number, position = number + len(objects), end
                continue
            tried_to = len(text)  # then one by one
        reason = "unended text"
        try:
            value, end = parser.value_at(text, position) if mark else (None, -1)
        except ValueError as error:
            end, reason = -1, _reason(error)
        # A number or word may go on in the next chunk; only a closed object is surely whole.
        if end > 0 and (ended or text[end - 1] in '}]"'):
            number += 1
            piece = text[position:end]
            position = end
            if not piece.isascii() and _NO_UTF8.search(piece):
                reject(number, "", "not UTF-8", piece.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
            elif is_row(value, number, piece.count("{") + piece.count("[") > json_text.DEPTH_MAX, reject):
                yield number, [value]
            continue
        if ended:
            if mark or in_array:
                raise file.broken(f"no JSON: {reason}", row=number + 1)
            return
        text, position, tried_to = text[position:], 0, -1
        if len(text) > LINE_BYTES_MAX:
            raise file.broken(f"an object longer than {LINE_BYTES_MAX} bytes", row=number + 1)
        # As much again as waits: an object of many chunks is tried only a few times.
        chunk = stream.read(max(_CHUNK_BYTES, len(text)))
        ended = not chunk
        text += decode(chunk, ended)


def _behind_blanks(text: str, position: int) -> int:
    match = _BLANKS.match(text, position)
    assert match is not None
    return match.end()


def _shown(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r\n")


def _text_of(record: Any) -> str:
    return json.dumps(record, ensure_ascii=False, default=str)


def _reason(error: ValueError) -> str:
    return error.msg.lower() if isinstance(error, json.JSONDecodeError) else str(error)[:200]
