"""Functions that take values out of JSON: JSONEXTRACTSCALAR, JSONEXTRACTKEY and the jsonPath family.

A path that leads nowhere (also into text that is no JSON, or to null) gives the default; without a default it is an
error, as in the reference. A document is parsed once for each distinct text. Text of numbers is that of the document,
1E+10 and all digits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import orjson
import pyarrow as pa

from pinotpy.data_types import DataType
from pinotpy.decimals import encode_decimal
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.arguments import constant_text, map_distinct
from pinotpy.functions.json.json_path import MISSING, JsonPath, compile_json_path
from pinotpy.functions.scalar.conversions import decimal_of_text, timestamp_of_text, truth_of_text
from pinotpy.functions.scalar.spec import Bound, Example, Operand, ScalarFunction, Value
from pinotpy.pql.ast import Dialect

_TYPES: Final = {
    name: DataType(name)
    for name in ("INT", "LONG", "FLOAT", "DOUBLE", "BIG_DECIMAL", "BOOLEAN", "TIMESTAMP", "STRING", "JSON")
}  # each also as an _ARRAY, but JSON
_EXACT: Final = (DataType.STRING, DataType.JSON, DataType.BIG_DECIMAL)  # types that keep every digit of a number
_RANGES: Final = {DataType.INT: 2**31, DataType.LONG: 2**63, DataType.TIMESTAMP: 2**63}
_UNRESOLVED: Final = "Cannot resolve JSON path on some records. Consider setting a default value."


# --- documents --------------------------------------------------------------------------------------------------------


def parse_json(text: str, *, exact: bool) -> Any:
    """The document, with Decimals for fractions if `exact`; MISSING for text that is no JSON."""
    if not exact:
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            pass  # also for numbers beyond its range, which are JSON
    try:
        return json.loads(text, parse_float=_exactly if exact else None, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return MISSING


def _exactly(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(f"no decimal has the exponent of {text[:40]}") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def json_text(value: Any) -> str:
    """A parsed value as compact JSON."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json_text(key)}:{json_text(child)}" for key, child in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(json_text(child) for child in value) + "]"
    if isinstance(value, Decimal) or (isinstance(value, int) and not isinstance(value, bool)):
        return str(value)
    return orjson.dumps(_well_formed(value) if isinstance(value, str) else value).decode()


