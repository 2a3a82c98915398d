"""Avro container files, block by block; only the wanted columns are decoded.

Unions with null are nulls; arrays are multi-values; a map `X` also gives `X__KEYS` and `X__VALUES` (map columns of old schemas);
records and maps are JSON text; logical types arrive as dates, timestamps and decimals.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import fastavro
import pyarrow as pa

from pinotpy.errors import DecodeError, Fault, InvalidConfigError
from pinotpy.ingest.readers.columns import array_from_values
from pinotpy.ingest.readers.spec import BATCH_ROWS, InputBatch, InputFile, Progress, ReaderColumn, Reject, numbered

_ARROW: Final[dict[str, pa.DataType]] = {
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "enum": pa.string(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
}
KEYS, VALUES = "__KEYS", "__VALUES"
# What fastavro raises for damaged bytes, none of it of its own.
_DAMAGE = (ValueError, EOFError, IndexError, KeyError, TypeError, OverflowError, zlib.error, OSError)


def read(file: InputFile, columns: Sequence[ReaderColumn], config: Mapping[str, Any], reject: Reject, progress: Progress) -> Iterator[InputBatch]:
    """Read an Avro file; see `readers.spec.ReadFile`."""
    if config:
        raise InvalidConfigError(
            "avro reader config is not valid:", tuple(Fault(f"$.{key}", "an unknown key", "no keys: Avro has no settings") for key in config)
        )
    row = 1
    with file.open() as stream:
        try:
            header = fastavro.reader(stream)
            schema = header.writer_schema
        except _DAMAGE as error:
            raise file.broken(f"no Avro file: {str(error)[:200] or type(error).__name__}") from error
        sources = _sources(schema, columns)
        try:
            stream.seek(0)
            blocks = fastavro.block_reader(stream, reader_schema=_projection(schema, {name for name, _ in sources.values()}))
            pending: list[dict[str, Any]] = []
            for block in blocks:
                pending.extend(block)
                while len(pending) >= BATCH_ROWS:
                    yield InputBatch(_batch(pending[:BATCH_ROWS], columns, sources, schema), numbered(row, BATCH_ROWS))
                    row += BATCH_ROWS
                    del pending[:BATCH_ROWS]
                    progress(file.position_bytes, file.size_bytes)
        except DecodeError:
            raise
        except _DAMAGE as error:
            damaged = row + len(pending)
            raise file.broken(f"damaged from about here on: {str(error)[:200] or type(error).__name__}", row=damaged) from error
        if pending:
            yield InputBatch(_batch(pending, columns, sources, schema), numbered(row, len(pending)))
        progress(file.position_bytes, file.size_bytes)


def _sources(schema: Any, columns: Sequence[ReaderColumn]) -> dict[str, tuple[str, str]]:
    """Column → (field of the file, '' or the part of a map)."""
    if not isinstance(schema, dict) or schema.get("type") != "record":
        return {}
    fields = {field["name"]: field["type"] for field in schema["fields"]}
    found = {}
    for column in columns:
        if column.name in fields:
            found[column.name] = (column.name, "")
        for part in (KEYS, VALUES):
            field = column.name.removesuffix(part)
            if column.name.endswith(part) and column.name not in fields and _kind(fields.get(field)) == "map":
                found[column.name] = (field, part)
    return found


def _kind(avro_type: Any) -> str | None:
    """Name of a type, of the one that is not null in a union; None for wider unions."""
    if isinstance(avro_type, list):
        others = [one for one in avro_type if one != "null"]
        return _kind(others[0]) if len(others) == 1 else None
    if isinstance(avro_type, dict):
        return None if "logicalType" in avro_type else _kind(avro_type["type"])
    return avro_type if isinstance(avro_type, str) else None


def _projection(schema: Any, names: set[str]) -> Any:
    """The writer's schema with only the needed fields; fastavro then skips the bytes of the others."""
    if not isinstance(schema, dict) or schema.get("type") != "record":
        return schema
    return {**schema, "fields": [field for field in schema["fields"] if field["name"] in names]}


def _batch(rows: list[dict[str, Any]], columns: Sequence[ReaderColumn], sources: dict[str, tuple[str, str]], schema: Any) -> pa.RecordBatch:
    types = {field["name"]: field["type"] for field in schema["fields"]} if sources else {}
    present = [column for column in columns if column.name in sources]
    arrays = [_array(rows, column, *sources[column.name], types) for column in present]
    if not arrays:
        # Rows without any wanted column are still rows.
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, [column.name for column in present])


def _array(rows: list[dict[str, Any]], column: ReaderColumn, field: str, part: str, types: dict[str, Any]) -> pa.Array:
    values: list[Any] = [row[field] for row in rows]
    if part:
        values = [None if value is None else list(value.keys() if part == KEYS else value.values()) for value in values]
        return array_from_values(values, replace(column, single_value=False))
    kind = _kind(types[field])
    if kind in _ARROW:
        return pa.array(values, _ARROW[kind])
    if kind == "array" and not column.single_value:
        items = _kind(_items(types[field]))
        if items in _ARROW:
            return pa.array(values, pa.list_(_ARROW[items]))
    return array_from_values(values, column)


def _items(avro_type: Any) -> Any:
    if isinstance(avro_type, list):
        return next(_items(one) for one in avro_type if one != "null")
    return avro_type["items"] if isinstance(avro_type["type"], str) else _items(avro_type["type"])
