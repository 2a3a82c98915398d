"""Segments that come in without partitions of a column that their table partitions: told and counted, never refused."""

from __future__ import annotations

import logging

from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.config.table import TableConfig
from pinotpy.controller.context import Controller

LOG = logging.getLogger(__name__)


def unpartitioned_columns(config: TableConfig, record: SegmentZkMetadata) -> tuple[str, ...]:
    """Columns that the config partitions and a record has no partitions of. Why is told by who builds the segment."""
    wanted = config.indexing.segment_partition_config
    known = (record.partition_metadata or {}).get("columnPartitionMap", {})
    return () if wanted is None else tuple(name for name in wanted.column_partition_map if name not in known)


def tell_unpartitioned(controller: Controller, config: TableConfig, record: SegmentZkMetadata) -> None:
    """Log and count a segment that was just registered, if it lacks partitions."""
    columns = unpartitioned_columns(config, record)
    if not columns:
        return
    table = record.table_name_with_type
    LOG.warning(
        "segment registered without partitions table=%s segment=%s columns=%s; every query asks it",
        table,
        record.segment_name,
        ",".join(columns),
    )
    controller.metrics.count("controllerSegmentsWithoutPartitions", table=table)
