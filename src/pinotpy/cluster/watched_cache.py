"""A read-through cache of nodes that watches what it holds.

Code above reads the whole of what it needs, every time, as if nothing were cached; only what changed since goes over
the wire. An entry is valid until its watch fires; `invalidate_all` makes the next pass read everything again (the
periodic reconcile: watches are hints). Unchanged content keeps its decoded object, so that users may compare by
identity.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pinotpy.cluster.buckets import layout_of, merge
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.store import ClusterStore
from pinotpy.errors import ConnectionLostError, DecodeError

logger = logging.getLogger(__name__)

T = TypeVar("T")
Decode = Callable[[bytes, str], T]
_READ_ATTEMPTS = 3
# Entries that no pass asked for so many passes are dropped.
_IDLE_PASSES_MAX = 50


@dataclass(slots=True)
class _Entry:
    value: Any
    modified_id: int
    last_pass: int


@dataclass(frozen=True, slots=True)
class Unreadable:
    """In the place of what could not be read: why."""

    cause: str


_EMPTY = Unreadable("the record is empty: put back in ZooKeeper what it was")


class WatchedCache:
    """One reader thread calls the read methods; hints may come on any thread and call `on_change`."""

    def __init__(self, store: ClusterStore, on_change: Callable[[], None]) -> None:
        self._store = store
        self._on_change = on_change
        self._data: dict[str, _Entry] = {}
        self._children: dict[str, _Entry] = {}
        self._dirty_data: set[str] = set()
        self._dirty_children: set[str] = set()
        self._bucket_faults: dict[str, Unreadable] = {}
        self._merged: dict[str, tuple[tuple[ZNRecord, ...], ZNRecord]] = {}
        self._pass = 0

    def invalidate_all(self) -> None:
        self._dirty_data.update(self._data)
        self._dirty_children.update(self._children)

    def invalidate_children(self, path: str) -> None:
        if path in self._children:
            self._dirty_children.add(path)

    def invalidate(self, paths: Iterable[str]) -> None:
        """Read these nodes anew, with the buckets that they have: their hints may be on the way still."""
        for path in paths:
            entry = self._data.get(path)
            if entry is None:
                continue
            self._dirty_data.add(path)
            if isinstance(entry.value, ZNRecord):
                self._dirty_data.update(
                    where for where in layout_of(entry.value).bucket_paths(path) if where in self._data
                )

    def end_pass(self) -> None:
        """Forget what has not been asked for in a long time."""
        self._pass += 1
        if self._pass % _IDLE_PASSES_MAX:
            return
        for entries, dirty in ((self._data, self._dirty_data), (self._children, self._dirty_children)):
            for path in [path for path, entry in entries.items() if self._pass - entry.last_pass > _IDLE_PASSES_MAX]:
                del entries[path]
                dirty.discard(path)
                self._merged.pop(path, None)

    def children(self, path: str) -> tuple[str, ...]:
        """Names of children, sorted; empty when there is no node."""
        return self.children_many([path])[0]

    def children_many(self, paths: Sequence[str]) -> list[tuple[str, ...]]:
        stale = self._stale(paths, self._children, self._dirty_children)
        if stale:
            with _Refresh(stale, self._dirty_children):
                for path, names in zip(stale, self._store.children_many(stale, self._children_changed), strict=True):
                    if names is None:
                        self._children.pop(path, None)
                    else:
                        self._children[path] = _Entry(tuple(names), 0, self._pass)
        return [self._touched(self._children, path) or () for path in paths]

    def read(self, paths: Sequence[str], decode: Decode[T]) -> list[T | None]:
        """Decoded data of each node; None where there is none, or it is empty or cannot be read: one bad node must not
        hide the others.
        """
        stale = self._stale(paths, self._data, self._dirty_data)
        if stale:
            with _Refresh(stale, self._dirty_data):
                for path, node in zip(stale, self._store.get_many(stale, self._data_changed), strict=True):
                    if node is None:
                        self._data.pop(path, None)
                        continue
                    data, stat = node
                    old = self._data.get(path)
                    if old is None or old.modified_id != stat.modified_id:
                        self._data[path] = _Entry(_decoded(data, path, decode), stat.modified_id, self._pass)
        return [self._touched(self._data, path) for path in paths]

    def read_resources(self, paths: Sequence[str]) -> list[ZNRecord | None]:
        """Whole records of resources, with their buckets."""
        mains = self.read(paths, ZNRecord.from_bytes)
        return [
            main if main is None or not layout_of(main).num_buckets else self._with_buckets(path, main)
            for path, main in zip(paths, mains, strict=True)
        ]

    def _with_buckets(self, path: str, main: ZNRecord) -> ZNRecord | None:
        current: ZNRecord | None = main
        for _ in range(_READ_ATTEMPTS):
            if current is None:
                return None
            paths = layout_of(current).bucket_paths(path)
            buckets = self.read(paths, ZNRecord.from_bytes)
            self._bucket_faults.pop(path, None)
            for where, bucket in zip(paths, buckets, strict=True):
                if bucket is None and (fault := self.fault(where)) is not None:
                    self._bucket_faults[path] = fault
                    return None
            parts = (current, *(bucket for bucket in buckets if bucket is not None))
            if len(parts) == len(buckets) + 1:
                known = self._merged.get(path)
                if (
                    known is None
                    or len(known[0]) != len(parts)
                    or any(old is not new for old, new in zip(known[0], parts, strict=True))
                ):
                    known = (parts, merge(parts[0], parts[1:]))
                    self._merged[path] = known
                return known[1]
            self._dirty_data.add(path)  # cut anew between the two reads
            current = self.read([path], ZNRecord.from_bytes)[0]
        raise ConnectionLostError(
            f"the buckets of '{path}' keep changing while they are read; reading again", path=path
        )

    def fault(self, path: str) -> Unreadable | None:
        """Why the record that was read last is None although its node is there; None if the node is not."""
        entry = self._data.get(path)
        if entry is None:
            return None
        return entry.value if isinstance(entry.value, Unreadable) else self._bucket_faults.get(path, _EMPTY)

    def _stale(self, paths: Sequence[str], entries: dict[str, _Entry], dirty: set[str]) -> list[str]:
        return [path for path in paths if path not in entries or path in dirty]

    def _touched(self, entries: dict[str, _Entry], path: str) -> Any:
        entry = entries.get(path)
        if entry is None:
            return None
        entry.last_pass = self._pass
        return None if isinstance(entry.value, Unreadable) else entry.value

    def _data_changed(self, path: str) -> None:
        self._dirty_data.add(path)
        self._on_change()

    def _children_changed(self, path: str) -> None:
        self._dirty_children.add(path)
        self._on_change()

    @property
    def is_clean(self) -> bool:
        """Whether everything held is current, as far as hints told."""
        return not self._dirty_data and not self._dirty_children


def _decoded(data: bytes, path: str, decode: Decode[T]) -> T | Unreadable | None:
    try:
        return decode(data, path) if data else None
    except DecodeError as error:
        logger.warning("leaving out a record that cannot be read path=%s cause=%s", path, error)
        return Unreadable(error.message)


class _Refresh:
    """Marks paths clean before they are read, so that a hint during the read marks them again; a failed read marks all
    again.
    """

    def __init__(self, paths: list[str], dirty: set[str]) -> None:
        self._paths, self._dirty = paths, dirty

    def __enter__(self) -> None:
        self._dirty.difference_update(self._paths)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is not None:
            self._dirty.update(self._paths)
