"""The cluster's state as the controller reads and changes it: schemas, tables, segments, instances.

Reads go straight to the store; every change of a table goes through `cluster.table_state.apply` with this controller's
fences, so that a controller that no longer leads changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pinotpy.cluster import table_state
from pinotpy.cluster.buckets import read_record
from pinotpy.cluster.instance_partitions import InstancePartitionsRecords
from pinotpy.cluster.lineage import DEFAULT_AGES, Ages, LineageEvent
from pinotpy.cluster.paths import BROKER_RESOURCE, ClusterPaths
from pinotpy.cluster.property_store import PropertyStore, table_config_record
from pinotpy.cluster.records import ZNRecord, damaged_record
from pinotpy.cluster.segment_deletions import SegmentDeletions
from pinotpy.cluster.segment_lineage import SegmentLineage, lineage_from_bytes
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.segment_uploads import SegmentUploads
from pinotpy.cluster.store import Check, ClusterStore
from pinotpy.cluster.table_changes import (
    AddSegments,
    ChangeLineage,
    CreateTable,
    Deletion,
    DropTable,
    RemoveSegments,
    ReplaceConfig,
    ReplaceSegment,
    SetBrokers,
    SetTableEnabled,
    TableChange,
)
from pinotpy.cluster.views import ONLINE, IdealState, InstanceConfig, PartitionStates
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import InvalidConfigError, NoNodeError
from pinotpy.names import TableType, raw_table_name, table_name_with_type


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """A schema with the version to replace it by."""

    schema: Schema
    version: int


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table config with the version to replace it by, and what tells it from every other config of the table's name,
    also of a table that was deleted and made again.
    """

    config: TableConfig
    version: int
    modified_id: int


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """A segment's record with the version to replace it by."""

    segment: SegmentZkMetadata
    version: int


@dataclass(frozen=True, slots=True)
class StoredLineage:
    """A table's segment lineage with the version that decisions on it are bound to."""

    lineage: SegmentLineage
    version: int


