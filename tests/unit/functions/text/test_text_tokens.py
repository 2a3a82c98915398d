"""Proves that texts become the tokens that Lucene's StandardAnalyzer makes of them: written-down examples for every
rule, a second tokenizer (Python's re, one text at a time) on random ASCII texts, and that texts of a batch know nothing
of each other.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_oracle import words_of

from pinotpy.errors import DataError
from pinotpy.functions.text.text_analysis import STOP_WORDS, TOKEN_CHARACTERS_MAX, analyze, lower_case, tokenize


def batch(texts: list[str]) -> list[list[tuple[str, int]]]:
    """Tokens of each text by `tokenize`, and the count that it gives."""
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)])
    tokens = tokenize(np.frombuffer(b"".join(encoded), np.uint8), offsets)
    found: list[list[tuple[str, int]]] = [[] for _ in texts]
    for term, text, position in zip(
        tokens.terms.to_pylist(), tokens.texts.tolist(), tokens.positions.tolist(), strict=True
    ):
        found[text].append((term.decode(), position))
    assert len(tokens.lengths) == len(texts)
    assert all(
        position < length
        for tokens_of_one, length in zip(found, tokens.lengths.tolist(), strict=True)
        for _, position in tokens_of_one
    )
    return found


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", []),
        (" .,:;'\"!?-+/()[]{}*&%$#@", []),
        ("Quick BROWN fox", ["quick", "brown", "fox"]),
        ("java c++ c# f-16", ["java", "c", "c", "f", "16"]),
        ("O'Reilly's can't 'quoted' don\u2019t", ["o'reilly's", "can't", "quoted", "don\u2019t"]),
        ("3.14 1,000,000.5 1;2 1:2 1. ,2 v1.2", ["3.14", "1,000,000.5", "1;2", "1", "2", "1", "2", "v1.2"]),
        (
            "www.example.com mail@example.com foo:bar a..b a.b. a,b",
            ["www.example.com", "mail", "example.com", "foo:bar", "b", "a.b", "b"],
        ),
        ("foo_bar _x_ __ _ 4wd x86", ["foo_bar", "_x_", "4wd", "x86"]),
        ("wi\u00adfi zero\u200bwidth", ["wi\u00adfi", "zero", "width"]),
        ("Ünïcöde ÉCOLE İstanbul ΣΟΦΟΣ ß", ["ünïcöde", "école", "istanbul", "σοφοσ", "ß"]),
        ("cafe\u0301s \u0301alone x\u0301.y", ["cafe\u0301s", "alone", "x\u0301.y"]),
        (
            "東京タワー ひらが カタ_カナ 한국어입니다",
            ["東", "京", "タワー", "ひ", "ら", "が", "カタ_カナ", "한국어입니다"],
        ),
        ("abc日本x 1タ \U00020000\U00020001", ["abc", "日", "本", "x", "1", "タ", "\U00020000", "\U00020001"]),
        ("สวัสดีครับ ok ខ្មែរ", ["สวัสดีครับ", "ok", "ខ្មែរ"]),
        ("👍🏽 so 😀😀 ½ x² Ⅷ", ["👍🏽", "so", "😀", "😀", "x", "ⅷ"]),
        ("٣٫١٤ ١٢٣", ["٣٫١٤", "١٢٣"]),
    ],
)
def test_words_are_what_the_rules_say(text: str, tokens: list[str]) -> None:
    assert [token for token, _ in analyze(text)] == tokens


def test_stop_words_leave_a_gap() -> None:
    assert analyze("The fox and the Dog") == [("fox", 1), ("dog", 4)]
    assert analyze("to be or not to be") == []
    assert len(STOP_WORDS) == 33
    assert batch(["The fox", "", "the", "a dog"]) == [[("fox", 1)], [], [], [("dog", 1)]]


def test_long_words_are_cut() -> None:
    lengths = [
        len(token)
        for token, _ in analyze("x" * (2 * TOKEN_CHARACTERS_MAX + 7) + " " + "é" * TOKEN_CHARACTERS_MAX + " z")
    ]
    assert lengths == [TOKEN_CHARACTERS_MAX, TOKEN_CHARACTERS_MAX, 7, TOKEN_CHARACTERS_MAX, 1]
    assert [position for _, position in analyze("y" * 300 + " z")] == [0, 1, 2]


def test_lower_case_keeps_the_length() -> None:
    assert lower_case("İSTANBUL ΣΟΦΟΣ ẞ K") == "istanbul σοφοσ ß k"


def test_text_that_is_no_utf_8_is_refused() -> None:
    with pytest.raises(DataError, match="at byte 2"):
        tokenize(np.frombuffer(b"ab\xff", np.uint8), np.array([0, 3]))


ascii_texts = st.text(st.sampled_from("abTHE019_ .,:;'-+\n"), max_size=30)


@settings(max_examples=300, deadline=None)
@given(st.lists(ascii_texts, max_size=8))
def test_a_batch_of_ascii_texts_is_tokenized_as_by_hand(texts: list[str]) -> None:
    assert batch(texts) == [words_of(text) for text in texts]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.text(st.sampled_from("aZ9_.,' \u0301é日ひタｶ한😀ส\u200d\u00ad"), max_size=12), min_size=1, max_size=6)
)
def test_texts_of_a_batch_know_nothing_of_each_other(texts: list[str]) -> None:
    assert batch(texts) == [analyze(text) for text in texts]


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=30))
def test_any_text_can_be_tokenized(text: str) -> None:
    tokens = analyze(text)
    assert [position for _, position in tokens] == sorted({position for _, position in tokens})
    assert all(0 < len(token) <= TOKEN_CHARACTERS_MAX and token == lower_case(token) for token, _ in tokens)
