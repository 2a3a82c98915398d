"""The states that an instance has, by resource and partition, and how much of them is stored in its session (its
current states).

The states in memory are authoritative: what a session stored disappears with it, and is written again in the next.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from pinotpy.cluster.buckets import StoredRecord, in_multis, plan_write, read_record
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.store import ClusterStore
from pinotpy.cluster.views import CONSUMING, DROPPED, ERROR, ONLINE, CurrentState, PartitionState

INFO_CHARS_MAX = 1000


@dataclass(slots=True)
class _Resource:
    """States of one resource, and what is stored of them in the current session."""

    state_model: str
    partitions: dict[str, PartitionState] = field(default_factory=dict)
    is_dirty: bool = True
    stored: StoredRecord | None = None


@dataclass(frozen=True, slots=True)
class ChangedResource:
    """A resource whose states are to be written, as they were when they were taken."""

    name: str
    state_model: str
    partitions: dict[str, PartitionState]
    stored: StoredRecord | None


class OwnStates:
    """`lock` is the participant's, under which a state and the message that led to it change together: `entry`, `set`,
    `serve`, `promise`, `take_changed` and `put_back` are called with it held, the others take it. `write` is called by
    one thread.
    """

    def __init__(self, store: ClusterStore, paths: ClusterPaths, instance: str, lock: threading.Lock) -> None:
        self._store, self._paths, self._instance, self._lock = store, paths, instance, lock
        self._resources: dict[str, _Resource] = {}
        # By resource and partition, which content is served, of those of which it is told.
        self._contents: dict[tuple[str, str], str] = {}
        # Likewise, what the rows of those that take rows keep to.
        self._promises: dict[tuple[str, str], str] = {}
        self._session = ""

    def of(self, resource: str) -> dict[str, str]:
        """partition → state."""
        with self._lock:
            known = self._resources.get(resource)
            return {name: entry.state for name, entry in known.partitions.items()} if known else {}

    def fail(self, resource: str, partition: str, reason: str, now_ms: int) -> bool:
        """A partition can no longer be served: set it to ERROR. False, and nothing changes, if it is not here."""
        with self._lock:
            entry = self._resources.get(resource)
            if entry is None or partition not in entry.partitions:
                return False
            before = entry.partitions[partition].state
            entry.partitions[partition] = PartitionState(
                ERROR, before, now_ms, now_ms, reason[:INFO_CHARS_MAX], self._instance
            )
            entry.is_dirty = True
            return True

    def begin_session(self, session: str) -> None:
        """Nothing is stored in a new session: all of it is to be written."""
        with self._lock:
            for resource in self._resources.values():
                resource.is_dirty, resource.stored = True, None
        self._session = session

    def entry(self, resource: str, partition: str) -> PartitionState | None:
        """The state of one partition; None if the instance does not have it."""
        entry = self._resources.get(resource)
        return entry.partitions.get(partition) if entry else None

    def set(self, resource_name: str, state_model: str, partition: str, entry: PartitionState) -> None:
        """A transition was made, or failed."""
        resource = self._resources.setdefault(resource_name, _Resource(state_model))
        resource.is_dirty = True
        if entry.state == DROPPED:
            resource.partitions.pop(partition, None)
            self._contents.pop((resource_name, partition), None)
            self._promises.pop((resource_name, partition), None)
        else:
            if entry.state != CONSUMING:
                self._promises.pop((resource_name, partition), None)  # of the rows that were read
            content = self._told_in(entry.state).get((resource_name, partition), "")
            resource.partitions[partition] = replace(entry, content=content) if content else entry

    def serve(self, resource_name: str, partition: str, content: str) -> bool:
        """Another content of a partition is served, or will be when it is ONLINE; empty: it is not told which. Whether
        that is to be written.
        """
        return self._tell(ONLINE, resource_name, partition, content)

    def promise(self, resource_name: str, partition: str, promise: str) -> bool:
        """Likewise, of a partition that is CONSUMING, or will be: what all its rows keep to (StreamPromise.text)."""
        return self._tell(CONSUMING, resource_name, partition, promise)

    def _told_in(self, state: str) -> dict[tuple[str, str], str]:
        return {ONLINE: self._contents, CONSUMING: self._promises}.get(state, {})

    def _tell(self, state: str, resource_name: str, partition: str, content: str) -> bool:
        told, key = self._told_in(state), (resource_name, partition)
        if content:
            told[key] = content
        else:
            told.pop(key, None)
        resource = self._resources.get(resource_name)
        entry = None if resource is None else resource.partitions.get(partition)
        if resource is None or entry is None or entry.state != state or entry.content == content:
            return False
        resource.partitions[partition] = replace(entry, content=content)
        resource.is_dirty = True
        return True

    def take_changed(self) -> list[ChangedResource]:
        """The resources that changed since they were written; from here on they count as written."""
        resources = [
            ChangedResource(name, resource.state_model, dict(resource.partitions), resource.stored)
            for name, resource in self._resources.items()
            if resource.is_dirty
        ]
        for changed in resources:
            self._resources[changed.name].is_dirty = False
        return resources

    def write(self, changes: Iterable[ChangedResource]) -> None:
        """Store them. Raises ClusterError: then they are for `put_back`."""
        for changed in changes:
            stored = self._write_one(changed)
            with self._lock:
                resource = self._resources[changed.name]
                resource.stored = stored
                if not resource.partitions and stored is None and not resource.is_dirty:
                    del self._resources[changed.name]

    def put_back(self, changes: Iterable[ChangedResource]) -> None:
        """Mark as changed again what could not be written."""
        for changed in changes:
            resource = self._resources.get(changed.name)
            if resource is not None:
                resource.is_dirty, resource.stored = True, None

    def _write_one(self, changed: ChangedResource) -> StoredRecord | None:
        path = self._paths.current_state(self._instance, self._session, changed.name)
        stored = changed.stored or read_record(self._store, path)
        if not changed.partitions:
            if stored is not None:
                self._store.delete(path, recursive=True)
            return None
        record = CurrentState(changed.name, self._session, changed.state_model, changed.partitions).to_record()
        plan = plan_write(path, stored, record, show_bucket_size=True)
        for ops in plan.transactions():
            self._store.multi(ops)
        for ops in in_multis(plan.cleanup):
            self._store.multi(ops)
        return read_record(self._store, path) if plan.prepare or stored is None else stored.after(plan, record)
