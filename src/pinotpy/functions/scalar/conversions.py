"""One type made of several, and values of one type as another: what CAST, CASE, comparisons and LEAST share.

All work on whole arrays (pa.Array) or constants (pa.Scalar) without nulls and give back the same kind, in the Arrow
form of the target type.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.data_types import DataType
from pinotpy.decimals import decode_decimal, encode_decimal
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.arguments import doubles, doubles_to_longs, ints, longs, map_distinct, numpy_of, texts
from pinotpy.functions.scalar.spec import Value

_NUMBERS: Final = (
    DataType.INT,
    DataType.LONG,
    DataType.FLOAT,
    DataType.DOUBLE,
    DataType.BIG_DECIMAL,
)  # each holds those before it
_INTEGERS: Final = (DataType.INT, DataType.LONG)
_AS_NUMBER: Final = {DataType.BOOLEAN: DataType.INT, DataType.TIMESTAMP: DataType.LONG}
_EXPONENT_MAX: Final = 10_000  # of numbers in text: 1e999999999 is 13 bytes, and a gigabyte when printed
_MILLIS: Final = re.compile(r"-?[0-9]{1,18}")
_TIMESTAMP: Final = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:[ T]([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(\.[0-9]{1,9})?)?(?:Z| ?([+-])([0-9]{2})(?::?([0-9]{2}))?)?)?"
)


def common_type(types: Sequence[DataType | None], function: str) -> DataType:
    """The type that holds values of all: INT < LONG < FLOAT < DOUBLE < BIG_DECIMAL, DOUBLE where integers meet FLOAT
    (24 bits hold few of them), STRING beside anything; None (a bare NULL) fits everywhere. Raises InvalidQueryError
    where there is none.
    """
    distinct = {data_type for data_type in types if data_type is not None}
    if len(distinct) < 2:
        return distinct.pop() if distinct else DataType.STRING
    if DataType.STRING in distinct:
        return DataType.STRING
    numbers = {_AS_NUMBER.get(data_type, data_type) for data_type in distinct}
    if not numbers <= set(_NUMBERS):
        names = ", ".join(sorted(data_type.value for data_type in distinct))
        raise InvalidQueryError(f"expected values of one type in {function.upper()}, found {names}: cast them")
    widest = max(numbers, key=_NUMBERS.index)
    return DataType.DOUBLE if widest is DataType.FLOAT and len(numbers) > 1 else widest


def converted(values: Value, source: DataType | None, target: DataType) -> Value:
    """Values of `source` as `target`. Integers wrap to narrower ones, doubles are cut off and end at the range, text is
    parsed.

    Raises: QueryExecutionError for values that the target cannot take.
    """
    if source is target:
        return values
    return on_array(values, lambda array: _CONVERT[target](array, source))


def converted_present(values: Value, source: DataType | None, target: DataType) -> Value:
    """Like `converted`, of values among which may be nulls, which stay."""
    if isinstance(values, pa.Scalar):
        return converted(values, source, target) if values.is_valid else pa.scalar(None, target.arrow)
    if not values.null_count:
        return converted(values, source, target)
    valid = values.is_valid()
    present = converted(values.filter(valid), source, target)
    positions = pc.subtract(pc.cumulative_sum(valid.cast(pa.int64())), 1)
    return present.take(pc.if_else(valid, positions, pa.scalar(None, pa.int64())))


def on_array(values: Value, convert: Callable[[pa.Array], pa.Array]) -> Value:
    """convert(array), also of a constant."""
    if isinstance(values, pa.Scalar):
        return convert(pa.array([values.as_py()], values.type))[0]
    return convert(values)


def decimal_of_text(text: str) -> Decimal:
    """A number as java.math.BigDecimal reads it; raises QueryExecutionError."""
    try:
        value = Decimal(text) if text.isascii() and "_" not in text and text == text.strip() else None
    except InvalidOperation:
        value = None
    if value is None or not value.is_finite() or abs(value.adjusted()) > _EXPONENT_MAX:
        raise QueryExecutionError(f"expected a number, found the text '{text[:40]}'")
    return value


def decimal_order(array: pa.Array, source: DataType | None) -> pa.Array:
    """Bytes in the order of numbers: BIG_DECIMAL, and doubles exactly as they are, their infinities at the ends and NaN
    after all.
    """

    def order(value: float) -> bytes:
        if math.isfinite(value):
            return encode_decimal(Decimal(value))
        return b"\xff\xff" if math.isnan(value) else b"\xff" if value > 0 else b"\x00"

    if not pa.types.is_floating(array.type):
        return converted(array, source, DataType.BIG_DECIMAL)
    return map_distinct(array, order, pa.binary())


def _decimals(array: pa.Array, source: DataType | None) -> pa.Array:
    def encode(value: object) -> bytes:
        try:
            return encode_decimal(decimal_of_text(value) if isinstance(value, str) else Decimal(str(value)))
        except (ValueError, InvalidOperation) as error:
            raise QueryExecutionError(f"'{str(value)[:40]}' is no BIG_DECIMAL: {error}") from error

    if source is DataType.BYTES:
        raise QueryExecutionError("expected a number, found BYTES")
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    if pa.types.is_float32(array.type):
        array = array.cast(pa.float64())
    return map_distinct(array, encode, pa.binary())


def _truths(array: pa.Array, source: DataType | None) -> pa.Array:
    """'true' in any case and '1' are true, all other text false; numbers are true unless they are 0."""
    if pa.types.is_string(array.type):
        return map_distinct(array, truth_of_text, pa.bool_())
    return pc.not_equal(doubles(array, source), 0.0)


def truth_of_text(text: str) -> bool:
    """What a text means as BOOLEAN."""
    return text == "1" or text.lower() == "true"


def _timestamps(array: pa.Array, source: DataType | None) -> pa.Array:
    if pa.types.is_string(array.type):
        return map_distinct(array, timestamp_of_text, pa.int64())
    return wrapped_longs(array, source)


def timestamp_of_text(text: str) -> int:
    """Milliseconds of `yyyy-MM-dd[ HH:mm[:ss[.f]]]` (UTC, also with T, with Z or an offset such as +02 or -05:30 behind
    it) or of digits; raises QueryExecutionError.
    """
    if _MILLIS.fullmatch(text):
        return int(text)
    match = _TIMESTAMP.fullmatch(text)
    if match is not None:
        year, month, day, hour, minute, second, fraction, sign, hours, minutes = match.groups()
        try:
            moment = datetime(
                int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0), tzinfo=UTC
            )
            if sign is not None:
                offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
                moment = moment - offset if sign == "+" else moment + offset
        except (ValueError, OverflowError):
            pass
        else:
            return round(moment.timestamp()) * 1000 + int((fraction or ".0")[1:4].ljust(3, "0"))
    raise QueryExecutionError(
        "expected a time such as 2020-02-29 23:59:59.5 (in UTC, or with an offset such as +02:00 behind it) or "
        f"milliseconds, found the text '{text[:40]}'"
    )


def timestamp_text(millis: int) -> str:
    """`2014-01-01 00:00:00.0`, UTC: the fraction without trailing zeros, at least one digit."""
    # numpy takes the least LONG for "not a time"
    day_text, _, fraction = str(np.datetime64(max(millis, 1 - 2**63), "ms")).replace("T", " ").partition(".")
    return f"{day_text}.{fraction.rstrip('0') or '0'}"


def timestamp_texts(array: pa.Array) -> pa.Array:
    """`timestamp_text` of every value."""
    return map_distinct(array, timestamp_text, pa.string())


def wrapped_longs(array: pa.Array, source: DataType | None) -> pa.Array:
    """LONGs as SQL's CAST makes them: text may have a fraction, which is cut off, and BIG_DECIMAL keeps its lowest 64
    bits.
    """
    if source is DataType.BIG_DECIMAL:
        return map_distinct(array, lambda data: (int(decode_decimal(data)) + 2**63) % 2**64 - 2**63, pa.int64())
    if pa.types.is_string(array.type):
        return map_distinct(array, _long_of_text, pa.int64())
    return longs(array, source)


def _long_of_text(text: str) -> int:
    value = decimal_of_text(text)
    return max(min(int(value), 2**63 - 1), -(2**63))


def wrapped_ints(array: pa.Array, source: DataType | None) -> pa.Array:
    """INTs as SQL's CAST makes them: wider integers and BIG_DECIMAL keep their lowest 32 bits, doubles and text end at
    the range.
    """
    if pa.types.is_floating(array.type) or pa.types.is_string(array.type):
        whole = (
            doubles_to_longs(numpy_of(array).astype(np.float64))
            if pa.types.is_floating(array.type)
            else numpy_of(wrapped_longs(array, source))
        )
        return pa.array(np.clip(whole, -(2**31), 2**31 - 1).astype(np.int32))
    return pa.array(numpy_of(wrapped_longs(array, source)).astype(np.int32))


def _floats(array: pa.Array, source: DataType | None) -> pa.Array:
    with np.errstate(over="ignore"):
        return pa.array(numpy_of(doubles(array, source)).astype(np.float32))


def _bytes(array: pa.Array, source: DataType | None) -> pa.Array:
    if not pa.types.is_string(array.type):
        raise QueryExecutionError(
            f"expected BYTES or their hexadecimal text, found {source.value if source else 'NULL'}"
        )
    return map_distinct(array, bytes_of_hex, pa.binary())


def bytes_of_hex(text: str) -> bytes:
    """The bytes of pairs of hexadecimal digits; raises QueryExecutionError."""
    try:
        return bytes.fromhex(text) if " " not in text else bytes.fromhex("no")
    except ValueError as error:
        raise QueryExecutionError(f"expected pairs of hexadecimal digits, found '{text[:40]}'") from error


_CONVERT: Final[dict[DataType, Callable[[pa.Array, DataType | None], pa.Array]]] = {
    DataType.INT: ints,
    DataType.LONG: longs,
    DataType.FLOAT: _floats,
    DataType.DOUBLE: doubles,
    DataType.BIG_DECIMAL: _decimals,
    DataType.BOOLEAN: _truths,
    DataType.TIMESTAMP: _timestamps,
    DataType.STRING: texts,
    DataType.JSON: texts,
    DataType.BYTES: _bytes,
}
