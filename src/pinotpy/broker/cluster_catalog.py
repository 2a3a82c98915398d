"""The catalog filled from the cluster's view: tables, schemas, routings and server addresses.

Built lazily per table and kept while the parts of the view that it was built from are the same objects.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import filterfalse
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from pinotpy.broker.catalog import Half, Target
from pinotpy.broker.routing.replica_groups import instance_selector, routing_by_groups
from pinotpy.broker.routing.segment_pruner import PrunedTable, SegmentPruner, TellUnused, tell_nobody
from pinotpy.broker.routing.table_routing import TableRouting, chains_of, with_readers
from pinotpy.broker.routing.time_boundary import side_of_offline, side_of_realtime, time_column
from pinotpy.clock import Clock
from pinotpy.cluster.living_replicas import living_replicas, taking_queries
from pinotpy.cluster.llc_names import parse_llc_name
from pinotpy.cluster.realtime_records import STATUS
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.spectator import ClusterView
from pinotpy.cluster.time_boundary import TimeBoundary, time_boundary
from pinotpy.cluster.views import IdealState, InstanceConfig
from pinotpy.config.schema import Schema
from pinotpy.config.segments_config import PushFrequency
from pinotpy.config.serving import InstanceSelector, QueryConfig
from pinotpy.errors import (
    ClusterError,
    DamagedRecordError,
    InvalidConfigError,
    InvalidQueryError,
    ServerUnreachableError,
    TableNotFoundError,
)
from pinotpy.names import TableType, raw_table_name, split_table_name, table_name_with_type
from pinotpy.pql.ast import Dialect
from pinotpy.rpc.channel import ServerAddress

log = logging.getLogger(__name__)
# An upload is acknowledged before its segment is loaded: for so long it may be absent everywhere without being missed.
LOADING_GRACE_MS = 60_000
# Names that are kept with what they resolved to; SQL may spell one table in many ways.
RESOLVED_MAX = 1024
FOREVER_MS = 2**62
_NONE: frozenset[str] = frozenset()
_NO_RECORDS: Mapping[str, SegmentZkMetadata] = MappingProxyType({})
_NO_CONTENTS: Mapping[str, str] = MappingProxyType({})
_NO_QUERY_CONFIG = QueryConfig.model_validate({})
_RECORDS = {
    "table_configs": "the config of table",
    "ideal_states": "which segments there are of table",
    "schemas": "the schema of table",
    "segments": "the record of segment",
}
_REALTIME = f"_{TableType.REALTIME.value}"


class TableDisabledError(InvalidQueryError):
    """The table is disabled (191, as in the reference)."""

    code = 191


class LineageUnreadableError(ClusterError):
    """Which segments replace which others cannot be read: no answer could be trusted."""


@dataclass(slots=True)
class _Known:
    """A routing with the parts of the view that it was built from; valid until `until_ms` at the latest. new: segments
    that some may not have yet, because they are new.
    """

    parts: tuple[object, ...]
    segments: Mapping[str, SegmentZkMetadata]
    new: frozenset[str]
    loading: frozenset[str]
    until_ms: int
    routing: TableRouting


class ClusterCatalog:
    """Resolves names against the newest view. Used by the broker's event loop only.

    `case_insensitive`: whether SQL finds tables without regard to case. `tell_unused`: see PrunedTable.
    """

    def __init__(
        self,
        view: Callable[[], ClusterView],
        clock: Clock,
        *,
        case_insensitive: bool = True,
        tell_unused: TellUnused = tell_nobody,
    ) -> None:
        self._case_insensitive = case_insensitive
        self._tell_unused = tell_unused
        self._view = view
        self._clock = clock
        self._routings: dict[str, _Known] = {}
        self._pruned: dict[str, PrunedTable] = {}
        self._schemas: dict[str, tuple[object, Schema]] = {}
        # What was resolved in one view: views never change, each query asks for the same few things.
        self._resolved_view: ClusterView | None = None
        # Of all tables by their lower case, with what they were read of.
        self._names: tuple[tuple[object, object], dict[str, tuple[str, ...]]] | None = None
        self._resolved: dict[tuple[str, Dialect], tuple[int, Target]] = {}  # with the time until which it holds
        self._addresses: dict[str, ServerAddress] = {}
        self._served: dict[
            str, set[str]
        ] = {}  # table → segments that some replica has served since this broker started

    def true_name(self, table: str, dialect: Dialect) -> str | None:
        """See Catalog.true_name."""
        view = self._current_view()
        known = self._resolved.get((table, dialect))
        if known is not None:
            return known[1].raw_table_name
        return self._true_name(view, split_table_name(table)[0], dialect)

    def resolve(self, table: str, dialect: Dialect) -> Target:
        """See Catalog.resolve."""
        view = self._current_view()
        known = self._resolved.get((table, dialect))
        if known is not None and self._clock.now_ms() < known[0]:
            return known[1]
        raw, table_type = self._find(view, table, dialect)
        names = [
            name
            for kind in TableType
            if table_type in (None, kind)
            and (
                (name := table_name_with_type(raw, kind)) in view.ideal_states
                or ("ideal_states", name) in view.unreadable
            )
        ]
        if not names:
            raise TableNotFoundError(
                f"table '{table}' is not served: its config exists, its ideal state does not", table=table
            )
        routings = [self.routing(name) for name in names]
        configs = [_query_config(view.table_configs.get(name)) for name in names]
        until_ms = min(self._routings[name].until_ms for name in names)
        schema = self._schema(view, raw)
        halves = [
            Half(
                routing,
                pruner=self._pruner(view, routing, schema),
                without_nulls=_without_nulls(schema, view.table_configs.get(routing.table)),
            )
            for routing in routings
        ]
        boundary, fault = None, ""
        if len(halves) > 1:
            halves, boundary, fault = self._divided(view, schema, halves)
        target = Target(
            raw,
            schema,
            tuple(halves),
            min((config.timeout_ms for config in configs if config.timeout_ms is not None), default=None),
            boundary,
            fault,
            tuple(config.enable_null_handling for config in configs),
        )
        if self._view() is view:
            if len(self._resolved) >= RESOLVED_MAX:
                self._resolved.clear()
            self._resolved[table, dialect] = until_ms, target
        return target

    def _pruner(self, view: ClusterView, routing: TableRouting, schema: Schema) -> SegmentPruner:
        table = routing.table
        external = view.external_views.get(table)
        contents = _NO_CONTENTS if external is None else external.contents
        return self._pruned.setdefault(table, PrunedTable(table, self._tell_unused)).pruner(
            routing, view.segments.get(table, _NO_RECORDS), contents, schema, view.table_configs.get(table)
        )

    def _divided(
        self, view: ClusterView, schema: Schema, halves: list[Half]
    ) -> tuple[list[Half], TimeBoundary | None, str]:
        """The halves of a hybrid table, OFFLINE first, each with its side of the time boundary."""
        offline, realtime = halves
        of_offline = f"{offline.routing.table}/"
        for part, key in view.unreadable:
            if part == "segments" and key.startswith(of_offline) and key[len(of_offline) :] in offline.routing.replicas:
                _refuse_unreadable(view, part, key)  # it may say up to when the rows of the half are
        records = view.segments.get(offline.routing.table, {})
        served = [records[name] for name, servers in offline.routing.replicas.items() if servers and name in records]
        config = (view.table_configs.get(offline.routing.table) or {}).get("segmentsConfig") or {}
        is_hourly = str(config.get("segmentPushFrequency", "")).upper() == PushFrequency.HOURLY
        boundary = time_boundary(served, schema, config.get("timeColumnName"), is_hourly=is_hourly)
        if boundary is None:
            fault = (
                ""
                if not offline.routing.replicas
                else (
                    f"rows may count twice: no segment of '{offline.routing.table}' says until when its rows are, so "
                    f"nothing divides it from '{realtime.routing.table}'; query one of the two by its name with type"
                )
            )
            return halves, None, fault
        column = time_column(boundary)
        return (
            [
                replace(offline, time_predicate=side_of_offline(boundary), time_column=column, is_offline=True),
                replace(realtime, time_predicate=side_of_realtime(boundary), time_column=column),
            ],
            boundary,
            "",
        )

    def _current_view(self) -> ClusterView:
        """The newest view; what was resolved in another one is dropped."""
        view = self._view()
        if view is not self._resolved_view:
            self._resolved.clear()
            self._addresses.clear()
            for table in [table for table in self._pruned if table not in view.ideal_states]:
                del self._pruned[table]
                self._tell_unused(table, {})
            self._resolved_view = view
        return view

    def routing(self, table_name: str) -> TableRouting:
        """The routing of one table half. Raises TableNotFoundError, TableDisabledError."""
        view = self._view()
        _refuse_unreadable(view, "table_configs", table_name)
        _refuse_unreadable(view, "ideal_states", table_name)
        ideal = view.ideal_states.get(table_name)
        if ideal is None:
            raise TableNotFoundError(f"no table '{table_name}'", table=table_name)
        if not ideal.is_enabled:
            raise TableDisabledError(f"TableIsDisabledError: {_disabled(view, table_name)}", table=table_name)
        external = view.external_views.get(table_name)
        segments = view.segments.get(table_name, {})
        lineage = view.lineages.get(table_name)
        config = view.table_configs.get(table_name)
        groups = view.instance_partitions.get(table_name)
        parts = (ideal, external, view.live_instances, view.instance_configs, lineage, config, groups)
        known = self._routings.get(table_name)
        if known is not None and any(a is not b for a, b in zip(known.parts, parts, strict=True)):
            known = None
        now_ms = self._clock.now_ms()
        if known is not None and now_ms < known.until_ms and known.segments is segments:
            return known.routing
        if lineage is not None and lineage.unreadable:
            raise LineageUnreadableError(
                f"table '{table_name}' cannot be queried, rows could count twice: {lineage.unreadable}",
                table=table_name,
            )
        hidden, awaited = (lineage.hidden, lineage.awaited) if lineage is not None else (_NONE, _NONE)
        reached = external.partitions if external is not None else {}
        served = self._served.setdefault(table_name, set())
        if known is None:
            served |= {name for name, states in reached.items() if states}
            served &= set(ideal.partitions)
        kind = instance_selector(table_name, config)
        # Only strict replica groups ask how new a segment is that some have.
        asked: Iterable[str] = segments if kind.is_strict else filterfalse(served.__contains__, segments)
        if ("external_views", table_name) in view.unreadable:
            asked = ()  # nobody knows which are served: all are missed
        until_ms = {
            name: pushed + LOADING_GRACE_MS
            for name in asked
            if name not in awaited
            and (pushed := (record := segments[name]).push_time_ms or record.creation_time_ms) + LOADING_GRACE_MS
            > now_ms
            and _may_be_absent(record, ideal)
        }
        new, loading = frozenset(until_ms), frozenset(until_ms.keys() - served)
        end_ms = min(until_ms.values(), default=FOREVER_MS)
        if known is not None and (known.new, known.loading) == (new, loading):
            # Other records of the same segments, served by the same servers.
            self._routings[table_name] = replace(known, segments=segments, until_ms=end_ms)
            return known.routing
        live = taking_queries(view.live_instances, view.instance_configs)
        is_realtime = table_name.endswith(_REALTIME)
        replicas: Mapping[str, tuple[str, ...]] = living_replicas(
            ideal.partitions, reached, live, loading, hidden, is_realtime=is_realtime
        )
        chains = chains_of(ideal.partitions, reached, replicas) if is_realtime else ()
        if chains:
            replicas = with_readers(replicas, chains, ideal.partitions, reached)
        if kind is InstanceSelector.BALANCED:
            routing = TableRouting(table_name, replicas, chains)
        else:
            routing = routing_by_groups(table_name, replicas, chains, kind, groups, ideal.partitions, new)
        if is_realtime:
            routing = replace(routing, unread=_unread_partitions(ideal, replicas))
        self._routings[table_name] = _Known(parts, segments, new, loading, end_ms, routing)
        return routing

    def address(self, server: str) -> ServerAddress:
        """Where a server's query port is. Raises ServerUnreachableError."""
        view = self._current_view()
        address = self._addresses.get(server)
        if address is not None:
            return address
        config: InstanceConfig | None = view.instance_configs.get(server)
        if config is None:
            raise ServerUnreachableError(f"server '{server}' is not registered in the cluster", server=server)
        features = config.simple_fields.get("queryFeatures", "")
        address = self._addresses[server] = ServerAddress(
            server,
            config.host,
            config.port_of("grpcPort") or config.port,
            config.port_of("framePort") or None,
            int(features) if features.isdigit() else 0,
        )
        return address

    def tables(self) -> list[str]:
        """Names with type of all tables that the cluster has."""
        return sorted(name for name in self._view().ideal_states if split_table_name(name)[1] is not None)

    def _find(self, view: ClusterView, table: str, dialect: Dialect) -> tuple[str, TableType | None]:
        raw, table_type = split_table_name(table)
        true_name = self._true_name(view, raw, dialect)
        if true_name is not None:
            return true_name, table_type
        raise self.not_found(table, dialect)

    def not_found(self, table: str, dialect: Dialect) -> TableNotFoundError:
        """See Catalog.not_found."""
        raw = split_table_name(table)[0]
        known = sorted(name for names in self._known_names(self._current_view()).values() for name in names)
        # All that are near: those that the caller may not see must not push out one that they may.
        near = get_close_matches(raw, known, max(len(known), 1))
        code = "BrokerResourceMissingError" if dialect is Dialect.PQL else "TableDoesNotExistError"
        return TableNotFoundError(f"{code}: no table '{raw[:200]}'", table=raw, near=near)

    def twins(self, table: str, dialect: Dialect) -> tuple[str, ...]:
        """See Catalog.twins."""
        raw = split_table_name(table)[0]
        same = self._known_names(self._current_view()).get(raw.lower(), ()) if self._ignores_case(dialect) else ()
        return same if len(same) > 1 and raw not in same else ()

    def _ignores_case(self, dialect: Dialect) -> bool:
        return dialect is Dialect.SQL and self._case_insensitive

    def _true_name(self, view: ClusterView, raw: str, dialect: Dialect) -> str | None:
        same = self._known_names(view).get(raw.lower(), ())
        if raw in same:
            return raw
        return same[0] if len(same) == 1 and self._ignores_case(dialect) else None

    def _known_names(self, view: ClusterView) -> dict[str, tuple[str, ...]]:
        read_of = self._names[0] if self._names is not None else (None, None)
        if self._names is None or read_of[0] is not view.table_configs or read_of[1] is not view.unreadable:
            by_lower: dict[str, tuple[str, ...]] = {}
            for name in sorted(set(map(raw_table_name, view.table_names()))):
                by_lower[name.lower()] = (*by_lower.get(name.lower(), ()), name)
            self._names = (view.table_configs, view.unreadable), by_lower
        return self._names[1]

    def _schema(self, view: ClusterView, raw: str) -> Schema:
        _refuse_unreadable(view, "schemas", raw)
        document = view.schemas.get(raw)
        if document is None:
            raise TableNotFoundError(f"table '{raw}' has no schema in the cluster: add one of its name", table=raw)
        known = self._schemas.get(raw)
        if known is None or known[0] is not document:
            try:
                known = (document, Schema.from_json(document, is_stored=True))
            except InvalidConfigError as error:
                raise InvalidQueryError(
                    f"the schema of table '{raw}' in the cluster is not valid: {error.message}", table=raw
                ) from error
            self._schemas[raw] = known
        return known[1]


