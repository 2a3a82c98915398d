"""Files of every format with one column of every type, and what a segment of them must hold."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from pinotpy.decimals import encode_decimal
from pinotpy.ingest.readers.spec import FileFormat

_START = datetime(2024, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Kind:
    """A column type: the value of a number (never that of another one), how files have it, and as which Arrow type.

    time_format: of the column as the table's time column, None where it cannot be one.
    """

    data_type: str
    value: Callable[[int], Any]
    arrow: pa.DataType
    avro: Any
    time_format: str | None = None

    @property
    def is_list(self) -> bool:
        return pa.types.is_list(self.arrow)


def _text(number: int) -> str:
    return f'Zürich, "{number}" 東京\'s' if number % 5 == 0 else f"t{number:07d}"


def _day(number: int) -> str:
    return (_START + timedelta(minutes=number)).strftime("%Y-%m-%d %H:%M")


KINDS = {
    "INT": Kind("INT", lambda n: 1_700_000_000 + 37 * n, pa.int32(), "int", "1:SECONDS:EPOCH"),
    "LONG": Kind("LONG", lambda n: 1_700_000_000_000 + 1_001 * n, pa.int64(), "long", "1:MILLISECONDS:EPOCH"),
    "FLOAT": Kind("FLOAT", lambda n: n / 8 - 3, pa.float32(), "float"),
    "DOUBLE": Kind("DOUBLE", lambda n: n / 3 - 5, pa.float64(), "double"),
    "BIG_DECIMAL": Kind("BIG_DECIMAL", lambda n: f"{n - 3}12345678901234567890.{n:06d}1", pa.string(), "string"),
    "BOOLEAN": Kind("BOOLEAN", lambda n: n % 2 == 0, pa.bool_(), "boolean"),
    "TIMESTAMP": Kind("TIMESTAMP", lambda n: 1_700_000_000_123 + 999 * n, pa.int64(), "long", "TIMESTAMP"),
    "time text": Kind("STRING", _day, pa.string(), "string", "SIMPLE_DATE_FORMAT|yyyy-MM-dd HH:mm"),
    "STRING": Kind("STRING", _text, pa.string(), "string"),
    "JSON": Kind(
        "JSON",
        lambda n: json.dumps({"a": n, "b": _text(n)}, ensure_ascii=False, separators=(",", ":")),
        pa.string(),
        "string",
    ),
    "BYTES": Kind("BYTES", lambda n: n.to_bytes(4, "big") * 2, pa.binary(), "bytes"),
    "INT[]": Kind("INT", lambda n: [n, -n - 1, n], pa.list_(pa.int32()), "int"),
    "DOUBLE[]": Kind("DOUBLE", lambda n: [n / 3 + 1] * (1 + n % 3), pa.list_(pa.float64()), "double"),
    "TIMESTAMP[]": Kind("TIMESTAMP", lambda n: [1_700_000_000_000 + n] * (1 + n % 2), pa.list_(pa.int64()), "long"),
    "STRING[]": Kind("STRING", lambda n: [f"t{n}", "Łódź"][: 1 + n % 2], pa.list_(pa.string()), "string"),
    "BYTES[]": Kind("BYTES", lambda n: [n.to_bytes(3, "big"), b"\x00\xff"], pa.list_(pa.binary()), "bytes"),
}


def values_of(kind: Kind, num_rows: int, *, repeated: bool) -> list[Any]:
    """Values of a column; where they repeat, one row in seven has none."""
    if not repeated:
        return [kind.value(number) for number in range(num_rows)]
    some = [kind.value(number) for number in range(4)]
    return [None if row % 7 == 3 else some[row * 5 % 4] for row in range(num_rows)]


def stored(kind: Kind, values: list[Any]) -> pa.Array:
    """The values in storage form: what the segment's column must be."""
    if kind.data_type == "BIG_DECIMAL":
        return pa.array([None if value is None else encode_decimal(Decimal(value)) for value in values], pa.binary())
    return pa.array(values, kind.arrow)


def file_of(file_format: FileFormat, kind: Kind, values: list[Any], *, dictionary: bool) -> bytes:
    """A file with the columns `v` and `n`, the number of the row; `dictionary`: written with dictionaries where the
    format has them.
    """
    match file_format:
        case FileFormat.CSV | FileFormat.TSV:
            return _separated("," if file_format is FileFormat.CSV else "\t", kind, values)
        case FileFormat.JSON:
            records = (
                {"n": row, **({} if value is None else {"v": _plain(value)})} for row, value in enumerate(values)
            )
            return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()
        case FileFormat.AVRO:
            of = {"type": "array", "items": kind.avro} if kind.is_list else kind.avro
            fields = [{"name": "n", "type": "int"}, {"name": "v", "type": ["null", of]}]
            sink = io.BytesIO()
            records = ({"n": row, "v": value} for row, value in enumerate(values))
            fastavro.writer(sink, fastavro.parse_schema({"type": "record", "name": "r", "fields": fields}), records)
            return sink.getvalue()
    column = pa.array(values, kind.arrow)
    if dictionary and not kind.is_list:
        column = column.dictionary_encode()
    table = pa.table({"n": pa.array(range(len(values)), pa.int32()), "v": column})
    sink = io.BytesIO()
    if file_format is FileFormat.PARQUET:
        pq.write_table(table, sink, use_dictionary=dictionary)
    else:
        orc.write_table(
            table.cast(pa.schema([("n", pa.int32()), ("v", kind.arrow)])),
            sink,
            dictionary_key_size_threshold=float(dictionary),
        )
    return sink.getvalue()


def _plain(value: Any) -> Any:
    match value:
        case bytes():
            return value.hex()
        case list():
            return [_plain(item) for item in value]
    return value


def _separated(delimiter: str, kind: Kind, values: list[Any]) -> bytes:
    def field(value: Any) -> str:
        plain = _plain(value)
        text = "" if plain is None else ";".join(map(str, plain)) if isinstance(plain, list) else str(plain)
        return f'"{text.replace(chr(34), chr(34) * 2)}"' if set(text) & {'"', delimiter} else text

    return "".join(
        [f"n{delimiter}v\n", *(f"{row}{delimiter}{field(value)}\n" for row, value in enumerate(values))]
    ).encode()
