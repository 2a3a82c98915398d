"""Predicates on raw texts (equality, lists, ranges, LIKE, REGEXP_LIKE) select what RE2 and Python's bytes select, on
texts around the eight bytes that kernels read at once, and on letters that have another case beyond ASCII.
"""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from numba import njit

from pinotpy.functions.text.patterns import like_pattern, regexp_pattern
from pinotpy.kernels.runtime.byte_words import hash_bytes, order_bytes, same_bytes
from pinotpy.query.filter.text.texts import text_flags

ALPHABET = ["a", "b", "A", "k", "K", "\u212a", "s", "S", "\u017f", "é", "/", "7", "\n", "€"]
LIKES = [
    "a%",
    "%a",
    "%a%",
    "a%b",
    "%ab%ba%",
    "%k%",
    "%ss",
    "sk%",
    "%A%s%",
    "%",
    "%%",
    "%/7%",
    "é%",
    "%€",
    "ab%ab%ab",
    "%aaaaaaaaab%",
    "aaaaaaaaa%",
    "%kkkkkkkks%",
    "a\\%%",
    "%_a%",
    "aa",
]
REGEXPS = [
    "a",
    "ab",
    "a.b",
    "^a",
    "b$",
    "aa*b",
    "a+7",
    "a(bk)?s",
    "[ab]7/",
    "(ab)+s",
    "a{2}b",
    "a|b",
    "(?i)K",
    "\\/7",
    "k\\d",
    "\\Aab",
    "a7.*7a",
    "x\\.y",
    "é",
    "aé+7",
    "[[:alpha:]]7",
    "ss",
    "a{,2}b",
]


@pytest.fixture(scope="module")
def texts() -> pa.Array:
    chooser = random.Random(3)
    made = ["", "a", "aaaaaaaa", "aaaaaaaab", "a" * 40 + "b", "ab" * 9, "kkkkkkkkS", "\u212a" * 8 + "s", "a%", "a%b"]
    made += [
        "".join(chooser.choice(ALPHABET[: chooser.choice([2, 5, 14])]) for _ in range(chooser.randrange(30)))
        for _ in range(4000)
    ]
    return pa.array(made, pa.large_string())


@pytest.mark.parametrize("ignore_case", [False, True])
def test_like_and_regexp_select_what_re2_selects(texts: pa.Array, ignore_case: bool) -> None:
    patterns = [like_pattern(text, ignore_case=ignore_case) for text in LIKES] + [
        regexp_pattern(text, ignore_case=ignore_case) for text in REGEXPS
    ]
    assert sum(pattern.pieces is not None and pattern.pieces.is_all for pattern in patterns) > 15
    assert sum(pattern.pieces is not None for pattern in patterns) > 25
    for pattern, part in product(
        patterns, (texts, texts.slice(17, 900), texts.slice(3, 0), texts.cast(pa.string()).slice(5, 70))
    ):
        wanted = pc.match_substring_regex(part, pattern.regex).to_numpy(zero_copy_only=False)
        assert np.array_equal(text_flags(part, pattern).view(np.bool_), wanted), pattern.regex


@njit
def compare_texts(data: int, starts: Any, left: Any, right: Any, out: Any) -> None:
    for i in range(len(left)):
        a, b = starts[left[i]], starts[right[i]]
        a_length, b_length = starts[left[i] + 1] - a, starts[right[i] + 1] - b
        out[i, 0] = order_bytes(data + a, a_length, data + b, b_length)
        out[i, 1] = a_length == b_length and same_bytes(data + a, data + b, a_length)


def test_words_compare_as_bytes_do(texts: pa.Array) -> None:
    values = [text.encode() for text in texts.to_pylist()][:400]
    data = np.frombuffer(b"".join(values), np.uint8)
    starts = np.concatenate([[0], np.cumsum([len(value) for value in values])])
    pairs = [
        (random.Random(i).randrange(len(values)), random.Random(-i - 1).randrange(len(values))) for i in range(3000)
    ] + [(i, i) for i in range(len(values))]
    left, right = (np.array([pair[side] for pair in pairs]) for side in (0, 1))
    found = np.zeros((len(pairs), 2), np.int64)
    compare_texts(data.ctypes.data, starts, left, right, found)
    for (one, other), (order, same) in zip(pairs, found.tolist(), strict=True):
        a, b = values[one], values[other]
        assert order == (a > b) - (a < b)
        assert same == (a == b)


@njit
def hash_texts(data: int, starts: Any, out: Any) -> None:
    for i in range(len(out)):
        out[i] = hash_bytes(data + starts[i], starts[i + 1] - starts[i])


def test_hashes_of_equal_texts_are_equal_and_spread(texts: pa.Array) -> None:
    distinct = sorted({text.encode() for text in texts.to_pylist()})
    data, starts = (
        np.frombuffer(b"".join(distinct + distinct), np.uint8),
        np.concatenate([[0], np.cumsum([len(text) for text in distinct + distinct])]),
    )
    hashes = np.zeros(len(starts) - 1, np.uint64)
    hash_texts(data.ctypes.data, starts, hashes)
    n = len(distinct)
    assert np.array_equal(hashes[:n], hashes[n:])
    assert len(set((hashes[:n] >> np.uint64(32)).tolist())) > n - 5
