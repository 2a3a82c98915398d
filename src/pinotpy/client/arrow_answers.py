"""Answers that came as an Arrow stream: the table unchanged, and rows of JSON values on demand.

Everything else that the broker says is JSON in the schema's metadata (docs/arrow.md).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from pinotpy.client.frames import TYPE_KEY
from pinotpy.client.result import ResultSetGroup, parse_response
from pinotpy.client.result_set import ResultKind, ResultSet
from pinotpy.errors import RemoteError

CONTENT_TYPE = "application/vnd.apache.arrow.stream"
# Brokers that know no Arrow, and answers that are no table, come as JSON.
ACCEPT = f"{CONTENT_TYPE}, application/json;q=0.5"
RESPONSE_KEY = b"pinot.response"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ArrowResultSet(ResultSet):
    """A table that came as Arrow. `rows` are made at the first look: the values that JSON would have, in SQL's
    types.
    """

    __slots__ = ("_rows", "_table")
    _rows: list[list[Any]] | None
    _table: Any

    def __init__(self, table: Any) -> None:
        types = tuple((field.metadata or {}).get(TYPE_KEY, b"UNKNOWN").decode() for field in table.schema)
        facts = {
            "columns": tuple(table.column_names),
            "types": types,
            "kind": ResultKind.TABLE,
            "group_key_length": 0,
            "_table": table,
            "_rows": None,
        }
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    @property
    def rows(self) -> list[list[Any]]:
        if self._rows is None:
            columns = [_json_values(column, kind) for column, kind in zip(self._table.columns, self.types, strict=True)]
            rows = [list(row) for row in zip(*columns, strict=True)]
            object.__setattr__(self, "_rows", rows)
            return rows
        return self._rows

    def __repr__(self) -> str:
        return f"ArrowResultSet({len(self)} rows of {dict(zip(self.columns, self.types, strict=True))})"

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def to_arrow(self) -> Any:
        """The pyarrow Table that came."""
        return self._table


def parse_arrow(content: bytes) -> ResultSetGroup:
    """Read a broker's Arrow stream; columns are views of `content`. RemoteError if it is none, or does not end as it
    should.
    """
    import pyarrow as pa

    try:
        with pa.ipc.open_stream(pa.py_buffer(content)) as reader:
            table = reader.read_all()
        # Lengths and offsets come from elsewhere: reading past the bytes must not be possible.
        table.validate(full=True)
        response = json.loads((table.schema.metadata or {})[RESPONSE_KEY])
    except (pa.ArrowException, OSError, KeyError, ValueError) as problem:
        raise RemoteError(f"a broker's Arrow stream cannot be read: {type(problem).__name__} {problem}") from problem
    num_rows = response.get("numRowsResultSet", table.num_rows) if isinstance(response, dict) else table.num_rows
    if num_rows != table.num_rows:
        raise RemoteError(f"a broker's Arrow stream says that it has {num_rows} rows, and has {table.num_rows}")
    return parse_response(response, ArrowResultSet(table.replace_schema_metadata(None)))


# --- rows ----------------------------------------------------------------------------------------------------------


def _json_values(column: Any, kind: str) -> list[Any]:
    import pyarrow as pa

    kind = _kind_of(column.type) if kind == "OBJECT" else kind
    convert = _CONVERSIONS.get(kind.removesuffix("_ARRAY"))
    if kind == "TIMESTAMP":
        column = column.cast(pa.int64())
    elif kind == "TIMESTAMP_ARRAY" and pa.types.is_list(column.type):
        column = column.cast(pa.list_(pa.int64()))
    elif kind == "FLOAT" and pa.types.is_float32(column.type):
        # The shortest digits of a float, as JSON has them: as a double it would have more.
        column = column.cast(pa.string())
    elif kind == "FLOAT_ARRAY" and pa.types.is_list(column.type) and pa.types.is_float32(column.type.value_type):
        column = column.cast(pa.list_(pa.string()))
    values: list[Any] = column.to_pylist()
    if convert is None:
        return values

    def shown(value: Any) -> Any:
        if isinstance(value, list):
            return [shown(item) for item in value]
        return None if value is None else convert(value)

    return [shown(value) for value in values]


def _kind_of(arrow_type: Any) -> str:
    """What an OBJECT holds (CASE, CAST and COALESCE over aggregations): its Pinot type does not say."""
    import pyarrow as pa

    held = {"TIMESTAMP": pa.types.is_timestamp, "BIG_DECIMAL": pa.types.is_decimal, "BYTES": pa.types.is_binary}
    held |= {"FLOAT": pa.types.is_float32, "DOUBLE": pa.types.is_float64}
    return next((kind for kind, is_it in held.items() if is_it(arrow_type)), "OBJECT")


def _finite_or_text(value: float | str) -> float | str:
    value = float(value)
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def _timestamp_text(millis: int) -> str:
    try:
        moment = _EPOCH + timedelta(milliseconds=millis)
    except OverflowError:
        return str(millis)
    digits = f"{millis % 1000:03d}".rstrip("0") or "0"
    return f"{moment.year:04d}-{moment:%m-%d %H:%M:%S}.{digits}"


def _decimal_text(value: Any) -> str:
    text = value if isinstance(value, str) else f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "FLOAT": _finite_or_text,
    "DOUBLE": _finite_or_text,
    "TIMESTAMP": _timestamp_text,
    "BYTES": bytes.hex,
    "MAP": json.loads,
    "BIG_DECIMAL": _decimal_text,
}