class Catalog:
    """Safe to share between threads, as its store is. `fences` are asked for at each change (the leader's epoch)."""

    def __init__(self, store: ClusterStore, paths: ClusterPaths, fences: Callable[[], Sequence[Check]]) -> None:
        self.store, self.paths = store, paths
        self.fences = fences
        self._properties = PropertyStore(store, paths)
        self.deletions = SegmentDeletions(store, paths)
        self.uploads = SegmentUploads(store, paths)
        self.instance_partitions = InstancePartitionsRecords(store, paths)

    # Schemas

    def schema_names(self) -> list[str]:
        return self._properties.schema_names()

    def schema(self, name: str) -> StoredSchema | None:
        record = self._properties.schema(name)
        if record is None:
            return None
        with _stored_as(self.paths.schema(name)):
            return StoredSchema(Schema.from_json(record.value, is_stored=True), record.version)

    def schema_of_table(self, name: str) -> Schema | None:
        """The schema of a table, given with or without type; None if there is no such table or schema."""
        stored = self.schema(raw_table_name(name))
        return stored.schema if stored is not None else None

    def create_schema(self, schema: Schema) -> None:
        """Raises AlreadyExistsError."""
        self._properties.create_schema(schema.to_json_dict())

    def replace_schema(self, schema: Schema, version: int) -> None:
        """Raises NotFoundError, StaleVersionError."""
        self._properties.replace_schema(schema.to_json_dict(), version)

    def delete_schema(self, name: str) -> None:
        self._properties.delete_schema(name)

    # Tables

    def table_names(self) -> list[str]:
        """All tables, with type, sorted."""
        return self._properties.table_names()

    def tables_of(self, raw_name: str) -> list[str]:
        """The halves of a table that exist."""
        return [name for name in self.table_names() if raw_table_name(name) == raw_name]

    def table_config(self, name: str) -> StoredTable | None:
        record = self._properties.table_config(name)
        if record is None:
            return None
        with _stored_as(self.paths.table_config(name)):
            return StoredTable(TableConfig.from_json(record.value, is_stored=True), record.version, record.modified_id)

    def table_times(self, names: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Creation and last change of each table in ms since the epoch, 0 where unknown.

        A table is as old as its segments' folder, which is created with it and never written; a store that keeps no
        creation time gives the folder's own.
        """
        listed = list(names)
        configs = self.store.get_many([self.paths.table_config(name) for name in listed])
        folders = self.store.get_many([self.paths.segments(name) for name in listed])
        return {
            name: (folder[1].mtime_ms if folder else 0, config[1].mtime_ms if config else 0)
            for name, config, folder in zip(listed, configs, folders, strict=True)
        }

    def create_table(self, config: TableConfig, brokers: Sequence[str]) -> None:
        """Config, empty ideal state and brokers in one write. Raises AlreadyExistsError."""
        name = config.name_with_type
        record = table_config_record(name, config.to_json_dict())
        self._apply(
            name, CreateTable(record, table_state.new_table_ideal_state(name, config.replication), tuple(brokers))
        )

    def replace_table_config(self, config: TableConfig, version: int) -> None:
        """Raises TableNotFoundError, StaleVersionError."""
        name = config.name_with_type
        record = table_config_record(name, config.to_json_dict())
        self._apply(name, ReplaceConfig(record, version, {"REPLICAS": str(config.replication)}))

    def drop_table(self, name: str, deletion: Deletion) -> None:
        """Everything of a table but its files, of which the record of the deletion tells. Raises TableNotFoundError."""
        self._apply(name, DropTable(deletion))

    def set_enabled(self, name: str, is_enabled: bool) -> None:
        self._apply(name, SetTableEnabled(is_enabled))

    def set_brokers(self, name: str, brokers: Sequence[str]) -> None:
        self._apply(name, SetBrokers(tuple(brokers)))

    # What should be and what is

    def ideal_state(self, name: str) -> PartitionStates | None:
        """Segment → instance → wanted state; None if there is no such table."""
        state = self._ideal_state(name)
        return None if state is None else state.partitions

    def external_view(self, name: str) -> PartitionStates | None:
        """Segment → instance → state of live instances; None if there is no view."""
        stored = read_record(self.store, self.paths.external_view(name))
        return None if stored is None else stored.record.map_fields

    def is_enabled(self, name: str) -> bool:
        state = self._ideal_state(name)
        return state is not None and state.is_enabled

    def ideal_state_bytes(self, name: str) -> int:
        """Size of the ideal state as one record, in bytes before compression."""
        state = self._ideal_state(name)
        return (
            0
            if state is None
            else sum(
                len(segment) + sum(len(i) + len(s) for i, s in replicas.items())
                for segment, replicas in state.partitions.items()
            )
        )

    def brokers_of(self, name: str) -> list[str]:
        """Brokers that should answer for a table."""
        return self.table_brokers().get(name, [])

    def table_brokers(self) -> dict[str, list[str]]:
        """Table with type → brokers that should answer for it."""
        return {table: sorted(replicas) for table, replicas in (self.ideal_state(BROKER_RESOURCE) or {}).items()}

    def serving_brokers(self) -> dict[str, list[str]]:
        """Table with type → brokers that do answer for it."""
        view = self.external_view(BROKER_RESOURCE) or {}
        return {
            table: sorted(broker for broker, state in replicas.items() if state == ONLINE)
            for table, replicas in view.items()
        }

    # Segments

    def segment_names(self, table: str) -> list[str]:
        """Segments of the ideal state, sorted."""
        return sorted(self.ideal_state(table) or {})

    def segment(self, table: str, name: str) -> StoredSegment | None:
        record = self._properties.segment(table, name)
        return None if record is None else StoredSegment(record.value, record.version)

    def segments(self, table: str, names: Iterable[str] | None = None) -> dict[str, SegmentZkMetadata]:
        return self._properties.segments(table, names)

    def segments_of_halves(self, table: str, names: Iterable[str]) -> list[SegmentZkMetadata]:
        """Records of these names in both halves of a table: they share the folder of their archives."""
        halves, segment_names = [table_name_with_type(raw_table_name(table), kind) for kind in TableType], list(names)
        return [segment for half in halves for segment in self.segments(half, segment_names).values()]

    def recorded_now(self, table: str, name: str) -> list[SegmentZkMetadata]:
        """Records of this name in both halves of a table, also what others wrote a moment ago."""
        self.store.sync(self.paths.all_segments)
        return self.segments_of_halves(table, [name])

    def recorded_segment_names(self, table: str) -> list[str]:
        """Segments that have a record, also those that an unfinished delete left without a place in the ideal state."""
        return self._properties.segment_names(table)

    def add_segment(self, segment: SegmentZkMetadata, servers: Sequence[str]) -> None:
        """Record and ideal state in one write. Raises AlreadyExistsError, TableNotFoundError."""
        self._apply(segment.table_name_with_type, AddSegments(((segment, dict.fromkeys(servers, ONLINE)),)))

    def replace_segment(self, segment: SegmentZkMetadata, version: int) -> None:
        """Raises NotFoundError, StaleVersionError."""
        self._apply(segment.table_name_with_type, ReplaceSegment(segment, version))

    def remove_segments(
        self, table: str, names: Sequence[str], *, lineage_version: int | None = None, deletion: Deletion | None = None
    ) -> None:
        """Out of ideal state and records; names that do not exist are passed over. StaleVersionError: the lineage is
        another one by now.
        """
        self._apply(table, RemoveSegments(tuple(names), lineage_version, deletion))

    # What replaces what

    def lineage(self, table: str) -> StoredLineage | None:
        """Which segments replace which others; None = none ever did."""
        path = self.paths.segment_lineage(table)
        try:
            data, stat = self.store.get(path)
        except NoNodeError:
            return None
        return StoredLineage(lineage_from_bytes(data, path), stat.version)

    def hidden_segments(self, table: str) -> frozenset[str]:
        """Segments of the ideal state that no query sees, as others stand for them."""
        stored = self.lineage(table)
        return stored.lineage.hidden if stored is not None else frozenset()

    def change_lineage(self, table: str, event: LineageEvent, now_ms: int, ages: Ages = DEFAULT_AGES) -> None:
        """A step of a replacement. Raises what `cluster.lineage.decide` raises, TableNotFoundError."""
        self._apply(table, ChangeLineage(event, now_ms, ages))

    # Instances

    def instance_names(self) -> list[str]:
        try:
            return self.store.children(self.paths.instance_configs)
        except NoNodeError:
            return []

    def instance(self, name: str) -> InstanceConfig | None:
        return self.instances([name]).get(name)

    def instances(self, names: Sequence[str] | None = None) -> dict[str, InstanceConfig]:
        """Configs of the named instances, or of all; missing ones are left out."""
        selected = self.instance_names() if names is None else names
        paths = [self.paths.instance_config(name) for name in selected]
        nodes = self.store.get_many(paths)
        return {
            name: InstanceConfig.from_record(ZNRecord.from_bytes(node[0], path))
            for name, path, node in zip(selected, paths, nodes, strict=True)
            if node is not None and node[0]
        }

    def live_instances(self) -> list[str]:
        try:
            return self.store.children(self.paths.live_instances)
        except NoNodeError:
            return []

    def instances_with_tag(self, tag: str, *, role: str) -> list[str]:
        """Instances of one role that bear a tag, sorted; disabled ones too, as they keep what they hold."""
        return sorted(
            name for name, config in self.instances().items() if tag in config.tags and name.startswith(f"{role}_")
        )

    def _ideal_state(self, name: str) -> IdealState | None:
        stored = read_record(self.store, self.paths.ideal_state(name))
        return None if stored is None else IdealState.from_record(stored.record)

    def _apply(self, table: str, change: TableChange) -> None:
        table_state.apply(self.store, self.paths, table, change, fences=self.fences())


@contextmanager
def _stored_as(path: str) -> Iterator[None]:
    """What is stored was checked before: that it is not valid is no fault of who asks now."""
    try:
        yield
    except InvalidConfigError as error:
        raise damaged_record(f"what is stored at '{path}' is not valid: {error.message}", path) from error


def states_by_server(view: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
    """Server → its segments, both sorted."""
    servers: dict[str, list[str]] = {}
    for segment in sorted(view):
        for server in view[segment]:
            servers.setdefault(server, []).append(segment)
    return dict(sorted(servers.items()))
