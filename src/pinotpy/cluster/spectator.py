"""The view of the cluster that a broker or server has: one immutable `ClusterView`, replaced as a whole when anything
changes.

Watches update the view within milliseconds; a periodic full pass re-reads everything. If the store is unreachable, the
last view stays, and `age_ms` says since when it is unconfirmed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

from pinotpy.clock import Clock, SystemClock
from pinotpy.cluster.instance_partitions import InstancePartitions, instance_partitions_from_record
from pinotpy.cluster.lineage_reader import LineageReader
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.property_store import schema_from_record, table_config_from_record
from pinotpy.cluster.reconcile_loop import ReconcileLoop
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.segment_lineage import SegmentLineage
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.store import ClusterStore, SessionEvent, SessionState
from pinotpy.cluster.views import ExternalView, IdealState, InstanceConfig, LiveInstance
from pinotpy.cluster.watched_cache import Unreadable, WatchedCache
from pinotpy.errors import ConnectionLostError, PinotError

logger = logging.getLogger(__name__)

PERIOD_S = 1.0
FULL_PERIOD_S = 60.0
LINEAGE_ATTEMPTS_MAX = 5

T = TypeVar("T")
Changed = Callable[["ClusterView"], None]


@dataclass(frozen=True, slots=True)
class ClusterView:
    """One state of the cluster. Values of what did not change are the same objects as in the view before: compare with
    `is`.

    `version` grows by one with each view. `segments` holds the records of every table's segments, `lineages` what
    replaces what among them, `instance_partitions` the replica groups that are stored, if the spectator was asked for
    them. Keys are names with type for tables, schema names for
    schemas, instance ids for instances.
    unreadable: (part, key) → why a record that is there could not be read; of a segment's, the key is `table/segment`.
    """

    version: int = 0
    external_views: Mapping[str, ExternalView] = field(default_factory=dict)
    ideal_states: Mapping[str, IdealState] = field(default_factory=dict)
    live_instances: Mapping[str, LiveInstance] = field(default_factory=dict)
    instance_configs: Mapping[str, InstanceConfig] = field(default_factory=dict)
    table_configs: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    schemas: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    segments: Mapping[str, Mapping[str, SegmentZkMetadata]] = field(default_factory=dict)
    lineages: Mapping[str, SegmentLineage] = field(default_factory=dict)
    instance_partitions: Mapping[str, InstancePartitions] = field(default_factory=dict)
    unreadable: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def has_table(self, name: str) -> bool:
        """Whether there is a config of this name with type, readable or not."""
        return name in self.table_configs or ("table_configs", name) in self.unreadable

    def table_names(self) -> set[str]:
        """All that `has_table` is true of."""
        return {*self.table_configs, *(name for part, name in self.unreadable if part == "table_configs")}


_PARTS = (
    "external_views",
    "ideal_states",
    "live_instances",
    "instance_configs",
    "table_configs",
    "schemas",
    "segments",
    "lineages",
    "instance_partitions",
    "unreadable",
)


class Spectator:
    """Keeps the newest view. `start` reads the first one (blocking) and follows on a thread; or call `step` yourself.

    Args:
        with_segments: also keep all segments' records (brokers: when they were pushed; a second per 10 k at start), and
            what else only brokers ask for.
        on_change: called on the spectator's thread with each new view; must be quick.
    """

    def __init__(
        self,
        store: ClusterStore,
        paths: ClusterPaths,
        *,
        with_segments: bool = False,
        on_change: Changed | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._store = store
        self._paths = paths
        self._with_segments = with_segments
        self._on_change = on_change
        self._clock = clock or SystemClock()
        self._loop = ReconcileLoop(
            "spectator", self.step, period_s=PERIOD_S, full_period_s=FULL_PERIOD_S, clock=self._clock
        )
        self._cache = WatchedCache(store, self._loop.hint)
        self._view = ClusterView()
        self._typed: dict[str, tuple[object, Any]] = {}  # path → (record, its typed form)
        self._unreadable: dict[tuple[str, str], str] = {}  # that the pass has met so far
        self._lineages = LineageReader(self._cache, paths)
        self._segment_maps: dict[str, tuple[tuple[Any, ...], Mapping[str, SegmentZkMetadata]]] = {}
        self._confirmed_ns: int | None = None

    @property
    def view(self) -> ClusterView:
        return self._view

    @property
    def age_ms(self) -> int | None:
        """Milliseconds since the view was last confirmed against the store; None before the first. About PERIOD_S at
        most when all is well.
        """
        confirmed_ns = self._confirmed_ns
        return None if confirmed_ns is None else max(0, (self._clock.monotonic_ns() - confirmed_ns) // 1_000_000)

    def start(self) -> None:
        """Raises ConnectionLostError when the first view cannot be read."""
        self._store.add_session_listener(self._on_session)
        self.step()
        self._loop.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        self._loop.stop(timeout_s)
        self._store.remove_session_listener(self._on_session)

    def hint(self) -> None:
        """Look again soon."""
        self._loop.hint()

    def step(self, is_full: bool = True) -> None:
        """Read what changed and swap the view if anything did. Raises ConnectionLostError and keeps the old view."""
        if self._store.state is not SessionState.CONNECTED:
            return
        if is_full:
            self._cache.invalidate_all()
        started_ns = self._clock.monotonic_ns()
        parts = self._read()
        self._cache.end_pass()
        self._confirmed_ns = started_ns
        old = self._view
        fields = {
            name: getattr(old, name) if _is_same(getattr(old, name), parts[name]) else MappingProxyType(parts[name])
            for name in _PARTS
        }
        if old.version and all(fields[name] is getattr(old, name) for name in _PARTS):
            return
        self._view = ClusterView(old.version + 1, **fields)
        if self._on_change is not None:
            self._on_change(self._view)

    def _read(self) -> dict[str, dict[Any, Any]]:
        """Read all parts. For each table, `lineages` (which segments replace which), `ideal_states` and
        `external_views` come from one point in time: the lineage read before and after them is the same, and they are
        not older than it. Otherwise queries could see old and new segments together, or neither.
        """
        if not self._with_segments:
            return self._read_parts()
        for _ in range(LINEAGE_ATTEMPTS_MAX):
            lineages = self._lineages.read()
            moved = _changed(lineages, self._view.lineages)
            self._cache.invalidate(
                path for table in moved for path in (self._paths.ideal_state(table), self._paths.external_view(table))
            )
            parts = self._read_parts()
            touched = (
                moved
                | _changed(parts["ideal_states"], self._view.ideal_states)
                | _changed(parts["external_views"], self._view.external_views)
            )
            if self._lineages.is_still(lineages, touched):
                return parts | {"lineages": lineages}
        raise ConnectionLostError("segment lineages keep changing while tables are read; reading again")

    def _read_parts(self) -> dict[str, dict[Any, Any]]:
        paths = self._paths
        typed: dict[str, tuple[object, Any]] = {}
        self._unreadable = {}
        parts: dict[str, dict[Any, Any]] = {
            # Live instances first: a view that shows a server as dead too early costs a replica, one too late costs a
            # retry.
            "live_instances": self._read_folder(
                "live_instances", paths.live_instances, LiveInstance.from_record, typed
            ),
            "external_views": self._read_folder(
                "external_views", paths.external_views, ExternalView.from_record, typed
            ),
            "ideal_states": self._read_folder("ideal_states", paths.ideal_states, IdealState.from_record, typed),
            "instance_configs": self._read_folder(
                "instance_configs", paths.instance_configs, InstanceConfig.from_record, typed
            ),
            "table_configs": self._read_folder("table_configs", paths.table_configs, table_config_from_record, typed),
            "schemas": self._read_folder("schemas", paths.schemas, schema_from_record, typed),
            "segments": self._read_segments(typed) if self._with_segments else {},
            "lineages": {},
            "instance_partitions": (
                self._read_folder(
                    "instance_partitions", paths.all_instance_partitions, instance_partitions_from_record, typed
                )
                if self._with_segments
                else {}
            ),
        }
        self._typed = typed
        parts["unreadable"] = self._unreadable
        return parts

    def _read_folder(
        self, part: str, folder: str, typed_of: Callable[[ZNRecord], T], typed: dict[str, tuple[object, Any]]
    ) -> dict[str, T]:
        names = self._cache.children(folder)
        paths = [f"{folder}/{name}" for name in names]
        records = self._cache.read_resources(paths)
        values: dict[str, T] = {}
        for name, path, record in zip(names, paths, records, strict=True):
            value = self._cache.fault(path) if record is None else self._typed_once(path, record, typed_of, typed)
            if isinstance(value, Unreadable):
                self._unreadable[part, name] = value.cause
            elif value is not None:
                values[name] = value
        return values

    def _read_segments(self, typed: dict[str, tuple[object, Any]]) -> dict[str, Mapping[str, SegmentZkMetadata]]:
        """table → segment → record; the map of a table whose records did not change is the same object as before."""
        tables = self._cache.children(self._paths.all_segments)
        listed = self._cache.children_many([self._paths.segments(table) for table in tables])
        maps: dict[str, tuple[tuple[Any, ...], Mapping[str, SegmentZkMetadata]]] = {}
        for table, names in zip(tables, listed, strict=True):
            paths = [self._paths.segment(table, name) for name in names]
            records = self._cache.read(paths, ZNRecord.from_bytes)
            for name, path, record in zip(names, paths, records, strict=True):
                if record is None and (fault := self._cache.fault(path)) is not None:
                    self._unreadable["segments", f"{table}/{name}"] = fault.cause
            known = self._segment_maps.get(table)
            if (
                known is not None
                and len(known[0]) == len(records)
                and all(a is b for a, b in zip(known[0], records, strict=True))
            ):
                maps[table] = known
                for path in paths:
                    if path in self._typed:
                        typed[path] = self._typed[path]
                continue
            values = {
                name: value
                for name, path, record in zip(names, paths, records, strict=True)
                if record is not None
                and (
                    value := self._typed_once(
                        path,
                        record,
                        lambda record, table=table: SegmentZkMetadata.from_record(record, table),  # type: ignore[misc]
                        typed,
                    )
                )
                and not isinstance(value, Unreadable)
            }
            maps[table] = (tuple(records), MappingProxyType(values))
        self._segment_maps = maps
        return {table: values for table, (_, values) in maps.items()}

    def _typed_once(
        self, path: str, record: ZNRecord, typed_of: Callable[[ZNRecord], T], typed: dict[str, tuple[object, Any]]
    ) -> T | Unreadable:
        """The typed form, made once per content; a record that cannot be read must not hide the others."""
        known = self._typed.get(path)
        if known is None or known[0] is not record:
            try:
                known = (record, typed_of(record))
            except PinotError as error:
                logger.warning("leaving out a record that cannot be read path=%s cause=%s", path, error)
                known = (record, Unreadable(error.message))
        typed[path] = known
        value: T | Unreadable = known[1]
        return value

    def _on_session(self, event: SessionEvent) -> None:
        if event.state is SessionState.CONNECTED:
            self._loop.hint()


def _changed(new: Mapping[str, Any], old: Mapping[str, Any]) -> set[str]:
    """Keys whose values are other objects."""
    return {key for key in new.keys() | old.keys() if new.get(key) is not old.get(key)}


def _is_same(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    return len(old) == len(new) and all(key in old and old[key] is value for key, value in new.items())
