"""Proves STRCMP and LEVENSHTEINDISTANCE against their definitions, and the lists of beginnings and ends of a text."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest

from pinotpy.data_types import DataType
from pinotpy.errors import QueryExecutionError

STRING = DataType.STRING


def _edits(left: str, right: str) -> int:
    """The definition, by recursion over what is left of both texts."""

    @cache
    def between(at: int, to: int) -> int:
        if at == len(left) or to == len(right):
            return len(left) - at + len(right) - to
        return min(between(at + 1, to) + 1, between(at, to + 1) + 1, between(at + 1, to + 1) + (left[at] != right[to]))

    return between(0, 0)


def _pairs(seed: int) -> tuple[list[str], list[str]]:
    random_texts = random.Random(seed)
    texts = ["".join(random_texts.choices("abcé", k=random_texts.randrange(9))) for _ in range(600)]
    return texts[:300], texts[300:]


def test_levenshtein_distance(call: Any) -> None:
    left, right = _pairs(1)
    assert call("levenshteinDistance", (STRING, left), (STRING, right)) == [
        _edits(a, b) for a, b in zip(left, right, strict=True)
    ]
    documented = [("kitten", "sitting", 3), ("hello", "world", 4), ("same", "same", 0), ("", "abc", 3), ("abc", "", 3)]
    for a, b, distance in documented:
        assert call("levenshtein_distance", (STRING, [a]), b) == [distance]
    assert call("levenshteinDistance", (STRING, ["😀"]), "") == [2]  # two UTF-16 units


def test_texts_too_long_to_compare_are_refused(call: Any) -> None:
    with pytest.raises(QueryExecutionError, match="LEVENSHTEINDISTANCE: expected texts"):
        call("levenshteinDistance", (STRING, ["a" * 9000]), "b" * 9000)


def test_strcmp_is_the_order_of_java(call: Any) -> None:
    left, right = _pairs(2)
    found = call("strcmp", (STRING, left), (STRING, right))
    assert [(value > 0) - (value < 0) for value in found] == [
        (a > b) - (a < b) for a, b in zip(left, right, strict=True)
    ]
    assert call(
        "strcmp", (STRING, ["apple", "b", "abc", "", "\uffff"]), (STRING, ["apples", "a", "xbc", "", "😀"])
    ) == [-1, 1, -23, 0, 0xFFFF - 0xD83D]


def test_beginnings_and_ends(call: Any) -> None:
    column = (STRING, ["data", "", "é"])
    assert call("prefixes", column, 3) == [["d", "da", "dat"], [], ["é"]]
    assert call("suffixes", column, 9) == [["a", "ta", "ata", "data"], [], ["é"]]
    assert call("prefixesWithPrefix", column, 2, "^") == [["^d", "^da"], [], ["^é"]]
    assert call("suffixesWithSuffix", column, 2, "$") == [["a$", "ta$"], [], ["é$"]]
    assert call("prefixes", column, -1) == call("suffixes", column, 0) == [[], [], []]
    with pytest.raises(QueryExecutionError, match="characters as the result of PREFIXES"):
        call("prefixes", (STRING, ["a" * 10_000]), 10_000)


def test_ngrams_of_several_lengths(call: Any) -> None:
    assert call("uniqueNgrams", (STRING, ["abab", "a"]), 1, 3) == [["a", "b", "ab", "ba", "aba", "bab"], ["a"]]
    assert call("uniqueNgrams", (STRING, ["abab"]), 3, 2) == [[]]
