"""JSON: one object a line, several objects one after the other, or an array of objects.

Objects are parsed one by one (orjson), columns made of many. Arrow's JSON reader is no choice: damaged lines can end the process.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa

from pinotpy.data_types import DataType
from pinotpy.errors import Fault, InvalidConfigError
from pinotpy.ingest.readers.columns import array_from_values
from pinotpy.ingest.readers.spec import BATCH_ROWS, BufferedStream, InputBatch, InputFile, Progress, ReaderColumn, Reject, buffered_reader

LINE_BYTES_MAX: Final = 64 << 20
_CHUNK_BYTES: Final = 1 << 20


def read(file: InputFile, columns: Sequence[ReaderColumn], config: Mapping[str, Any], reject: Reject, progress: Progress) -> Iterator[InputBatch]:
    """Read a JSON file; see `readers.spec.ReadFile`. A line that is no object is left out; unended text ends the reading."""
    if config:
        raise InvalidConfigError(
            "json reader config is not valid:", tuple(Fault(f"$.{key}", "an unknown key", "no keys: JSON has no settings") for key in config)
        )
    with file.open() as stream:
        records = _records(file, buffered_reader(stream), any(column.data_type is DataType.BIG_DECIMAL for column in columns), reject)
        rows: list[dict[str, Any]] = []
        numbers: list[int] = []
        for number, record in records:
            rows.append(record)
            numbers.append(number)
            if len(rows) == BATCH_ROWS:
                yield _batch(rows, numbers, columns)
                progress(file.position_bytes, file.size_bytes)
                rows, numbers = [], []
        if rows:
            yield _batch(rows, numbers, columns)
        progress(file.position_bytes, file.size_bytes)


def _batch(rows: list[dict[str, Any]], numbers: list[int], columns: Sequence[ReaderColumn]) -> InputBatch:
    arrays = [array_from_values([row.get(column.name) for row in rows], column) for column in columns]
    return InputBatch(pa.RecordBatch.from_arrays(arrays, [column.name for column in columns]), np.array(numbers, dtype=np.int64))


def _loads_exactly(text: bytes | str) -> Any:
    return json.loads(text, parse_float=Decimal)


def _records(file: InputFile, stream: BufferedStream, exact: bool, reject: Reject) -> Iterator[tuple[int, dict[str, Any]]]:
    """(row number, object); the first line decides whether lines or running text follow."""
    loads = _loads_exactly if exact else orjson.loads
    number = 0
    first = True
    while True:
        line = stream.readline(LINE_BYTES_MAX)
        if not line:
            return
        if len(line) >= LINE_BYTES_MAX:
            raise file.broken(f"a line longer than {LINE_BYTES_MAX} bytes", row=number + 1)
        if first:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line.strip():
            continue
        try:
            value = loads(line)
        except ValueError:
            if first or line.lstrip()[:1] in (b"{", b"["):
                try:
                    several = list(_values_of_line(line))
                except ValueError as error:
                    if first:
                        yield from _running_text(file, stream, line, reject)
                        return
                    number += 1
                    reject(number, "", f"no JSON: {_reason(error)}", _shown(line))
                    continue
            else:
                number += 1
                reject(number, "", "no JSON object", _shown(line))
                continue
        else:
            several = value if isinstance(value, list) else [value]
        first = False
        for record in several:
            number += 1
            if isinstance(record, dict):
                yield number, record
            else:
                reject(number, "", f"a JSON {type(record).__name__}, expected an object", json.dumps(record, ensure_ascii=False, default=str))


_DECODER = json.JSONDecoder(parse_float=Decimal)


def _values_of_line(line: bytes) -> Iterator[Any]:
    """Objects that stand side by side in one line."""
    text = line.decode().strip()
    position = 0
    while position < len(text):
        value, position = _DECODER.raw_decode(text, position)
        yield value
        while position < len(text) and text[position] in " \t\r\n,":
            position += 1


def _running_text(file: InputFile, stream: BufferedStream, start: bytes, reject: Reject) -> Iterator[tuple[int, dict[str, Any]]]:
    """Objects over several lines. After damage nothing tells where the next object begins, so that ends the reading."""
    rest, number, ended = start, 0, False
    text = ""
    in_array = start.lstrip().startswith(b"[")
    if in_array:
        rest = start.lstrip()[1:]
    while True:
        whole = rest.decode("utf-8", "ignore") if not ended else None
        if whole is not None:
            # Bytes of a character that is cut in two wait for the next chunk.
            used = len(whole.encode())
            text, rest = text + whole, rest[used:]
        text = text.lstrip(" \t\r\n,")
        if in_array and text.startswith("]"):
            return
        try:
            value, end = _DECODER.raw_decode(text) if text else (None, 0)
        except ValueError as error:
            end = -1
            reason = _reason(error)
        # A number or word may go on in the next chunk; only a closed object is surely whole.
        if text and end > 0 and (ended or text[end - 1] in '}]"'):
            number += 1
            if isinstance(value, dict):
                yield number, value
            else:
                reject(number, "", f"a JSON {type(value).__name__}, expected an object", json.dumps(value, ensure_ascii=False, default=str))
            text = text[end:]
            continue
        if ended:
            if text or in_array:
                raise file.broken(f"no JSON: {reason if end < 0 else 'unended text'}", row=number + 1)
            return
        if len(text) > LINE_BYTES_MAX:
            raise file.broken(f"an object longer than {LINE_BYTES_MAX} bytes", row=number + 1)
        chunk = stream.read(_CHUNK_BYTES)
        ended = not chunk
        rest += chunk
        if ended and rest:
            raise file.broken("not UTF-8 at the end", row=number + 1)


def _shown(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r\n")


def _reason(error: ValueError) -> str:
    return error.msg.lower() if isinstance(error, json.JSONDecodeError) else str(error)[:200]
