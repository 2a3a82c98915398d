"""Patterns as automata of bytes, and the texts that they require, select what RE2 selects: random patterns over random
texts of all lengths of UTF-8, both cases, anchors, classes, repetitions; what automata do not follow is left to RE2.
"""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pinotpy.errors import QueryExecutionError
from pinotpy.functions.text.patterns import like_pattern, regexp_pattern
from pinotpy.functions.text.regex_syntax import parse_regex
from pinotpy.functions.text.required_text import required_text
from pinotpy.kernels.text import substring_search
from pinotpy.query.filter.text.automaton import POSITIONS_MAX, STATES_MAX, automaton_of
from pinotpy.query.filter.text.needle import NO_SAMPLE, matching
from pinotpy.query.filter.text.texts import text_flags

_CLASSES = [
    *(r"\d", r"\w", r"\s", r"\D", r"\W", r"\S", r".", r"[ab]", r"[^a]", r"[a-k]", r"[^0-9]"),
    *(
        r"[é-ü]",
        r"[^é]",
        r"[\w-]",
        r"[]a]",
        r"[[:alpha:]]",
        r"[[:^digit:]_]",
        r"[\n]",
        r"[a\]]",
        r"[^\W]",
        r"[k-s]",
        r"[^\d\s]",
        r"[€-😀]",
    ),
]
_CHARACTERS = [
    "a",
    "b",
    "ab",
    "k",
    "s",
    "K",
    "S",
    "é",
    "€",
    "😀",
    "ſ",
    "\u212a",
    "1",
    "7",
    "/",
    "-",
    " ",
    r"\.",
    r"\x41",
    r"\x{e9}",
    r"\n",
    "{",
    "]",
    "{,2}",
    r"\-",
]
_REPEATS = ["*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "*?", "+?", "??", "{0}", "{01}", "{1,02}"]
_LETTERS = [*"abkKsSAB17/-_ .\n{}],|", "é", "ü", "€", "😀", "ſ", "\u212a", "\u0080", "\uffff", "\0", "É"]


def _piece(chooser: random.Random, depth: int) -> str:
    kind = chooser.random()
    if depth == 0 or kind < 0.55:
        return chooser.choice(_CLASSES if chooser.random() < 0.4 else _CHARACTERS)
    if kind < 0.7:
        prefix = chooser.choice(["", "?:", "?i:", "?s:", f"?P<n{chooser.randrange(10**6)}>"])
        return f"({prefix}{_piece(chooser, depth - 1)})"
    if kind < 0.8:
        return f"{_piece(chooser, depth - 1)}|{_piece(chooser, depth - 1)}"
    return _piece(chooser, depth - 1) + _piece(chooser, depth - 1)


def _pattern(chooser: random.Random) -> str:
    parts = []
    for _ in range(chooser.randrange(1, 5)):
        piece = _piece(chooser, chooser.randrange(3))
        if chooser.random() < 0.4:
            piece = (f"(?:{piece})" if chooser.random() < 0.7 else piece) + chooser.choice(_REPEATS)
        parts.append(piece)
    written = (
        chooser.choice(["", "", "", "^", r"\A"]) + "".join(parts) + chooser.choice(["", "", "", "$", r"\z", r"\b"])
    )
    return chooser.choice(["", "", "", "(?i)", "(?s)", "(?is)", "(?m)", "(?-s)"]) + written


def _texts(chooser: random.Random, count: int) -> pa.Array:
    made = [
        "".join(chooser.choices(_LETTERS if i % 2 else _LETTERS[:6], k=chooser.randrange(14))) for i in range(count)
    ]
    return pa.array(["", "a", "\n", *made], pa.large_string())


@pytest.mark.parametrize("seed", range(8))
def test_random_patterns_select_what_re2_selects(seed: int) -> None:
    chooser = random.Random(seed)
    num_tried = num_automata = num_required = 0
    for _ in range(150):
        try:
            pattern = regexp_pattern(_pattern(chooser), ignore_case=chooser.random() < 0.3)
        except QueryExecutionError:
            continue
        texts = _texts(chooser, 60)
        wanted = pc.match_substring_regex(texts, pattern.regex).to_numpy(zero_copy_only=False)
        assert np.array_equal(text_flags(texts, pattern).view(np.bool_), wanted), pattern.regex
        num_tried, num_required = num_tried + 1, num_required + (pattern.pieces is not None)
        automaton = automaton_of(pattern.regex)
        if automaton is not None:
            num_automata += 1
            out = np.empty(len(texts), np.uint8)
            _, offsets, body = texts.buffers()
            substring_search.flag_texts(body.address, offsets.address, matching(automaton, None, NO_SAMPLE).words, out)
            assert np.array_equal(out.view(np.bool_), wanted), pattern.regex
    assert num_tried > 120 and num_automata > 70 and num_required > 30


@pytest.mark.parametrize(
    ("pattern", "parts", "leads", "is_all"),
    [
        ("abc", ("abc",), True, True),
        (r"/item/\d*47\d?/(view|list)", ("/item/", "47", "/"), True, False),
        ("a+b", ("a", "b"), True, False),
        ("(ab){2}c", ("ababc",), True, True),
        ("(ab){2,}c", ("abab", "c"), True, False),
        ("x(?:ab)?y", ("x", "y"), True, False),
        ("[ab]cd", ("cd",), False, False),
        ("^ab.c$", ("ab", "c"), False, False),
        ("a|b", (), False, False),
        (r"a\bb", ("a", "b"), True, False),
        (r"a\.b\x41", ("a.bA",), True, True),
        ("(?i)aé", ("a",), True, False),
        ("a(?i)B", ("ab",), True, False),
        ("", (), False, False),
        ("a{01}", ("a{01}",), True, True),
        ("a{0,02}", ("a{0,02}",), True, True),
    ],
)
def test_required_texts(pattern: str, parts: tuple[str, ...], leads: bool, is_all: bool) -> None:
    tree = parse_regex(pattern)
    assert tree is not None
    found = required_text(tree)
    assert (found.parts, found.leads, found.is_all) == (parts, leads, is_all)


@pytest.mark.parametrize(
    "pattern",
    [
        r"a\bb",
        "(?m)^a",
        "(?i)é",
        r"\pL",
        "(^a)+",
        "a^b",
        "[a-z]{600}",
        f"(a|b)*a(a|b){{{STATES_MAX.bit_length() + 1}}}b",
    ],
)
def test_what_automata_do_not_follow_is_left_to_re2(pattern: str) -> None:
    checked = regexp_pattern(pattern, ignore_case=False)
    assert automaton_of(checked.regex) is None
    texts = pa.array(["ab", "a b", "x\na", "É", "é", "a" * 700, "aab" * 9, ""], pa.large_string())
    assert text_flags(texts, checked).astype(bool).tolist() == pc.match_substring_regex(texts, pattern).to_pylist()


def test_automata_are_bounded() -> None:
    found = automaton_of(f"[a-z]{{{POSITIONS_MAX - 1}}}")
    assert found is not None and len(found.table) <= STATES_MAX * found.stride
    assert automaton_of(f"[a-z]{{{POSITIONS_MAX + 1}}}") is None


def test_like_with_single_characters_is_an_automaton() -> None:
    texts = pa.array(["abc", "aéc", "a😀c", "ac", "xabc", "a\nc", "ABC", "a%c", "abbc"], pa.large_string())
    for written in ("a_c", "%a_c", "a_%", "_bc", "a\\%c", "a__c", "abc"):
        for ignore_case in (False, True):
            pattern = like_pattern(written, ignore_case=ignore_case)
            assert automaton_of(pattern.regex) is not None
            assert (
                text_flags(texts, pattern).astype(bool).tolist()
                == pc.match_substring_regex(texts, pattern.regex).to_pylist()
            )
