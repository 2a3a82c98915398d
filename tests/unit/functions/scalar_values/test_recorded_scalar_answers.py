"""Proves scalar functions against answers that Pinot 1.5.1 and 0.6.0 gave: every recorded query of the form
`SELECT f(…), …, id FROM typesTest… ORDER BY id LIMIT n` is computed on the rows of the table, value by value and type
by type.

Functions of other rooms (dates, aggregations) are left to their tests; where ours differ on purpose, DIFFERENT says
why.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from pinotpy.data_types import DataType, FieldType, default_null_value
from pinotpy.decimals import decode_decimal, encode_decimal
from pinotpy.errors import PinotError
from pinotpy.functions.scalar.conversions import timestamp_text
from pinotpy.functions.scalar.json_paths import json_text
from pinotpy.functions.scalar.spec import Operand, Value, bind, evaluate, scalar_functions
from pinotpy.pql.ast import Call, Dialect, Expression, Identifier, Literal, Statement
from pinotpy.pql.function_names import canonical_function
from pinotpy.pql.parser import parse_pql, parse_sql
from pinotpy.query.model.result_types import literal_type

GOLDEN = Path(__file__).resolve().parents[3] / "golden"
OURS = (
    "array_edits",
    "arrays",
    "arithmetic",
    "case",
    "cast",
    "comparisons",
    "hashes",
    "json_paths",
    "math",
    "rounding",
    "strings",
    "text_search",
    "text_shape",
    "text_arguments",
)
# What differs on purpose or is decided elsewhere: part of the expression → why.
DIFFERENT = {
    "-longBig": "the reference has no unary minus",
    "-intBig": "the reference has no unary minus",
    "||": "the reference has no ||",
    "bigD / 4": "the reference keeps the scale of the dividend (decimal-quotients)",
    "arraymin(mvString)": "the reference cannot write the answer",
    "jsonPath": "the reference's do not work on JSON columns",
    "jsonFormat": "the reference's does not work on JSON columns",
    "'$.big', 'LONG'": "the reference wraps a number beyond LONG, ours is an error",
    "CAST('2020": "constants are folded by the broker, a TIMESTAMP to its LONG",
    "CAST(longD AS TIMESTAMP)": "years beyond 9999 are printed in another calendar",
    "CAST(bigD AS TIMESTAMP)": "years beyond 9999 are printed in another calendar",
    "mvInt = 3": "conditions on multi-values are those of query.model.predicate",
    "CASE WHEN boolD THEN 'a' END": "null becomes the default of its type where a query does not handle nulls",
    "mapValue(kv__KEYS,'a',kv__VALUES) FROM typesTest ORDER": "an absent key is the default value, not an error",
}


def _default(data_type: DataType, *, is_metric: bool) -> Any:
    value = default_null_value(data_type, FieldType.METRIC if is_metric else FieldType.DIMENSION)
    return (
        value.decode()
        if isinstance(value, bytes) and (data_type.is_text or data_type is DataType.MAP)
        else bool(value)
        if data_type is DataType.BOOLEAN
        else value
    )


def _stored(data_type: DataType, value: Any) -> Any:
    match data_type:
        case DataType.BIG_DECIMAL:
            return encode_decimal(Decimal(value))
        case DataType.JSON:  # as ingestion writes it: numbers in plain decimals without trailing zeros
            return json_text(json.loads(value, parse_float=lambda text: Decimal(text).normalize()))
        case DataType.STRING:
            return str(value).lower() if isinstance(value, bool) else value
        case DataType.MAP:
            return "{}"
        case DataType.FLOAT | DataType.DOUBLE:
            return value + 0.0
    return value


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


@cache
def _columns(table: str) -> dict[str, tuple[Operand, list[Any]]]:
    """Every column in the order of id, nulls as defaults."""
    with (GOLDEN / f"{table}.avro").open("rb") as file:
        rows: list[Any] = sorted(fastavro.reader(file), key=lambda row: row["id"])
    schema = json.loads((GOLDEN / f"{table}_schema.json").read_text())
    found = {}
    for kind in ("dimensionFieldSpecs", "metricFieldSpecs", "dateTimeFieldSpecs"):
        for field in schema.get(kind, []):
            is_many = not field.get("singleValueField", True)
            data_type = DataType(field["dataType"])
            if table == "typesTest" and data_type is DataType.BOOLEAN:
                data_type = DataType.STRING  # as 0.6.0 stores it
            default = _default(data_type, is_metric=kind == "metricFieldSpecs")
            values = [row[field["name"]] for row in rows]
            values = [
                default if value is None or _is_nan(value) else value if is_many else _stored(data_type, value)
                for value in values
            ]
            found[field["name"]] = (
                Operand(data_type, not is_many),
                [([default] if value in (default, []) else value) for value in values] if is_many else values,
            )
    return found


def _evaluated(expression: Expression, table: str, count: int, dialect: Dialect) -> tuple[Operand, Value]:
    if isinstance(expression, Identifier):
        operand, values = _columns(table)[expression.name]
        assert operand.data_type is not None
        return operand, pa.array(
            values[:count], operand.data_type.arrow if operand.single_value else pa.list_(operand.data_type.arrow)
        )
    if isinstance(expression, Literal):
        found = literal_type(expression.value)
        return Operand(found, True, expression), pa.scalar(
            expression.text if expression.is_string else expression.value, found.arrow if found else pa.null()
        )
    assert isinstance(expression, Call)
    arguments = [_evaluated(argument, table, count, dialect) for argument in expression.args]
    bound = bind(canonical_function(expression.name), tuple(operand for operand, _ in arguments), dialect)
    return Operand(bound.data_type, bound.single_value), evaluate(bound, [value for _, value in arguments], count)


def _names(expression: Expression) -> Iterator[str]:
    if isinstance(expression, Call):
        yield canonical_function(expression.name)
        for argument in expression.args:
            yield from _names(argument)


def _of_this_room(statement: Statement) -> bool:
    functions = scalar_functions()
    names = {name for item in statement.select for name in _names(item.expression)}
    return bool(names) and all(
        name in functions and functions[name].bind.__module__.rpartition(".")[2] in OURS for name in names
    )


def _recorded(file: str, key: str, table: str) -> list[tuple[str, Statement, dict[str, Any]]]:
    found = []
    with gzip.open(GOLDEN / f"{file}.jsonl.gz", "rt") as lines:
        for line in map(json.loads, lines):
            text = line.get(key) or ""
            if f"FROM {table} ORDER BY id" not in text or not text.startswith("SELECT"):
                continue
            try:
                statement = parse_sql(text) if key == "sql" else parse_pql(text)
            except PinotError:
                continue
            if _of_this_room(statement) and "DISTINCT" not in text:
                found.append((text, statement, line["response"]))
    return found


SQL = _recorded("types_sql15", "sql", "typesTest15")
PQL = _recorded("types_pql", "pql", "typesTest")


def _is_different(text: str) -> bool:
    return any(part.lower() in text.lower() for part in DIFFERENT)


def _shown(value: Any, data_type: DataType | None) -> Any:
    if isinstance(value, list):
        return [_shown(item, data_type) for item in value]
    match data_type:
        case DataType.BYTES:
            return value.hex()
        case DataType.BIG_DECIMAL:
            return float(decode_decimal(value))
        case DataType.TIMESTAMP:
            return timestamp_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _same(ours: Any, theirs: Any, data_type: DataType | None) -> bool:
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(_same(a, b, data_type) for a, b in zip(ours, theirs, strict=True))
    if isinstance(ours, float) and not isinstance(theirs, str | bool):
        return math.isclose(ours, theirs, rel_tol=1e-7 if data_type is DataType.FLOAT else 1e-15)
    if data_type is DataType.BIG_DECIMAL:
        return bool(ours == float(theirs))
    return bool(ours == theirs) and isinstance(ours, bool) is isinstance(theirs, bool)


@pytest.mark.parametrize(
    ("text", "statement", "response"),
    [line for line in SQL if not _is_different(line[0])],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_answers_of_sql(text: str, statement: Statement, response: dict[str, Any]) -> None:
    exceptions = response.get("exceptions") or []
    count = 8 if exceptions else len(response["resultTable"]["rows"])
    columns = []
    try:
        columns = [_evaluated(item.expression, "typesTest15", count, Dialect.SQL) for item in statement.select]
    except PinotError as error:
        assert exceptions, f"recorded an answer, found {error}"
        assert error.code == exceptions[0]["errorCode"], str(error)
        return
    assert not exceptions, f"recorded {exceptions[0]}"
    schema, rows = response["resultTable"]["dataSchema"], response["resultTable"]["rows"]
    for at, (operand, values) in enumerate(columns):
        assert operand.data_type is not None
        if isinstance(statement.select[at].expression, Call):
            assert operand.data_type.value + ("" if operand.single_value else "_ARRAY") == schema["columnDataTypes"][at]
        ours = values.to_pylist() if isinstance(values, pa.Array) else [values.as_py()] * count
        for row, value in zip(rows, ours, strict=True):
            assert _same(_shown(value, operand.data_type), row[at], operand.data_type), (
                f"recorded {row}, found {value!r}"
            )


@pytest.mark.parametrize(
    ("text", "statement", "response"),
    [line for line in PQL if not _is_different(line[0])],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_answers_of_pql(text: str, statement: Statement, response: dict[str, Any]) -> None:
    if response.get("exceptions"):
        with pytest.raises(PinotError) as raised:
            for item in statement.select:
                _evaluated(item.expression, "typesTest", 15, Dialect.PQL)
        assert raised.value.code == response["exceptions"][0]["errorCode"]
        return
    if "selectionResults" not in response:
        return  # the reference was silent: a server that failed while it read the query
    rows = response["selectionResults"]["results"]
    for at, item in enumerate(statement.select):
        operand, values = _evaluated(item.expression, "typesTest", len(rows), Dialect.PQL)
        for row, value in zip(rows, values.to_pylist(), strict=True):
            assert _same_text(value, row[at], operand.data_type), f"recorded {row}, found {value!r}"


def _same_text(value: Any, text: Any, data_type: DataType | None) -> bool:
    """Whether the text says the value: whole numbers without a point, doubles with one, to ten decimals."""
    if isinstance(value, list):
        return len(value) == len(text) and all(_same_text(a, b, data_type) for a, b in zip(value, text, strict=True))
    if isinstance(value, float):
        if not math.isfinite(value):
            return bool(text == ("NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"))
        return "." in text and math.isclose(value, float(text), rel_tol=1e-15, abs_tol=6e-11)
    return bool(str(value) == text)


def test_there_is_something_to_compare() -> None:
    assert len([line for line in SQL if not _is_different(line[0])]) >= 192
    assert len([line for line in PQL if not _is_different(line[0])]) >= 18
    texts = [text for text, _, _ in SQL + PQL]
    for part in DIFFERENT:
        assert any(part.lower() in text.lower() for text in texts), f"'{part}' excuses nothing: take it off the list"
