"""system.tables, .segments, .instances and .queries: what the broker knows from ZooKeeper, and what it answered.

What the broker does not know is null: docs of a segment that takes rows, bytes of one whose record does not say them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pinotpy.broker.system.catalog_tables import Row, Schemas, visible_tables
from pinotpy.broker.system.system_table import Column, Known, SystemTable, Viewer
from pinotpy.cluster.living_replicas import is_wanted_state, taking_queries
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.spectator import ClusterView
from pinotpy.data_types import DataType
from pinotpy.names import TableType, split_table_name, table_name_with_type

_TEXT, _NUMBER, _TRUTH, _TIME, _INT = (
    DataType.STRING,
    DataType.LONG,
    DataType.BOOLEAN,
    DataType.TIMESTAMP,
    DataType.INT,
)
_SERVING: Final = ("ONLINE", "CONSUMING")


def system_tables(schemas: Schemas) -> tuple[SystemTable, ...]:
    """The tables of the schema `system`."""

    def tables(known: Known, viewer: Viewer) -> Iterator[Row]:
        return _tables(known.view, viewer, schemas)

    return (
        SystemTable("system.tables", _TABLES, tables),
        SystemTable("system.segments", _SEGMENTS, _segments),
        SystemTable("system.instances", _INSTANCES, _instances, takes_cluster_right=True),
        SystemTable("system.queries", _QUERIES, _queries),
    )


_TABLES: Final = (
    Column("table_name", _TEXT),
    Column("table_type", _TEXT),
    Column("table_name_with_type", _TEXT),
    Column("is_enabled", _TRUTH),
    Column("replication", _INT),
    Column("segments", _NUMBER),
    Column("segments_unavailable", _NUMBER),
    Column("docs", _NUMBER),
    Column("bytes", _NUMBER),
    Column("time_column", _TEXT),
    Column("broker_tenant", _TEXT),
    Column("server_tenant", _TEXT),
    Column("schema_fault", _TEXT),
)


def _halves(view: ClusterView, viewer: Viewer) -> Iterator[tuple[str, TableType, str]]:
    """Table without type, type, and name with type of what the caller may see."""
    for table in visible_tables(view, viewer):
        for kind in TableType:
            name = table_name_with_type(table, kind)
            if view.has_table(name):
                yield table, kind, name


def _tables(view: ClusterView, viewer: Viewer, schemas: Schemas) -> Iterator[Row]:
    for table, kind, name in _halves(view, viewer):
        ideal = view.ideal_states.get(name)
        config = view.table_configs.get(name, {})
        tenants = _section(config, "tenants")
        found = [one for one in _segments_of(view, name) if one.is_queried]
        yield (
            table,
            kind.value,
            name,
            None if ideal is None else ideal.is_enabled,
            None if ideal is None else ideal.replicas,
            len(found),
            sum(one.num_online == 0 for one in found),
            _sum(one.docs for one in found),
            _sum(one.num_bytes for one in found),
            _text(_section(config, "segmentsConfig").get("timeColumnName")),
            _text(tenants.get("broker")),
            _text(tenants.get("server")),
            schemas.of(view, table)[1] or None,
        )


def _sum(numbers: Iterable[int | None]) -> int | None:
    """Of those that are known; None where none of several is."""
    found = list(numbers)
    known = [number for number in found if number is not None]
    return sum(known) if known or not found else None


def _section(config: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    section = config.get(key)
    return section if isinstance(section, Mapping) else {}


def _text(value: object) -> str | None:
    return None if value is None else str(value)


# --- segments --------------------------------------------------------------------------------------------------------

_SEGMENTS: Final = (
    Column("table_name", _TEXT),
    Column("table_type", _TEXT),
    Column("table_name_with_type", _TEXT),
    Column("segment_name", _TEXT),
    Column("state", _TEXT),
    Column("is_queried", _TRUTH),
    Column("replicas_wanted", _INT),
    Column("replicas_online", _INT),
    Column("replicas_in_error", _INT),
    Column("docs", _NUMBER),
    Column("bytes", _NUMBER),
    Column("crc", _NUMBER),
    Column("creation_time", _TIME),
    Column("push_time", _TIME),
    Column("refresh_time", _TIME),
    Column("start_time", _TIME),
    Column("end_time", _TIME),
)


class _Segment:
    """What is known of one segment of a table half."""

    __slots__ = ("is_consuming", "is_queried", "name", "num_in_error", "num_online", "num_wanted", "record")

    def __init__(
        self,
        name: str,
        wanted: Mapping[str, str],
        reached: Mapping[str, str],
        live: frozenset[str],
        record: SegmentZkMetadata | None,
        *,
        is_queried: bool,
    ) -> None:
        self.name = name
        self.record = record
        self.is_queried = is_queried
        self.num_wanted = sum(map(is_wanted_state, wanted.values()))
        self.num_online = sum(state in _SERVING and instance in live for instance, state in reached.items())
        self.num_in_error = sum(state == "ERROR" for state in reached.values())
        self.is_consuming = "CONSUMING" in wanted.values()

    @property
    def state(self) -> str:
        if not self.num_wanted:
            return "OFFLINE"
        if not self.num_online:
            return "ERROR" if self.num_in_error else "UNAVAILABLE"
        if self.num_online < self.num_wanted:
            return "PARTIAL"
        return "CONSUMING" if self.is_consuming else "ONLINE"

    @property
    def docs(self) -> int | None:
        """None while rows come in: only its servers know them then."""
        return None if self.record is None or self.is_consuming else self.record.total_docs

    @property
    def num_bytes(self) -> int | None:
        return None if self.record is None or self.is_consuming else self.record.size_bytes


def _segments_of(view: ClusterView, name: str) -> Iterator[_Segment]:
    ideal, external, lineage = view.ideal_states.get(name), view.external_views.get(name), view.lineages.get(name)
    records = view.segments.get(name, {})
    wanted = {} if ideal is None else ideal.partitions
    reached = {} if external is None else external.partitions
    hidden = frozenset[str]() if lineage is None else lineage.hidden
    live = taking_queries(view.live_instances, view.instance_configs)
    for segment in sorted({*wanted, *records}):
        yield _Segment(
            segment,
            wanted.get(segment, {}),
            reached.get(segment, {}),
            live,
            records.get(segment),
            is_queried=segment in wanted and segment not in hidden,
        )


def _segments(known: Known, viewer: Viewer) -> Iterator[Row]:
    for table, kind, name in _halves(known.view, viewer):
        for one in _segments_of(known.view, name):
            record = one.record
            has_content = record is not None and not one.is_consuming
            yield (
                table,
                kind.value,
                name,
                one.name,
                one.state,
                one.is_queried,
                one.num_wanted,
                one.num_online,
                one.num_in_error,
                one.docs,
                one.num_bytes,
                record.crc if record is not None and has_content else None,
                None if record is None else record.creation_time_ms or None,
                None if record is None else record.push_time_ms,
                None if record is None else record.refresh_time_ms,
                None if record is None else record.start_time_ms,
                None if record is None else record.end_time_ms,
            )


# --- instances -------------------------------------------------------------------------------------------------------

_INSTANCES: Final = (
    Column("instance_name", _TEXT),
    Column("role", _TEXT),
    Column("host", _TEXT),
    Column("port", _INT),
    Column("is_alive", _TRUTH),
    Column("is_enabled", _TRUTH),
    Column("takes_queries", _TRUTH),
    Column("version", _TEXT),
    Column("tags", _TEXT, is_list=True),
    Column("segments", _NUMBER),
    Column("bytes", _NUMBER),
)


def _instances(known: Known, viewer: Viewer) -> Iterator[Row]:
    view = known.view
    segments, num_bytes = Counter[str](), dict[str, list[int | None]]()
    for name, external in view.external_views.items():
        if split_table_name(name)[1] is None:
            continue  # the brokers' own resource
        records = view.segments.get(name, {})
        for segment, states in external.partitions.items():
            record = records.get(segment)
            for instance in (instance for instance, state in states.items() if state in _SERVING):
                segments[instance] += 1
                num_bytes.setdefault(instance, []).append(None if record is None else record.size_bytes)
    for instance in sorted({*view.instance_configs, *view.live_instances}):
        config, live = view.instance_configs.get(instance), view.live_instances.get(instance)
        role = instance.partition("_")[0].upper()
        serves = role == "SERVER"
        yield (
            instance,
            role,
            None if config is None else config.host,
            None if config is None else config.port,
            live is not None,
            None if config is None else config.is_enabled,
            None if config is None else live is not None and config.takes_queries,
            None if live is None else live.version or None,
            None if config is None else list(config.tags) or None,
            segments[instance] if serves else None,
            _sum(num_bytes.get(instance, [])) if serves else None,
        )


# --- queries ---------------------------------------------------------------------------------------------------------

_QUERIES: Final = (
    Column("start_time", _TIME),
    Column("request_id", _TEXT),
    Column("user_name", _TEXT),
    Column("dialect", _TEXT),
    Column("query", _TEXT),
    Column("table_name", _TEXT),
    Column("status", _TEXT),
    Column("error_code", _INT),
    Column("is_slow", _TRUTH),
    Column("took_ms", DataType.DOUBLE),
    Column("server_cpu_ms", DataType.DOUBLE),
    Column("num_rows", _NUMBER),
    Column("response_bytes", _NUMBER),
    Column("servers_queried", _INT),
    Column("servers_responded", _INT),
    Column("segments_queried", _NUMBER),
    Column("segments_pruned_by_broker", _NUMBER),
    Column("segments_pruned_by_server", _NUMBER),
    Column("segments_processed", _NUMBER),
    Column("segments_matched", _NUMBER),
    Column("docs_scanned", _NUMBER),
    Column("total_docs", _NUMBER),
    Column("entries_scanned_in_filter", _NUMBER),
    Column("entries_scanned_post_filter", _NUMBER),
)


def _queries(known: Known, viewer: Viewer) -> Iterator[Row]:
    """The caller's own queries, of tables that it may still see; all of them for who has ADMIN on the cluster."""
    for record in known.queries:
        if viewer.is_admin or (record.user == viewer.name and all(map(viewer.may_see, record.tables))):
            shown = known.log.shown(record)
            yield tuple(shown[column.name] for column in _QUERIES)
