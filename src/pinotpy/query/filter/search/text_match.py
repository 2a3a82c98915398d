"""TEXT_MATCH against a text index: the tree of a search text to one flag a doc.

A list of docs is written into flags, so that OR is writing, AND and NOT are operations on bytes, and a doc that a list
names twice does no harm. Phrases compare positions: an occurrence is the number `doc << 32 | position`.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.errors import QueryExecutionError
from pinotpy.functions.text.edit_distance import within_edits
from pinotpy.functions.text.text_query import (
    Clauses,
    EveryDoc,
    Fuzzy,
    Phrase,
    Prefix,
    Term,
    TermPattern,
    TermRange,
    TextQuery,
)
from pinotpy.query.runtime.control import QueryControl
from pinotpy.segment.data_source import TextIndex

Flags = NDArray[np.uint8]

# Terms of one segment that one prefix, range, pattern or fuzzy word may stand for.
EXPANSIONS_MAX: Final = 1 << 18
_BATCH_TERMS: Final = 1 << 16
# Sorts behind every UTF-8 text.
_LAST: Final = b"\xff"


def matching_docs(index: TextIndex, query: TextQuery, num_docs: int, control: QueryControl) -> Flags:
    """1 where a doc matches, uint8[num_docs].

    Raises QueryExecutionError where a part of the search stands for too many terms; what `control.check` raises.
    """
    flags = np.zeros(num_docs, np.uint8)
    _Search(index, num_docs, control).mark(query, flags)
    return flags


class _Search:
    def __init__(self, index: TextIndex, num_docs: int, control: QueryControl) -> None:
        self._index = index
        self._num_docs = num_docs
        self._control = control

    def mark(self, query: TextQuery, flags: Flags) -> None:
        """Set the flags of the docs that match."""
        self._control.check()
        match query:
            case Term(text):
                self._mark_term(text, flags)
            case Prefix(text):
                self._mark_run(*self._run(text.encode()), flags)
            case TermRange():
                self._mark_run(*self._range(query), flags)
            case TermPattern() | Fuzzy():
                self._mark_scattered(query, flags)
            case Phrase():
                flags[self._phrase_docs(query)] = 1
            case EveryDoc():
                flags[:] = 1
            case Clauses():
                self._mark_clauses(query, flags)

    def _mark_clauses(self, query: Clauses, flags: Flags) -> None:
        if not query.prohibited and not query.required:
            for child in query.optional:
                self.mark(child, flags)
            return
        # Flags of the clauses apart: those given may hold docs of a neighbour.
        self._control.reserve(2 * self._num_docs)
        try:
            flags |= self._joined(query)
        finally:
            self._control.release(2 * self._num_docs)

    def _joined(self, query: Clauses) -> Flags:
        matching = np.zeros(self._num_docs, np.uint8)
        if query.required:
            self.mark(query.required[0], matching)
            for child in query.required[1:]:
                if not matching.any():
                    return matching
                one = np.zeros(self._num_docs, np.uint8)
                self.mark(child, one)
                matching &= one
        else:
            for child in query.optional:
                self.mark(child, matching)
        if query.prohibited and matching.any():
            one = np.zeros(self._num_docs, np.uint8)
            for child in query.prohibited:
                self.mark(child, one)
            matching &= one ^ 1
        return matching

    # --- terms ------------------------------------------------------------------------------------------------------

    def _mark_term(self, text: str, flags: Flags) -> None:
        term = self._index.index_of(text.encode())
        if term >= 0:
            flags[self._index.docs(term, term + 1)] = 1

    def _mark_run(self, low: int, high: int, flags: Flags) -> None:
        if low < high:
            self._limit(high - low)
            flags[self._index.docs(low, high)] = 1

    def _run(self, prefix: bytes) -> tuple[int, int]:
        """Ids of the terms that begin with `prefix`."""
        return self._index.lower_bound(prefix), self._index.lower_bound(prefix + _LAST)

    def _range(self, query: TermRange) -> tuple[int, int]:
        # The text behind another is that with a zero byte at its end.
        low, high = 0, self._index.num_terms
        if query.low is not None:
            low = self._index.lower_bound(query.low.encode() + (b"" if query.low_inclusive else b"\0"))
        if query.high is not None:
            high = self._index.lower_bound(query.high.encode() + (b"\0" if query.high_inclusive else b""))
        return low, high

    def _mark_scattered(self, query: TermPattern | Fuzzy, flags: Flags) -> None:
        low, high = self._run(query.prefix.encode()) if isinstance(query, TermPattern) else (0, self._index.num_terms)
        places_found = [np.zeros(0, np.int64)]
        for first in range(low, high, _BATCH_TERMS):
            self._control.check()
            terms = self._index.terms(first, min(first + _BATCH_TERMS, high))
            passed = (
                within_edits(terms, query.text, query.edits)
                if isinstance(query, Fuzzy)
                else query.pattern.matches(terms)
            )
            places_found.append(np.flatnonzero(passed) + first)
        ids = np.concatenate(places_found)
        self._limit(len(ids))
        # Neighbours share one list.
        begins = np.flatnonzero(np.diff(ids, prepend=-2) != 1)
        ends = np.append(begins[1:], len(ids)) - 1
        for begin, end in zip(ids[begins].tolist(), ids[ends].tolist() if len(ids) else [], strict=True):
            flags[self._index.docs(begin, end + 1)] = 1

    def _limit(self, num_places: int) -> None:
        if num_places > EXPANSIONS_MAX:
            raise QueryExecutionError(
                f"a part of the search text stands for {num_places} terms, at most {EXPANSIONS_MAX} are allowed: name "
                "more of the word"
            )

    # --- phrases ----------------------------------------------------------------------------------------------------

    def _phrase_docs(self, phrase: Phrase) -> Int64Array:
        """Docs of a phrase; one may stand there several times."""
        occurrences = self._occurrences({text for text, _ in phrase.slots})
        if occurrences is None:
            return np.zeros(0, np.int64)
        return self._in_order(phrase, occurrences) if phrase.slop == 0 else self._nearby(phrase, occurrences)

    def _occurrences(self, texts: set[str]) -> dict[str, Int64Array] | None:
        """Occurrences of each term in docs that have all of them, ascending; None if there are no such docs."""
        ids = {text: self._index.index_of(text.encode()) for text in texts}
        if min(ids.values()) < 0:
            return None
        shared = np.ones(self._num_docs, np.uint8)
        for term in ids.values():
            self._control.check()
            one = np.zeros(self._num_docs, np.uint8)
            one[self._index.docs(term, term + 1)] = 1
            shared &= one
        if not shared.any():
            return None
        by_doc = {}
        for text, term in ids.items():
            self._control.check()
            docs = self._index.docs(term, term + 1)
            is_shared = shared[docs].view(np.bool_)
            by_doc[text] = docs[is_shared].astype(np.int64) << 32 | self._index.positions(term)[is_shared].astype(
                np.int64
            )
        return by_doc

    def _in_order(self, phrase: Phrase, occurrences: dict[str, Int64Array]) -> Int64Array:
        """Docs where every term stands at its offset from one place."""
        slots = sorted(phrase.slots, key=lambda slot: len(occurrences[slot[0]]))
        rarest, offset = slots[0]
        places = occurrences[rarest] - offset
        for text, at in slots[1:]:
            self._control.check()
            places = places[_contains(occurrences[text], places + at)]
        return (places + offset) >> 32

    def _nearby(self, phrase: Phrase, occurrences: dict[str, Int64Array]) -> Int64Array:
        """Docs where the terms stand at places whose distances from their offsets differ by at most the slop.

        Every place where one term puts the phrase is tried as the first of all; the others then take the first
        occurrence that is not before it, slots of the same term one after the other, for no occurrence serves two.
        """
        by_term: dict[str, list[int]] = {}
        for text, offset in phrase.slots:
            by_term.setdefault(text, []).append(offset)
        docs = [np.zeros(0, np.int64)]
        for text, offset in phrase.slots:
            places = occurrences[text] - offset
            for other, offsets in by_term.items():
                self._control.check()
                found, taken = occurrences[other], np.full(len(places), -1, np.int64)
                fits = np.ones(len(places), np.bool_)
                for at in offsets:
                    next_one = found.searchsorted(np.maximum(places + at, taken + 1))
                    taken = found[np.minimum(next_one, len(found) - 1)]
                    fits &= (next_one < len(found)) & (taken <= places + at + phrase.slop)
                places = places[fits]
            docs.append((places + offset) >> 32)
        return np.concatenate(docs)


def _contains(ascending: Int64Array, wanted: Int64Array) -> NDArray[np.bool_]:
    places = np.minimum(ascending.searchsorted(wanted), len(ascending) - 1)
    is_member: NDArray[np.bool_] = ascending[places] == wanted
    return is_member