def _well_formed(text: str) -> str:
    """Text that UTF-8 can write: half a surrogate pair, which JSON's escapes can name, becomes ?."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


# --- values -----------------------------------------------------------------------------------------------------------


def _whole(value: Any, data_type: DataType) -> int:
    if isinstance(value, str):
        number = decimal_of_text(value) if data_type is not DataType.TIMESTAMP else timestamp_of_text(value)
    else:
        number = value
    if isinstance(number, bool) or not isinstance(number, int | float | Decimal):
        raise QueryExecutionError(f"expected {data_type.value} at the JSON path, found {json_text(value)[:40]}")
    if not -_RANGES[data_type] <= number < _RANGES[data_type]:  # before int(), which an infinity has none of
        raise QueryExecutionError(
            f"expected {data_type.value} at the JSON path, found {json_text(value)[:40]}: beyond its range"
        )
    return int(number)


def _real(value: Any) -> float:
    if isinstance(value, str):
        return float(decimal_of_text(value)) if value not in ("NaN", "Infinity", "-Infinity") else float(value)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise QueryExecutionError(f"expected a number at the JSON path, found {json_text(value)[:40]}")
    try:
        return float(value)
    except OverflowError:  # a whole number of more than 308 digits
        return math.inf if value > 0 else -math.inf


def _decimal(value: Any) -> bytes:
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        raise QueryExecutionError(f"expected a number at the JSON path, found {json_text(value)[:40]}")
    return encode_decimal(decimal_of_text(value if isinstance(value, str) else str(value)))


def _truth(value: Any) -> bool:
    return truth_of_text(value) if isinstance(value, str) else bool(value)


def _text(value: Any) -> str:
    return _well_formed(value) if isinstance(value, str) else json_text(value)


VALUE_OF_TYPE: Final[dict[DataType, Callable[[Any], Any]]] = {
    **{data_type: lambda value, data_type=data_type: _whole(value, data_type) for data_type in _RANGES},  # type: ignore[misc]
    DataType.FLOAT: _real,
    DataType.DOUBLE: _real,
    DataType.BIG_DECIMAL: _decimal,
    DataType.BOOLEAN: _truth,
    DataType.STRING: _text,
    DataType.JSON: json_text,
}


def _list_of(data_type: DataType) -> Callable[[Any], list[Any]]:
    convert = VALUE_OF_TYPE[data_type]
    return lambda value: [convert(item) for item in (value if isinstance(value, list) else [value]) if item is not None]


# --- binding ----------------------------------------------------------------------------------------------------------


def _expect_documents(operand: Operand, function: str) -> None:
    if not operand.single_value or operand.data_type not in (DataType.STRING, DataType.JSON):
        raise InvalidQueryError(
            f"{function.upper()} takes JSON in a single-value STRING or JSON column, found {operand.name}"
        )


def _path(operand: Operand, function: str) -> JsonPath:
    return compile_json_path(constant_text(operand, "path", function))


def _extraction(
    path: JsonPath, data_type: DataType, convert: Callable[[Any], Any], default: Any, *, single_value: bool
) -> Bound:
    """Values at a path; `default` MISSING: there must be one."""

    def extract(text: str) -> Any:
        document = parse_json(text, exact=data_type in _EXACT)
        selected = MISSING if document is MISSING else path.find(document)
        if selected is MISSING or selected is None:
            if default is MISSING:
                raise QueryExecutionError(f"{_UNRESOLVED} Path '{path.text[:80]}', record {text[:80]}")
            return default
        return convert(selected)

    arrow = data_type.arrow if single_value else pa.list_(data_type.arrow)
    # NULL as default is no null that comes in and makes the whole call one.
    return Bound(
        data_type, lambda values: map_distinct(values[0], extract, arrow), single_value, handles_nulls=default is None
    )


def _bind_extract_scalar(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    function = "jsonextractscalar"
    _expect_documents(operands[0], function)
    path = _path(operands[1], function)
    written = constant_text(operands[2], "results type", function).upper()
    is_many = written.endswith("_ARRAY")
    data_type = _TYPES.get(written.removesuffix("_ARRAY"))
    if data_type is None or (is_many and data_type is DataType.JSON):
        raise InvalidQueryError(
            f"Unsupported results type: {written[:40]} for jsonExtractScalar function. Supported types are: "
            f"{'/'.join(_TYPES)}, also with _ARRAY"
        )
    convert = _list_of(data_type) if is_many else VALUE_OF_TYPE[data_type]
    default = (
        _default(operands[3], data_type, convert, is_many=is_many) if len(operands) > 3 else [] if is_many else MISSING
    )
    return _extraction(path, data_type, convert, default, single_value=not is_many)


def _default(operand: Operand, data_type: DataType, convert: Callable[[Any], Any], *, is_many: bool) -> Any:
    if operand.literal is None:
        raise InvalidQueryError(f"expected a constant as default of JSONEXTRACTSCALAR, found {operand.name}")
    if operand.literal.value is None:
        return None
    text = operand.literal.text
    value: Any = text
    if is_many:
        value = parse_json(text, exact=True)
        if not isinstance(value, list):
            raise InvalidQueryError(f"expected a JSON array as default of JSONEXTRACTSCALAR, found '{text[:40]}'")
    elif data_type is DataType.JSON:
        return text
    try:
        return convert(value)
    except QueryExecutionError as error:
        raise InvalidQueryError(f"Cannot convert value: '{text[:40]}' to type: {data_type.value}: {error}") from error


def _bind_extract_key(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    _expect_documents(operands[0], "jsonextractkey")
    path = _path(operands[1], "jsonextractkey")

    def keys(text: str) -> list[str]:
        document = parse_json(text, exact=False)
        return [] if document is MISSING else [_well_formed(place) for place, _ in path.places(document)]

    return Bound(
        DataType.STRING, lambda values: map_distinct(values[0], keys, pa.list_(pa.string())), single_value=False
    )


def _bind_exists(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    _expect_documents(operands[0], "jsonpathexists")
    path = _path(operands[1], "jsonpathexists")

    def exists(text: str) -> bool:
        document = parse_json(text, exact=False)
        return document is not MISSING and bool(path.places(document))

    return Bound(DataType.BOOLEAN, lambda values: map_distinct(values[0], exists, pa.bool_()))


def _bind_of_path(
    name: str, data_type: DataType, absent: Any, single_value: bool, operands: Sequence[Operand], dialect: Dialect
) -> Bound:
    _expect_documents(operands[0], name)
    convert = VALUE_OF_TYPE[data_type] if single_value else _list_of(data_type)
    default = _default(operands[2], data_type, convert, is_many=False) if len(operands) > 2 else absent
    return _extraction(_path(operands[1], name), data_type, convert, default, single_value=single_value)


def _bind_is_json(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    _expect_documents(operands[0], "isjson")
    return Bound(
        DataType.BOOLEAN,
        lambda values: map_distinct(values[0], lambda text: parse_json(text, exact=False) is not MISSING, pa.bool_()),
    )


def _formatted(text: str) -> str:
    document = parse_json(text, exact=True)
    if document is MISSING:
        raise QueryExecutionError(f"expected JSON in JSONFORMAT, found the text '{text[:40]}'")
    return json_text(document)


def _bind_format(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    if not operands[0].single_value or operands[0].data_type is not DataType.JSON:
        raise InvalidQueryError(f"JSONFORMAT takes JSON, found {operands[0].name}")

    def evaluate(values: Sequence[Value]) -> pa.Array:
        return map_distinct(values[0], _formatted, pa.string())

    return Bound(DataType.STRING, evaluate)


def _of_path(
    name: str, summary: str, data_type: DataType, absent: Any, example: Example, *, single_value: bool = True
) -> ScalarFunction:
    def bind(operands: Sequence[Operand], dialect: Dialect) -> Bound:
        return _bind_of_path(name, data_type, absent, single_value, operands, dialect)

    arguments = "json, 'path'[, default]" if single_value else "json, 'path'"
    return ScalarFunction(name, f"{name.upper()}({arguments})", summary, bind, (example,), 2, 3 if single_value else 2)


FUNCTIONS = (
    ScalarFunction(
        "jsonextractscalar",
        "JSONEXTRACTSCALAR(json, 'path', 'type'[, default])",
        "The value at a path, as INT, LONG, FLOAT, DOUBLE, BIG_DECIMAL, BOOLEAN, TIMESTAMP, STRING, JSON, or "
        "INT_ARRAY …; the default without one.",
        _bind_extract_scalar,
        (
            Example("jsonExtractScalar(j, '$.a.b[0]', 'INT')", 1),
            Example("jsonExtractScalar(j, '$.c', 'STRING')", "x"),
            Example("jsonExtractScalar(j, '$.a', 'STRING')", '{"b":[1,2]}'),
            Example("jsonExtractScalar(j, '$.a.b', 'LONG_ARRAY')", [1, 2]),
            Example("jsonExtractScalar(j, '$.z', 'DOUBLE', '0.5')", 0.5),
        ),
        3,
        4,
        aliases=("jsonextractindex",),
    ),
    ScalarFunction(
        "jsonextractkey",
        "JSONEXTRACTKEY(json, 'path')",
        "Where a path leads: the paths of all values that it finds.",
        _bind_extract_key,
        (
            Example("jsonExtractKey(j, '$.*')", ["$['a']", "$['c']"]),
            Example("jsonExtractKey(j, '$..b[*]')", ["$['a']['b'][0]", "$['a']['b'][1]"]),
        ),
        2,
        2,
    ),
    ScalarFunction(
        "jsonformat",
        "JSONFORMAT(json)",
        "JSON as compact text.",
        _bind_format,
        (Example("jsonFormat(j)", '{"a":{"b":[1,2]},"c":"x"}'),),
    ),
    ScalarFunction(
        "isjson",
        "ISJSON(text)",
        "Whether the text is JSON.",
        _bind_is_json,
        (Example("isJson(j)", True), Example("isJson(s)", False)),
    ),
    ScalarFunction(
        "jsonpathexists",
        "JSONPATHEXISTS(json, 'path')",
        "Whether the path leads to a value.",
        _bind_exists,
        (Example("jsonPathExists(j, '$.a.b')", True),),
        2,
        2,
    ),
    _of_path(
        "jsonpathstring",
        "The text at a path; 'null' without one.",
        DataType.STRING,
        "null",
        Example("jsonPathString(j, '$.c')", "x"),
    ),
    _of_path(
        "jsonpathlong",
        "The LONG at a path; the least LONG without one.",
        DataType.LONG,
        -(2**63),
        Example("jsonPathLong(j, '$.a.b[1]')", 2),
    ),
    _of_path(
        "jsonpathdouble",
        "The DOUBLE at a path; NaN without one.",
        DataType.DOUBLE,
        float("nan"),
        Example("jsonPathDouble(j, '$.a.b[1]')", 2.0),
    ),
    _of_path(
        "jsonpatharray",
        "The texts of the list at a path; none without one.",
        DataType.STRING,
        [],
        Example("jsonPathArray(j, '$.a.b[*]')", ["1", "2"]),
        single_value=False,
    ),
    _of_path(
        "jsonpatharraydefaultempty",
        "The texts of the list at a path; none without one.",
        DataType.STRING,
        [],
        Example("jsonPathArrayDefaultEmpty(j, '$.z')", []),
        single_value=False,
    ),
)
