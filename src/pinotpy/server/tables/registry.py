"""The segments that are open for queries, by table. A query holds a reference to what it reads.

Swaps are atomic per segment: a query that acquired the old version finishes on it, the next one gets the new version.
Queries don't hold segments one by one: the registry keeps a **snapshot** of each table, a SegmentSet that holds all its
segments, and a query holds the snapshot. When a segment is added, removed or replaced, the snapshot is retired: the
next query gets a new one, and the old one releases its segments when its last query ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pinotpy.query.explain.plans import num_pruned, without_docs
from pinotpy.query.result.explained_groups import merge_groups
from pinotpy.query.result.partial import OffsetRange, PartialResult
from pinotpy.query.segments.segment_set import SegmentSet
from pinotpy.query.segments.segment_sets import SegmentSets
from pinotpy.segment.immutable import ImmutableSegment
from pinotpy.server.tables.consuming_view import ReadPartition, consuming_view
from pinotpy.server.tables.frozen_set import held_frozen_set
from pinotpy.server.tables.reading_marks import ReadingMarks
from pinotpy.server.tables.snapshot import KeptLists, Snapshot


@dataclass(frozen=True, slots=True)
class Acquired:
    """Segments held for one query, in the order asked for, and the names that are not here.

    offsets: see ConsumingView.
    num_segments: of queries' counters; a segment that consumes has several pieces among `segments`, or none yet.
    without_rows: names of consuming segments that have none yet.
    """

    segments: SegmentSet | SegmentSets
    missing: tuple[str, ...]
    offsets: tuple[OffsetRange, ...] = ()
    num_segments: int = -1
    without_rows: tuple[str, ...] = ()

    def in_segments(self, partial: PartialResult, *, is_explained: bool) -> None:
        """Counters of segments, of what was counted of pieces. is_explained: the query was planned and not run."""
        if self.num_segments < 0:
            return
        statistics = partial.statistics
        statistics.num_segments_queried = self.num_segments
        if is_explained:
            groups = [*(partial.explain or []), *without_docs(self.without_rows)]
            partial.explain, statistics.num_segments_pruned = merge_groups(groups), num_pruned(groups)
            return
        statistics.num_consuming_segments_processed = len(statistics.parts_processed)
        statistics.num_consuming_segments_matched = len(statistics.parts_matched)
        statistics.num_segments_processed += statistics.num_consuming_segments_processed
        statistics.num_segments_matched += statistics.num_consuming_segments_matched
        if not partial.exceptions:
            statistics.num_segments_pruned = self.num_segments - statistics.num_segments_processed


class SegmentRegistry:
    """Shared by query threads and transition threads; the lock guards the tables and is never held while loading.

    partitions: set once, before queries: partition → what is read of it, by table.
    marks: the same: where it is told what queries read.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.marks: ReadingMarks | None = None
        self._slots: dict[int, int] = {}  # id of a segment that is served → its slot
        self.partitions: Callable[[str], Mapping[int, ReadPartition]] = _no_partitions
        self._tables: dict[str, dict[str, ImmutableSegment]] = {}
        self._snapshots: dict[str, Snapshot] = {}
        self._kept_lists = KeptLists()
        # What the next snapshot of a table takes its arrays over from.
        self._retired: dict[str, Snapshot] = {}
        # Segments that were found damaged, until something else is here in their place, by table and name.
        self._withdrawn: dict[tuple[str, str], ImmutableSegment] = {}
        # Where segments that were read of a stream start and end in it, as text, by table and name.
        self._offsets: dict[tuple[str, str], tuple[str, str]] = {}

    def put(self, table: str, segment: ImmutableSegment, offsets: tuple[str, str] | None = None) -> None:
        """Add or replace a segment; the replaced one closes when its last query releases it. `offsets`: of a segment
        that was read of a stream, where it starts and ends there.
        """
        with self._lock:
            if offsets is not None:
                self._offsets[table, segment.name] = offsets
            old = self._tables.setdefault(table, {}).get(segment.name)
            self._tables[table][segment.name] = segment
            if self.marks is not None and old is not segment:
                self._slots[id(segment)] = self.marks.slot(table, segment.name)
                self._slots.pop(id(old), None)
            self._withdrawn.pop((table, segment.name), None)
            free = self._retire(table)
        self._close(free, [] if old is segment else [old])

    def remove(self, table: str, segment_name: str) -> bool:
        """Take a segment out; return whether it was here."""
        with self._lock:
            self._withdrawn.pop((table, segment_name), None)
            free, old = self._take_out(table, segment_name)
        self._close(free, [old])
        return old is not None

    def withdraw(self, table: str, segment: ImmutableSegment) -> bool:
        """Take a segment that was found damaged out, until `put` or `remove` of its name; False if it is not the one
        that is here.
        """
        with self._lock:
            if self._tables.get(table, {}).get(segment.name) is not segment:
                return False
            free, old = self._take_out(table, segment.name)
            self._withdrawn[table, segment.name] = segment
        self._close(free, [old])
        return True

    def is_withdrawn(self, table: str, segment: ImmutableSegment) -> bool:
        """Whether `withdraw` took this one out and nothing has happened to its name since."""
        with self._lock:
            return self._withdrawn.get((table, segment.name)) is segment

    def _take_out(self, table: str, segment_name: str) -> tuple[Snapshot | None, ImmutableSegment | None]:
        segments = self._tables.get(table, {})
        old = segments.pop(segment_name, None)
        self._offsets.pop((table, segment_name), None)
        self._slots.pop(id(old), None)
        free = self._retire(table)
        if not segments:
            self._tables.pop(table, None)
            self._retired.pop(table, None)
        return free, old

    def tables(self) -> list[str]:
        with self._lock:
            return sorted(self._tables)

    def segments(self, table: str) -> dict[str, ImmutableSegment]:
        """A copy of the table's segments by name."""
        with self._lock:
            return dict(self._tables.get(table, {}))

    def segment(self, table: str, name: str) -> ImmutableSegment | None:
        """One segment; None: it is not here."""
        with self._lock:
            return self._tables.get(table, {}).get(name)

    def num_docs(self, table: str, names: Sequence[str]) -> int:
        """Docs of the named segments that are here as sealed ones, and all of the table's that are not sealed."""
        with self._lock:
            snapshot = self._snapshot(table)
            num_docs = 0 if snapshot is None else self._kept_lists.part(snapshot, tuple(names)).segments.total_docs
        for partition in self.partitions(table).values():
            view = partition.log_view()
            num_docs += view.watermark.num_rows - view.segments[0].first_row
        return num_docs

    @contextmanager
    def acquire(self, table: str, names: Sequence[str], num_consuming: int = 0) -> Iterator[Acquired]:
        """Hold the named segments while the block runs; the last `num_consuming` are members of partitions' chains
        (consuming_view.py).
        """
        if num_consuming:
            with self._acquire_consuming(table, names, num_consuming) as acquired:
                yield acquired
            return
        with self._lock:
            snapshot = self._snapshot(table)
            if snapshot is not None:
                snapshot.num_holders += 1
                part = self._kept_lists.part(snapshot, tuple(names))
                if self.marks is not None:
                    self.marks.begin(part.slots)
        if snapshot is None:
            yield Acquired(SegmentSet(()), tuple(names))
            return
        try:
            yield Acquired(part.segments, part.missing)
        finally:
            with self._lock:
                snapshot.num_holders -= 1
                if self.marks is not None:
                    self.marks.end(part.slots)
                is_last = snapshot.is_retired and snapshot.num_holders == 0
            if is_last:
                snapshot.let_go()

    @contextmanager
    def _acquire_consuming(self, table: str, names: Sequence[str], num_consuming: int) -> Iterator[Acquired]:
        num_sealed = len(names) - num_consuming

        def sealed_range(name: str) -> tuple[str, str] | None:
            return None if self.segment(table, name) is None else self._offsets.get((table, name), ("", ""))

        view = consuming_view(names[num_sealed:], self.partitions(table), sealed_range)
        tail = SegmentSet(view.tail, are_parts=True)
        with (
            self.acquire(table, [*names[:num_sealed], *view.sealed]) as sealed,
            held_frozen_set(view) as frozen,
        ):
            assert isinstance(sealed.segments, SegmentSet)
            with_rows = {piece.name for piece in (*view.frozen, *view.tail)}
            consuming = [each.segment for each in view.offsets if each.status != "DONE"]
            try:
                yield Acquired(
                    SegmentSets((sealed.segments, frozen, tail)),
                    (*sealed.missing, *view.missing),
                    tuple(view.offsets),
                    len(sealed.segments) + view.num_segments,
                    tuple(name for name in consuming if name not in with_rows),
                )
            finally:
                tail.let_go()

    def close(self) -> None:
        """Close everything (at shutdown, after queries have drained)."""
        with self._lock:
            segments = [segment for table in self._tables.values() for segment in table.values()]
            free = [self._retire(table) for table in list(self._snapshots)]
            self._tables.clear()
            self._retired.clear()
        for snapshot in free:
            self._close(snapshot, [])
        self._close(None, segments)

    def _snapshot(self, table: str) -> Snapshot | None:
        """The table's snapshot, created if the segments changed; None if there is no such table. The caller holds the
        lock.
        """
        snapshot = self._snapshots.get(table)
        if snapshot is None and table in self._tables:
            snapshot = self._snapshots[table] = Snapshot(
                self._tables[table], self._retired.pop(table, None), self._slots
            )
            self._kept_lists.begin(snapshot)
        return snapshot

    def _retire(self, table: str) -> Snapshot | None:
        """Retire the table's snapshot; returns it if nobody holds it: the caller then releases it outside the lock."""
        old = self._snapshots.pop(table, None)
        if old is None:
            return None
        old.is_retired = True
        self._kept_lists.forget(old)
        self._retired[table] = old
        return old if old.num_holders == 0 else None

    @staticmethod
    def _close(snapshot: Snapshot | None, segments: Sequence[ImmutableSegment | None]) -> None:
        if snapshot is not None:
            snapshot.let_go()
        for segment in segments:
            if segment is not None:
                segment.close()


def _no_partitions(table: str) -> Mapping[int, ReadPartition]:
    return {}
