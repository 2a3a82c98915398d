"""Texts → the tokens that a text index holds and a search compares: the rules of Lucene's StandardAnalyzer, as the
reference uses it.

A token is a word in the sense of Unicode (UAX #29): a run of letters and digits, where an apostrophe, full stop or
colon between two letters and a comma, full stop, semicolon or apostrophe between two digits belong to it, underscores
join, and marks belong to the letter before them. Each Han and Hiragana character and each emoji is a token by itself,
Katakana and the scripts without spaces (Thai, Lao, Khmer, Myanmar …) are tokens by runs. A token longer than 255
characters is cut there. Tokens are lower-cased character by character, and English stop words are left out; a position
counts them, so that a phrase knows the gap.

Approximations: character classes come from general categories and script blocks of Python's Unicode, emoji sequences
are not joined, Hebrew's double quote is none.
"""

from __future__ import annotations

import sys
import unicodedata
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.errors import DataError

STOP_WORDS: Final = (
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of",
    "on", "or", "such",
    "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with",
)  # fmt: skip
TOKEN_CHARACTERS_MAX: Final = 255

# Classes of characters; those from _LETTER to _SINGLE make tokens.
_OTHER, _LETTER, _DIGIT, _JOINER, _KATAKANA, _UNSPACED, _SINGLE, _MID_LETTER, _MID_NUMBER, _MID_BOTH, _EXTEND = range(
    11
)

_MID_LETTERS: Final = ":\u00b7\u0387\u055f\u05f4\u2027\ufe13\ufe55\uff1a"
_MID_NUMBERS: Final = ",;\u037e\u0589\u060c\u060d\u066c\u07f8\u2044\ufe10\ufe14\ufe50\ufe54\uff0c\uff1b"
_MID_BOTHS: Final = ".'\u2018\u2019\u2024\ufe52\uff07\uff0e"
_SINGLE_BLOCKS: Final = (
    (0x2E80, 0x2FD5), (0x3005, 0x3005), (0x3007, 0x3007), (0x3021, 0x3029), (0x3038, 0x303B), (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF), (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),  # Han
    (0x3041, 0x3096), (0x309D, 0x309F), (0x1B001, 0x1B11F), (0x1F200, 0x1F200),  # Hiragana
)  # fmt: skip
_EMOJI_BLOCKS: Final = ((0x2600, 0x27BF), (0x1F000, 0x1F1E5), (0x1F201, 0x1FAFF))
_KATAKANA_BLOCKS: Final = (
    (0x3031, 0x3035), (0x309B, 0x309C), (0x30A0, 0x30FA), (0x30FC, 0x30FF), (0x31F0, 0x31FF), (0x32D0, 0x3357),
    (0xFF66, 0xFF9D), (0x1B000, 0x1B000),
)  # fmt: skip
_UNSPACED_BLOCKS: Final = (
    (0x0E00, 0x0E4E), (0x0E80, 0x0ECF), (0x0EDC, 0x0EDF), (0x1000, 0x103F), (0x104E, 0x108F), (0x109A, 0x109F),
    (0x1780, 0x17DD), (0x1950, 0x19DF),
    (0x1A20, 0x1A7F), (0x1A90, 0x1AAD), (0xA9E0, 0xA9EF), (0xA9FA, 0xA9FE), (0xAA60, 0xAADF),
)  # fmt: skip
_SKIN_TONES: Final = (0x1F3FB, 0x1F3FF)
# No letter that has a lower case lies above; Han only, and a few marks and tags.
_TABLE_END: Final = 0x20000
_ZERO_WIDTH_SPACE: Final = 0x200B
_ARABIC_DECIMAL_SEPARATOR: Final = 0x066B


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """The tokens of several texts, in order, stop words left out.

    Attributes:
        terms: Arrow large_binary, shape (num_tokens,).
        texts: int64, the text that each token comes from, ascending.
        positions: int64, which token of its text it is, from 0, stop words counted.
        lengths: int64, tokens of each text, stop words counted, shape (num_texts,).
    """

    terms: pa.Array
    texts: Int64Array
    positions: Int64Array
    lengths: Int64Array


