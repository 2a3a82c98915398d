"""One column of a schema: its type, its default value, its length limit, its time format."""

from __future__ import annotations

import json
import math
import struct
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Final

from pydantic import Field

from pinotpy.config.date_pattern import DatePattern
from pinotpy.config.date_time import DateTimeFormat, TimeFormat, TimeUnit, parse_format
from pinotpy.config.document import Document, Text, Truth, WholeNumber, named
from pinotpy.config.type_names import data_type_named
from pinotpy.data_types import DataType, FieldType, default_null_value
from pinotpy.decimals import decode_decimal, encode_decimal

MAX_LENGTH_DEFAULT: Final = 512
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class MaxLengthExceedStrategy(StrEnum):
    """What happens to a value longer than `maxLength`."""

    TRIM_LENGTH = "TRIM_LENGTH"
    ERROR = "ERROR"
    SUBSTITUTE_DEFAULT_VALUE = "SUBSTITUTE_DEFAULT_VALUE"
    NO_ACTION = "NO_ACTION"


class TimeGranularitySpec(Document):
    """Half of a `timeFieldSpec` of the old manual: the time column as it comes in, or as it is kept."""

    name: Text = Field(description="Name of the time column.")
    data_type: Annotated[DataType, data_type_named()] = Field(description="INT, LONG, STRING or TIMESTAMP.")
    time_type: Annotated[TimeUnit, named(TimeUnit)] = Field(description="Unit of the values.")
    time_unit_size: WholeNumber = Field(1, ge=1, description="Number of units that a value counts.")
    time_format: Text = Field("EPOCH", description="EPOCH, or SIMPLE_DATE_FORMAT:pattern.")

    @property
    def format_text(self) -> str:
        """The same as a `dateTimeFieldSpecs` format: 1:DAYS:EPOCH."""
        return f"{self.time_unit_size}:{self.time_type}:{self.time_format}"

    def to_json_dict(self) -> dict[str, Any]:
        """Form of GET /schemas: sizes and formats only where they are not the default."""
        document: dict[str, Any] = {"name": self.name, "dataType": str(self.data_type), "timeType": str(self.time_type)}
        if self.time_unit_size != 1:
            document["timeUnitSize"] = self.time_unit_size
        if self.time_format != "EPOCH":
            document["timeFormat"] = self.time_format
        return document


