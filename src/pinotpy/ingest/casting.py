"""Values in input form → values of a column's type in storage form, whole arrays at a time.

What the reference cuts without a word (a fraction for an INT, a number beyond 32 bits) is a bad value here; rounding to
FLOAT and DOUBLE is not. Source of the accepted spellings: Pinot's PinotDataType.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.config.date_time import DateTimeFormat
from pinotpy.data_types import DataType
from pinotpy.decimals import encode_decimal
from pinotpy.ingest import json_text
from pinotpy.ingest.conversion import Converted, by_branch, by_dictionary, by_unique, halving, shortest_doubles
from pinotpy.ingest.dictionary_arrays import without_hidden_nulls
from pinotpy.ingest.json_writing import json_texts
from pinotpy.ingest.time_values import from_millis, iso_texts, millis_from_temporal, timestamps_from_text

_TRUE: Final = ("true", "1")
_FALSE: Final = ("false", "0")
# Python would also take digits of other scripts and 1_000.
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")


def cast_values(values: pa.Array, data_type: DataType, time_format: DateTimeFormat | None) -> Converted:
    """Cast a flat array (no lists) to `data_type.arrow`; nulls stay. `time_format` is that of a time column."""
    source = values.type
    if pa.types.is_null(source):
        return Converted(pa.nulls(len(values), data_type.arrow))
    if pa.types.is_union(source):
        return by_branch(values, lambda branch: cast_values(branch, data_type, time_format), data_type.arrow)
    if pa.types.is_dictionary(source):
        if data_type is DataType.STRING and pa.types.is_string(source.value_type):
            return Converted(without_hidden_nulls(values))
        return by_dictionary(values, lambda distinct: cast_values(distinct, data_type, time_format))
    if pa.types.is_large_string(source) or pa.types.is_string_view(source):
        values = values.cast(pa.string())
    elif pa.types.is_large_binary(source) or pa.types.is_fixed_size_binary(source) or pa.types.is_binary_view(source):
        values = values.cast(pa.binary())
    elif isinstance(source, pa.BaseExtensionType):
        return cast_values(_storage(values, data_type), data_type, time_format)
    if pa.types.is_time(values.type) or pa.types.is_duration(values.type):
        return _from_time_of_day(values, data_type)
    if pa.types.is_temporal(values.type):
        return _from_temporal(values, data_type, time_format)
    match data_type:
        case DataType.INT | DataType.LONG | DataType.FLOAT | DataType.DOUBLE:
            return _numbers(values, data_type)
        case DataType.BOOLEAN:
            return _booleans(values)
        case DataType.TIMESTAMP:
            return (
                timestamps_from_text(values, time_format)
                if pa.types.is_string(values.type)
                else _numbers(values, DataType.LONG)
            )
        case DataType.STRING:
            return _texts(values)
        case DataType.JSON | DataType.MAP:
            return _json(values, data_type)
        case DataType.BYTES:
            return _bytes(values)
    return by_unique(values, _decimal, pa.binary())


def _numbers(values: pa.Array, data_type: DataType) -> Converted:
    target = data_type.arrow
    # Rounding is what FLOAT and DOUBLE are; a cut fraction or a wrapped integer is not what INT and LONG are.
    safe = data_type in (DataType.INT, DataType.LONG)
    if values.type == target:
        return Converted(values)
    if pa.types.is_boolean(values.type):
        return Converted(values.cast(pa.int8()).cast(target))
    if pa.types.is_decimal(values.type) and not safe:
        # Arrow multiplies by a power of ten, which may end beside the nearest double; of text it makes the nearest one.
        values = values.cast(pa.string())

    def convert(piece: pa.Array) -> pa.Array:
        if not pa.types.is_string(piece.type):
            return piece.cast(target, safe=safe)
        if safe and any(pc.max(pc.find_substring(piece, mark)).as_py() not in (None, -1) for mark in "xX"):
            raise pa.ArrowInvalid("0x1F is a number for Arrow only, and 0xFFFFFFFF one below zero")
        return without_plus(pc.utf8_trim_whitespace(piece)).cast(target)

    return halving(values, convert, lambda value: _number(value, data_type), target)


def without_plus(texts: pa.Array) -> pa.Array:
    """Texts of numbers without a + in front, which Arrow's casts refuse; that of a number alone is taken away."""
    if not pc.any(pc.starts_with(texts, "+")).as_py():
        return texts
    return pc.replace_substring_regex(texts, r"^\+([0-9.])", r"\1")


def _number(value: Any, data_type: DataType) -> int | float:
    """One value that Arrow refused; raises ValueError with the cause."""
    shown = f"'{value}'"[:60]
    if isinstance(value, str):
        value = value.strip()
    if isinstance(value, bytes | dict | list):
        raise ValueError(f"a value of type {type(value).__name__}, expected a number for {data_type}")
    if data_type in (DataType.FLOAT, DataType.DOUBLE):
        try:
            return float(_number_text(value) if isinstance(value, str) else value)
        except ValueError:
            raise ValueError(f"{shown} is no number, expected one for {data_type}") from None
    try:
        if isinstance(value, str) and _WHOLE.fullmatch(value) is None:
            raise ValueError
        number = int(value) if isinstance(value, str) else value
        if number != int(number):
            raise ValueError
    except (ValueError, OverflowError):
        raise ValueError(f"{shown} is no whole number, expected one for {data_type}") from None
    bits = 31 if data_type is DataType.INT else 63
    if not -(1 << bits) <= int(number) < 1 << bits:
        raise ValueError(f"{shown} is beyond the range of {data_type}")
    return int(number)


def _number_text(text: str) -> str:
    """The text; raises ValueError for one that is a number in Python only."""
    if not text.isascii() or "_" in text:
        raise ValueError
    return text


