"""Proves that what is not SQL here is refused with a sentence that says where it is done, or that it is not there; and
that what such sentences name is there: commands, pages, requests.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pinotpy.errors import InvalidQueryError, ParseError
from pinotpy.pql import sql_elsewhere
from pinotpy.pql.parser import parse_sql

REPOSITORY = Path(__file__).resolve().parents[3]
SENTENCES = [*sql_elsewhere.NOT_THERE.values(), *sql_elsewhere._STATEMENTS.values()]


def refusal(text: str) -> str:
    with pytest.raises(ParseError) as caught:
        parse_sql(text)
    assert caught.value.code == 150
    return caught.value.message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "INSERT INTO t VALUES (1)",
            "INSERT is no statement here: rows come from files (`pinotpy load FILE",
        ),
        ("COPY t FROM 'x.csv'", "`pinotpy load FILE --table T`"),
        ("UPDATE t SET a = 1", "UPDATE is no statement here: rows are never changed one by one"),
        ("MERGE INTO t USING u ON a = b", "a segment is replaced as a whole"),
        ("DELETE FROM t WHERE a = 1", "DELETE /segments/{table}/{segment} of the controller"),
        ("TRUNCATE TABLE t", "pinotpy delete-segments TABLE --all` (DELETE /segments/{table} of the controller"),
        ("CREATE TABLE t (a INT)", "`pinotpy add-table` (POST /schemas and POST /tables of the controller)"),
        ("create or replace view v as select 1", "CREATE is no statement here: views are not there"),
        ("CREATE TEMPORARY TABLE t (a INT)", "a table is made from a file by `pinotpy load"),
        ("CREATE UNIQUE INDEX i ON t (a)", "`pinotpy reload-segments` builds them"),
        ("CREATE FUNCTION f() RETURNS INT", "docs/user-functions.md"),
        ("CREATE ROLE r", "docs/security.md"),
        ("DROP TABLE t", "`pinotpy delete-table` (DELETE /tables/{table} of the controller)"),
        ("DROP INDEX i", "indexes are part of the table's config"),
        ("ALTER TABLE t ADD COLUMN b INT", "by `pinotpy update-table --reload` (PUT /schemas/{schema}"),
        ("GRANT SELECT ON t TO u", "docs/security.md"),
        ("BEGIN", "there are no transactions"),
        ("EXPLAIN DELETE FROM t", "DELETE is no statement here"),
        ("VALUES (1, 2)", "VALUES is not there: SELECT 1, 'a' answers a row of constants"),
        ("SELECT a FROM (VALUES (1)) x", "subqueries are not there"),
        ("WITH x AS (SELECT 1) SELECT a FROM x", "WITH is not there: a query is one SELECT over one table"),
        ("SELECT a FROM t WHERE b = (SELECT 1 FROM u)", "subqueries are not there: ask the inner query first"),
        ("SELECT a FROM t WHERE b IN (SELECT 1 FROM u)", "subqueries are not there"),
        ("SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u)", "subqueries are not there"),
        ("SELECT a FROM (SELECT b FROM u)", "subqueries are not there"),
        ("SELECT a FROM t JOIN u ON t.a = u.a", "joins are not there: a query reads one table, found JOIN"),
        ("SELECT x.a FROM t x JOIN u y ON x.a = y.a", "joins are not there: a query reads one table, found JOIN"),
        ("SELECT x.a FROM t AS x LEFT OUTER JOIN u AS y ON x.a = y.a", "found LEFT"),
        ("SELECT a FROM t UNION ALL SELECT b FROM u", "UNION is not there: ask the queries one by one"),
        ("SELECT a FROM t EXCEPT SELECT b FROM u", "EXCEPT is not there"),
        (
            "SELECT SUM(a) OVER (PARTITION BY b) FROM t",
            "window functions are not there: GROUP BY gives one row",
        ),
        ("SELECT a FROM t WINDOW w AS (ORDER BY a)", "window functions are not there"),
        ("SELECT LISTAGG(a) WITHIN GROUP (ORDER BY a) FROM t", "WITHIN GROUP is not there"),
        ("SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY a) FROM t", "write PERCENTILE(x, 50)"),
        ("SELECT select, order FROM t", 'quote a column of this name: "select"'),
        ("SELECT a FROM t WHERE with = 1", 'quote a column of this name: "with"'),
        ("SELECT CAST(a AS DATE) FROM t", "DATETRUNC('DAY', x) is its day"),
        ("SELECT LISTAGG(a ORDER BY a) FROM t", "ORDER BY inside an aggregation is not there"),
        ("SELECT a FROM t GROUP BY CUBE(a)", "CUBE, ROLLUP and GROUPING SETS are not there"),
        ("SELECT a FROM t WHERE (a, b) = (1, 2)", "compare their parts with AND"),
    ],
)
def test_it_says_where_it_is_done_or_that_it_is_not_there(text: str, words: str) -> None:
    message = refusal(text)
    assert words in message
    assert " at line 1, column " in message
    assert "stage" not in message


@pytest.mark.parametrize("text", ["SELECT COUNT(*) FROM a, b", "SELECT x.a FROM a x, b y"])
def test_a_second_table_is_a_join(text: str) -> None:
    with pytest.raises(InvalidQueryError, match="joins are not there: a query reads one table, found ','") as caught:
        parse_sql(text)
    assert caught.value.code == 700


def test_what_is_no_statement_anywhere_is_not_explained() -> None:
    assert "expected SELECT, found 'FROB'" in refusal("FROB t")
    assert "did you mean SELECT?" in refusal("SELEC a FROM t")


@pytest.mark.parametrize("sentence", SENTENCES)
def test_commands_and_pages_that_are_named_are_there(sentence: str) -> None:
    for command in re.findall(r"`pinotpy ([a-z-]+)", sentence):
        assert (REPOSITORY / "src/pinotpy/cli/commands" / f"{command.replace('-', '_')}.py").is_file(), command
    for page in re.findall(r"docs/[a-z-]+\.md", sentence):
        assert (REPOSITORY / page).is_file(), page


def test_no_text_of_the_project_names_an_engine_that_is_not_here() -> None:
    for path in (REPOSITORY / "src").rglob("*.py"):
        assert not re.search(r"multi-stage|multistage engine", path.read_text(), re.IGNORECASE), path
