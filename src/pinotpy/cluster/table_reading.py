"""What a decision about a table's state is made on: one reading from the store, on demand, with the versions to write
back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pinotpy.cluster.buckets import StoredRecord, WritePlan, read_record
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.segment_lineage import SegmentLineage, lineage_from_bytes
from pinotpy.cluster.store import ClusterStore
from pinotpy.cluster.table_changes import TableChange
from pinotpy.cluster.views import ONLINE, InstanceConfig
from pinotpy.errors import NoNodeError, TableNotFoundError


@dataclass(frozen=True, slots=True)
class Decision:
    """What one reading led to; `rest` is what remains of the change when it is larger than one multi."""

    plan: WritePlan | None
    rest: TableChange | None = None


class Reading:
    """One reading of what a decision needs, from the store, on demand."""

    def __init__(self, store: ClusterStore, paths: ClusterPaths, table: str) -> None:
        self.store, self.paths, self.table = store, paths, table

    def node(self, path: str) -> tuple[bytes, int] | None:
        try:
            data, stat = self.store.get(path)
        except NoNodeError:
            return None
        return data, stat.version

    def ideal_state(self) -> StoredRecord:
        stored = read_record(self.store, self.paths.ideal_state(self.table))
        if stored is None:
            raise TableNotFoundError(f"table '{self.table}' does not exist", table=self.table)
        return stored

    def existing_segments(self, names: Sequence[str]) -> dict[str, bytes]:
        nodes = self.store.get_many([self.paths.segment(self.table, name) for name in names])
        return {name: node[0] for name, node in zip(names, nodes, strict=True) if node is not None}

    def lineage(self) -> tuple[SegmentLineage, int | None]:
        """The segment lineage with its version; None = there is no record of it. Raises DecodeError."""
        path = self.paths.segment_lineage(self.table)
        node = self.node(path)
        return (SegmentLineage(self.table), None) if node is None else (lineage_from_bytes(node[0], path), node[1])

    def served_segments(self) -> frozenset[str]:
        """Segments that a live server which takes queries has ONLINE, as brokers see it."""
        view = read_record(self.store, self.paths.external_view(self.table))
        try:
            live = self.store.children(self.paths.live_instances)
        except NoNodeError:
            live = []
        configs = self.store.get_many([self.paths.instance_config(name) for name in live])
        taking = {
            name
            for name, config in zip(live, configs, strict=True)
            if config is None
            or not config[0]
            or InstanceConfig.from_record(ZNRecord.from_bytes(config[0], name)).takes_queries
        }
        partitions = view.record.map_fields if view is not None else {}
        return frozenset(
            name
            for name, states in partitions.items()
            if any(state == ONLINE and server in taking for server, state in states.items())
        )
