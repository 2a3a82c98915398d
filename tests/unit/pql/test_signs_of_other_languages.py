"""Proves that signs and quotes of other languages are refused with what to write here, where they stand."""

from __future__ import annotations

import pytest

from pinotpy.errors import ParseError
from pinotpy.pql.ast import Call, Identifier, Literal
from pinotpy.pql.parser import parse_pql, parse_sql

HINTS = {
    "a == 3": ("equality is a single =", 4),
    "a = 3 && b = 4": ("write AND", 7),
    "a = 3 | b = 4": ("write OR", 7),
    "a = 3 || b = 4": ("|| joins texts, write OR between conditions", 12),
    "!a": ("NOT before a condition", 1),
    "1 < a + 2 < 5": ("comparisons do not chain", 11),
    "a->>'k' = 'x'": ("JSON_EXTRACT_SCALAR(a, '$.k', 'STRING'), or a.k in SQL", 3),
    "a->'$.k' = 'x'": ("JSON_EXTRACT_SCALAR(a, '$.k', 'STRING'), or a.k in SQL", 3),
    "a = “x”": ("straight quotes: ' around a text, \" around a name", 5),
    'a = date "2025-01-10"': ("texts have single quotes: DATE '2025-01-10'", 10),
    'f(TIMESTAMP "2025-01-10") = a': ("texts have single quotes: TIMESTAMP '2025-01-10'", 13),
    "a = ‘x’": ("straight quotes: ' around a text", 5),
}


@pytest.mark.parametrize(("condition", "hint"), HINTS.items(), ids=list(HINTS))
def test_a_sign_of_another_language_is_refused_with_the_one_here(condition: str, hint: tuple[str, int]) -> None:
    before = "SELECT COUNT(*) FROM t WHERE "
    with pytest.raises(ParseError) as raised:
        parse_sql(before + condition)
    assert hint[0] in raised.value.message
    assert raised.value.context["column"] == len(before) + hint[1]


def test_pql_says_it_too() -> None:
    for condition, hint in (("a == 3", "single ="), ("a = 3 && b = 4", "write AND"), ("a = ‘x’", "straight quotes")):
        with pytest.raises(ParseError, match=hint):
            parse_pql(f"SELECT COUNT(*) FROM t WHERE {condition}")


def test_what_only_looks_like_such_a_sign_is_read() -> None:
    for condition in ("a = - 3", "a > -3", "a - 3 > b", "a - -3 > 4", "a = 3 AND b || 'x' = 'yx' OR a + 1 = 4"):
        parse_sql(f"SELECT COUNT(*) FROM t WHERE {condition}")


def test_instants_beside_columns_are_texts_and_elsewhere_timestamps() -> None:
    text = Literal("2024-01-01", "2024-01-01", True)
    instant = Call("cast", (text, Literal("TIMESTAMP", "TIMESTAMP", True)))
    a, now = Identifier("a"), Call("now", ())
    for condition, expected in (
        ("a > TIMESTAMP '2024-01-01'", Call("greater_than", (a, text))),
        ("a BETWEEN TIMESTAMP '2024-01-01' AND TIMESTAMP '2024-01-01'", Call("between", (a, text, text))),
        ("MAX(a) > TIMESTAMP '2024-01-01'", Call("greater_than", (Call("max", (a,)), text))),
        ("CURRENT_TIMESTAMP > TIMESTAMP '2024-01-01'", Call("greater_than", (now, instant))),
        ("f(TIMESTAMP '2024-01-01')", Call("f", (instant,))),
        ("TIMESTAMP '2024-01-01'", text),
        ("f(DATE '2024-01-01')", Call("f", (text,))),
    ):
        assert parse_sql(f"SELECT {condition} FROM t").select[0].expression == expected


def test_names_that_are_quoted_or_qualified_stay_names() -> None:
    for written, name in (('"current_date"', "current_date"), ("current_date.x", "current_date.x")):
        assert parse_sql(f"SELECT {written} FROM t").select[0].expression == Identifier(name)


def test_decimals_keep_their_digits_and_impossible_ones_are_refused() -> None:
    for written, kept in (("DECIMAL(10, 2)", "DECIMAL(10,2)"), ("NUMERIC(4)", "DECIMAL(4,0)"), ("DECIMAL", "DECIMAL")):
        assert parse_sql(f"SELECT CAST(a AS {written}) FROM t").select[0].expression == Call(
            "cast", (Identifier("a"), Literal(kept, kept, True))
        )
    for written in ("DECIMAL(2, 3)", "DECIMAL(0)", "DECIMAL(5, -1)", "DECIMAL(9999, 2)"):
        with pytest.raises(ParseError, match=r"expected DECIMAL\(precision, scale\) with 1 to 1000 digits"):
            parse_sql(f"SELECT CAST(a AS {written}) FROM t")
