"""Which of many terms are within a few edits of a word: fuzzy search, computed for all terms at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array


def within_edits(terms: pa.Array, word: str, edits: int) -> NDArray[np.bool_]:
    """Whether each term is at most `edits` away from `word`, shape (len(terms),); `terms` large_string or string
    without nulls.

    An edit inserts, deletes or replaces a character or swaps two neighbours, and no character is edited twice (optimal
    string alignment). As in Lucene's FuzzyQuery a term other than the word itself must be nearer than the shorter of
    both is long: 'ab' is not 2 edits away from 'cd'.
    """
    points, starts, lengths = _code_points(terms)
    target = np.frombuffer(word.encode("utf-32-le"), np.uint32)
    within = np.zeros(len(terms), np.bool_)
    near = np.flatnonzero(np.abs(lengths - len(target)) <= edits)
    if not len(near):
        return within
    # Rows behind a term's end read whatever follows; its own cell of the table is taken before them.
    width = len(target) + edits
    positions = np.minimum(starts[near][:, None] + np.arange(width), max(len(points) - 1, 0))
    letters = points[positions] if len(points) else np.zeros(positions.shape, np.uint32)
    distance = _distances(letters, lengths[near], target, edits)
    within[near] = (distance == 0) | ((distance <= edits) & (distance < np.minimum(lengths[near], len(target))))
    return within


def _code_points(terms: pa.Array) -> tuple[NDArray[np.uint32], Int64Array, Int64Array]:
    """All characters, and of each term where it starts among them and how many it has."""
    _, offset_buffer, data = terms.buffers()
    dtype = np.int64 if pa.types.is_large_string(terms.type) else np.int32
    offsets = np.frombuffer(offset_buffer, dtype)[terms.offset : terms.offset + len(terms) + 1].astype(np.int64)
    plain = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]] if data is not None else np.zeros(0, np.uint8)
    before = np.zeros(len(plain) + 1, np.int64)
    np.cumsum((plain & 0xC0) != 0x80, out=before[1:])
    starts = before[offsets - offsets[0]]
    return np.frombuffer(plain.tobytes().decode().encode("utf-32-le"), np.uint32), starts[:-1], np.diff(starts)


def _distances(letters: NDArray[np.uint32], lengths: Int64Array, target: NDArray[np.uint32], edits: int) -> Int64Array:
    """Edit distances, those above `edits` as `edits` + 1. `letters` (num_terms, len(wanted) + edits)."""
    num_terms, size = len(letters), len(target)
    far = edits + 1
    # Column j of the classic table for all terms; rows further than `edits` from the diagonal are far whatever they
    # hold.
    last = np.full((size + 1, num_terms), far, np.int64)
    last[: min(edits, size) + 1] = np.arange(min(edits, size) + 1)[:, None]
    before_last = last
    result = np.where(lengths == 0, min(size, far), far)
    for j in range(1, letters.shape[1] + 1):
        column = np.full((size + 1, num_terms), far, np.int64)
        if j <= edits:
            column[0] = j
        for i in range(max(1, j - edits), min(size, j + edits) + 1):
            same = letters[:, j - 1] == target[i - 1]
            best = np.minimum(np.minimum(last[i], column[i - 1]) + 1, last[i - 1] + ~same)
            if i > 1 and j > 1:
                swapped = (letters[:, j - 1] == target[i - 2]) & (letters[:, j - 2] == target[i - 1])
                best = np.where(swapped, np.minimum(best, before_last[i - 2] + 1), best)
            column[i] = np.minimum(best, far)
        before_last, last = last, column
        result = np.where(lengths == j, column[size], result)
    return result
