"""Which segments of a stream there are to be: the first ones of a table, the next one of a partition, what they hold,
and where they consume.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pinotpy.cluster.llc_names import LlcName, llc_name
from pinotpy.cluster.realtime_records import RealtimeRecord
from pinotpy.cluster.realtime_segments import RealtimeSegments
from pinotpy.cluster.write_outcome import WriteOutcome
from pinotpy.config.stream_configs import StreamConfig
from pinotpy.config.table import TableConfig
from pinotpy.controller.completion.thresholds import next_row_threshold, segments_per_server
from pinotpy.controller.context import Controller
from pinotpy.controller.realtime.stream_plug_ins import check_decoder, stream_factory
from pinotpy.controller.table_rules import server_candidates
from pinotpy.errors import RemoteError

if TYPE_CHECKING:
    from pinotpy.stream.spec import OffsetType

LOG = logging.getLogger(__name__)


def offset_type(controller: Controller, config: TableConfig) -> OffsetType:
    """How a table's offsets are read. Raises UserError, InvalidConfigError."""
    stream = config.stream_config
    assert stream is not None
    return stream_factory(controller, stream).offset_type


def ask_stream(
    controller: Controller, stream: StreamConfig, known: Sequence[int], *, timeout_s: float
) -> dict[int, str]:
    """Where the partitions begin that are not `known` yet. Raises what the plug-in raises, and RemoteError if the
    stream has fewer partitions than the table.
    """
    from pinotpy.stream.criteria import start_offset

    factory = stream_factory(controller, stream)
    provider = factory.metadata_provider()
    try:
        num_partitions = provider.num_partitions(timeout_s=timeout_s)
        if known and max(known) >= num_partitions:
            raise RemoteError(
                f"the stream '{stream.topic}' has {num_partitions} partitions, the table reads partition {max(known)}: "
                "a stream must not lose partitions"
            )
        now_ms = controller.clock.now_ms()
        return {
            partition: factory.offset_type.text(
                start_offset(provider, partition, stream.offset_criterion, now_ms=now_ms, timeout_s=timeout_s)
            )
            for partition in range(num_partitions)
            if partition not in known
        }
    finally:
        provider.close()


def consuming_servers(
    candidates: Sequence[str], partition: int, replication: int, previous: Sequence[str] = ()
) -> tuple[str, ...]:
    """The servers of a partition's next segment: those of the one before as long as they may hold the table, so that
    they go on in the rows that they have; else by the number of the partition.
    """
    if len(previous) == replication and set(previous) <= set(candidates):
        return tuple(previous)
    first = partition * replication
    return tuple(candidates[(first + replica) % len(candidates)] for replica in range(replication))


def new_record(
    controller: Controller, config: TableConfig, name: LlcName, start_offset: str, *, threshold: int
) -> RealtimeRecord:
    """The record of a segment that begins."""
    stream = config.stream_config
    assert stream is not None
    return RealtimeRecord.in_progress(
        config.name_with_type,
        name,
        start_offset,
        num_replicas=config.replication,
        row_threshold=threshold,
        time_threshold_ms=stream.flush.time_ms,
        creation_time_ms=controller.clock.now_ms(),
        partition_metadata=_partition_metadata(config, name.partition),
    )


def _partition_metadata(config: TableConfig, partition: int) -> dict[str, Any] | None:
    """Of the columns that the table says the stream is partitioned by, as the reference records it: the partition is
    the stream's. When the segment is done, its values say.
    """
    partitioned = config.indexing.segment_partition_config
    columns = {} if partitioned is None else partitioned.column_partition_map
    known = {
        name: {
            "functionName": str(column.function_name),
            "numPartitions": column.num_partitions,
            "partitions": [partition],
            "functionConfig": None,
        }
        for name, column in columns.items()
        if partition < column.num_partitions
    }
    return {"columnPartitionMap": known} if known else None


def begin_partitions(
    controller: Controller, segments: RealtimeSegments, config: TableConfig, *, timeout_s: float
) -> int:
    """Begin a segment in each partition of the stream that has none. Returns how many.

    Raises what the stream's plug-in raises; RemoteError, UserError.
    """
    stream, table = config.stream_config, config.name_with_type
    if stream is None:
        return 0
    chains = segments.chains(table)
    starts = ask_stream(controller, stream, sorted(chains), timeout_s=timeout_s)
    schema = controller.catalog.schema_of_table(table) if starts else None
    if schema is not None:
        # Its package may be gone since the table was made: segments that no server can begin would be in ERROR.
        check_decoder(stream, config, schema)
    candidates = server_candidates(controller.catalog, config)
    per_server = segments_per_server(len(chains) + len(starts), config.replication, len(candidates))
    threshold, _ = next_row_threshold(stream.flush, None, None, num_segments_per_server=per_server)
    if starts:
        written = segments.expect(table, max(*chains, *starts, 0) + 1)
        LOG.info("stream has new partitions table=%s outcome=%s %s", table, written.outcome, written.reason)
    num_begun = 0
    for partition, start_offset in sorted(starts.items()):
        name = llc_name(config.raw_table_name, partition, 0, controller.clock.now_ms())
        record = new_record(controller, config, name, start_offset, threshold=threshold)
        servers = consuming_servers(candidates, partition, config.replication)
        written = segments.begin(record, servers)
        LOG.info(
            "partition begins table=%s segment=%s offset=%s servers=%s outcome=%s %s",
            table, name, start_offset, ",".join(servers), written.outcome, written.reason,
        )  # fmt: skip
        num_begun += written.outcome is WriteOutcome.WRITTEN
    return num_begun
