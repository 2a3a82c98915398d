"""Proves that a masked text shows no literal of any kind, wherever it stands, and that the rest is as written."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinotpy.pql.ast import Dialect
from pinotpy.pql.masking import UNREADABLE, masked

LONG_LIST = ", ".join(map(str, range(70)))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("SELECT a, 'x''y' FROM t WHERE b = -1.5e3", "SELECT a, ? FROM t WHERE b = -?"),
        ("SELECT a FROM t /* of Bob */ WHERE b IN ('1', 2) -- 'k'", "SELECT a FROM t WHERE b IN (?, ?)"),
        (f"SELECT a FROM t WHERE b IN ({LONG_LIST}) LIMIT 5", "SELECT a FROM t WHERE b IN (?) LIMIT ?"),
        ("SET k = 'v'; SELECT \"my col\"", 'SET k = ?; SELECT "my col"'),
        ("SELECT x'ff', U&'\\0041' FROM t", "SELECT ?, ? FROM t"),
        ("SELECT a WHERE b = TRUE AND c IS NOT TRUE", "SELECT a WHERE b = ? AND c IS NOT TRUE"),
        ("SELECT a FROM t WHERE name = 'Bob", "SELECT a FROM t WHERE name = …"),
        ("'Bob", UNREADABLE),
    ],
)
def test_literals_of_sql_are_masked(text: str, shown: str) -> None:
    assert masked(text, Dialect.SQL) == shown


def test_double_quotes_are_names_in_sql_and_literals_in_pql() -> None:
    text = 'SELECT a FROM t WHERE b = "Bob"'
    assert (masked(text, Dialect.SQL), masked(text, Dialect.PQL)) == (text, "SELECT a FROM t WHERE b = ?")


@given(st.text("ab'\" -/*\n1.,()=;é", max_size=40), st.sampled_from(list(Dialect)))
@settings(max_examples=150)
def test_no_text_fails_and_none_shows_a_digit(text: str, dialect: Dialect) -> None:
    shown = masked(text, dialect)
    # Digits stand in literals alone here, or in names: quoted, or behind a letter (and in PQL behind its dashes).
    assert "1" not in shown or '"' in text or re.search("[abé]-*1", text)
