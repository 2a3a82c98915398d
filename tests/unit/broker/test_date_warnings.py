"""Proves which comparisons of a column of dates an answer warns of: those with a text of another form than the
column's, with the form and the date as it is written there. Dates of the form, and what begins like them, are none.
"""

from __future__ import annotations

import pytest

from pinotpy.broker.date_warnings import date_warnings
from pinotpy.config.schema import Schema
from pinotpy.pql.parser import parse_pql, parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.model.context import QueryContext, QueryOptions

FORMATS = {
    "ds": "1:DAYS:SIMPLE_DATE_FORMAT:yyyyMMdd",
    "day": "SIMPLE_DATE_FORMAT|yyyy-MM-dd",
    "hour": "1:HOURS:SIMPLE_DATE_FORMAT:yyyy-MM-dd HH tz(Europe/Berlin)",
    "german": "SIMPLE_DATE_FORMAT|dd.MM.yyyy",
    "iso": "SIMPLE_DATE_FORMAT",
}
TEXTS = [
    {"name": name, "dataType": "STRING", "format": text, "granularity": "1:DAYS"} for name, text in FORMATS.items()
]
NUMBERS = [
    {"name": "number", "dataType": "INT", "format": FORMATS["ds"], "granularity": "1:DAYS"},
    {"name": "at", "dataType": "TIMESTAMP", "format": "TIMESTAMP", "granularity": "1:DAYS"},
]
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "city", "dataType": "STRING"}],
        "dateTimeFieldSpecs": [*TEXTS, *NUMBERS],
    }
)


def compiled(condition: str, *, pql: bool = False, select: str = "COUNT(*)") -> QueryContext:
    text = f"SELECT {select} FROM t WHERE {condition}"
    return compile_query((parse_pql if pql else parse_sql)(text), SCHEMA, QueryOptions(), null_handling=False)


def said(name: str, written: str, text: str, remedy: str | None) -> str:
    return (
        f"column '{name}' has dates as texts, written {written}, and is compared with '{text}' letter by letter, which "
        "is not written so" + ("" if remedy is None else f"; write '{remedy}'")
    )


@pytest.mark.parametrize(
    ("condition", "name", "text", "remedy"),
    [
        ("ds = '2025-01-10'", "ds", "2025-01-10", "20250110"),
        ("ds <> '2025-1-9'", "ds", "2025-1-9", "20250109"),
        ("ds IN ('20250109', '10.01.2025')", "ds", "10.01.2025", "20250110"),
        ("ds NOT IN ('2025/01/10')", "ds", "2025/01/10", "20250110"),
        ("ds >= '2025-01-10'", "ds", "2025-01-10", "20250110"),
        ("ds BETWEEN '20250101' AND '2025-01-10'", "ds", "2025-01-10", "20250110"),
        ("city = 'x' OR NOT ds = '2025-01-10T12:30:00Z'", "ds", "2025-01-10T12:30:00Z", "20250110"),
        ("ds = '01/10/2025'", "ds", "01/10/2025", None),  # of two readings
        ("ds = 'today'", "ds", "today", None),
        ("ds = '20250230'", "ds", "20250230", None),
        ("ds = '2025'", "ds", "2025", None),
        ("day = '2025-1-9'", "day", "2025-1-9", "2025-01-09"),
        ("day = '20250110'", "day", "20250110", "2025-01-10"),
        ("day > '2025-01-10 00:00:00'", "day", "2025-01-10 00:00:00", "2025-01-10"),
        ("hour = '2025-01-10'", "hour", "2025-01-10", "2025-01-10 00"),
        ("hour = '2025-01-10T12:00:00Z'", "hour", "2025-01-10T12:00:00Z", "2025-01-10 13"),
        ("german = '2025-01-10'", "german", "2025-01-10", "10.01.2025"),
        ("iso = '10.01.2025'", "iso", "10.01.2025", None),
    ],
)
def test_a_date_of_another_form_is_told_with_how_it_is_written(
    condition: str, name: str, text: str, remedy: str | None
) -> None:
    pattern = {
        "ds": "as yyyyMMdd", "day": "as yyyy-MM-dd", "hour": "as yyyy-MM-dd HH", "german": "as dd.MM.yyyy",
        "iso": "by ISO 8601",
    }[name]  # fmt: skip
    assert date_warnings(compiled(condition), SCHEMA) == [said(name, pattern, text, remedy)]


@pytest.mark.parametrize(
    "condition",
    [
        "ds = '20250110' AND ds BETWEEN '20250101' AND '20251231' AND ds IN ('20250101', '20250102')",
        "ds >= '2025' AND ds < '202507' AND ds > ''",  # what dates begin with
        "ds <> 'null'",  # what stands for none
        "ds LIKE '2025%' AND ds IS NOT NULL",
        "UPPER(ds) = '2025-01-10' AND ds = city",
        "day >= '2025-01' AND iso >= '2025-01-10 12:00:00' AND german = '10.01.2025' AND german = '1.1.2025'",
        "city = '2025-01-10' AND at > '2025-01-10' AND number = 20250110",
    ],
)
def test_dates_of_the_form_and_other_columns_are_no_warning(condition: str) -> None:
    assert date_warnings(compiled(condition), SCHEMA) == []


def test_a_column_is_told_once_wherever_it_is_compared() -> None:
    select = "COUNT(*) FILTER (WHERE day = '20250110')"
    context = compiled("ds = '2025-01-10' OR ds = '2025-01-11'", select=select)
    assert date_warnings(context, SCHEMA) == [
        said("ds", "as yyyyMMdd", "2025-01-10", "20250110"),
        said("day", "as yyyy-MM-dd", "20250110", "2025-01-10"),
    ]
    assert date_warnings(compiled("ds = '2025-01-10'", pql=True), SCHEMA)[0].endswith("write '20250110'")


def test_of_a_long_text_the_beginning_is_told() -> None:
    (warning,) = date_warnings(compiled(f"ds = '{'x' * 999}'"), SCHEMA)
    assert f"'{'x' * 60}…'" in warning
