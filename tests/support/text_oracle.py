"""Second implementations for tests of the text index, one text and one pair at a time; and buffers that stay in
memory.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa

from pinotpy.segment.index.text import MappedTextIndex, write_text_index

_STOP_TEXT = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these "
    "they this to was will with"
)
STOP_WORDS = frozenset(_STOP_TEXT.split())
_WORD = re.compile(r"(?:[A-Za-z0-9_]|(?<=[A-Za-z])[:.'](?=[A-Za-z])|(?<=[0-9])[.,;'](?=[0-9]))+")


def words_of(text: str) -> list[tuple[str, int]]:
    """Words of an ASCII text and their places, stop words counted and left out."""
    words = [word.lower() for word in _WORD.findall(text) if word.strip("_")]
    return [(word, position) for position, word in enumerate(words) if word not in STOP_WORDS]


def distance(a: str, b: str) -> int:
    """Edits between two words, by the textbook's table: insert, delete, replace, swap neighbours."""
    table = {(i, -1): i + 1 for i in range(-1, len(a))} | {(-1, j): j + 1 for j in range(-1, len(b))}
    for i in range(len(a)):
        for j in range(len(b)):
            table[i, j] = min(table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + (a[i] != b[j]))
            if i and j and a[i] == b[j - 1] and a[i - 1] == b[j]:
                table[i, j] = min(table[i, j], table[i - 2, j - 2] + 1)
    return table[len(a) - 1, len(b) - 1]


def is_near(term: str, word: str, edits: int) -> bool:
    """Whether a fuzzy word finds a term."""
    found = distance(term, word)
    return found == 0 or (found <= edits and found < min(len(term), len(word)))


class KeptBuffers:
    """The writer's and the reader's side of a column's buffers, in memory."""

    def __init__(self) -> None:
        self.buffers: dict[str, np.ndarray] = {}

    def append(self, kind: str, *parts: np.ndarray) -> str:
        self.buffers[kind] = np.concatenate([np.ascontiguousarray(part).view(np.uint8) for part in parts])
        return kind

    def __contains__(self, kind: str) -> bool:
        return kind in self.buffers

    def view(self, kind: str, dtype: Any) -> np.ndarray:
        return self.buffers[kind].view(dtype)


def kept_index(texts: list[str], mv_offsets: list[int] | None = None) -> tuple[KeptBuffers, MappedTextIndex]:
    """The index of some texts, one a doc or, with offsets, several a doc."""
    kept = KeptBuffers()
    offsets = None if mv_offsets is None else np.array(mv_offsets, np.uint32)
    write_text_index(kept, "c", pa.chunked_array([pa.array(texts, pa.large_binary())]), None, offsets)  # type: ignore[arg-type]
    return kept, MappedTextIndex(kept)  # type: ignore[arg-type]