def _may_be_absent(record: SegmentZkMetadata, ideal: IdealState) -> bool:
    """Whether a new segment that nobody serves yet is no part of its table: an uploaded one, and the first one of a
    stream's partition. Rows of all others of a stream were seen in the segment before.
    """
    name = parse_llc_name(record.segment_name)
    if name is None or not record.extra.get(STATUS):
        return True
    others = (parse_llc_name(other) for other in ideal.partitions)
    return all(o is None or o.partition != name.partition or o.sequence >= name.sequence for o in others)


def _unread_partitions(ideal: IdealState, replicas: Iterable[str]) -> tuple[int, ...]:
    """Those that the stream has, as the controller saw it last, and of which nothing is in the table yet."""
    known = {name.partition for each in ideal.partitions if (name := parse_llc_name(each)) is not None}
    known.update(range(ideal.num_stream_partitions))
    return tuple(sorted(known - {name.partition for each in replicas if (name := parse_llc_name(each)) is not None}))


def _disabled(view: ClusterView, table_name: str) -> str:
    """That a table is disabled, or half of one, and what can be done."""
    raw, kind = split_table_name(table_name)
    if kind is None:
        return f"table '{raw}' is disabled; enable it to query it"
    enables = f"PUT /tables/{raw}/state?type={kind.value}&state=enable of a controller enables"
    other = table_name_with_type(raw, TableType.OFFLINE if kind is TableType.REALTIME else TableType.REALTIME)
    ideal = view.ideal_states.get(other)
    if ideal is None:
        return f"table '{raw}' is disabled; {enables} it"
    if not ideal.is_enabled:
        return f"both halves of table '{raw}' are disabled; {enables} the {kind.value} one"
    return f"the {kind.value} half of table '{raw}' is disabled; {enables} it; '{other}' can be queried by its name"


def _without_nulls(schema: Schema, config: Mapping[str, Any] | None) -> frozenset[str]:
    """Columns of which a table keeps no nulls; none where it has no config to say so."""
    if config is None:
        return frozenset()
    section = config.get("tableIndexConfig")
    keeps_all = section.get("nullHandlingEnabled") if isinstance(section, Mapping) else None
    return frozenset() if str(keeps_all).strip().lower() == "true" else schema.columns_without_nulls


def _refuse_unreadable(view: ClusterView, part: str, key: str) -> None:
    cause = view.unreadable.get((part, key))
    if cause is not None:
        raise DamagedRecordError(
            f"{_RECORDS[part]} '{key}' cannot be read, so it cannot be queried: {cause}", table=key
        )


def _query_config(config: Mapping[str, Any] | None) -> QueryConfig:
    """`query` of a table config as it is stored; an empty one where there is none, or nothing that could be read."""
    section = (config or {}).get("query")
    try:
        return QueryConfig.model_validate(section) if section else _NO_QUERY_CONFIG
    except ValidationError:
        return _NO_QUERY_CONFIG
