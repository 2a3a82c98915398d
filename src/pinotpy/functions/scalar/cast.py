"""CAST: a value as another type.

PQL knows whole numbers, doubles and text only: INT gives LONG and is never cut to 32 bits, FLOAT gives DOUBLE, and
every other type is an error (reference: CastTransformFunction of 0.6.0). SQL knows all types, each with its own width.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Final

import orjson
import pyarrow as pa

from pinotpy.data_types import INT_MIN, LONG_MIN, DataType
from pinotpy.decimals import DIGITS_MAX, decode_decimal, encode_decimal
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.arguments import constant_text, map_distinct, texts
from pinotpy.functions.scalar.conversions import (
    converted,
    decimal_of_text,
    on_array,
    timestamp_texts,
    wrapped_ints,
    wrapped_longs,
)
from pinotpy.functions.scalar.spec import Bound, Example, Operand, ScalarFunction, Value
from pinotpy.pql.ast import Dialect, Literal

_PQL_TYPES: Final = {
    **dict.fromkeys(("INT", "INTEGER", "LONG", "BIGINT"), DataType.LONG),
    **dict.fromkeys(("FLOAT", "DOUBLE"), DataType.DOUBLE),
    **dict.fromkeys(("STRING", "VARCHAR"), DataType.STRING),
}
_SQL_TYPES: Final = {
    **dict.fromkeys(("INT", "INTEGER"), DataType.INT),
    **dict.fromkeys(("LONG", "BIGINT"), DataType.LONG),
    "FLOAT": DataType.FLOAT,
    "DOUBLE": DataType.DOUBLE,
    **dict.fromkeys(("DECIMAL", "BIG_DECIMAL"), DataType.BIG_DECIMAL),
    "BOOLEAN": DataType.BOOLEAN,
    "TIMESTAMP": DataType.TIMESTAMP,
    **dict.fromkeys(("STRING", "VARCHAR"), DataType.STRING),
    "JSON": DataType.JSON,
    "BYTES": DataType.BYTES,
}
_LEAST: Final = {DataType.INT: INT_MIN, DataType.LONG: LONG_MIN, DataType.TIMESTAMP: LONG_MIN}
# What SQL's grammar makes of DECIMAL(10, 2), each number checked.
_DIGITS: Final = re.compile(r"DECIMAL\(([0-9]+),([0-9]+)\)")


def _bind(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    operand = operands[0]
    written = constant_text(operands[1], "type", "CAST").upper()
    known = _SQL_TYPES if dialect is Dialect.SQL else _PQL_TYPES
    digits = _DIGITS.fullmatch(written) if dialect is Dialect.SQL else None
    if digits is not None:
        written = "DECIMAL"
    target = known.get(written.removesuffix("_ARRAY") if not operand.single_value else written)
    if target is None:
        raise InvalidQueryError(
            f"unable to cast {operand.name} to {written[:40]}: expected one of {', '.join(sorted(known))}"
        )
    if target is DataType.BYTES or (operand.data_type is DataType.BYTES and target is not DataType.STRING):
        # The reference finds this out while it reads rows: 200 in both dialects.
        raise QueryExecutionError(
            f"cannot cast {operand.name} to {written}: BYTES are cast to STRING only; bytesToHex and hexToBytes "
            "convert them"
        )
    if operand.literal is not None and dialect is Dialect.SQL:
        _check_constant(operand.literal, target)
    if not operand.single_value and dialect is Dialect.PQL:
        raise InvalidQueryError(f"CAST takes single values, found {operand.name}")
    convert = _converter(operand.data_type, target, dialect)
    if digits is not None:
        convert = _within(convert, int(digits[1]), int(digits[2]))

    def evaluate(values: Sequence[Value]) -> pa.Array:
        if operand.single_value:
            return convert(values[0])
        lists = values[0]
        return pa.ListArray.from_arrays(lists.offsets, convert(lists.values))

    return Bound(target, evaluate, operand.single_value)


def _check_constant(literal: Literal, target: DataType) -> None:
    """QueryExecutionError for a number that a whole type does not hold. (Values of rows keep their lowest bits or end
    at the range, as the reference's do; the answer's warnings say so.)
    """
    value, least = literal.value, _LEAST.get(target)
    if (
        least is None
        or value is None
        or isinstance(value, bool)
        or (literal.is_string and target is DataType.TIMESTAMP)
    ):
        return
    try:
        number = decimal_of_text(value) if isinstance(value, str) else Decimal(value)
    except QueryExecutionError:
        return  # computing it says what is wrong
    if not number.is_finite() or not least <= int(number) < -least:
        hint = "LONG or DECIMAL" if target is DataType.INT else "DECIMAL"
        raise QueryExecutionError(
            f"{literal.text[:40]} does not fit {target.value}, which has whole numbers from {least} to {-least - 1}; "
            f"cast it to {hint if number.is_finite() else 'DOUBLE'}"
        )


def _converter(source: DataType | None, target: DataType, dialect: Dialect) -> Callable[[Value], Value]:
    if dialect is Dialect.PQL or source is target:
        return lambda values: converted(values, source, target)
    if target is DataType.INT:
        return lambda values: on_array(values, lambda array: wrapped_ints(array, source))
    if target is DataType.LONG:
        return lambda values: on_array(values, lambda array: wrapped_longs(array, source))
    if target.is_text and source is DataType.TIMESTAMP:
        return lambda values: on_array(values, timestamp_texts)
    if target is DataType.JSON and source is DataType.STRING:
        return lambda values: on_array(values, lambda array: map_distinct(array, _json_of_text, pa.string()))
    if target.is_text:
        return lambda values: texts(values, source)
    return lambda values: converted(values, source, target)


def _within(convert: Callable[[Value], Value], precision: int, scale: int) -> Callable[[Value], Value]:
    """BIG_DECIMAL rounded to `scale` digits behind the point, halves away from zero; QueryExecutionError for numbers
    that then have more than `precision` digits.
    """
    step, digits = Decimal(1).scaleb(-scale), Context(prec=DIGITS_MAX)

    def rounded(data: bytes) -> bytes:
        value = decode_decimal(data)
        if value.adjusted() <= precision:  # else it has too many digits before the point alone
            value = value.quantize(step, ROUND_HALF_UP, digits)
            if not value or value.adjusted() < precision - scale:
                return encode_decimal(value)
        whole = precision - scale
        raise QueryExecutionError(
            f"{str(value)[:40]} does not fit DECIMAL({precision},{scale}), which has {whole} "
            f"digit{'s' * (whole != 1)} before the point; give it a higher precision"
        )

    return lambda values: on_array(convert(values), lambda array: map_distinct(array, rounded, pa.binary()))


def _json_of_text(text: str) -> str:
    """JSON as it stands; any other text becomes a JSON string."""
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return orjson.dumps(text).decode()
    return text


FUNCTIONS = (
    ScalarFunction(
        "cast",
        "CAST(x, 'INT | LONG | FLOAT | DOUBLE | STRING')",
        "The value as another type. In PQL INT is LONG, FLOAT is DOUBLE; in SQL write CAST(x AS type), where types "
        "are also BOOLEAN, TIMESTAMP, DECIMAL, JSON.",
        _bind,
        (Example("cast(d AS LONG)", 2), Example("cast(f AS VARCHAR)", "1.5"), Example("cast(l AS INT)", 1410065408)),
        2,
        2,
    ),
)
