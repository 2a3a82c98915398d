"""All segments of a table at one time, and the lists of them that brokers ask for, as sets of segments.

A broker that prunes asks for another list with nearly each query, the same ones again and again (a day, a partition).
A list that is new costs the server about 0.1 ms: its set collects what planning needs of each segment.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from pinotpy.arrays import Int64Array
from pinotpy.query.segments.segment_set import SegmentSet
from pinotpy.segment.immutable import ImmutableSegment

# Lists are kept as long as they name no more than so many segments together, each list counted as some more: a segment
# costs its set about 100 bytes, and 500 for each column that queries read. Where more segments are served, they may
# name each of them this often.
KEPT_SEGMENTS_MIN: Final = 16_384
KEPT_SHARE: Final = 4
_SEGMENTS_OF_A_LIST: Final = 8


class ListedSegments(NamedTuple):
    """Segments of a snapshot, the names that are not here, and the slots of the segments in ReadingMarks."""

    segments: SegmentSet
    missing: tuple[str, ...]
    slots: Int64Array


class Snapshot:
    """Holds all of its segments. The registry's lock guards `num_holders`, `is_retired` and `parts`.

    parts: lists that were asked for lately.
    """

    def __init__(
        self, segments: dict[str, ImmutableSegment], previous: Snapshot | None, slots: Mapping[int, int]
    ) -> None:
        self.held = [segment for segment in segments.values() if segment.acquire()]
        self._slots = np.array([slots.get(id(segment), 0) for segment in self.held], np.int64)
        self.segments: SegmentSet = SegmentSet(self.held, None if previous is None else previous.segments)
        self.num_holders = 0
        self.is_retired = False
        self._rows = {segment.name: row for row, segment in enumerate(self.held)}
        self.parts: dict[tuple[str, ...], ListedSegments] = {}

    def take(self, names: tuple[str, ...]) -> ListedSegments:
        """The named segments, in that order."""
        rows = [self._rows.get(name, -1) for name in names]
        here = [row for row in rows if row >= 0]
        missing = tuple(name for name, row in zip(names, rows, strict=True) if row < 0)
        is_all = len(here) == len(self.segments) and here == list(range(len(here)))
        segments = self.segments if is_all else self.segments.take(np.array(here, np.int64))
        return ListedSegments(segments, missing, self._slots[here])

    def let_go(self) -> None:
        """Nobody reads it any more; what stays of it serves the next snapshot."""
        parts, self.parts = self.parts, {}
        for part in parts.values():
            part.segments.let_go()
        self.segments.let_go()
        for segment in self.held:
            segment.release()


class KeptLists:
    """Which lists of which snapshots are kept: those that were asked for last. Its callers hold the registry's lock."""

    def __init__(self) -> None:
        # By id of what was made of a list: to hash thousands of names once more costs more than a query of them.
        self._recent: OrderedDict[int, _KeptList] = OrderedDict()
        self._num_kept = 0
        self._num_served = 0

    def begin(self, snapshot: Snapshot) -> None:
        """It is asked from now on, until it is forgotten."""
        self._num_served += len(snapshot.held)

    def part(self, snapshot: Snapshot, names: tuple[str, ...]) -> ListedSegments:
        """The named segments of a snapshot, in that order."""
        part = snapshot.parts.get(names)
        if part is not None:
            self._recent.move_to_end(id(part))
            return part
        part = snapshot.parts[names] = snapshot.take(names)
        kept = self._recent[id(part)] = _KeptList(snapshot, names, len(names) + _SEGMENTS_OF_A_LIST)
        self._num_kept += kept.counted
        most = max(KEPT_SEGMENTS_MIN, KEPT_SHARE * self._num_served)
        while self._num_kept > most and len(self._recent) > 1:
            _, oldest = self._recent.popitem(last=False)
            self._num_kept -= oldest.counted
            del oldest.snapshot.parts[oldest.names]
        return part

    def forget(self, snapshot: Snapshot) -> None:
        """It is retired: its lists stay with it until it lets go."""
        self._num_served -= len(snapshot.held)
        for part in snapshot.parts.values():
            self._num_kept -= self._recent.pop(id(part)).counted


class _KeptList(NamedTuple):
    """counted: how many segments it counts as."""

    snapshot: Snapshot
    names: tuple[str, ...]
    counted: int
