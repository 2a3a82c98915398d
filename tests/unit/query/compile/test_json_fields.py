"""Proves which column, path and type a field of a JSON column means, and what wins where a name could mean several
things. Expectations are written by hand from docs/sql.md.
"""

from __future__ import annotations

import pytest

from pinotpy.config.schema import Schema
from pinotpy.errors import UnknownColumnError
from pinotpy.pql.ast import Call, Expression, Literal
from pinotpy.pql.parser import parse_expression, parse_pql, parse_sql
from pinotpy.query.compile.columns import ColumnResolver
from pinotpy.query.compile.rewrite.json_fields import with_json_fields
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.model.options import query_options

SCHEMA = Schema.from_json(
    {
        "schemaName": "events",
        "dimensionFieldSpecs": [
            {"name": "payload", "dataType": "JSON"},
            {"name": "events", "dataType": "JSON"},
            {"name": "kind", "dataType": "STRING"},
            {"name": "payload.flat", "dataType": "STRING"},
            {"name": "n", "dataType": "INT"},
            {"name": "at", "dataType": "TIMESTAMP"},
            {"name": "several", "dataType": "STRING", "singleValueField": False},
        ],
    }
)


def resolver(alias: str | None = None) -> ColumnResolver:
    return ColumnResolver(SCHEMA, "events", case_insensitive=True, alias=alias, has_fields=True)


def fields(text: str) -> list[tuple[str, str]]:
    """Path and type of every field in an expression."""
    names = resolver()

    def type_of(name: str) -> object:
        column = names.find(name)
        return None if column is None else column.data_type

    found: list[tuple[str, str]] = []

    def collect(node: Expression) -> None:
        if isinstance(node, Call):
            if node.name == "jsonextractscalar":
                path, kind, default = node.args[1:]
                assert isinstance(path, Literal) and isinstance(kind, Literal) and isinstance(default, Literal)
                assert default.value is None
                found.append((path.text, kind.text))
            for arg in node.args:
                collect(arg)

    collect(with_json_fields(parse_expression(text), names.field, type_of))  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("payload.a", [("$.a", "STRING")]),
        ("PAYLOAD.User.Name", [("$.User.Name", "STRING")]),
        ('payload."first name"', [("$['first name']", "STRING")]),
        ('payload."it\'s"', [("$['it\\'s']", "STRING")]),
        ("events.payload.a", [("$.a", "STRING")]),
        ("upper(payload.a)", [("$.a", "STRING")]),
        ("payload.a + 1", [("$.a", "DOUBLE")]),
        ("abs(payload.a)", [("$.a", "DOUBLE")]),
        ("SUM(payload.a)", [("$.a", "DOUBLE")]),
        ("MAX(payload.a)", [("$.a", "DOUBLE")]),
        ("PERCENTILE(payload.a, 95)", [("$.a", "DOUBLE")]),
        ("COUNT(payload.a)", [("$.a", "STRING")]),
        ("LISTAGG(payload.a, ',')", [("$.a", "STRING")]),
        ("payload.a > 5", [("$.a", "DOUBLE")]),
        ("5.5 < payload.a", [("$.a", "DOUBLE")]),
        ("payload.a BETWEEN 1 AND 2", [("$.a", "DOUBLE")]),
        ("payload.a IN (1, 2)", [("$.a", "DOUBLE")]),
        ("payload.a = 'x'", [("$.a", "STRING")]),
        ("payload.a = TRUE", [("$.a", "BOOLEAN")]),
        ("payload.a = n", [("$.a", "DOUBLE")]),
        ("payload.a >= at", [("$.a", "TIMESTAMP")]),
        ("payload.a = kind", [("$.a", "STRING")]),
        ("payload.a = payload.b", [("$.a", "STRING"), ("$.b", "STRING")]),
        ("payload.a = payload.b + 1", [("$.a", "DOUBLE"), ("$.b", "DOUBLE")]),
        ("payload.a::LONG", [("$.a", "LONG")]),
        ("CAST(payload.a AS DECIMAL)", [("$.a", "BIG_DECIMAL")]),
        ("payload.a::VARBINARY", [("$.a", "STRING")]),
        ("COUNT(*) FILTER (WHERE n > 1)", []),
        ("payload.flat", []),  # a column of this name
        ("events.kind", []),  # a column of the table
        ("events.other", [("$.other", "STRING")]),  # a column has no such name: the JSON column of the table's name
    ],
)
def test_path_and_type(text: str, expected: list[tuple[str, str]]) -> None:
    assert fields(text) == expected


def test_an_alias_goes_before_a_json_column_of_the_same_name() -> None:
    names = resolver(alias="payload")
    assert names.field("payload.kind") is None and names.find("payload.kind") is not None
    found = names.field("payload.payload.kind")
    assert found is not None and (found.column, found.keys) == ("payload", ("kind",))


def test_fields_in_filters_of_aggregations_too() -> None:
    statement = parse_sql("SELECT COUNT(*) FILTER (WHERE payload.ok = TRUE) FROM events")
    context = compile_query(statement, SCHEMA, query_options(statement), null_handling=True)
    assert [column.name for column in context.columns] == ["payload"]


@pytest.mark.parametrize("text", ["SELECT several.a FROM events", "SELECT kind.a FROM events"])
def test_only_json_columns_have_fields(text: str) -> None:
    statement = parse_sql(text)
    with pytest.raises(UnknownColumnError, match="only JSON columns have fields"):
        compile_query(statement, SCHEMA, query_options(statement), null_handling=True)


def test_pql_has_no_fields() -> None:
    statement = parse_pql("SELECT payload FROM events")
    names = ColumnResolver(SCHEMA, statement.table, case_insensitive=False)
    assert names.field("payload.a") is None