def _booleans(values: pa.Array) -> Converted:
    if pa.types.is_boolean(values.type):
        return Converted(values)
    if pa.types.is_decimal(values.type) or pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        return Converted(pc.not_equal(values.cast(pa.float64(), safe=False), 0.0))
    return by_unique(values, _boolean, pa.bool_())


def _boolean(value: Any) -> bool:
    text = str(value).strip().lower()
    if text not in _TRUE + _FALSE:
        raise ValueError(f"'{text[:60]}' is no truth value, expected true, false, 1 or 0")
    return text in _TRUE


def _texts(values: pa.Array) -> Converted:
    if pa.types.is_string(values.type):
        return Converted(values)
    if pa.types.is_integer(values.type) or pa.types.is_boolean(values.type):
        return Converted(values.cast(pa.string()))
    if pa.types.is_nested(values.type):
        return _nested_json(values)
    return by_unique(shortest_doubles(values), _text, pa.string())


def _text(value: Any) -> str:
    """Text of a value as Java writes it: 1.0, 1.0E10, bytes as hex, lists and objects as JSON."""
    match value:
        case float():
            return java_double(value)
        case Decimal():
            return format(value, "f")
        case bytes():
            return value.hex()
        case dict() | list():
            return json_text.dumps(value)
    return str(value)


def java_double(value: float) -> str:
    """Double.toString: shortest digits, a fraction always, E notation below 1e-3 and from 1e7."""
    if not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = format(Decimal(repr(value)), "f")
        return text if "." in text else text + ".0"
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    mantissa = "".join(map(str, digits)).rstrip("0") or "0"
    return f"{'-' if sign else ''}{mantissa[0]}.{mantissa[1:] or '0'}E{exponent + len(digits) - 1}"


def _json(values: pa.Array, data_type: DataType) -> Converted:
    if pa.types.is_string(values.type):
        return by_unique(values, lambda text: _json_text(text, data_type), pa.string())
    if pa.types.is_nested(values.type):
        return _nested_json(values)
    return by_unique(shortest_doubles(values), json_text.dumps, pa.string())


def _nested_json(values: pa.Array) -> Converted:
    def convert(piece: pa.Array) -> pa.Array:
        try:
            return json_texts(piece)
        except ValueError as error:
            raise pa.ArrowInvalid(str(error)) from error

    is_map = pa.types.is_map(values.type)
    # Of equal keys the last counts, as in any JSON reader.
    return halving(values, convert, lambda value: json_text.dumps(dict(value) if is_map else value), pa.string())


def _json_text(text: str, data_type: DataType) -> str:
    try:
        normalized = json_text.normalized(text)
    except ValueError as error:
        raise ValueError(f"'{text[:60]}' is no JSON: {str(error)[:120].lower()}") from None
    if data_type is DataType.MAP and not normalized.startswith("{"):
        raise ValueError(f"'{text[:60]}' is no JSON object, expected one for MAP")
    return normalized


def _bytes(values: pa.Array) -> Converted:
    if pa.types.is_binary(values.type):
        return Converted(values)
    return by_unique(values, _from_hex, pa.binary())


def _from_hex(value: Any) -> bytes:
    try:
        # fromhex would take blanks between bytes.
        if not isinstance(value, str) or (not value.isalnum() and value):
            raise ValueError
        return bytes.fromhex(value)
    except ValueError:
        raise ValueError(f"'{str(value)[:60]}' is no hex text, expected two hex digits a byte") from None


def _decimal(value: Any) -> bytes:
    if isinstance(value, bool | bytes | list | dict):
        raise ValueError(f"a value of type {type(value).__name__}, expected a decimal number")
    try:
        return encode_decimal(Decimal(_number_text(str(value).strip())))
    except (InvalidOperation, ValueError):
        raise ValueError(f"'{str(value)[:60]}' is no finite decimal number") from None


def _from_temporal(values: pa.Array, data_type: DataType, time_format: DateTimeFormat | None) -> Converted:
    """Dates and timestamps of Avro and Parquet: by the column's format; else milliseconds, days for a date, ISO
    text.
    """
    if data_type is DataType.TIMESTAMP:
        return Converted(millis_from_temporal(values))
    if time_format is not None:
        converted = from_millis(millis_from_temporal(values), time_format)
        return cast_values(converted.array, data_type, None).after(converted)
    if pa.types.is_date(values.type) and data_type in (DataType.INT, DataType.LONG):
        return Converted(values.cast(pa.date32()).cast(pa.int32()).cast(data_type.arrow))
    if data_type in (DataType.STRING, DataType.JSON):
        texts = iso_texts(values)
        return (
            texts if data_type is DataType.STRING else by_unique(texts.array, json_text.dumps, pa.string()).after(texts)
        )
    return cast_values(millis_from_temporal(values), data_type, None)


def _from_time_of_day(values: pa.Array, data_type: DataType) -> Converted:
    """Times of day and durations: text as ISO 8601, else the number that the file has (of seconds to nanoseconds)."""
    if data_type in (DataType.STRING, DataType.JSON):
        texts = iso_texts(values)
        return (
            texts if data_type is DataType.STRING else by_unique(texts.array, json_text.dumps, pa.string()).after(texts)
        )
    return cast_values(values.cast(pa.int32() if pa.types.is_time32(values.type) else pa.int64()), data_type, None)


def _storage(values: pa.Array, data_type: DataType) -> pa.Array:
    """What an extension type is stored as; UUIDs are bytes for BYTES, else text."""
    if values.type.extension_name != "arrow.uuid" or data_type is DataType.BYTES:
        return values.storage
    return by_unique(values.storage, lambda content: str(UUID(bytes=content)), pa.string()).array