class FieldSpec(Document):
    """A column of a schema, of any kind. Keys that do not belong to its kind are refused by `Schema.from_json`."""

    name: Text = Field(description="Name of the column.")
    data_type: Annotated[DataType, data_type_named()] = Field(description="Type of the values.")
    field_type: FieldType = Field(
        FieldType.DIMENSION, description="What the column is for; follows from the list it stands in."
    )
    single_value: Truth = Field(
        True, alias="singleValueField", description="false: a list of values per row; duplicates and order are kept."
    )
    not_null: Truth = Field(
        False, description="With column-based null handling: null input is read as the default value, never as null."
    )
    max_length: WholeNumber = Field(
        MAX_LENGTH_DEFAULT, ge=1, description="Longest value of STRING, JSON (characters) and BYTES (bytes)."
    )
    max_length_exceed_strategy: Annotated[MaxLengthExceedStrategy, named(MaxLengthExceedStrategy)] | None = Field(
        None,
        description="What happens to longer values. Default: TRIM_LENGTH for STRING, NO_ACTION for JSON and BYTES.",
    )
    default_null_value: Any = Field(
        None, description="Value stored for null; text or number, hex for BYTES. Default: by type and kind."
    )
    virtual_column_provider: Text | None = Field(
        None, description="Accepted; every table has the same virtual columns."
    )
    transform_function: Text | None = Field(None, description="Expression over other columns that fills the column.")
    format: Text | None = Field(
        None,
        description="Time format of a DATE_TIME column, e.g. 1:MILLISECONDS:EPOCH or SIMPLE_DATE_FORMAT|yyyy-MM-dd.",
    )
    granularity: Text | None = Field(None, description="Bucket of the times, e.g. 15:MINUTES; documentation only.")
    incoming: TimeGranularitySpec | None = Field(
        None, alias="incomingGranularitySpec", description="TIME column in the input."
    )
    outgoing: TimeGranularitySpec | None = Field(
        None, alias="outgoingGranularitySpec", description="TIME column as stored; default: as in the input."
    )
    child_field_specs: dict[str, Any] | None = Field(None, description="Types of key and value of a MAP column.")

    @cached_property
    def default_null_stored(self) -> int | float | bytes:
        """The value that stands for null, in stored form (`DataType.stored`)."""
        if self.default_null_value is None:
            return default_null_value(self.data_type, self.field_type)
        return stored_from_json(self.default_null_value, self.data_type)

    @cached_property
    def default_in_segments(self) -> int | float | bytes:
        """`default_null_stored` as columns hold it: they have no NaN and no −0.0, so NaN falls back to the type's own
        default.
        """
        default, stored = self.default_null_stored, self.data_type.stored
        if isinstance(default, bytes) or not stored.is_floating:
            return default
        if math.isnan(default):
            default = default_null_value(self.data_type, self.field_type)
        assert not isinstance(default, bytes)
        return float(stored.numpy.type(default)) + 0.0

    @property
    def length_strategy(self) -> MaxLengthExceedStrategy:
        """`max_length_exceed_strategy`, or the default of the type (Pinot: FieldSpec)."""
        if self.max_length_exceed_strategy is not None:
            return self.max_length_exceed_strategy
        return (
            MaxLengthExceedStrategy.TRIM_LENGTH
            if self.data_type is DataType.STRING
            else MaxLengthExceedStrategy.NO_ACTION
        )

    @cached_property
    def date_time_format(self) -> DateTimeFormat | None:
        """Format of a TIME or DATE_TIME column, else None."""
        return parse_format(self.format) if self.format is not None else None

    @property
    def is_time(self) -> bool:
        return self.field_type in (FieldType.TIME, FieldType.DATE_TIME)

    def to_json_dict(self) -> dict[str, Any]:
        """The column as GET /schemas of 1.5.1 shows it: values that are the default are left out."""
        if self.field_type is FieldType.TIME:
            return self._time_json_dict()
        document: dict[str, Any] = {
            "name": self.name,
            "dataType": str(self.data_type),
            "fieldType": str(self.field_type),
        }
        if not self.single_value:
            document["singleValueField"] = False
        if self.not_null or self.field_type is FieldType.COMPLEX:
            document["notNull"] = self.not_null
        if self.max_length != MAX_LENGTH_DEFAULT:
            document["maxLength"] = self.max_length
        if self.max_length_exceed_strategy is not None:
            document["maxLengthExceedStrategy"] = str(self.max_length_exceed_strategy)
        optional = {
            "defaultNullValue": self.default_null_value,
            "virtualColumnProvider": self.virtual_column_provider,
            "transformFunction": self.transform_function,
            "format": self.format,
            "granularity": self.granularity,
            "childFieldSpecs": self.child_field_specs,
        }
        return document | {key: value for key, value in optional.items() if value is not None}

    def _time_json_dict(self) -> dict[str, Any]:
        assert self.incoming is not None
        document: dict[str, Any] = {"incomingGranularitySpec": self.incoming.to_json_dict()}
        if self.outgoing is not None and self.outgoing != self.incoming:
            document["outgoingGranularitySpec"] = self.outgoing.to_json_dict()
        optional = {"defaultNullValue": self.default_null_value, "transformFunction": self.transform_function}
        return document | {key: value for key, value in optional.items() if value is not None}


def stored_from_json(value: Any, data_type: DataType) -> int | float | bytes:
    """A default value as people write it (number or text) in stored form; raises ValueError whose text is what is
    allowed.
    """
    match data_type:
        case DataType.INT | DataType.LONG:
            return _integer(value, 31 if data_type is DataType.INT else 63)
        case DataType.FLOAT | DataType.DOUBLE:
            return _floating(value, data_type)
        case DataType.BIG_DECIMAL:
            return _decimal(value)
        case DataType.BOOLEAN:
            return _boolean(value)
        case DataType.TIMESTAMP:
            return millis_from_json(value)
        case DataType.BYTES:
            return _bytes(value)
        case DataType.MAP:
            return _map(value)
    if isinstance(value, dict | list):
        if data_type is not DataType.JSON:
            raise ValueError("text")
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    text = value if isinstance(value, str) else json.dumps(value)
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError("text of Unicode characters, no lone surrogates") from None


