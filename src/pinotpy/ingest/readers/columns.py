"""Python values of one column → an Arrow array in input form, for formats that are read record by record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from pinotpy.data_types import DataType
from pinotpy.ingest import json_text
from pinotpy.ingest.readers.spec import ReaderColumn


def array_from_values(values: Sequence[Any], column: ReaderColumn) -> pa.Array:
    """An array of the values' own common type; nested values are JSON text; mixed types meet as text."""
    if column.data_type in (DataType.JSON, DataType.MAP) or (column.single_value and any(isinstance(value, dict) for value in values)):
        values = [_text_of_nested(value, column.data_type) for value in values]
    try:
        array = _array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        array = pa.array([_plain(value, column.single_value) for value in values])
    # A column without any value has Arrow's null type, which the pipeline takes as it is.
    return array


def _text_of_nested(value: Any, data_type: DataType) -> Any:
    if isinstance(value, dict | list):
        return json_text.dumps(value)
    if data_type in (DataType.JSON, DataType.MAP) and value is not None and not isinstance(value, str | bytes):
        return json_text.dumps(value)
    return value


def _plain(value: Any, single_value: bool) -> Any:
    """Text of a value among values of other types, for which the cast of the pipeline then decides."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list) and not single_value:
        return [_plain(item, True) for item in value]
    if not single_value:
        return [_plain(value, True)]
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.hex()
    return json_text.dumps(value) if isinstance(value, dict | list) else str(value)


def _array(values: Sequence[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except UnicodeEncodeError:
        # Half a character, which JSON may escape and UTF-8 cannot write: a question mark, as Java writes it.
        return pa.array([_writable(value) for value in values])


def _writable(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case list():
            return [_writable(item) for item in value]
        case dict():
            return {_writable(key): _writable(item) for key, item in value.items()}
    return value
