"""What kernels look for in raw texts (kernels/text_search.py): of the bytes that a text must have those that are rare in the column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.functions.patterns import Pieces
from pinotpy.kernels import abi
from pinotpy.kernels import text_search as kernels

Counts = NDArray[np.int64]
# Rare bytes are sought in so many bytes of a piece, and no more of it are looked for.
_NEEDLE_MAX: Final = 64


@dataclass(frozen=True, slots=True, eq=False)
class TextNeedle:
    """Search words, and what they point to."""

    words: NDArray[np.int64]
    kept: Sequence[Any]

    @property
    def address(self) -> int:
        return int(self.words.ctypes.data)


def byte_counts(meta: NDArray[np.int64]) -> Counts:
    """How often every byte is there in samples of a raw column, int64[256], one more for each.

    Args:
        meta: of a column of one segment (abi.M_*), in place.
    """
    return byte_counts_of(int(meta[abi.M_DATA]), int(meta[abi.M_RAW_OFFSETS]), int(meta[abi.M_NUM_VALUES]))


def byte_counts_of(data: int, starts: int, count: int) -> Counts:
    """The same of `count` texts at two addresses: of their bytes and of their int64 offsets."""
    counts = np.ones(256, np.int64)
    if count:
        kernels.sample_bytes(data, starts, count, counts)
    return counts


def equality(value: bytes, counts: Counts) -> TextNeedle:
    """The search for texts that are `value`."""
    words = np.zeros(kernels.SEARCH_WORDS, np.int64)
    kept = _enter_needle(words, value, _rarest(value[:_NEEDLE_MAX], counts))
    words[kernels.W_DECIDES], words[kernels.W_FIXED] = 0, 1
    return TextNeedle(words, [kept])


def likeness(pieces: Pieces, counts: Counts) -> TextNeedle:
    """The search for texts that have the pieces."""
    words = np.zeros(kernels.SEARCH_WORDS, np.int64)
    words[: kernels.W_ANCHORS + 1] = pieces.words()
    fold, letters = pieces.anchors & kernels.FOLD_CASE, pieces.anchors & kernels.FOLD_LETTERS
    if fold:
        counts = counts.copy()
        counts[0x61:0x7B] += counts[0x41:0x5B]
    data, best = pieces.data.tobytes(), None
    for first, end in zip(pieces.offsets[:-1].tolist(), pieces.offsets[1:].tolist(), strict=True):
        piece = data[first:end]
        # Letters with a form beyond ASCII are not looked for.
        for run in piece.replace(b"s", b"k").split(b"k") if letters else [piece]:
            if run:
                found = run[:_NEEDLE_MAX], _rarest(run[:_NEEDLE_MAX], counts)
                if best is None or found[1].share < best[1].share:
                    best = found
    kept: list[Any] = [pieces]
    if best is not None:
        kept.append(_enter_needle(words, *best))
        is_anchored = pieces.anchors & (kernels.ANCHOR_START | kernels.ANCHOR_END) != 0
        words[kernels.W_FIXED] = int(is_anchored)
        words[kernels.W_DECIDES] = int(pieces.is_all and len(pieces.offsets) == 2 and not is_anchored and best[0] == data[: pieces.offsets[1]])
    return TextNeedle(words, kept)


@dataclass(frozen=True, slots=True)
class _Rare:
    """Three places in a needle, and the share of places in texts that have all three bytes if they are independent."""

    places: list[int]
    share: float


def _rarest(needle: bytes, counts: Counts) -> _Rare:
    total = int(counts.sum())
    places = sorted(range(len(needle)), key=lambda place: int(counts[needle[place]]))[:3]
    share = 1.0
    for place in places:
        share *= int(counts[needle[place]]) / total
    return _Rare((places * 3)[:3] if places else [0, 0, 0], share)


def _enter_needle(words: NDArray[np.int64], needle: bytes, rare: _Rare) -> NDArray[np.uint8]:
    """The needle into the words; gives its bytes, to be kept."""
    data = np.frombuffer(needle or b"\0", np.uint8)
    words[kernels.W_NEEDLE], words[kernels.W_SIZE] = data.ctypes.data, len(needle)
    words[kernels.W_FIRST], words[kernels.W_SECOND], words[kernels.W_THIRD] = rare.places
    head = needle[:8].ljust(8, b"\0")
    words[kernels.W_HEAD] = np.frombuffer(head, np.int64)[0]
    words[kernels.W_HEAD_MASK] = np.frombuffer((b"\xff" * len(needle[:8])).ljust(8, b"\0"), np.int64)[0]
    return data
