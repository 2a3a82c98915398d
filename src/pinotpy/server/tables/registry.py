"""The segments that are open for queries, by table. A query holds a reference to what it reads.

Swaps are atomic per segment: a query that acquired the old version finishes on it, the next one gets the new version.
Queries don't hold segments one by one: the registry keeps a **snapshot** of each table, a SegmentSet that holds all its
segments, and a query holds the snapshot. When a segment is added, removed or replaced, the snapshot is retired: the
next query gets a new one, and the old one releases its segments when its last query ends.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np

from pinotpy.query.segments.segment_set import SegmentSet
from pinotpy.segment.immutable import ImmutableSegment

# Lists of segments that a snapshot remembers: brokers ask most queries of a table for the same ones.
PARTS_KEPT_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class Acquired:
    """Segments held for one query, in the order asked for, and the names that are not here."""

    segments: SegmentSet
    missing: tuple[str, ...]


class _Snapshot:
    """All segments of a table at one time, held. The registry's lock guards `num_holders` and `is_retired`."""

    def __init__(self, segments: dict[str, ImmutableSegment], previous: _Snapshot | None) -> None:
        held = [segment for segment in segments.values() if segment.acquire()]
        self.segments: SegmentSet = SegmentSet(held, None if previous is None else previous.segments)
        self.num_holders = 0
        self.is_retired = False
        self._held = held
        self._rows = {segment.name: row for row, segment in enumerate(held)}
        self._parts: dict[tuple[str, ...], Acquired] = {}

    def part(self, names: tuple[str, ...]) -> Acquired:
        """The named segments, in that order."""
        acquired = self._parts.get(names)
        if acquired is None:
            rows = [self._rows.get(name, -1) for name in names]
            here = [row for row in rows if row >= 0]
            missing = tuple(name for name, row in zip(names, rows, strict=True) if row < 0)
            segments = (
                self.segments
                if here == list(range(len(self.segments)))
                else self.segments.take(np.array(here, np.int64))
            )
            acquired = Acquired(segments, missing)
            parts = self._parts
            if len(parts) >= PARTS_KEPT_MAX:
                parts = {}
            # A new dict, so that threads that read the old one are not disturbed.
            self._parts = parts | {names: acquired}
        return acquired

    def let_go(self) -> None:
        """Nobody reads it any more; what stays of it serves the next snapshot."""
        for acquired in self._parts.values():
            acquired.segments.let_go()
        self.segments.let_go()
        for segment in self._held:
            segment.release()


class SegmentRegistry:
    """Shared by query threads and transition threads; the lock guards the tables and is never held while loading."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: dict[str, dict[str, ImmutableSegment]] = {}
        self._snapshots: dict[str, _Snapshot] = {}
        # What the next snapshot of a table takes its arrays over from.
        self._retired: dict[str, _Snapshot] = {}

    def put(self, table: str, segment: ImmutableSegment) -> None:
        """Add or replace a segment; the replaced one closes when its last query releases it."""
        with self._lock:
            old = self._tables.setdefault(table, {}).get(segment.name)
            self._tables[table][segment.name] = segment
            free = self._retire(table)
        self._close(free, [] if old is segment else [old])

    def remove(self, table: str, segment_name: str) -> bool:
        """Take a segment out; return whether it was here."""
        with self._lock:
            segments = self._tables.get(table, {})
            old = segments.pop(segment_name, None)
            free = self._retire(table)
            if not segments:
                self._tables.pop(table, None)
                self._retired.pop(table, None)
        self._close(free, [old])
        return old is not None

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
        """Docs of the named segments that are here."""
        with self._lock:
            snapshot = self._snapshot(table)
            return 0 if snapshot is None else snapshot.part(tuple(names)).segments.total_docs

    @contextmanager
    def acquire(self, table: str, names: Sequence[str]) -> Iterator[Acquired]:
        """Hold the named segments while the block runs."""
        with self._lock:
            snapshot = self._snapshot(table)
            if snapshot is not None:
                snapshot.num_holders += 1
        if snapshot is None:
            yield Acquired(SegmentSet(()), tuple(names))
            return
        try:
            yield snapshot.part(tuple(names))
        finally:
            with self._lock:
                snapshot.num_holders -= 1
                is_last = snapshot.is_retired and snapshot.num_holders == 0
            if is_last:
                snapshot.let_go()

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

    def _snapshot(self, table: str) -> _Snapshot | None:
        """The table's snapshot, created if the segments changed; None if there is no such table. The caller holds the
        lock.
        """
        snapshot = self._snapshots.get(table)
        if snapshot is None and table in self._tables:
            snapshot = self._snapshots[table] = _Snapshot(self._tables[table], self._retired.pop(table, None))
        return snapshot

    def _retire(self, table: str) -> _Snapshot | None:
        """Retire the table's snapshot; returns it if nobody holds it: the caller then releases it outside the lock."""
        old = self._snapshots.pop(table, None)
        if old is None:
            return None
        old.is_retired = True
        self._retired[table] = old
        return old if old.num_holders == 0 else None

    @staticmethod
    def _close(snapshot: _Snapshot | None, segments: Sequence[ImmutableSegment | None]) -> None:
        if snapshot is not None:
            snapshot.let_go()
        for segment in segments:
            if segment is not None:
                segment.close()
