"""Proves: names may have letters of any script, unquoted and quoted, in both dialects; what is no letter is refused at
its place, and no other letter makes a keyword.
"""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinotpy.errors import ParseError, UserError
from pinotpy.names import check_column_name
from pinotpy.pql.ast import Dialect
from pinotpy.pql.lexer import QUOTED, WORD, QueryText, tokenize
from pinotpy.pql.parser import parse_pql, parse_sql
from pinotpy.pql.shape import shape_of

NAMES = [
    "größe",
    "Straße_2",
    "цена",
    "店名",
    "가격",
    "ราคา",
    "मूल्य",
    "שם",
    "السعر",
    "τιμή",
    "ın",
    "ſelect",
    "m²",
    "ὕδωρ",
    "_é",
]
LETTERS = st.characters(categories=["Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Nd"])


def words(text: str, dialect: Dialect) -> list[tuple[str, str]]:
    return [(token.kind, token.value) for token in tokenize(QueryText(text, dialect))]


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_one_word_and_one_column(name: str, dialect: Dialect) -> None:
    assert check_column_name(name) == name
    assert words(f"{name}>1", dialect)[0] == (WORD, name)
    assert words(f"`{name}`", dialect)[0] == (QUOTED, name)
    parse = parse_pql if dialect is Dialect.PQL else parse_sql
    for written in (name, f"`{name}`"):
        statement = parse(f"SELECT {written} FROM t WHERE {written} = 'x' ORDER BY {written}")
        assert repr(statement).count(f"'{name}'") >= 3


@given(st.text(LETTERS, min_size=1, max_size=12))
def test_what_a_schema_takes_is_read_unquoted_as_it_stands(text: str) -> None:
    try:
        name = check_column_name(unicodedata.normalize("NFC", text))
    except UserError:
        return
    for dialect in Dialect:
        assert words(f"a={name} ,1", dialect)[2] == (WORD, name)


def test_letters_and_accents_that_are_written_apart_are_the_same_name() -> None:
    apart = unicodedata.normalize("NFD", "größe")
    assert apart != "größe"
    for dialect in Dialect:
        assert words(apart, dialect)[0] == (WORD, "größe")
        assert words(f"`{apart}`", dialect)[0] == (QUOTED, apart), "a field of a file may be called so"
    with pytest.raises(UserError, match="written apart, write it in Unicode's composed form"):
        check_column_name(apart)


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize(
    ("text", "character", "column"),
    [("a = “x”", "“", 5), ("größe–1", "–", 6), ("a × b", "×", 3), ("x\u200by", "U\\+200B", 2), ("१२", "१", 1)],
)
def test_what_is_no_letter_is_refused_at_its_place(text: str, character: str, column: int, dialect: Dialect) -> None:
    with pytest.raises(ParseError, match=f"found the character '{character}'(; .*)? at line 1, column {column}"):
        words(text, dialect)


def test_blanks_of_any_kind_separate_words() -> None:
    assert [value for _, value in words("größe\u00a0AS\u3000цена", Dialect.SQL)][:3] == ["größe", "AS", "цена"]


def test_a_number_within_a_name_is_no_literal_of_the_shape() -> None:
    one, other = (shape_of(f"SELECT a FROM t WHERE ß{number} = 7", Dialect.SQL) for number in (1, 2))
    assert one is not None and other is not None
    assert one.literals == ["7"] and one.parts != other.parts