def tokenize(data: NDArray[np.uint8], offsets: Int64Array) -> Tokens:
    """The tokens of texts in UTF-8: text i is data[offsets[i]:offsets[i+1]], offsets from 0 to len(data).

    Raises DataError for what is not UTF-8.
    """
    characters, starts, encode = _characters(data, offsets)
    begins, lengths, word_characters = _spans(characters, starts)
    begins, lengths = _cut(begins, lengths)
    terms = encode(word_characters, lengths)
    texts = starts.searchsorted(begins, side="right") - 1
    # Tokens of underscores alone are none.
    if (underscores := word_characters == ord("_")).any():
        solid = np.add.reduceat((~underscores).view(np.uint8), np.cumsum(lengths) - lengths, dtype=np.int64) > 0
        terms, texts = terms.filter(pa.array(solid)), texts[solid]
    counts = np.bincount(texts, minlength=len(starts)) if len(starts) else np.zeros(0, np.int64)
    positions = np.arange(len(texts)) - np.repeat(np.cumsum(counts) - counts, counts)
    is_indexed = pc.invert(pc.is_in(terms, value_set=_stop_words()))
    mask = np.asarray(is_indexed.to_numpy(zero_copy_only=False), np.bool_)
    return Tokens(terms.filter(is_indexed), texts[mask], positions[mask], counts)


def analyze(text: str) -> list[tuple[str, int]]:
    """The tokens of one text with their positions, stop words left out."""
    if text.isascii() and text.isalnum() and len(text) <= TOKEN_CHARACTERS_MAX:
        return [] if (word := text.lower()) in STOP_WORDS else [(word, 0)]
    data = np.frombuffer(text.encode("utf-8", "replace"), np.uint8)
    tokens = tokenize(data, np.array([0, len(data)], np.int64))
    return [
        (term.decode(), position)
        for term, position in zip(tokens.terms.to_pylist(), tokens.positions.tolist(), strict=True)
    ]


def lower_case(text: str) -> str:
    """The text in lower case, character by character as tokens are: its length does not change."""
    if text.isascii():
        return text.lower()
    points = np.frombuffer(text.encode("utf-32-le", "replace"), np.uint32)
    return _lower(points).tobytes().decode("utf-32-le")


# --- characters ----------------------------------------------------------------------------------------------------


def _characters(data: NDArray[np.uint8], offsets: Int64Array) -> tuple[NDArray[Any], Int64Array, Any]:
    """Code points (ASCII stays bytes), where each text starts among them, and what makes terms of some of them
    again.
    """
    plain = data.tobytes()
    if plain.isascii():
        return data, offsets[:-1], _ascii_terms
    try:
        points = np.frombuffer(plain.decode("utf-8").encode("utf-32-le"), np.uint32)
    except UnicodeDecodeError as error:
        raise DataError(f"a text index needs text in UTF-8, found at byte {error.start}: {error.reason}") from error
    before = np.zeros(len(data) + 1, np.int64)
    np.cumsum((data & 0xC0) != 0x80, out=before[1:])
    return points, before[offsets[:-1]], _unicode_terms


def _ascii_terms(characters: NDArray[np.uint8], lengths: Int64Array) -> pa.Array:
    lowered = np.where((characters >= ord("A")) & (characters <= ord("Z")), characters | 0x20, characters)
    return _binary(lowered.tobytes(), lengths)


def _unicode_terms(characters: NDArray[np.uint32], lengths: Int64Array) -> pa.Array:
    lowered = _lower(characters)
    sizes = 1 + (lowered >= 0x80).astype(np.int64) + (lowered >= 0x800) + (lowered >= 0x10000)
    ends = np.cumsum(lengths)
    total = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    return _binary(lowered.tobytes().decode("utf-32-le").encode(), total[ends] - total[ends - lengths])


