"""What kernels look for in raw texts (kernels/text/substring_search.py): of the bytes that a text must have those that
are rare in the column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.functions.text.patterns import Pieces, TextPattern
from pinotpy.kernels.runtime import abi
from pinotpy.kernels.text import substring_search as kernels
from pinotpy.kernels.text.block_blooms import hash_text
from pinotpy.query.filter.text.automaton import Automaton, automaton_of

# Rare bytes are sought in so many bytes of a piece, and no more of it are looked for.
_NEEDLE_MAX: Final = 64
# Where a needle is in more of the texts, each is tested without it.
_HITS_A_TEXT_MAX: Final = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class TextNeedle:
    """Search words, and what they point to."""

    words: Int64Array
    kept: Sequence[Any]

    @property
    def address(self) -> int:
        return int(self.words.ctypes.data)

    @property
    def is_often(self) -> bool:
        """So many texts have the needle that each is tested."""
        return bool(self.words[kernels.W_OFTEN])


@dataclass(frozen=True, slots=True)
class TextSample:
    """Some of the bytes of a column's texts, to tell what is rare in them, and how long they are on average."""

    data: bytes
    mean_bytes: float


NO_SAMPLE: Final = TextSample(b"", 0.0)


def text_sample(meta: Int64Array) -> TextSample:
    """A sample of a raw column.


    Args:
        meta: of the column in one segment (abi.M_*), in place.
    """
    return sample_of(int(meta[abi.M_DATA]), int(meta[abi.M_RAW_OFFSETS]), int(meta[abi.M_NUM_VALUES]))


def sample_of(data: int, starts: int, count: int) -> TextSample:
    """The same of `count` texts at two addresses: of their bytes and of their int64 offsets."""
    if not count:
        return NO_SAMPLE
    sample = np.empty(kernels.SAMPLE_BYTES, np.uint8)
    size, mean = kernels.sample_bytes(data, starts, count, sample)
    return TextSample(sample[:size].tobytes(), mean)


def equality(value: bytes, sample: TextSample) -> TextNeedle:
    """The search for texts that are `value`."""
    words = np.zeros(kernels.SEARCH_WORDS, np.int64)
    held = _enter_needle(words, value, _rarest(value[:_NEEDLE_MAX], _counts(sample.data)))
    words[kernels.W_TEST], words[kernels.W_FIXED] = kernels.EQUALITY, 1
    words[kernels.W_HASH] = hash_text(held.ctypes.data, len(value))
    words[kernels.W_OFTEN] = int(_is_often(sample.data.count(value[:_NEEDLE_MAX]), sample))
    return TextNeedle(words, [held])


def likeness(pieces: Pieces, sample: TextSample) -> TextNeedle:
    """The search for texts that have the pieces."""
    words = np.zeros(kernels.SEARCH_WORDS, np.int64)
    held = _enter_pieces(words, pieces, sample)
    words[: kernels.W_ANCHORS + 1] = pieces.words()
    words[kernels.W_TEST] = kernels.LIKENESS
    is_single = len(pieces.offsets) == 2 and int(words[kernels.W_SIZE]) == len(pieces.data)
    words[kernels.W_DECIDES] = int(pieces.is_all and is_single and not words[kernels.W_FIXED])
    return TextNeedle(words, held)


def matching(automaton: Automaton, pieces: Pieces | None, sample: TextSample) -> TextNeedle:
    """The search for texts that an automaton matches, which have the pieces."""
    words = np.zeros(kernels.SEARCH_WORDS, np.int64)
    held: list[Any] = [automaton]
    if pieces is not None:
        held += _enter_pieces(words, pieces, sample)
    words[kernels.W_TEST] = kernels.MATCHING
    words[kernels.W_TABLE], words[kernels.W_CLASSES] = automaton.table.ctypes.data, automaton.classes.ctypes.data
    words[kernels.W_STRIDE], words[kernels.W_ENTRIES] = automaton.stride, len(automaton.table)
    return TextNeedle(words, held)


def needle_of(pattern: TextPattern, sample: TextSample) -> TextNeedle | None:
    """The search for texts that a pattern matches; None if only RE2 can tell."""
    if pattern.pieces is not None and pattern.pieces.is_all:
        return likeness(pattern.pieces, sample)
    automaton = automaton_of(pattern.regex)
    return None if automaton is None else matching(automaton, pattern.pieces, sample)


def _enter_pieces(words: Int64Array, pieces: Pieces, sample: TextSample) -> list[Any]:
    """The rarest piece as the needle, and how it stands in a text; gives what is to be kept."""
    fold, letters = pieces.anchors & kernels.FOLD_CASE, pieces.anchors & kernels.FOLD_LETTERS
    seen = sample.data.lower() if fold else sample.data
    counts, data = _counts(seen), pieces.data.tobytes()
    candidates: list[tuple[float, int, bytes, _Rare]] = []
    for first, end in zip(pieces.offsets[:-1].tolist(), pieces.offsets[1:].tolist(), strict=True):
        # Letters with a form beyond ASCII are not looked for.
        runs = data[first:end].replace(b"s", b"k").split(b"k") if letters else [data[first:end]]
        place = first
        for run in runs:
            if run:
                needle = run[:_NEEDLE_MAX]
                rare = _rarest(needle, counts)
                candidates.append((seen.count(needle) + rare.share, place, needle, rare))
            place += len(run) + 1
    if not candidates:
        return [pieces]
    hits, place, needle, rare = min(candidates, key=lambda one: one[0])
    words[kernels.W_OFTEN] = int(_is_often(hits, sample))
    words[kernels.W_ANCHORS] = fold | letters
    words[kernels.W_FIXED] = int(pieces.anchors & (kernels.ANCHOR_START | kernels.ANCHOR_END) != 0)
    words[kernels.W_LEADS] = int(pieces.leads and place == 0)
    return [pieces, _enter_needle(words, needle, rare)]


@dataclass(frozen=True, slots=True)
class _Rare:
    """Three places in a needle, ascending, perhaps the same, and the share of places in texts that have all three bytes
    if they are independent.
    """

    places: list[int]
    share: float


def _is_often(hits: float, sample: TextSample) -> bool:
    return hits * sample.mean_bytes > _HITS_A_TEXT_MAX * len(sample.data)


def _counts(sample: bytes) -> Int64Array:
    """How often every byte is in the sample, one more for each, int64[256]."""
    counts: Int64Array = np.bincount(np.frombuffer(sample, np.uint8), minlength=256) + 1
    return counts


def _rarest(needle: bytes, counts: Int64Array) -> _Rare:
    total = int(counts.sum())
    places = sorted(range(len(needle)), key=lambda place: int(counts[needle[place]]))[:3]
    share = 1.0
    for place in places:
        share *= int(counts[needle[place]]) / total
    return _Rare(sorted((places * 3)[:3]) if places else [0, 0, 0], share)


def _enter_needle(words: Int64Array, needle: bytes, rare: _Rare) -> NDArray[np.uint8]:
    """The needle into the words; gives its bytes, to be kept."""
    data = np.frombuffer(needle or b"\0", np.uint8)
    words[kernels.W_NEEDLE], words[kernels.W_SIZE] = data.ctypes.data, len(needle)
    words[kernels.W_FIRST], words[kernels.W_SECOND], words[kernels.W_THIRD] = rare.places
    words[kernels.W_HEAD] = np.frombuffer(needle[:8].ljust(8, b"\0"), np.int64)[0]
    words[kernels.W_HEAD_MASK] = np.frombuffer((b"\xff" * len(needle[:8])).ljust(8, b"\0"), np.int64)[0]
    return data