def json_from_stored(stored: int | float | bytes, data_type: DataType) -> Any:
    """Inverse of `stored_from_json`, as GET /schemas shows a default; NaN and infinities as text."""
    match data_type:
        case DataType.BOOLEAN:
            return stored == 1
        case DataType.FLOAT | DataType.DOUBLE:
            assert isinstance(stored, int | float)
            number = float(stored)
            return (
                number if number - number == 0 else {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}[str(number)]
            )
    if not isinstance(stored, bytes):
        return stored
    match data_type:
        case DataType.BIG_DECIMAL:
            return str(decode_decimal(stored))
        case DataType.BYTES:
            return stored.hex()
        case DataType.MAP:
            return json.loads(stored)
    return stored.decode()


def _integer(value: Any, bits: int) -> int:
    allowed = f"a whole number from -2^{bits} to 2^{bits}-1"
    if (
        isinstance(value, bool)
        or (isinstance(value, float) and value != value // 1)
        or not isinstance(value, int | float | str)
    ):
        raise ValueError(allowed)
    try:
        number = int(value)
    except (ValueError, OverflowError):
        raise ValueError(allowed) from None
    if not -(1 << bits) <= number < 1 << bits:
        raise ValueError(allowed)
    return number


def _floating(value: Any, data_type: DataType) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("a number, or NaN, Infinity, -Infinity as text")
    try:
        number = float(value)
    except (ValueError, OverflowError):
        raise ValueError("a number, or NaN, Infinity, -Infinity as text") from None
    if data_type is DataType.DOUBLE or number - number != 0:
        return number
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        raise ValueError("a number within the range of FLOAT, about ±3.4e38") from None


def _decimal(value: Any) -> bytes:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("a decimal number")
    try:
        return encode_decimal(Decimal(str(value).strip()))
    except (InvalidOperation, ValueError):
        raise ValueError("a finite decimal number") from None


def _boolean(value: Any) -> int:
    text = str(value).strip().lower()
    if text in ("true", "1"):
        return 1
    if text in ("false", "0"):
        return 0
    raise ValueError("true or false, or 1 or 0")


def millis_from_json(value: Any) -> int:
    """A TIMESTAMP as number of milliseconds, its text, or JDBC/ISO text in UTC; raises ValueError whose text is what is
    allowed.
    """
    allowed = "milliseconds since 1970-01-01 UTC, or text such as 2021-01-01 01:01:01.123"
    if isinstance(value, str) and not value.strip().lstrip("-+").isdigit():
        try:
            return (DatePattern.compile(None).parse(value, UTC) - _EPOCH) // timedelta(milliseconds=1)
        except (ValueError, OverflowError):
            raise ValueError(allowed) from None
    try:
        return _integer(value, 63)
    except ValueError:
        raise ValueError(allowed) from None


def _bytes(value: Any) -> bytes:
    text = value if isinstance(value, str) else ""
    if not isinstance(value, str) or len(text) % 2 or not all(char in "0123456789abcdefABCDEF" for char in text):
        raise ValueError("hex digits, two a byte, as text")
    return bytes.fromhex(text)


def _map(value: Any) -> bytes:
    try:
        document = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise ValueError("a JSON object")
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def allowed_format(spec: FieldSpec) -> str | None:
    """What a format and a data type must be together, or None if they fit."""
    parsed = parse_format(spec.format or "")
    types = (DataType.INT, DataType.LONG, DataType.STRING, DataType.TIMESTAMP)
    if spec.data_type not in types:
        return "one of " + ", ".join(types)
    if parsed.kind is TimeFormat.TIMESTAMP and spec.data_type not in (DataType.TIMESTAMP, DataType.LONG):
        return "TIMESTAMP or LONG for the format TIMESTAMP"
    if (
        parsed.kind is TimeFormat.EPOCH
        and spec.data_type is DataType.TIMESTAMP
        and (parsed.unit, parsed.size) != (TimeUnit.MILLISECONDS, 1)
    ):
        return "INT or LONG for a format that counts other units than single milliseconds"
    return None
