"""Proves that no text costs much or breaks the parser: depth, size, number of tokens and list lengths end in
ParseErrors, lists of 50,000 literals parse quickly, and the same list gives the same AST short or long, literal by
literal.
"""

from __future__ import annotations

import time

import pytest

from pinotpy.errors import ParseError
from pinotpy.pql.ast import Call, Literal, Statement
from pinotpy.pql.parser import parse_pql, parse_sql

PARSERS = [parse_pql, parse_sql]
NESTED = {
    "brackets": lambda n: f"SELECT a FROM t WHERE {'(' * n}a=1{')' * n}",
    "calls": lambda n: f"SELECT {'f(' * n}a{')' * n} FROM t",
    "sums": lambda n: f"SELECT {'a+' * n}a FROM t",
    "right": lambda n: f"SELECT a FROM t WHERE {'a=1 AND (b=2 OR (' * n}c=1{'))' * n}",
    "NOT": lambda n: f"SELECT a FROM t WHERE {'NOT ' * n}a=1",
    "CASE": lambda n: f"SELECT {'CASE WHEN a THEN ' * n}1{' END' * n} FROM t",
    "BETWEEN": lambda n: f"SELECT a FROM t WHERE {'a BETWEEN 1 AND (' * n}1{')' * n}",
    "index": lambda n: f"SELECT a{'[1]' * n} FROM t",
    "IS": lambda n: f"SELECT a FROM t WHERE a{' IS NULL' * n}",
    "signs": lambda n: f"SELECT {'- ' * n}a FROM t",
    "strings": lambda n: f"SELECT SUM({chr(39) * 2 * n}a{chr(39) * 2 * n}) FROM t",
}


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize("shape", NESTED)
def test_deep_texts_are_parsed_or_refused_and_never_overflow_the_stack(parse: object, shape: str) -> None:
    for depth in (50, 190, 205, 5_000):
        try:
            statement = parse(NESTED[shape](depth))  # type: ignore[operator]
        except ParseError:
            continue
        assert isinstance(statement, Statement)
        assert depth <= 200 or shape == "strings" or (shape, parse) == ("signs", parse_sql)


@pytest.mark.parametrize("parse", PARSERS)
def test_190_brackets_and_calls_are_accepted(parse: object) -> None:
    for shape in ("brackets", "calls", "sums"):
        assert isinstance(parse(NESTED[shape](190)), Statement)  # type: ignore[operator]


@pytest.mark.parametrize("parse", PARSERS)
def test_size_tokens_and_lists_have_limits(parse: object) -> None:
    for text, words in [
        ("SELECT a FROM t WHERE a = '" + "x" * 2_200_000 + "'", "2097152 bytes"),
        ("SELECT a FROM t WHERE a = '" + "ä" * 1_100_000 + "'", "2097152 bytes"),
        ("SELECT a FROM t WHERE " + " OR ".join(["a=1"] * 25_001), "100000 words and signs"),
        ("SELECT a FROM t WHERE a IN (" + ",".join(["1"] * 50_001) + ")", "at most 50000 literals"),
        ("SELECT a FROM t WHERE a = " + "9" * 5_000, "at most 1000 characters"),
        ("SELECT a FROM t WHERE a = '\ud800'", "half a character"),
    ]:
        with pytest.raises(ParseError, match=words):
            parse(text)  # type: ignore[operator]


@pytest.mark.parametrize("parse", PARSERS)
def test_50_000_literals_parse_quickly(parse: object) -> None:
    text = "SELECT COUNT(*) FROM t WHERE a IN (" + ", ".join(str(i * 7919) for i in range(50_000)) + ")"
    best = 1e9
    for _ in range(3):
        start = time.process_time()
        statement = parse(text)  # type: ignore[operator]
        best = min(best, time.process_time() - start)
    assert isinstance(statement.where, Call)
    assert [arg.value for arg in statement.where.args[1:] if isinstance(arg, Literal)] == [
        i * 7919 for i in range(50_000)
    ]
    assert best < 30.0  # measured 0.07 s on an idle core; far above it something is tried again and again


@pytest.mark.parametrize("parse", PARSERS)
def test_a_long_list_is_read_as_a_short_one(parse: object) -> None:
    items = [
        "1",
        "-2",
        "+3",
        "4.5",
        "-.5",
        "6.",
        "'x'",
        "'it''s'",
        "''",
        "9223372036854775807",
        "-9223372036854775808",
        "1234567890123456789.25",
    ] * 10
    short = [parse(f"SELECT a FROM t WHERE a IN ({item})").where.args[1] for item in items]  # type: ignore[operator]
    for comma in (",", " ,\n "):
        long = parse(f"SELECT a FROM t WHERE a IN ({comma.join(items)})").where.args[1:]  # type: ignore[operator]
        assert list(long) == short


def test_a_long_list_of_pql_keeps_longs_within_64_bits() -> None:
    with pytest.raises(ParseError, match="64 bits"):
        parse_pql("SELECT a FROM t WHERE a IN (" + "1," * 100 + "9223372036854775808)")


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize("word", ["AND", "OR"])
def test_long_chains_of_conditions_are_flat_whatever_stands_in_them(parse: object, word: str) -> None:
    other = "NOT a =" if parse is parse_sql else "a <>"  # PQL has no NOT there
    conditions = [f"a > -{i}" if i % 2 else f"{other} {i}" for i in range(1_000)]
    where = parse(f"SELECT a FROM t WHERE {f' {word} '.join(conditions)}").where  # type: ignore[operator]
    assert isinstance(where, Call)
    assert (where.name, len(where.args)) == (word.lower(), 1_000)
