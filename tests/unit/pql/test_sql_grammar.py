"""Proves SQL's grammar: precedence, special forms, names, rows, options; and the refusals. Expectations are written by
hand.
"""

from __future__ import annotations

from decimal import Decimal

import pytest

from pinotpy.data_types import DataType
from pinotpy.errors import ParseError
from pinotpy.pql.ast import Call, Dialect, Expression, Identifier, Literal, OrderItem, Star, Statement
from pinotpy.pql.parser import parse_sql
from pinotpy.pql.shape import shape_of

A, B, C = Identifier("a"), Identifier("b"), Identifier("c")
ONE, TWO = Literal(1, "1"), Literal(2, "2")


def value(text: str) -> Expression:
    return parse_sql(f"SELECT {text} FROM t").select[0].expression


def string(text: str) -> Literal:
    return Literal(text, text, True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + b * c", Call("plus", (A, Call("times", (B, C))))),
        ("a - b - c", Call("minus", (Call("minus", (A, B)), C))),
        ("a % 2", Call("mod", (A, TWO))),
        ("-a", Call("minus", (Literal(0, "0"), A))),
        ("+a", A),
        ("-5", Literal(-5, "-5")),
        ("a || b", Call("concat", (A, B))),
        ("NOT a = 1 AND b", Call("and", (Call("not", (Call("equals", (A, ONE)),)), B))),
        ("a > 1 IS FALSE", Call("is_false", (Call("greater_than", (A, ONE)),))),
        ("a IS NOT DISTINCT FROM b", Call("is_not_distinct_from", (A, B))),
        ("a NOT BETWEEN 1 AND 2 OR b", Call("or", (Call("not", (Call("between", (A, ONE, TWO)),)), B))),
        ("a NOT LIKE 'x' ESCAPE '!'", Call("not", (Call("like", (A, string("x"), string("!"))),))),
        ("a NOT IN (1, 2)", Call("not_in", (A, ONE, TWO))),
        ("CASE WHEN a THEN 1 END", Call("case", (A, ONE, Literal(None, "null")))),
        ("CASE a WHEN 1 THEN b ELSE c END", Call("case", (Call("equals", (A, ONE)), B, C))),
        ("CAST(a AS BIGINT)", Call("cast", (A, string("LONG")))),
        ("CAST(a AS VARCHAR(10))", Call("cast", (A, string("STRING")))),
        ("CAST(a AS BIG_DECIMAL)", Call("cast", (A, string("DECIMAL")))),
        ("EXTRACT(YEAR FROM a)", Call("extract", (string("YEAR"), A))),
        ("TRIM(a)", Call("trim", (string("BOTH"), string(" "), A))),
        ("TRIM(LEADING 'x' FROM a)", Call("trim", (string("LEADING"), string("x"), A))),
        ("TIMESTAMPADD(DAY, 1, a)", Call("timestampadd", (string("DAY"), ONE, A))),
        ("TIMESTAMP '2020-01-01 00:00:00'", string("2020-01-01 00:00:00")),
        ("a['k']", Call("item", (A, string("k")))),
        ("ARRAY[1, 2]", Call("array", (ONE, TWO))),
        ("x'FF'", Literal("ff", "ff", True, data_type=DataType.BYTES)),
        ("json_extract_scalar(a, '$')", Call("jsonextractscalar", (A, string("$")))),
        ("regexp_like(a, 'x')", Call("regexp_like", (A, string("x")))),
        ("STDDEV_POP(a)", Call("stddevpop", (A,))),
        ("COUNT(DISTINCT a)", Call("count", (A,), True)),
        ("SUM(ALL a)", Call("sum", (A,))),
        ("COUNT(*) FILTER (WHERE a = 1)", Call("count", (Star(),), False, Call("equals", (A, ONE)))),
        ('"select"', Identifier("select")),
        ('"a""b"', Identifier('a"b')),
        ("`a b`", Identifier("a b")),
        ("t.a", Identifier("t.a")),
        ("TRUE", Literal(True, "true")),
        ("1.50", Literal(1.5, "1.5")),
        ("2e3", Literal(2000.0, "2000.0")),
        ("1E10", Literal(1e10, "1.0E10")),
        ("12345678901234567890", Literal(12345678901234567890, "12345678901234567890")),
        ("0.1234567890123456789012", Literal(Decimal("0.1234567890123456789012"), "0.1234567890123456789012")),
    ],
)
def test_expressions(text: str, expected: Expression) -> None:
    assert value(text) == expected


