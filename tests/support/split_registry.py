"""A server's registry that gives queries the segments of a table as several sets, as a hybrid of sealed and consuming
segments will.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from pinotpy.query.segments.segment_set import SegmentSet
from pinotpy.query.segments.segment_sets import SegmentSets
from pinotpy.server.tables.registry import Acquired, SegmentRegistry


def split(segments: Sequence[Any], num_sets: int) -> SegmentSets:
    """The segments in so many sets, in order; fewer where there are fewer segments."""
    ends = [len(segments) * number // num_sets for number in range(num_sets + 1)]
    return SegmentSets([SegmentSet(segments[low:high]) for low, high in pairwise(ends)])


class SplitRegistry(SegmentRegistry):
    """Queries get `num_sets` sets, the same ones again and again."""

    num_sets = 2

    def __init__(self) -> None:
        super().__init__()
        self._split: dict[int, tuple[Any, SegmentSets]] = {}

    @contextmanager
    def acquire(self, table: str, names: Sequence[str], num_consuming: int = 0) -> Iterator[Any]:
        with super().acquire(table, names) as acquired:
            held, sets = self._split.get(id(acquired.segments), (None, None))
            if held is not acquired.segments:
                sets = split(acquired.segments, self.num_sets)
                self._split[id(acquired.segments)] = acquired.segments, sets
            yield Acquired(sets, acquired.missing)  # type: ignore[arg-type]  # what `execute` takes
