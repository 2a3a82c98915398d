"""Proves which casts an answer names because values beyond their type are other numbers, and which it does not."""

from __future__ import annotations

import pytest

from pinotpy.broker.cast_warnings import cast_warnings
from pinotpy.config.schema import Schema
from pinotpy.pql.parser import parse_pql, parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.model.context import QueryOptions

TYPES = {"i": "INT", "l": "LONG", "d": "DOUBLE", "g": "BIG_DECIMAL", "b": "BOOLEAN", "s": "STRING"}
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": name, "dataType": kind} for name, kind in TYPES.items()],
        "dateTimeFieldSpecs": [{"name": "at", "dataType": "TIMESTAMP", "format": "TIMESTAMP", "granularity": "1:DAYS"}],
    }
)


def warned(text: str, *, pql: bool = False) -> list[str]:
    parse = parse_pql if pql else parse_sql
    return cast_warnings(compile_query(parse(text), SCHEMA, QueryOptions(), null_handling=False), text)


def said(name: str, source: str, target: str, bits: int, remedy: str) -> str:
    return (
        f"{name} is cast from {source} to {target}: a value beyond {target} keeps its lowest {bits} bits and is "
        f"another number; cast it to {remedy} to keep it"
    )


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("SELECT CAST(l AS INT) FROM t", said("l", "LONG", "INT", 32, "LONG")),
        ("SELECT COUNT(*) FROM t WHERE CAST(l AS INT) < 0", said("l", "LONG", "INT", 32, "LONG")),
        ("SELECT i FROM t WHERE i = l::INT", said("l", "LONG", "INT", 32, "LONG")),
        ("SELECT SUM(CAST(at AS INT)) FROM t", said("at", "TIMESTAMP", "INT", 32, "LONG")),
        ("SELECT COUNT(*) FROM t GROUP BY CAST(g AS BIGINT)", said("g", "BIG_DECIMAL", "LONG", 64, "DECIMAL")),
        ("SELECT i FROM t ORDER BY CAST(g * 2 AS INT)", said("times(g,'2')", "BIG_DECIMAL", "INT", 32, "DECIMAL")),
    ],
)
def test_casts_that_keep_the_lowest_bits_are_named_once(text: str, warning: str) -> None:
    assert warned(text) == [warning]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT CAST(i AS LONG), CAST(i AS INT), CAST(l AS BIGINT), CAST(at AS LONG), CAST(b AS INT) FROM t",
        "SELECT CAST(d AS INT), CAST(i / 10 AS INT), CAST(s AS INT), CAST(l AS DOUBLE), CAST(g AS VARCHAR) FROM t",
        "SELECT CAST(COUNT(*) AS INT), CAST(MAX(l) AS INT) FROM t",
        "SELECT CAST(7 AS INT), CAST(NULL AS INT), i FROM t",
    ],
)
def test_casts_that_lose_no_bits_are_not_named(text: str) -> None:
    assert warned(text) == []


def test_pql_has_no_type_that_is_too_narrow() -> None:
    assert warned("SELECT cast(l,'INT') FROM t", pql=True) == []
