"""Texts searched as one run of bytes give what Python's `in`, `==`, `startswith` and `endswith` give: needles of all
sizes around the words and lanes that are read at once, hits across two texts, texts without bytes, either case, and no
byte read beyond the last.
"""

from __future__ import annotations

import ctypes
import mmap
import random
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from pinotpy.functions.text.patterns import Pieces, like_pattern, literal_pattern
from pinotpy.kernels.text import substring_search
from pinotpy.query.filter.text.needle import NO_SAMPLE, TextNeedle, TextSample, equality, likeness, sample_of

Texts = list[bytes]


def laid_out(texts: Texts) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of all texts at the very end of readable memory, and their offsets."""
    body = b"".join(texts)
    size = -(-max(len(body), 1) // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, size + mmap.PAGESIZE)
    whole = np.frombuffer(memory, np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(whole.ctypes.data + size), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    data = whole[size - len(body) : size]
    data[:] = np.frombuffer(body, np.uint8)
    return data, np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64)


def flags(texts: Texts, needle: Callable[[TextSample], TextNeedle]) -> list[bool]:
    data, starts = laid_out(texts)
    found = []
    # Of a sample in which a needle is often, texts are tested one by one.
    for sample in (sample_of(data.ctypes.data, starts.ctypes.data, len(texts)), NO_SAMPLE):
        search = needle(sample)
        out = np.full(len(texts), 7, np.uint8)
        total = substring_search.flag_texts(data.ctypes.data, starts.ctypes.data, search.words, out)
        assert total == int(out.sum())
        found.append(out.astype(bool).tolist())
    assert found[0] == found[1]
    return found[0]


def random_texts(seed: int) -> Texts:
    chooser = random.Random(seed)
    letters = chooser.choice([b"a", b"ab", b"abcdefgh", bytes(range(256))])
    longest = chooser.choice([1, 3, 9, 40, 300])
    count = chooser.choice([1, 2, 7, 100, 600])
    return [bytes(chooser.choices(letters, k=chooser.randrange(longest + 1))) for _ in range(count)]


def needles_of(texts: Texts, seed: int) -> list[bytes]:
    """Parts of the run of bytes, many of them across two texts, and some that are not there."""
    chooser, body = random.Random(seed), b"".join(texts) or b"z"
    sizes = [1, 2, 3, 7, 8, 9, 15, 16, 17, 63, 64, 65, 130]
    found = []
    for size in sizes:
        at = chooser.randrange(max(len(body) - size, 0) + 1)
        found += [body[at : at + size], body[at : at + size - 1] + b"\xfe"]
    return [*found, texts[0], texts[-1] or b"q", b"a" * 5, b"b" + b"a" * 20]


def pieces_of(*parts: bytes, start: bool = False, end: bool = False) -> Pieces:
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
    return Pieces(np.frombuffer(b"".join(parts) or b"\0", np.uint8), offsets, int(start) + 2 * int(end), is_all=True)


@pytest.mark.parametrize("seed", range(40))
def test_one_piece_is_found_where_python_finds_it(seed: int) -> None:
    texts = random_texts(seed)
    for needle in needles_of(texts, seed):
        if needle:
            assert flags(texts, lambda sample, n=needle: likeness(pieces_of(n), sample)) == [
                needle in text for text in texts
            ]  # type: ignore[misc]
            begins = flags(texts, lambda sample, n=needle: likeness(pieces_of(n, start=True), sample))  # type: ignore[misc]
            assert begins == [text.startswith(needle) for text in texts]
            ends = flags(texts, lambda sample, n=needle: likeness(pieces_of(n, end=True), sample))  # type: ignore[misc]
            assert ends == [text.endswith(needle) for text in texts]
        assert flags(texts, lambda sample, n=needle: equality(n, sample)) == [text == needle for text in texts]  # type: ignore[misc]


@pytest.mark.parametrize("seed", range(20))
def test_pieces_follow_one_another(seed: int) -> None:
    texts, chooser = random_texts(seed), random.Random(seed)
    for _ in range(20):
        parts = [bytes(chooser.choices(b"ab", k=chooser.randrange(1, 5))) for _ in range(chooser.randrange(2, 5))]

        def has_all(text: bytes, parts: list[bytes] = parts) -> bool:
            at = 0
            for part in parts:
                at = text.find(part, at)
                if at < 0:
                    return False
                at += len(part)
            return True

        assert flags(texts, lambda sample, p=parts: likeness(pieces_of(*p), sample)) == list(map(has_all, texts))  # type: ignore[misc]


def test_a_needle_across_two_texts_is_no_hit() -> None:
    texts = [b"xxab", b"cdyy", b"", b"ab", b"", b"cd", b"abcd", b"abc", b"d"]
    assert flags(texts, lambda sample: likeness(pieces_of(b"abcd"), sample)) == [text == b"abcd" for text in texts]
    assert flags(texts, lambda sample: likeness(pieces_of(b"xxabcdyy"), sample)) == [False] * len(texts)


@pytest.mark.parametrize("texts", [[b""], [b""] * 300, [b"a"], [b"a" * 100_000], [b"", b"a" * 64, b""], [b"ab"] * 5000])
@pytest.mark.parametrize("needle", [b"", b"a", b"aa", b"b", b"a" * 64, b"a" * 100_000, b"a" * 99_999 + b"b", b"ba"])
def test_hostile_texts_and_needles(texts: Texts, needle: bytes) -> None:
    pieces = pieces_of(needle) if needle else pieces_of()
    assert flags(texts, lambda sample: likeness(pieces, sample)) == [needle in text for text in texts]


@pytest.mark.parametrize("pattern", ["%AbC%", "k%", "%ss", "%kelvin%", "%a%S%", "sk%", "%kks%", "%7é%", "abc%def"])
def test_either_case_is_what_re2_says(pattern: str) -> None:
    chooser = random.Random(5)
    words = [
        "abc",
        "ABC",
        "aBc",
        "k",
        "K",
        "\u212a",
        "s",
        "S",
        "\u017f",
        "kelvin",
        "\u212aELVIN",
        "7é",
        "É",
        "def",
        "DEF",
        "",
        "@[`{",
    ]
    texts = ["".join(chooser.choices(words, k=chooser.randrange(6))) for _ in range(3000)]
    wanted = like_pattern(pattern, ignore_case=True)
    if wanted.pieces is None:
        assert not pattern.isascii()
        return
    pieces = wanted.pieces
    assert flags([text.encode() for text in texts], lambda sample: likeness(pieces, sample)) == [
        wanted.matches_one(text) for text in texts
    ]


def test_literal_patterns_take_every_character_as_it_is() -> None:
    for text in ("a.b", "(", "\\", "%_", "$^", "\n", "é€", "\0"):
        for pattern, passes in (
            (literal_pattern(text), lambda value, t=text: t in value),
            (literal_pattern(text, start=True), lambda value, t=text: value.startswith(t)),
            (literal_pattern(text, end=True), lambda value, t=text: value.endswith(t)),
        ):
            assert pattern.pieces is not None
            for value in (text, "x" + text, text + "x", "x" + text + "x", "axb", "", "x", text * 2):
                assert pattern.matches_one(value) == passes(value)  # type: ignore[no-untyped-call]
                found = flags([value.encode()], lambda sample, p=pattern.pieces: likeness(p, sample))  # type: ignore[misc]
                assert found == [passes(value)]  # type: ignore[no-untyped-call]
