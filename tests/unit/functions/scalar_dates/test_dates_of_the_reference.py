"""Proves that the date and time functions give what Pinot 0.6.0 (PQL) and 1.5.1 (SQL) answered, on the recorded rows of
tests/golden: selections to the value, groups by key and count, maxima, and which calls are refused."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from pinotpy.data_types import DataType
from pinotpy.errors import PinotError
from pinotpy.functions.scalar.spec import find_scalar_function
from pinotpy.pql.ast import Call, Dialect, Expression, Identifier, Literal, Statement
from pinotpy.pql.parser import parse_pql, parse_sql

GOLDEN = Path(__file__).parents[3] / "golden"
_FAMILIES = ("time_units", "date_trunc", "date_time_convert", "date_parts", "dates")
_TYPES = {"int": DataType.INT, "long": DataType.LONG, "string": DataType.STRING}


def _ours(expression: Expression) -> bool:
    """Whether a call, and every call within it, is one of these functions (or arithmetic's mult)."""
    if not isinstance(expression, Call):
        return isinstance(expression, (Literal, Identifier))
    function = find_scalar_function(expression.name)
    return (
        function is not None
        and function.bind.__module__.rpartition(".")[2] in _FAMILIES
        and all(_ours(arg) for arg in expression.args)
    )


@cache
def _columns(name: str) -> dict[str, tuple[DataType, pa.Array]]:
    with (GOLDEN / f"{name}.avro").open("rb") as file:
        reader = fastavro.reader(file)
        types = {
            field["name"]: _TYPES[field["type"]]
            for field in reader.writer_schema["fields"]
            if isinstance(field["type"], str) and field["type"] in _TYPES
        }
        rows = sorted(reader, key=lambda row: row["id"])
    return {
        name: (data_type, pa.array([row[name] for row in rows], data_type.arrow)) for name, data_type in types.items()
    }


def _lines(file: str, kind: str) -> list[dict[str, Any]]:
    with gzip.open(GOLDEN / file, "rt") as lines:
        return [
            line
            for line in map(json.loads, lines)
            if re.search(
                r"(?i)time|date|epoch|year|month|quarter|week|day|hour|minute|second|ago\(|now\(|extract|yow|dow",
                line[kind],
            )
        ]


def _parsed(file: str, kind: str, parse: Callable[[str], Statement]) -> list[tuple[str, Statement, dict[str, Any]]]:
    found = []
    for line in _lines(file, kind):
        try:
            statement = parse(line[kind])
        except PinotError:
            continue
        found.append((line[kind], statement, line["response"]))
    return found


PQL = _parsed("types_pql.jsonl.gz", "pql", parse_pql)
SQL = _parsed("types_sql15.jsonl.gz", "sql", parse_sql)


def _calls(statement: Statement) -> list[Expression]:
    return [
        item.expression for item in statement.select if isinstance(item.expression, Call) and _ours(item.expression)
    ]


PQL_SELECTIONS = [q for q in PQL if _calls(q[1]) and "selectionResults" in q[2] and q[1].where is None]
PQL_GROUPS = [
    q
    for q in PQL
    if len(q[1].group_by) == 1
    and isinstance(q[1].group_by[0], Call)
    and _ours(q[1].group_by[0])
    and not q[2].get("exceptions")
]
PQL_MAXIMA = [
    q for q in PQL if q[0].startswith("SELECT MAX(") and _ours(q[1].select[0].expression.args[0]) and not q[1].group_by
]  # type: ignore[union-attr]
SQL_SELECTIONS = [
    q
    for q in SQL
    if _calls(q[1]) and "typesTest15" in q[0] and q[1].where is None and not q[1].group_by and not q[1].options
]


@pytest.mark.parametrize(("text", "statement", "response"), PQL_SELECTIONS, ids=[q[0] for q in PQL_SELECTIONS])
def test_a_pql_selection_has_the_values_of_the_reference(
    text: str, statement: Statement, response: Any, compute_on: Callable[..., Any]
) -> None:
    rows = response["selectionResults"]["results"]
    for place, item in enumerate(statement.select):
        _, values = compute_on(item.expression, _columns("typesTest"), Dialect.PQL, 240)
        assert [str(value) for value in values.to_pylist()[: len(rows)]] == [row[place] for row in rows]
    assert rows


@pytest.mark.parametrize(("text", "statement", "response"), PQL_GROUPS, ids=[q[0] for q in PQL_GROUPS])
def test_pql_groups_have_the_counts_of_the_reference(
    text: str, statement: Statement, response: Any, compute_on: Callable[..., Any]
) -> None:
    _, values = compute_on(statement.group_by[0], _columns("typesTest"), Dialect.PQL, 240)
    counts = Counter(str(value) for value in values.to_pylist())
    groups = response["aggregationResults"][0]["groupByResult"]
    assert groups
    assert {group["group"][0]: group["value"] for group in groups} == {
        group["group"][0]: str(counts[group["group"][0]]) for group in groups
    }


@pytest.mark.parametrize(("text", "statement", "response"), PQL_MAXIMA, ids=[q[0] for q in PQL_MAXIMA])
def test_a_pql_maximum_is_that_of_the_reference(
    text: str, statement: Statement, response: Any, compute_on: Callable[..., Any]
) -> None:
    call = statement.select[0].expression
    assert isinstance(call, Call)
    operand, values = compute_on(call.args[0], _columns("typesTest"), Dialect.PQL, 240)
    if response["exceptions"]:
        # MAX wants a number; the reference names the first text that is none
        assert operand.data_type is DataType.STRING
        assert f'"{values[0]}"' in response["exceptions"][0]["message"]
    else:
        assert f"{float(max(values.to_pylist(), key=float)):.5f}" == response["aggregationResults"][0]["value"]


@pytest.mark.parametrize(("text", "statement", "response"), SQL_SELECTIONS, ids=[q[0] for q in SQL_SELECTIONS])
def test_an_sql_selection_has_the_values_and_types_of_the_reference(
    text: str, statement: Statement, response: Any, compute_on: Callable[..., Any]
) -> None:
    if response["exceptions"]:
        with pytest.raises(PinotError) as refusal:
            for item in statement.select:
                compute_on(item.expression, _columns("typesTest15"), Dialect.SQL, 300)
        assert refusal.value.code == response["exceptions"][0]["errorCode"]
        return
    table = response["resultTable"]
    for place, item in enumerate(statement.select):
        operand, values = compute_on(item.expression, _columns("typesTest15"), Dialect.SQL, 300)
        assert operand.data_type == table["dataSchema"]["columnDataTypes"][place]
        shown = [_shown(value, operand.data_type) for value in values.to_pylist()[: len(table["rows"])]]
        assert shown == [row[place] for row in table["rows"]]
    assert table["rows"]


def test_the_recorded_lines_are_there() -> None:
    assert (len(PQL_SELECTIONS), len(PQL_GROUPS), len(PQL_MAXIMA), len(SQL_SELECTIONS)) >= (20, 20, 10, 40)


def _shown(value: Any, data_type: DataType) -> Any:
    """A TIMESTAMP as SQL answers it: with at least one digit of the second's fraction."""
    if data_type is not DataType.TIMESTAMP:
        return value
    text = str(np.datetime64(value, "ms")).replace("T", " ").rstrip("0")
    return text + "0" if text.endswith(".") else text


FLIGHTS = {
    "DaysSinceEpoch": (DataType.INT, pa.array([16071, 16071, 16072], pa.int32())),
    "FlightDate": (DataType.STRING, pa.array(["2014-01-01", "2014-01-01", "2014-01-02"])),
}


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (
            "dateTimeConvert(DaysSinceEpoch,'1:DAYS:EPOCH','1:DAYS:SIMPLE_DATE_FORMAT:yyyyMMdd "
            "tz(America/Los_Angeles)','1:DAYS')",
            ["20131231", "20131231", "20140101"],
        ),
        ("dateTimeConvert(DaysSinceEpoch,'1:DAYS:EPOCH','1:HOURS:EPOCH','7:DAYS')", [385560, 385560, 385728]),
        (
            "dateTimeConvert(FlightDate,'1:DAYS:SIMPLE_DATE_FORMAT:yyyy-MM-dd','1:DAYS:SIMPLE_DATE_FORMAT:EEE MMM dd "
            "yyyy','1:DAYS')",
            ["Wed Jan 01 2014", "Wed Jan 01 2014", "Thu Jan 02 2014"],
        ),
        ("dateTrunc('week',DaysSinceEpoch,'DAYS','Europe/Berlin','MILLISECONDS')", [1388358000000] * 3),
        ("dateTrunc('day',DaysSinceEpoch,'DAYS','America/Los_Angeles','HOURS')", [385688, 385688, 385712]),
        ("dateTrunc('quarter',DaysSinceEpoch,'DAYS','UTC','DAYS')", [16071] * 3),
        ("timeConvert(DaysSinceEpoch,'DAYS','MONTHS')", [528] * 3),
        ("toDateTime(fromEpochDays(DaysSinceEpoch),'yyyy-MM-dd')", ["2014-01-01", "2014-01-01", "2014-01-02"]),
    ],
)
def test_recorded_flights(call: str, expected: list[Any], compute_on: Callable[..., Any]) -> None:
    statement = parse_pql(f"SELECT {call} FROM airlineStats")
    assert compute_on(statement.select[0].expression, FLIGHTS, Dialect.PQL, 3)[1].to_pylist() == expected


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("timeconvert(DaysSinceEpoch,'DAYS','FOO')", "Invalid time unit: FOO"),
        ("dateTimeConvert(DaysSinceEpoch,'1:DAYS:EPOCH','1:WEEKS:EPOCH','1:WEEKS')", "Invalid time unit: WEEKS"),
        ("dateTrunc('foo',DaysSinceEpoch,'DAYS')", "'foo' is not a valid Timestamp field"),
        (
            "dateTimeConvert(FlightDate,'1:DAYS:SIMPLE_DATE_FORMAT:yyyy-MM-dd','1:DAYS:SIMPLE_DATE_FORMAT:yyyy-MM-dd','7:DAYS')",
            r"Value 0 for dayOfMonth must be in the range \[1,31\]",
        ),
        (
            "dateTimeConvert(FlightDate,'1:DAYS:SIMPLE_DATE_FORMAT:yyyyMMdd','1:DAYS:EPOCH','1:DAYS')",
            'Invalid format: "2014-01-01" is malformed at "-01-01"',
        ),
    ],
)
def test_recorded_refusals_of_pql_have_code_200(call: str, message: str, compute_on: Callable[..., Any]) -> None:
    statement = parse_pql(f"SELECT {call} FROM airlineStats")
    with pytest.raises(PinotError, match=message) as refusal:
        compute_on(statement.select[0].expression, FLIGHTS, Dialect.PQL, 3)
    assert refusal.value.code == 200