def _binary(data: bytes, sizes: Int64Array) -> pa.Array:
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return pa.Array.from_buffers(pa.large_binary(), len(sizes), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _lower(points: NDArray[np.uint32]) -> NDArray[np.uint32]:
    table = _lower_table()
    lowered: NDArray[np.uint32] = np.where(points < _TABLE_END, table[np.minimum(points, _TABLE_END - 1)], points)
    return lowered


# --- words ---------------------------------------------------------------------------------------------------------


def _spans(characters: NDArray[Any], starts: Int64Array) -> tuple[Int64Array, Int64Array, NDArray[Any]]:
    """Where tokens begin, how many characters each has, and the characters of all tokens one after the other."""
    is_ascii = characters.dtype == np.uint8
    classes = _class_table()[:256][characters] if is_ascii else _classes(characters)
    first = np.zeros(len(characters) + 1, np.bool_)
    first[starts] = True
    first = first[:-1]
    extends = None if is_ascii else classes == _EXTEND
    if extends is not None:
        _give_marks_to_their_letters(classes, extends, first)
    _join_middles(classes, first)
    is_word = (classes >= _LETTER) & (classes <= _SINGLE)
    begins = is_word.copy()
    begins[1:] &= ~is_word[:-1] | first[1:]
    if extends is not None and len(classes):
        begins[1:] |= is_word[1:] & is_word[:-1] & ~extends[1:] & _breaks(classes)
    token_starts = np.flatnonzero(begins)
    ends = np.flatnonzero(is_word & ~np.append(is_word[1:] & ~begins[1:], False)) if len(classes) else token_starts
    return token_starts, ends - token_starts + 1, characters[is_word]


def _classes(points: NDArray[np.uint32]) -> NDArray[np.uint8]:
    table = _class_table()
    classes: NDArray[np.uint8] = table[np.minimum(points, _TABLE_END - 1)]
    far = points >= _TABLE_END
    if far.any():
        classes[far] = np.where(points[far] <= _SINGLE_BLOCKS[8][1], _SINGLE, _EXTEND)
    return classes


def _give_marks_to_their_letters(
    classes: NDArray[np.uint8], extends: NDArray[np.bool_], first: NDArray[np.bool_]
) -> None:
    """A mark has the class of the character before it; without a word before it it is nothing."""
    if not extends.any():
        return
    extends &= ~first
    bases = np.maximum.accumulate(np.where(extends, 0, np.arange(len(classes))))
    classes[:] = classes[bases]
    classes[(classes == _EXTEND) | (extends & (classes > _SINGLE))] = _OTHER


def _join_middles(classes: NDArray[np.uint8], first: NDArray[np.bool_]) -> None:
    """Punctuation between two letters or two digits of one text becomes part of the word."""
    middles = np.flatnonzero((classes >= _MID_LETTER) & (classes <= _MID_BOTH))
    middles = middles[(middles > 0) & (middles < len(classes) - 1)]
    middles = middles[~first[middles] & ~first[middles + 1]]
    kind, before, after = classes[middles], classes[middles - 1], classes[middles + 1]
    for side, other in ((_LETTER, _MID_NUMBER), (_DIGIT, _MID_LETTER)):
        classes[middles[(kind != other) & (before == side) & (after == side)]] = side


def _breaks(classes: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Whether a token ends between two neighbours that are both of words, shape (len(classes) - 1,)."""
    families = np.where(classes == _DIGIT, _LETTER, classes)
    left, right = families[:-1], families[1:]
    ends: NDArray[np.bool_] = (
        (left == _SINGLE) | (right == _SINGLE) | ((left != right) & (left != _JOINER) & (right != _JOINER))
    )
    return ends


def _cut(begins: Int64Array, lengths: Int64Array) -> tuple[Int64Array, Int64Array]:
    if not len(lengths) or int(lengths.max()) <= TOKEN_CHARACTERS_MAX:
        return begins, lengths
    pieces = -(-lengths // TOKEN_CHARACTERS_MAX)
    number = np.arange(int(pieces.sum())) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    done = number * TOKEN_CHARACTERS_MAX
    return np.repeat(begins, pieces) + done, np.minimum(np.repeat(lengths, pieces) - done, TOKEN_CHARACTERS_MAX)


@cache
def _stop_words() -> pa.Array:
    return pa.array([word.encode() for word in STOP_WORDS], pa.large_binary())


# --- tables --------------------------------------------------------------------------------------------------------


@cache
def _class_table() -> NDArray[np.uint8]:
    """Class of every character below _TABLE_END; 40 ms, once a process."""
    categories = np.array([unicodedata.category(chr(point)) for point in range(_TABLE_END)])
    table = np.zeros(_TABLE_END, np.uint8)
    table[np.char.startswith(categories, "L") | (categories == "Nl")] = _LETTER
    table[categories == "Nd"] = _DIGIT
    table[_ARABIC_DECIMAL_SEPARATOR] = _DIGIT
    table[categories == "Pc"] = _JOINER
    for blocks, kind in (
        (_UNSPACED_BLOCKS, _UNSPACED),
        (_EMOJI_BLOCKS, _SINGLE),
        (_SINGLE_BLOCKS, _SINGLE),
        (_KATAKANA_BLOCKS, _KATAKANA),
    ):
        for low, high in blocks:
            table[low : high + 1] = kind
    unassigned = np.char.startswith(categories, "C")
    table[unassigned] = _OTHER
    table[np.isin(categories, ["Mn", "Mc", "Me", "Cf"])] = _EXTEND
    table[_SKIN_TONES[0] : _SKIN_TONES[1] + 1] = _EXTEND
    table[_ZERO_WIDTH_SPACE] = _OTHER
    for characters, kind in ((_MID_LETTERS, _MID_LETTER), (_MID_NUMBERS, _MID_NUMBER), (_MID_BOTHS, _MID_BOTH)):
        table[[ord(character) for character in characters]] = kind
    table.flags.writeable = False
    return table


@cache
def _lower_table() -> NDArray[np.uint32]:
    """Lower case of every character below _TABLE_END, one for one."""
    assert sys.maxunicode > _TABLE_END
    table = np.arange(_TABLE_END, dtype=np.uint32)
    for point in range(_TABLE_END):
        # 'İ' is the one character whose lower case has two: the first is the letter.
        table[point] = ord(chr(point).lower()[0])
    table.flags.writeable = False
    return table
