"""Proves which texts are statements about the catalog, what they ask for, and that others are left to the parser."""

from __future__ import annotations

import pytest

from pinotpy.errors import ParseError
from pinotpy.pql.catalog_statements import CatalogQuestion, CatalogStatement, catalog_statement, without_analyze

TABLES, COLUMNS = CatalogQuestion.TABLES, CatalogQuestion.COLUMNS


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("SHOW TABLES", CatalogStatement(TABLES)),
        ("/* of a tool */ show\ntables like 'fl%' ;", CatalogStatement(TABLES, like="fl%")),
        ("SHOW COLUMNS FROM t", CatalogStatement(COLUMNS, "t")),
        ("SHOW COLUMNS IN default.t LIKE 'a_'", CatalogStatement(COLUMNS, "t", "a_")),
        ("DESCRIBE system.queries", CatalogStatement(COLUMNS, "system.queries")),
        ("-- why\nDESC TABLE `my-t`", CatalogStatement(COLUMNS, "my-t")),
        ('describe "a b"', CatalogStatement(COLUMNS, "a b")),
        ("DESC table", CatalogStatement(COLUMNS, "table")),
        ("SELECT a FROM t ORDER BY a DESC", None),
        ("SELECT show FROM tables", None),
        ("description", None),
    ],
)
def test_statements_about_the_catalog(text: str, meant: CatalogStatement | None) -> None:
    assert catalog_statement(text) == meant


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SHOW DATABASES", "expected TABLES or COLUMNS FROM after SHOW, found 'DATABASES'"),
        ("SHOW SCHEMAS", "SHOW TABLES lists all tables"),
        ("DESC FORMATTED t", "expected the name of a table, found 'FORMATTED'; write DESCRIBE t"),
        ("SHOW COLUMNS t", "expected FROM and a table after SHOW COLUMNS"),
        ("DESCRIBE", "expected the name of a table"),
        ("SHOW TABLES WHERE a = 1", "query information_schema.tables"),
        ("SHOW TABLES LIKE x", "single quotes"),
    ],
)
def test_one_that_goes_on_otherwise_is_refused_at_its_place(text: str, words: str) -> None:
    with pytest.raises(ParseError, match="line 1, column") as refused:
        catalog_statement(text)
    assert words in refused.value.message


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("EXPLAIN ANALYZE SELECT 1", "SELECT 1"),
        ("SET a = 1; explain\n analyze select 2", "SET a = 1; select 2"),
        ("/* c */ EXPLAIN ANALYZE SELECT 1", "/* c */ SELECT 1"),
        ("EXPLAIN PLAN FOR SELECT 1", None),
        ("SELECT 'EXPLAIN ANALYZE x'", None),
        ("SELECT explain analyze FROM t", None),
        ("SELECT 1 -- EXPLAIN ANALYZE", None),
    ],
)
def test_the_query_within_explain_analyze_keeps_its_places(text: str, plain: str | None) -> None:
    found = without_analyze(text)
    assert (None if found is None else " ".join(found.split())) == plain
    assert found is None or len(found) == len(text)
