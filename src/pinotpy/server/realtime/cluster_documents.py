"""What the cluster's store says of consuming segments; implements ConsumingDocuments."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from itertools import pairwise

from pinotpy.clock import Clock
from pinotpy.cluster.buckets import read_record
from pinotpy.cluster.llc_names import llc_name, parse_llc_name
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.property_store import PropertyStore
from pinotpy.cluster.realtime_records import FORCE_COMMIT_JOB, RealtimeRecord, SegmentStatus
from pinotpy.cluster.store import ClusterStore
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import DataError, NotFoundError
from pinotpy.names import raw_table_name
from pinotpy.server.realtime.consuming_tables import ConsumingRecord


class ClusterDocuments:
    """Reads each time anew: transitions are rare."""

    def __init__(self, store: ClusterStore, paths: ClusterPaths, clock: Clock, instance: str) -> None:
        self._store, self._paths, self._clock, self._instance = store, paths, clock, instance
        self._properties = PropertyStore(store, paths)

    def documents(self, table: str) -> tuple[Schema, TableConfig]:
        config, schema = self._properties.table_config(table), self._properties.schema(raw_table_name(table))
        if config is None or schema is None:
            raise NotFoundError(f"table '{table}' has no {'config' if config is None else 'schema'} any more")
        return Schema.from_json(schema.value, is_stored=True), TableConfig.from_json(config.value, is_stored=True)

    def record(self, table: str, segment_name: str) -> ConsumingRecord:
        stored = self._properties.segment(table, segment_name)
        if stored is None:
            raise NotFoundError(f"the cluster has no record of segment '{segment_name}': it was deleted meanwhile")
        record = RealtimeRecord.from_metadata(stored.value)
        if record is None:
            raise DataError(f"segment '{segment_name}' was not read of a stream", segment=segment_name)
        stream_time_ms, stream_rows = 0, 0
        if not (record.time_threshold_ms and record.row_threshold):
            _, config = self.documents(table)
            stream = config.stream_config
            if stream is not None:
                flush = stream.flush
                stream_time_ms = flush.time_ms
                stream_rows = flush.segment_rows or flush.rows or flush.autotune_initial_rows
        return ConsumingRecord(
            segment_name,
            record.name.partition,
            record.name.sequence,
            record.start_offset,
            record.end_offset or "",
            record.record.creation_time_ms,
            record.row_threshold or stream_rows,
            record.time_threshold_ms or stream_time_ms,
            record.record.crc,
            bool(record.force_commit_job),
            record.status is SegmentStatus.DONE,
        )

    def forced(self, table: str, segment_names: Collection[str]) -> set[str]:
        records = self._properties.segments(table, segment_names)
        return {name for name, record in records.items() if record.extra.get(FORCE_COMMIT_JOB)}

    def assigned(self, table: str) -> list[str]:
        stored = read_record(self._store, self._paths.ideal_state(table))
        if stored is None:
            return []
        return [name for name, states in stored.record.map_fields.items() if states.get(self._instance) == "CONSUMING"]

    def any_assigned(self) -> bool:
        """Whether this instance should consume a segment of any table. Raises ClusterError."""
        tables = self._store.children(self._paths.ideal_states)
        return any(self.assigned(table) for table in tables if table.endswith("_REALTIME"))

    def served_between(self, table: str, first: ConsumingRecord, last: ConsumingRecord) -> list[ConsumingRecord]:
        stored = read_record(self._store, self._paths.ideal_state(table))
        states = stored.record.map_fields if stored is not None else {}
        between = []
        for name in states:
            parsed = parse_llc_name(name)
            if parsed is None or parsed.partition != first.partition:
                continue
            if first.sequence < parsed.sequence < last.sequence:
                with contextlib.suppress(NotFoundError):  # deleted meanwhile
                    between.append(self.record(table, name))
        between.sort(key=lambda each: each.sequence)
        deleted = [
            gone
            for before, behind in pairwise([first, *between, last])
            for gone in deleted_between(before, behind, partial(self.provisional_name, table, first.partition))
        ]
        own = {name for name, replicas in states.items() if replicas.get(self._instance) == "CONSUMING"}
        served = [each for each in between if each.name not in own and each.end_offset]
        return sorted([*served, *deleted], key=lambda each: each.sequence)

    def provisional_name(self, table: str, partition: int, sequence: int) -> str:
        return str(llc_name(raw_table_name(table), partition, sequence, self._clock.now_ms()))


def deleted_between(
    before: ConsumingRecord, behind: ConsumingRecord, provisional_name: Callable[[int], str]
) -> list[ConsumingRecord]:
    """What is known of the segments between two of a partition that have no record any more. Segments tile a partition,
    so they lie between the end of one and the start of the other; where one of them ended and the next began does not
    matter any more: the first takes all.
    """
    start = before.end_offset
    gone = []
    for sequence in range(before.sequence + 1, behind.sequence) if start else ():
        name, end = provisional_name(sequence), behind.start_offset
        gone.append(replace(behind, name=name, sequence=sequence, start_offset=start, end_offset=end))
        start = end
    return gone
