"""Proves PQL's grammar: each rule of the reference with the statement it must give, written down by hand, and every
refusal with its code, place and words. Source of expectations: PQL's grammar page and what a live 0.6.0 answered.
"""

from __future__ import annotations

import pytest

from pinotpy.errors import ParseError
from pinotpy.pql.ast import Call, Dialect, Expression, Identifier, Literal, OrderItem, SelectItem, Star, Statement
from pinotpy.pql.parser import parse_pql


def where(condition: str) -> Expression:
    expression = parse_pql(f"SELECT a FROM t WHERE {condition}").where
    assert expression is not None
    return expression


def select(text: str) -> Expression:
    return parse_pql(f"SELECT {text} FROM t").select[0].expression


def test_a_whole_statement_becomes_one_ast() -> None:
    statement = parse_pql(
        "select top 3 SUM(runs) as 'total', league AS l FROM stats WHERE yearID >= 2000 GROUP BY league ORDER BY "
        "league desc LIMIT 5, 7 OPTION(a=b);"
    )
    assert statement == Statement(
        Dialect.PQL,
        (SelectItem(Call("sum", (Identifier("runs"),)), "total"), SelectItem(Identifier("league"), "l")),
        "stats",
        where=Call("greater_than_or_equal", (Identifier("yearID"), Literal(2000, "2000"))),
        group_by=(Identifier("league"),),
        order_by=(OrderItem(Identifier("league"), ascending=False),),
        top=3,
        limit=7,
        offset=5,
        options=(("a", "b"),),
    )


def test_clauses_come_in_any_order() -> None:
    one = parse_pql(
        "SELECT SUM(a) FROM t WHERE b = 1 GROUP BY c HAVING SUM(a) > 2 ORDER BY d TOP 5 LIMIT 6 OPTION(x=1)"
    )
    other = parse_pql(
        "SELECT SUM(a) FROM t OPTION(x=1) LIMIT 6 ORDER BY d TOP 5 HAVING SUM(a) > 2 GROUP BY c WHERE b = 1"
    )
    assert one == other


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("baseballStats", "baseballStats"),
        ("'T x'", "T x"),
        ('"T"', "T"),
        ("`T`", "`T`"),
        ("x.y", "x"),
        ("a-b_OFFLINE", "a-b_OFFLINE"),
    ],
)
def test_tables_are_named_as_the_reference_reads_them(text: str, name: str) -> None:
    assert parse_pql(f"SELECT a FROM {text}").table == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a-b", "a-b"),
        ("$docId", "$docId"),
        ("`any thing.`", "any thing."),
        ("t.col", "t.col"),
        ("t . `c d`", "t.c d"),
        ("_x1", "_x1"),
        ("timestamp", "timestamp"),
    ],
)
def test_names_hold_hyphens_dots_and_anything_in_backticks(text: str, name: str) -> None:
    assert select(text) == Identifier(name)


@pytest.mark.parametrize(
    ("text", "value", "printed", "is_string"),
    [
        ("'Martha''s'", "Martha's", "Martha's", True),
        ('"a""b"', 'a"b', 'a"b', True),
        ("'x\"\"y'", 'x""y', 'x""y', True),
        ("'a''''b'", "a''b", "a''b", True),
        ("'two\nlines'", "two\nlines", "two\nlines", True),
        ("5", 5, "5", False),
        ("+5", 5, "5", False),
        ("-0", 0, "0", False),
        ("5.", 5.0, "5.0", False),
        (".5", 0.5, "0.5", False),
        ("0.000001", 1e-6, "1.0E-6", False),
        ("10000000.0", 1e7, "1.0E7", False),
        ("-0.0", -0.0, "-0.0", False),
        ("- 7", -7, "-7", False),
        ("9223372036854775807", 2**63 - 1, "9223372036854775807", False),
        ("-9223372036854775808", -(2**63), "-9223372036854775808", False),
    ],
)
def test_literals_have_javas_text(text: str, value: object, printed: str, is_string: bool) -> None:
    right = where(f"a = {text}")
    assert isinstance(right, Call)
    assert right.args[1] == Literal(value, printed, is_string)  # type: ignore[arg-type]