def test_a_statement_with_all_clauses() -> None:
    statement = parse_sql(
        'SET enableNullHandling = true; SELECT DISTINCT a AS "x y", b z FROM db.t WHERE a = 1 GROUP BY 1, b HAVING '
        "COUNT(*) > 2 "
        "ORDER BY a DESC NULLS LAST, 2 LIMIT 5 OFFSET 7 OPTION(timeoutMs=5, k=word); SET foo='bar'"
    )
    assert [item.alias for item in statement.select] == ["x y", "z"]
    assert statement.table == "db.t"
    assert statement.distinct
    assert statement.group_by == (ONE, B)
    assert statement.order_by == (OrderItem(A, False, True), OrderItem(TWO))
    assert (statement.limit, statement.offset) == (5, 7)
    assert statement.options == (("enableNullHandling", "true"), ("timeoutMs", "5"), ("k", "word"), ("foo", "bar"))


@pytest.mark.parametrize(
    ("text", "limit", "offset"),
    [
        ("LIMIT 5", 5, None),
        ("LIMIT 2, 5", 5, 2),
        ("LIMIT 5 OFFSET 2", 5, 2),
        ("OFFSET 2 LIMIT 5", 5, 2),
        ("OFFSET 2 ROWS FETCH NEXT 5 ROWS ONLY", 5, 2),
        ("FETCH FIRST ROW ONLY", 1, None),
        ("OFFSET 2 ROWS FETCH NEXT ROW ONLY", 1, 2),
        ("LIMIT ALL", None, None),
    ],
)
def test_rows(text: str, limit: int | None, offset: int | None) -> None:
    statement = parse_sql(f"SELECT a FROM t {text}")
    assert (statement.limit, statement.offset) == (limit, offset)


def test_explain_and_no_table() -> None:
    assert parse_sql("EXPLAIN PLAN FOR SELECT a FROM t").explain
    assert parse_sql("SELECT 1") == Statement(parse_sql("SELECT 1").dialect, parse_sql("SELECT 1").select, "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT a AS timestamp FROM t", 'quote it: "timestamp"'),
        ("SELECT TOP 5 a FROM t", "found '5'"),
        ("SELECT a FROM t TOP 5", "SQL writes LIMIT 5 at the end"),
        ("SELECT a FROM t WHRE b = 1", "did you mean WHERE?"),
        ("SELECT a FROM t ODER BY b", "did you mean ORDER?"),
        (r"SELECT U&'\00' FROM t", "four hexadecimal digits"),
        (r"SELECT U&'\+110000' FROM t", "at most 10FFFF"),
        (r"SELECT U&'\D83D' FROM t", "both halves of a character"),
        ("SELECT U&'!0041' UESCAPE '1' FROM t", "no digit after UESCAPE"),
        ("SELECT " + "f" * 201 + "(a) FROM t", "at most 200 characters"),
        ("SELECT a FROM t LIMIT 5 WHERE b = 1", "clauses come in the order"),
        ("SELECT a FROM t WHERE a == 1", "found '='"),
        ("SELECT a, FROM t", "after ','"),
        ("SELECT a FROM t; SELECT 1", "one query at a time"),
        ("SET x 5; SELECT 1", "expected '='"),
        ("SET enableNullHandling=yes; SELECT 1", "put text in single quotes"),
        ("SELECT minus(a, 1) FROM t", "found 'minus'"),
        ("SELECT extract('DAY', a) FROM t", "a unit of time without quotes"),
        ("SELECT a FROM t LIMIT 2.5", "expected a whole number after LIMIT"),
        ("SELECT a FROM t WHERE a IN ()", "found ')'"),
        ("SELECT CASE WHEN a THEN 1", "expected WHEN, ELSE or END in CASE"),
        ("SELECT CASE END FROM t", "found 'END'"),
        ("SELECT upper(a) FILTER (WHERE b) FROM t", "expected an aggregation before FILTER"),
        ("", "expected SELECT"),
    ],
)
def test_refusals_help(text: str, words: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_sql(text)
    assert caught.value.code == 150
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"U&'\0041'", "A"),
        (r"u&'d\0061t\+000061'", "data"),
        (r"U&'\D83D\DE00 \+01F600'", "😀 😀"),
        (r"U&'a\\b''c'", r"a\b'c"),
        (r"U&'!0041\!!' UESCAPE '!'", r"A\!"),
        ("U&''", ""),
        ("U&'a UESCAPE '''", "a UESCAPE '"),
    ],
)
def test_unicode_literals(text: str, expected: str) -> None:
    assert value(text) == string(expected)
    assert (
        shape_of(f"SELECT {text} FROM t WHERE a = 1", Dialect.SQL) is None
    )  # what stands between its quotes is not its value


def test_a_unicode_name() -> None:
    assert value(r'U&"stra\00DFe"') == Identifier("straße")
