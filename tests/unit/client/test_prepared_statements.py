"""Proves that values become literals that the dialects' own lexers read back as exactly those values, whatever they
hold and whatever stands around the placeholder, and that statements refuse what cannot be sent.
"""

from __future__ import annotations

import math
import struct
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from fake_daemon import Daemon
from hypothesis import given
from hypothesis import strategies as st

from pinotpy.client import Connection, PreparedStatement
from pinotpy.client.parameters import bind, literal, split_at_places
from pinotpy.errors import UserError
from pinotpy.pql.ast import Dialect
from pinotpy.pql.lexer import END, STRING, SYMBOL, QueryText, Token, tokenize

ANSWER = {"aggregationResults": [{"function": "count_star", "value": "1"}], "exceptions": []}
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.text("'\"`?-/*\\ a\n", max_size=20)
DIALECTS = pytest.mark.parametrize("dialect", list(Dialect))


def tokens(text: str, dialect: Dialect) -> list[Token]:
    return [token for token in tokenize(QueryText(text, dialect)) if token.kind != END]


def statement(query: str, dialect: str = "pql") -> PreparedStatement:
    """Of a connection that is never used."""
    return Connection.from_host_list("127.0.0.1:1").prepare_statement(query, dialect=dialect)


# --- placeholders --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "places"),
    [
        ("a = ?", 1),
        ("a = '?' AND b = \"?\" AND `c?` = ?", 1),
        ("a = 'it''s ?' AND b = ?", 1),
        ("a = '''?''' AND b = ?", 1),
        ("a = '\\' AND b = ?", 1),  # a backslash escapes nothing
        ("a = ? -- what's this ?\n AND b = ?", 2),
        ("a = ? /* don't ? */ AND b = ?", 2),
        ("a = ? /* never closed ?", 1),
        ("a = ? AND b = 'never closed ?", 1),
        ("a = 1 -- ?", 0),
        ("?,?,?", 3),
        ("", 0),
    ],
)
def test_only_question_marks_outside_of_quotes_and_comments_are_placeholders(query: str, places: int) -> None:
    parts = split_at_places(query)
    assert len(parts) == places + 1 and "?".join(parts) == query


@DIALECTS
@given(value=TEXTS)
def test_any_text_is_read_back_as_one_string(dialect: Dialect, value: str) -> None:
    for query in ("a = ?", "a = ? AND b = 'x'", "'x'?'y'", "a -? - b", "IN (?,?)"):
        values = [value] * query.count("?")
        found = [
            token.value for token in tokens(bind(query, values, dialect.value.lower()), dialect) if token.kind == STRING
        ]
        assert found == [
            *(["x"] if query.startswith("'") else []),
            *values,
            *(["x"] if query.endswith("'x'") else ["y"] if query.endswith("'y'") else []),
        ]


@DIALECTS
@given(value=st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**70), 2**70))
def test_any_number_is_read_back_as_itself_without_an_exponent(dialect: Dialect, value: float) -> None:
    text = literal(value, dialect.value.lower())
    assert "e" not in text.lower()
    found = tokens(text, dialect)
    assert ["-", found[-1].value] == [token.value for token in found] if text.startswith("-") else len(found) == 1
    assert float(text) == value if isinstance(value, float) else int(text) == value
    if isinstance(value, float):
        assert math.copysign(1.0, float(text)) == math.copysign(1.0, value)


def test_a_literal_does_not_grow_together_with_its_neighbours() -> None:
    assert bind("a -? , b", [-1], "pql") == "a - -1 , b"  # not a comment
    assert bind("LIMIT?", [5], "pql") == "LIMIT 5"
    assert bind("'x'?'y'", ["z"], "pql") == "'x' 'z' 'y'"
    assert bind("??", [1, 2], "pql") == "1 2"
    assert bind("x=?AND y=?", [1, "a"], "pql") == "x=1 AND y='a'"
    assert [token.value for token in tokens(bind("a-?", [-1], "sql"), Dialect.SQL)] == ["a", "-", "-", "1"]


def test_values_have_the_literals_of_their_dialect() -> None:
    assert [literal(value, "pql") for value in (True, 1e-7, 1e22, np.int64(5), np.float64(0.5), Decimal("1E+3"),
    b"\x01\xff")] == [
        "'true'", "0.0000001", "10000000000000000000000.0", "5", "0.5", "1000", "'01ff'",
    ]  # fmt: skip
    assert [literal(value, "sql") for value in (False, None, ["a", 1])] == ["false", "NULL", "('a', 1)"]
    assert [literal(value) for value in (b"\x12\x34", bytearray(b"\xff"), [b"", b"a"])] == [
        "x'1234'",
        "x'ff'",
        "(x'', x'61')",
    ]
    east = timezone(timedelta(hours=2))
    assert literal(datetime(2013, 1, 2, 3, 4, 5, 6000, tzinfo=east)) == "'2013-01-02 01:04:05.006'"
    assert literal(datetime(2013, 1, 2, tzinfo=UTC)) == "'2013-01-02 00:00:00.000'"


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        -math.inf,
        Decimal("NaN"),
        Decimal("1E+999999999"),
        10**1200,
        np.float64("nan"),
        np.array([1]),
        object(),
        [],
        {},
        [None],
        None,
    ],
)
def test_what_pql_cannot_say_is_refused(value: Any) -> None:
    with pytest.raises(UserError):
        literal(value, "pql")


