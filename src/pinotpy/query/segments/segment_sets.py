"""SegmentSets: the sets that one query runs over, each with its own plan and the caches that are attached to it.

Sealed segments and pieces of consuming ones are different sets: when one changes, nothing of the other is made anew
(ADR 18). To whoever only counts or picks segments they look like one sequence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import overload

import numpy as np

from pinotpy.arrays import Int64Array
from pinotpy.query.segments.segment_set import SegmentSet
from pinotpy.segment.data_source import Segment


class SegmentSets(Sequence[Segment]):
    """One or more sets, in the order in which a query reads them. Never changed; shared by threads.

    total_docs: of all segments.
    """

    __slots__ = ("_count", "sets", "total_docs")

    def __init__(self, sets: Sequence[SegmentSet]) -> None:
        if len(sets) > 1:
            # An empty set has nothing to say; one is left for a query over nothing.
            sets = [one for one in sets if len(one)] or sets[:1]
        self.sets = tuple(sets)
        self._count = sum(map(len, self.sets))
        self.total_docs = sum([one.total_docs for one in self.sets])

    @classmethod
    def of(cls, segments: Sequence[Segment]) -> SegmentSets:
        """The sets themselves, or the one set of these segments."""
        return segments if isinstance(segments, SegmentSets) else cls((SegmentSet.of(segments),))

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Segment: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Segment]: ...

    def __getitem__(self, index: int | slice) -> Segment | Sequence[Segment]:
        if len(self.sets) == 1:
            return self.sets[0][index]
        return tuple(self)[index]

    def __iter__(self) -> Iterator[Segment]:
        return chain.from_iterable(self.sets)

    @property
    def docs(self) -> Int64Array:
        """int64[len(self)], docs of every segment."""
        return self.sets[0].docs if len(self.sets) == 1 else np.concatenate([one.docs for one in self.sets])

    def counted(self, rows: Int64Array | None = None) -> tuple[int, frozenset[str]]:
        """As SegmentSet.counted."""
        some = self if rows is None else self.take(rows)
        count, names = 0, frozenset[str]()
        for one in some.sets:
            whole, parts = one.counted()
            count, names = count + whole, names | parts
        return count, names

    @property
    def hides_rows(self) -> bool:
        """Some segment has rows that must not be seen."""
        return any(one.hides_rows for one in self.sets)

    def take(self, rows: Int64Array) -> SegmentSets:
        """The segments at `rows`, ascending, each in a part of its set."""
        if len(self.sets) == 1:
            return SegmentSets((self.sets[0].take(rows),))
        ends = np.cumsum([len(one) for one in self.sets])
        pieces = np.split(rows, rows.searchsorted(ends[:-1]))
        return SegmentSets(
            [
                one if len(piece) == len(one) else one.take(piece - (end - len(one)))
                for one, piece, end in zip(self.sets, pieces, ends.tolist(), strict=True)
            ]
        )
