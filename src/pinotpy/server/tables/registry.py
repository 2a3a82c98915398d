"""The segments that are open for queries, by table; a query holds what it reads.

Swaps are atomic per segment: a query that acquired the old version finishes on it, the next one gets the new version.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pinotpy.segment.immutable import ImmutableSegment


@dataclass(frozen=True, slots=True)
class Acquired:
    """Segments held for one query, in the order asked for, and the names that are not here."""

    segments: tuple[ImmutableSegment, ...]
    missing: tuple[str, ...]


class SegmentRegistry:
    """Shared by query threads and transition threads; the lock guards `_tables` and is never held while loading."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: dict[str, dict[str, ImmutableSegment]] = {}

    def put(self, table: str, segment: ImmutableSegment) -> None:
        """Add or replace a segment; the replaced one closes when its last query lets go."""
        with self._lock:
            old = self._tables.setdefault(table, {}).get(segment.name)
            self._tables[table][segment.name] = segment
        if old is not None and old is not segment:
            old.close()

    def remove(self, table: str, segment_name: str) -> bool:
        """Take a segment out; return whether it was here."""
        with self._lock:
            segments = self._tables.get(table, {})
            old = segments.pop(segment_name, None)
            if not segments:
                self._tables.pop(table, None)
        if old is not None:
            old.close()
        return old is not None

    def tables(self) -> list[str]:
        with self._lock:
            return sorted(self._tables)

    def segments(self, table: str) -> dict[str, ImmutableSegment]:
        """A copy of the table's segments by name."""
        with self._lock:
            return dict(self._tables.get(table, {}))

    def num_docs(self, table: str, names: Sequence[str]) -> int:
        """Docs of the named segments that are here."""
        with self._lock:
            here = self._tables.get(table, {})
            return sum(here[name].num_docs for name in names if name in here)

    @contextmanager
    def acquire(self, table: str, names: Sequence[str]) -> Iterator[Acquired]:
        """Hold the named segments while the block runs."""
        held: list[ImmutableSegment] = []
        missing: list[str] = []
        with self._lock:
            here = self._tables.get(table, {})
            for name in names:
                segment = here.get(name)
                if segment is not None and segment.acquire():
                    held.append(segment)
                else:
                    missing.append(name)
        try:
            yield Acquired(tuple(held), tuple(missing))
        finally:
            for segment in held:
                segment.release()

    def close(self) -> None:
        """Close everything (at shutdown, after queries have drained)."""
        with self._lock:
            segments = [segment for table in self._tables.values() for segment in table.values()]
            self._tables.clear()
        for segment in segments:
            segment.close()