def test_none_is_refused_in_pql_with_a_hint() -> None:
    with pytest.raises(UserError, match="IS NULL"):
        bind("a = ?", [None], "pql")


# --- statements ----------------------------------------------------------------------------------------------------


def test_a_statement_is_the_manuals() -> None:
    made = statement("select * from foo where a = ? and b = ? and c > ? and d < ? and e <> '?' and f = ?")
    made.set_string(1, "O'Hare")
    made.set_int(2, -7)
    made.set_long(3, 2**62)
    made.set_float(4, 0.1)
    made.set_double(5, 1e-9)
    assert made.parameter_count == 5
    assert (
        made.text
        == "select * from foo where a = 'O''Hare' and b = -7 and c > 4611686018427387904 and d < 0.1 and e <> '?' and "
        "f = 0.000000001"
    )
    made.set(1, ["x", "y"])
    assert "a = ('x', 'y')" in made.text
    made.clear_parameters()
    with pytest.raises(UserError, match="not set: 1, 2, 3, 4, 5"):
        _ = made.text


@pytest.mark.parametrize("index", [0, 2, -1, True, "1", 1.0])
def test_parameters_count_from_one(index: Any) -> None:
    with pytest.raises(UserError, match="from 1 to 1"):
        statement("a = ?").set_int(index, 1)
    with pytest.raises(UserError, match="no '\\?' outside of quotes"):
        statement("a = '?'").set_int(1, 1)


@pytest.mark.parametrize(
    ("method", "value"),
    [
        ("set_int", 2**31), ("set_int", -(2**31) - 1), ("set_int", 1.0), ("set_int", True), ("set_int", "1"),
        ("set_int", None),
        ("set_long", 2**63), ("set_long", "1"), ("set_float", 1e39), ("set_float", math.nan), ("set_float", "1"),
        ("set_double", math.inf),
        ("set_double", True), ("set_double", 10**400), ("set_double", None), ("set_string", 1), ("set_string", None),
        ("set_string", b"x"),
    ],
)  # fmt: skip
def test_values_of_another_type_or_range_are_refused(method: str, value: Any) -> None:
    made = statement("a = ?")
    with pytest.raises(UserError, match="parameter 1"):
        getattr(made, method)(1, value)
    with pytest.raises(UserError, match="not set"):
        _ = made.text


@pytest.mark.parametrize("value", [2**31 - 1, -(2**31), np.int32(5)])
def test_ints_reach_their_bounds(value: Any) -> None:
    made = statement("?")
    made.set_int(1, value)
    assert made.text == str(int(value))


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_floats_are_written_with_the_fewest_digits_that_read_back(value: float) -> None:
    made = statement("?")
    made.set_float(1, value)
    assert "e" not in made.text.lower()
    assert struct.pack("<f", float(made.text)) == struct.pack("<f", value)
    # numpy prints the shortest digits of a float, too.
    assert Decimal(made.text) == Decimal(str(np.float32(value)))


def test_a_statement_runs_now_or_on_a_thread_with_the_values_it_had() -> None:
    daemon = Daemon()
    daemon.replies = {"POST /query": (200, ANSWER), "POST /query/sql": (200, ANSWER)}
    try:
        with Connection.from_host_list(daemon.url) as connection:
            made = connection.prepare_statement("select count(*) from t where a = ?", dialect="pql")
            made.set_string(1, "x")
            assert made.execute().result_set(0).get_int(0) == 1
            future = made.execute_async(timeout_s=60)
            made.set_string(1, "y")
            assert future.result(60).result_set_count == 1
            sql = connection.prepare_statement("select count(*) from t where a = ?")
            sql.set(1, None)
            sql.execute()
    finally:
        daemon.stop()
    bodies = [request["body"].decode() for request in daemon.asked]
    assert (
        ["a = 'x'" in body for body in bodies] == [True, True, False]
        and '"sql"' in bodies[2]
        and "a = NULL" in bodies[2]
    )


def test_symbols_stay_outside_of_strings() -> None:
    # The classic attack: the whole value is one string, and no symbol of it reaches the query.
    found = tokens(bind("a = ?", ["'; DROP TABLE x; --"], "pql"), Dialect.PQL)
    assert [token.value for token in found if token.kind == SYMBOL] == ["="]