def test_and_binds_tighter_than_or_and_chains_are_flat() -> None:
    a, b, c, d = (Call("equals", (Identifier(n), Literal(1, "1"))) for n in "abcd")
    assert where("a=1 OR b=1 AND c=1 OR d=1") == Call("or", (a, Call("and", (b, c)), d))
    assert where("(a=1 OR b=1) AND (c=1 AND d=1)") == Call("and", (Call("or", (a, b)), c, d))
    assert where("((a=1))") == a


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a IN (1, 'x')", Call("in", (Identifier("a"), Literal(1, "1"), Literal("x", "x", True)))),
        ("a not in (-2)", Call("not_in", (Identifier("a"), Literal(-2, "-2")))),
        ("a BETWEEN 1 AND 2", Call("between", (Identifier("a"), Literal(1, "1"), Literal(2, "2")))),
        ("a NOT BETWEEN 1 AND 2", Call("not", (Call("between", (Identifier("a"), Literal(1, "1"), Literal(2, "2"))),))),
        ("a IS NOT NULL", Call("is_not_null", (Identifier("a"),))),
        ("regexp_like(a, '^x')", Call("regexp_like", (Identifier("a"), Literal("^x", "^x", True)))),
        ("TEXT_MATCH(a, 'x')", Call("text_match", (Identifier("a"), Literal("x", "x", True)))),
        ("5 < a", Call("less_than", (Literal(5, "5"), Identifier("a")))),
        ("a != 5", Call("not_equals", (Identifier("a"), Literal(5, "5")))),
        ("add(a,1) > 2", Call("greater_than", (Call("add", (Identifier("a"), Literal(1, "1"))), Literal(2, "2")))),
    ],
)
def test_predicates(text: str, expected: Expression) -> None:
    assert where(text) == expected


def test_infix_arithmetic_has_the_usual_precedence() -> None:
    a, b, c = Identifier("a"), Identifier("b"), Identifier("c")
    assert select("a + b * c - 2") == Call("minus", (Call("plus", (a, Call("times", (b, c)))), Literal(2, "2")))
    assert select("(a + b) * c") == Call("times", (Call("plus", (a, b)), c))
    assert select("a - b - c") == Call("minus", (Call("minus", (a, b)), c))
    assert select("a -5") == Call("minus", (a, Literal(5, "5")))


def test_functions_are_lower_case_and_aggregations_lose_underscores() -> None:
    assert select("dateTimeConvert(a,'x')") == Call("datetimeconvert", (Identifier("a"), Literal("x", "x", True)))
    assert select("GREATER_THAN(a,1)") == Call("greater_than", (Identifier("a"), Literal(1, "1")))
    assert select("distinct_count(a)") == Call("distinctcount", (Identifier("a"),))
    assert select("PERCENTILE_05(a)") == Call("percentile5", (Identifier("a"),))
    assert select("percentileEst95MV(a)") == Call("percentileest95mv", (Identifier("a"),))
    assert select("COUNT(*)") == Call("count", (Star(),))
    assert select("COUNT()") == Call("count", ())


def test_a_string_as_argument_of_an_aggregation_or_group_is_read_as_pql() -> None:
    runs, hits = Identifier("runs"), Identifier("hits")
    assert select("SUM('add(runs,hits)')") == Call("sum", (Call("add", (runs, hits)),))
    assert select('SUM("runs")') == Call("sum", (runs,))
    assert select("SUM('5')") == Call("sum", (Literal(5, "5"),))
    assert select("SUM(add(runs,'hits'))") == Call("sum", (Call("add", (runs, Literal("hits", "hits", True))),))
    assert parse_pql("SELECT COUNT(*) FROM t GROUP BY 'no such', 'hits'").group_by == (Identifier("no such"), hits)


def test_later_duplicates_of_sort_keys_are_dropped() -> None:
    assert parse_pql("SELECT a FROM t ORDER BY a DESC, b, a ASC").order_by == (
        OrderItem(Identifier("a"), False),
        OrderItem(Identifier("b")),
    )


def test_options_merge_and_take_names_and_literals() -> None:
    statement = parse_pql("SELECT a FROM t OPTION(timeoutMs=5, x='y z') LIMIT 3 OPTION(preserveType=true)")
    assert statement.options == (("timeoutMs", "5"), ("x", "y z"), ("preserveType", "true"))


def test_comments_and_all_white_space_separate() -> None:
    assert parse_pql("SELECT a -- all\r\n\tFROM t /* x\n* y **/ LIMIT 1 -- end") == parse_pql("SELECT a FROM t LIMIT 1")
    assert select("a-b--c\n") == Identifier("a-b")


