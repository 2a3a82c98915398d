"""Proves that what every tool writes in SQL is read: aliases of tables, stars with a qualifier or without some columns,
`::`, GROUP BY ALL, EXPLAIN SELECT. Expectations are written by hand.
"""

from __future__ import annotations

import pytest
from statement_printer import print_statement

from pinotpy.errors import ParseError
from pinotpy.pql.ast import Call, Expression, Identifier, Literal, Star
from pinotpy.pql.parser import parse_pql, parse_sql

A = Identifier("a")


def cast(value: Expression, target: str) -> Call:
    return Call("cast", (value, Literal(target, target, True)))


@pytest.mark.parametrize(
    ("text", "table", "alias"),
    [
        ("flights", "flights", None),
        ("flights f", "flights", "f"),
        ("flights AS f", "flights", "f"),
        ('flights AS "my flights"', "flights", "my flights"),
        ('flights "f"', "flights", "f"),
        ("db.flights f", "db.flights", "f"),
        ('"default"."flights" f', "flights", "f"),
        ("flights top", "flights", "top"),
    ],
)
@pytest.mark.parametrize(
    "clause", ["", "WHERE a = 1", "GROUP BY a", "ORDER BY a", "LIMIT 5", "OPTION(timeoutMs=5)", ";"]
)
def test_aliases_of_tables(text: str, table: str, alias: str | None, clause: str) -> None:
    statement = parse_sql(f"SELECT a FROM {text} {clause}")
    assert (statement.table, statement.table_alias) == (table, alias)
    assert parse_sql(print_statement(statement)) == statement


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a::INT", cast(A, "INTEGER")),
        ("a::varchar(10)", cast(A, "STRING")),
        ("a :: text", cast(A, "STRING")),
        ("a::double precision", cast(A, "DOUBLE")),
        ("a::bigint::timestamp", cast(cast(A, "LONG"), "TIMESTAMP")),
        ("a::INT + 1", Call("plus", (cast(A, "INTEGER"), Literal(1, "1")))),
        ("1 + a::INT", Call("plus", (Literal(1, "1"), cast(A, "INTEGER")))),
        ("-a::INT", Call("minus", (Literal(0, "0"), cast(A, "INTEGER")))),
        ("'5'::INT", cast(Literal("5", "5", True), "INTEGER")),
        ("SUM(a)::LONG", cast(Call("sum", (A,)), "LONG")),
        ("a['k']::INT", cast(Call("item", (A, Literal("k", "k", True))), "INTEGER")),
        ("a::INT = 1", Call("equals", (cast(A, "INTEGER"), Literal(1, "1")))),
        ("a::INT IN (1)", Call("in", (cast(A, "INTEGER"), Literal(1, "1")))),
    ],
)
def test_casts_by_two_colons(text: str, expected: Expression) -> None:
    assert parse_sql(f"SELECT {text} FROM t").select[0].expression == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("*", Star()),
        ("f.*", Star(qualifier="f")),
        ('"default".flights.*', Star(qualifier="default.flights")),
        ("* EXCLUDE (a, b)", Star(exclude=(A, Identifier("b")))),
        ("* EXCEPT (a)", Star(exclude=(A,))),
        ("* exclude a", Star(exclude=(A,))),
        ('f.* EXCLUDE ("a")', Star(qualifier="f", exclude=(A,))),
    ],
)
def test_stars(text: str, expected: Star) -> None:
    statement = parse_sql(f"SELECT {text}, b FROM flights f")
    assert [item.expression for item in statement.select] == [expected, Identifier("b")]
    assert parse_sql(print_statement(statement)) == statement


def test_group_by_all() -> None:
    statement = parse_sql("SELECT a, COUNT(*) FROM t GROUP BY ALL HAVING COUNT(*) > 1 ORDER BY a")
    assert (statement.group_by_all, statement.group_by) == (True, ())
    assert parse_sql(print_statement(statement)) == statement
    with pytest.raises(ParseError, match="expected the next clause or the end, found 'a'"):
        parse_sql("SELECT a FROM t GROUP BY ALL a")


def test_explain_needs_no_plan_for() -> None:
    assert parse_sql("EXPLAIN SELECT a FROM t") == parse_sql("EXPLAIN PLAN FOR SELECT a FROM t")
    assert parse_sql("SET x = 1; EXPLAIN SELECT a FROM t").explain


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT a FROM t AS where", "expected an alias of the table after AS, found 'where'; quote it: \"where\""),
        ("SELECT a FROM t u v", "expected the next clause or the end, found 'v'"),
        ("SELECT a FROM t WHRE a = 1", "did you mean WHERE?"),
        ("SELECT a FROM t GRUOP BY a", "did you mean GROUP?"),
        ("SELECT a FROM t TOP 5", "SQL writes LIMIT 5 at the end"),
        ("SELECT COUNT(*) FORM t", "found 't'; did you mean FROM?"),
        ("SELECT a FORM t WHERE a = 1", "did you mean FROM?"),
        ("SELECT select FROM t", 'quote a column of this name: "select"'),
        ("SELECT a FROM t WHERE b > (SELECT c FROM u)", "subqueries are not there"),
        (
            "SELECT a FROM t WHERE b > 2024-01-01 00:00:00",
            "an instant is a text in single quotes: '2024-01-01 00:00:00'",
        ),
        ("SELECT * EXCLUDE () FROM t", "expected a column in the list of EXCLUDE, found ')'"),
        ("SELECT * EXCLUDE (a b) FROM t", "expected ',' or ')' in the list of EXCLUDE, found 'b'"),
        ("SELECT a::5 FROM t", "expected a type after ::, such as INT or VARCHAR, found '5'"),
        ("SELECT a::DATE FROM t", "expected a type that columns have after ::, found DATE; TIMESTAMP is one"),
        ("SELECT a:INT FROM t", "found the character ':'"),
        ("SELECT SUM(t.*) FROM t", "all columns stand alone in a select list"),
        ("EXPLAIN PLAN SELECT a FROM t", "expected FOR after EXPLAIN PLAN"),
    ],
)
def test_refusals_help(text: str, words: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_sql(text)
    assert words in caught.value.message


def test_pql_has_none_of_it() -> None:
    for text in ("SELECT a::INT FROM t", "SELECT a FROM t AS f", "SELECT * EXCLUDE (a) FROM t"):
        with pytest.raises(ParseError):
            parse_pql(text)
