"""JSONFORMAT of incoming values, whatever they are: the reference's way to keep a nested field as a text column."""

from __future__ import annotations

import json

import pyarrow as pa

from pinotpy.data_types import DataType
from pinotpy.functions.arguments import spread
from pinotpy.ingest import json_text
from pinotpy.ingest.conversion import by_unique
from pinotpy.ingest.json_writing import json_texts
from pinotpy.ingest.typed_values import TypedValues, to_input


def json_of_values(typed: TypedValues, count: int) -> pa.Array:
    """The JSON text of each value; raises ValueError for NaN and infinities.

    Records and lists of records come as JSON text already, which stays; other text becomes a JSON string.
    """
    if typed.data_type is None:
        return pa.nulls(count, pa.string())
    if typed.data_type is DataType.BIG_DECIMAL:
        return to_input(typed, count)
    values = spread(typed.values, count)
    if typed.single_value and typed.data_type in (DataType.STRING, DataType.JSON, DataType.MAP):
        return by_unique(values, _of_text, pa.string()).array
    return json_texts(values)


def _of_text(text: str) -> str:
    if text.lstrip()[:1] in ("{", "["):
        try:
            return json_text.normalized(text)
        except ValueError:
            pass
    return json.dumps(text, ensure_ascii=False)