@pytest.mark.parametrize(
    "text",
    [
        "ORDER",
        "1",
        "'a",
        "a FROM",
        "a FROM t x",
        "a FROM t, u",
        "a FROM (SELECT b FROM c)",
        "a FROM 5",
        "*, a FROM t",
        "a, FROM t",
    ],
)
def test_broken_select_lists_and_tables_are_refused(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_pql(f"SELECT {text}")
    assert caught.value.code == 150


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        (
            "SELECT a FROM t WHERE a = b",
            25,
            "expected a literal on one side of the comparison; put text in single quotes",
        ),
        ("SELECT a FROM t WHERE 1 = 1", 25, "a comparison of two constants is not supported"),
        ("SELECT a FROM t WHERE 'a' = 'b'", 27, "constants"),
        ("SELECT a FROM t WHERE a", 23, "expected a condition such as column = 5"),
        ("SELECT a FROM t WHERE a = true", 25, "expected a literal on one side"),
        ("SELECT a FROM t WHERE a = null", 27, "expected a column, a function or a literal, found 'null'"),
        ("SELECT a FROM t WHERE a = 5 = 6", 29, "comparisons do not chain"),
        ("SELECT a FROM t WHERE NOT a = 5", 23, "write <>, NOT IN, NOT BETWEEN or IS NOT NULL"),
        ("SELECT a FROM t WHERE a LIKE 'x%'", 25, "write REGEXP_LIKE(column, 'pattern')"),
        ("SELECT a FROM t WHERE a IN ()", 29, "expected a literal after IN, found ')'"),
        ("SELECT a FROM t WHERE a IN (SFN)", 29, "put text in single quotes"),
        ("SELECT a FROM t WHERE a IN (1 2)", 31, "expected ',' or ')' in a list of literals, found '2'"),
        ("SELECT a FROM t WHERE (a) = 1", 23, "expected no brackets around a column"),
        ("SELECT a FROM t WHERE (a = 1", 29, "expected ')', found the end of the text"),
        ("SELECT a FROM t WHERE a = 1)", 28, "found ')'"),
        ("SELECT a FROM t WHERE a = 1e5", 28, "PQL numbers have no exponent"),
        ("SELECT a FROM t WHERE a = 0x10", 28, "a number that runs into 'x'"),
        ("SELECT a FROM t WHERE a = 9223372036854775808", 27, "expected a whole number of 64 bits"),
        ("SELECT a FROM t WHERE a = 'x", 27, "expected the closing ' of the string that starts here"),
        ("SELECT a FROM t /* open", 17, "expected the closing */ of the comment that starts here"),
        ("SELECT a FROM t WHERE a ? 1", 25, "found the character '?'"),
        ("SELECT a FROM t WHERE REGEXP_LIKE('a', 'b')", 23, "expected a column or function before REGEXP LIKE"),
        ("SELECT a FROM t WHERE a = 1 WHERE b = 2", 29, "expected at most one WHERE clause"),
        ("SELECT TOP 3 a FROM t TOP 4", 23, "at most one TOP"),
        ("SELECT a FROM t TOP -1", 17, "expected TOP 0 or more"),
        ("SELECT a FROM t LIMIT 2147483648", 23, "expected a number up to 2147483647 after LIMIT"),
        ("SELECT a FROM t LIMIT 5 OFFSET 2", 25, "PQL writes LIMIT offset, count"),
        ("SELECT a FROM t;;", 17, "found ';'"),
        ("SELECT a FROM t OPTION(foo)", 27, "expected '=' after the option 'foo', found ')'"),
        ("SELECT a FROM t OPTION()", 24, "expected an option such as timeoutMs=5000"),
        ("SELECT 'foo' FROM t", 8, "expected a column or a function, found a literal"),
        ("SELECT (a) FROM t", 8, "expected no brackets"),
        ("SELECT DISTINCT a FROM t", 8, "write SELECT DISTINCT(a, b)"),
        ("SELECT COUNT(DISTINCT a) FROM t", 14, "write DISTINCTCOUNT(x)"),
        ("SELECT -a FROM t", 8, "write sub(0, x) for -x"),
        ("SELECT a FROM t ORDER BY COUNT(*)", 26, "PQL cannot order by COUNT(*)"),
        ("SELECT SUM(a) FROM t GROUP BY b HAVING b > 5", 40, "expected an aggregation such as SUM(x) in HAVING"),
        ("SELECT SUM(a) FROM t GROUP BY b HAVING SUM(a) = 'x'", 49, "expected a number in HAVING, found 'x'"),
        (
            "SELECT SUM(a) FROM t GROUP BY b HAVING REGEXP_LIKE(SUM(a), 'x')",
            40,
            "expected a comparison, IN or BETWEEN in HAVING",
        ),
        ("SELECT a FORM t", 10, "expected FROM after the columns, found 'FORM'; did you mean FROM?"),
        ("SELEC a FROM t", 1, "did you mean SELECT?"),
        ("SELECT a FROM t LIMT 5", 17, "did you mean LIMIT?"),
        ("", 1, "expected SELECT, found the end of the text"),
        (" ", 2, "found the end of the text"),
        (";", 1, "found ';'"),
        ("DELETE FROM x", 1, "PQL answers SELECT only"),
    ],
)
def test_a_refusal_says_where_what_and_what_to_write(text: str, column: int, words: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_pql(text)
    error = caught.value
    assert (error.code, error.line, error.column) == (150, 1, column), str(error)
    assert words in error.message
    assert error.excerpt.splitlines()[-1] == " " * (column - 1) + "^"


def test_the_caret_stands_below_the_fault_also_in_long_and_many_lines() -> None:
    with pytest.raises(ParseError) as caught:
        parse_pql("SELECT a\nFROM t\n  WHERE " + "aaaa = 1 AND " * 50 + "b = \nLIMIT 5")
    error = caught.value
    assert (error.line, error.column) == (4, 1)
    with pytest.raises(ParseError) as caught:
        parse_pql("SELECT a FROM t WHERE " + "aaaa = 1 AND " * 50 + "b ! 3")
    shown, caret = caught.value.excerpt.splitlines()
    assert shown[caret.index("^")] == "!"
    assert len(shown) < 110
