"""Proves which queries servers answer from metadata alone, whatever runs besides: numbers of all rows, in both modes of
nulls; not those that have to look which rows have a value.
"""

from __future__ import annotations

import pytest

from pinotpy.config.schema import Schema
from pinotpy.pql.parser import parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.model.options import query_options
from pinotpy.server.inline_queries import is_counted

SCHEMA = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": [{"name": "n", "dataType": "INT"}]})


@pytest.mark.parametrize("null_handling", [False, True])
@pytest.mark.parametrize(
    ("text", "by_default_values", "by_nulls"),
    [
        ("SELECT COUNT(*) FROM t", True, True),
        ("SELECT COUNT(1), COUNT(*) FROM t", True, True),
        ("SELECT COUNT(n) FROM t", True, False),
        ("SELECT COUNT(*), COUNT(n) FROM t", True, False),
        ("SELECT COUNT(*) FROM t WHERE n > 3", False, False),
        ("SELECT COUNT(*), MAX(n) FROM t", False, False),
        ("SELECT n FROM t", False, False),
    ],
)
def test_numbers_of_all_rows_need_no_row(
    text: str, by_default_values: bool, by_nulls: bool, null_handling: bool
) -> None:
    statement = parse_sql(text)
    context = compile_query(statement, SCHEMA, query_options(statement), null_handling=null_handling)
    assert is_counted(context) is (by_nulls if null_handling else by_default_values)
