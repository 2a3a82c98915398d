"""Python values of one column → an Arrow array in input form, for formats that are read record by record.

What an array looks like depends on the values of its batch; the column that the pipeline casts it to does not: where
values of several types meet, each is text as it would be alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from pinotpy.data_types import DataType
from pinotpy.ingest import json_text
from pinotpy.ingest.casting import java_double
from pinotpy.ingest.conversion import Bad, Converted
from pinotpy.ingest.readers.spec import ReaderColumn
from pinotpy.ingest.unions import union_of

_NONE = type(None)
_NESTED = (dict, list)
_TEXTUAL = (DataType.JSON, DataType.MAP)
_WHOLE = (DataType.INT, DataType.LONG, DataType.TIMESTAMP)
_NUMBERS = (*_WHOLE, DataType.FLOAT, DataType.DOUBLE)


def array_from_values(values: Sequence[Any], column: ReaderColumn) -> Converted:
    """An array of the values' own common type; nested values are JSON text unless wanted nested; mixed types meet as
    text.
    """
    if column.nested:
        return Converted(nested_array(values))
    bad: list[Bad] = []
    kinds = set(map(type, values))
    if dict in kinds or list in kinds or column.data_type in _TEXTUAL:
        values = _with_texts_of_nested(values, column, bad)
        kinds = set(map(type, values))
    if column.data_type is DataType.BYTES and kinds - {str, bytes, list, _NONE}:
        values = _without_numbers(values, bad)
        kinds = set(map(type, values))
    # Whole numbers among doubles would be written as doubles: 1 as 1.0, depending on the batch.
    if not column.single_value and list in kinds:
        kinds = kinds | set(map(type, chain.from_iterable(value for value in values if type(value) is list)))
    is_mixed = len(kinds - {_NONE, list}) > 1 and column.data_type in (DataType.STRING, *_TEXTUAL)
    try:
        array = _array(
            [_plain(value, column.single_value, column.data_type) for value in values] if is_mixed else values
        )
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        array = _array([_plain(value, column.single_value, column.data_type) for value in values])
    # A column without any value has Arrow's null type, which the pipeline takes as it is.
    return Converted(array, bad)


def _with_texts_of_nested(values: Sequence[Any], column: ReaderColumn, bad: list[Bad]) -> list[Any]:
    """Objects, and lists where text is wanted, as JSON text, each by itself: an Arrow struct would give it its
    neighbours' keys.

    Where one value of another type is wanted, a list of one is that value, an empty one is none.
    """
    converted = []
    wants_text = column.single_value and column.data_type in (DataType.STRING, *_TEXTUAL)
    for row, value in enumerate(values):
        try:
            if isinstance(value, list) and not wants_text:
                if column.single_value and len(value) > 1:
                    raise ValueError(f"{len(value)} values, expected one for a single-valued column")
                items = [json_text.dumps(item) if isinstance(item, dict | list) else item for item in value]
                converted.append(items if not column.single_value else items[0] if items else None)
            elif isinstance(value, dict | list) or (
                column.data_type in _TEXTUAL and value is not None and not isinstance(value, str | bytes)
            ):
                converted.append(json_text.dumps(value))
            else:
                converted.append(value)
        except ValueError as error:
            bad.append(Bad(row, str(error)))
            converted.append(None)
    return converted


def _without_numbers(values: Sequence[Any], bad: list[Bad]) -> list[Any]:
    """Numbers in a column of bytes are bad whatever stands beside them: as text their digits would be taken for hex."""
    checked = []
    for row, value in enumerate(values):
        is_number = value is not None and not isinstance(value, str | bytes | list)
        if is_number:
            bad.append(Bad(row, f"'{value}' is no hex text, expected two hex digits a byte"))
        checked.append(None if is_number else value)
    return checked


def nested_array(values: Sequence[Any]) -> pa.Array:
    """Objects as structs of all their keys, lists as lists, scalars as they are. Where objects or lists meet other
    values, or whole numbers others, an Arrow union of what each kind makes; where other scalars of several kinds meet,
    each is text.
    """
    kinds = set(map(type, values)) - {_NONE}
    if len(kinds) > 1 and not kinds.isdisjoint(_NESTED):
        return _of_several_kinds(values)
    if kinds == {dict}:
        names = dict.fromkeys(name for value in values if value is not None for name in value)
        missing = pa.array([value is None for value in values])
        if not names:
            return pa.array([None if value is None else {} for value in values], pa.struct([]))
        fields = [nested_array([None if value is None else value.get(name) for value in values]) for name in names]
        return pa.StructArray.from_arrays(fields, names=[_writable(name) for name in names], mask=missing)
    if kinds == {list}:
        lengths = [0 if value is None else len(value) for value in values]
        offsets = pa.array(_offsets(lengths), pa.int32())
        items = nested_array([item for value in values if value is not None for item in value])
        return pa.ListArray.from_arrays(offsets, items, mask=pa.array([value is None for value in values]))
    if kinds == {int, float}:
        return _by_masks(
            values, [np.array([type(value) is kind for value in values], np.bool_) for kind in (int, float)]
        )
    if len(kinds) > 1:
        return _array([_plain(value, True) for value in values])
    try:
        return _array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return _array([_plain(value, True) for value in values])


def _of_several_kinds(values: Sequence[Any]) -> pa.Array:
    masks = [np.array([isinstance(value, kind) for value in values], np.bool_) for kind in _NESTED]
    is_none = np.array([value is None for value in values], np.bool_)
    masks.append(~np.logical_or.reduce([*masks, is_none]))
    return _by_masks(values, masks)


def _by_masks(values: Sequence[Any], masks: Sequence[np.ndarray]) -> pa.Array:
    branches = [(mask, nested_array([values[row] for row in np.flatnonzero(mask).tolist()])) for mask in masks]
    return union_of(branches, len(values))


def _offsets(lengths: Sequence[int]) -> list[int]:
    offsets = [0]
    for length in lengths:
        offsets.append(offsets[-1] + length)
    return offsets


def _plain(value: Any, single_value: bool, data_type: DataType = DataType.STRING) -> Any:
    """Text of a value among values of other types, for which the cast of the pipeline then decides as for the value
    alone.
    """
    if value is None:
        return None
    if not single_value:
        return [_plain(item, True, data_type) for item in (value if isinstance(value, list) else [value])]
    if isinstance(value, str):
        return value
    match value:
        case bool() if data_type in _NUMBERS:
            return str(int(value))
        case int() | float() | Decimal() if data_type is DataType.BOOLEAN:
            return "true" if value != 0 else "false"
        case bool():
            return "true" if value else "false"
        case float() if data_type in _WHOLE and value.is_integer():
            return str(int(value))
        case float():
            return java_double(value)
        case Decimal():
            return format(value, "f") if abs(value.adjusted()) < 40 else str(value)
        case bytes():
            return value.hex()
        case dict() | list():
            try:
                return json_text.dumps(value)
            except ValueError:  # NaN: a JSON column then refuses the text
                return json.dumps(value, ensure_ascii=False)
    return str(value)


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
