"""Making an uploaded segment part of its table: the leader's half of an upload, after the bytes are checked and stored.

New segment: record and ideal state in one write. Existing segment: the same content changes times only; other content
changes the record and tells servers and brokers to refresh. Uploads are optimistic: each carries the version of the
record that it saw when it began, and of two at once the second one is refused.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import replace

from pinotpy.cluster.segment_lineage import LineageState
from pinotpy.cluster.segment_metadata import REPLACED, SERVED_END, SegmentZkMetadata
from pinotpy.config.table import TableConfig
from pinotpy.controller.assignment.balanced import assign_balanced, count_segments
from pinotpy.controller.assignment.group_shape import group_shape
from pinotpy.controller.assignment.partition_aware import assign_to_partition
from pinotpy.controller.catalog import StoredSegment
from pinotpy.controller.context import Controller
from pinotpy.controller.instance_partitions import instance_partitions
from pinotpy.controller.table_rules import server_candidates
from pinotpy.controller.upload_conditions import UploadConditions
from pinotpy.controller.user_messages import send_refresh
from pinotpy.errors import AlreadyExistsError, PreconditionFailedError, StaleVersionError, TableNotFoundError, UserError
from pinotpy.names import raw_table_name

LOG = logging.getLogger(__name__)

DROP_WAIT_S = 10.0  # how long an upload waits for servers to drop a deleted segment of the same name
DROP_POLL_S = 0.1
# Assignments of one leader are made one after the other, so that each sees the counts of those before it.
_assigning = threading.Lock()


class NothingToRefreshError(UserError):
    """An upload with REFRESH_ONLY of a segment that does not exist. 410, as Pinot."""

    code = 410
    http_status = 410


def check_conditions(segment: SegmentZkMetadata, stored: StoredSegment | None, conditions: UploadConditions) -> None:
    """Refuse what the conditions exclude.

    Raises:
        PreconditionFailedError: IF-MATCH names another CRC than the existing segment's.
        AlreadyExistsError: it exists and may not be refreshed, or another upload of it went through meanwhile.
        NothingToRefreshError: it does not exist, and only a refresh was asked for.
    """
    name, table, if_match = segment.segment_name, segment.table_name_with_type, conditions.if_match
    existing = stored.segment if stored is not None else None
    if if_match is not None and (existing is None or str(existing.crc) != if_match):
        actual = (
            "but the segment does not exist" if existing is None else f"does not match existing CRC: {existing.crc}"
        )
        raise PreconditionFailedError(
            f"For segment: {name} of table: {table}, expected CRC: {if_match[:40]} {actual}", segment=name, table=table
        )
    if existing is not None and not conditions.allow_refresh:
        raise AlreadyExistsError(
            f"Segment: {name} already exists in table: {table}. Refresh not permitted.", segment=name, table=table
        )
    if existing is None and conditions.refresh_only:
        raise NothingToRefreshError(
            f"Cannot refresh non-existing segment: {name} for table: {table}", segment=name, table=table
        )
    version = stored.version if stored is not None else None
    if version != conditions.seen_version and (existing is None or existing.crc != segment.crc):
        raise AlreadyExistsError(
            f"another upload or deletion of segment '{name}' of table '{table}' went through at the same time: look "
            "at it and upload again",
            segment=name,
            table=table,
        )


def register_segment(
    controller: Controller, segment: SegmentZkMetadata, conditions: UploadConditions
) -> SegmentZkMetadata | None:
    """Write record and ideal state of a segment whose bytes are stored. Returns the record that it replaced, if any.

    Raises:
        TableNotFoundError: the table is gone.
        UserError: too few servers for its replicas.
        PreconditionFailedError, AlreadyExistsError: see `check_conditions`.
    """
    catalog, table, name = controller.catalog, segment.table_name_with_type, segment.segment_name
    stored_table = catalog.table_config(table)
    if stored_table is None:
        raise TableNotFoundError(f"Failed to find table: {table}", table=table)
    stored = catalog.segment(table, name)
    check_conditions(segment, stored, conditions)
    replaced = stored.segment if stored is not None else None
    if replaced is not None and replaced.crc != segment.crc and _took_out_arriving(controller, table, name):
        stored = None
    if stored is None:
        _wait_until_dropped(controller, table, name)
        with _assigning:
            servers = choose_servers(controller, stored_table.config, catalog.ideal_state(table) or {}, segment)
            catalog.add_segment(segment, servers)
        LOG.info(
            "segment added table=%s segment=%s crc=%d docs=%d servers=%s",
            table,
            name,
            segment.crc,
            segment.total_docs,
            ",".join(servers),
        )
        return replaced
    _refresh(controller, segment, stored)
    return stored.segment


def choose_servers(
    controller: Controller, config: TableConfig, assignment: Mapping[str, Mapping[str, str]], segment: SegmentZkMetadata
) -> tuple[str, ...]:
    """Servers of a new segment by the table's strategy, given what is assigned already."""
    counts = count_segments(assignment)
    shape = group_shape(config)
    if shape is None:
        return assign_balanced(server_candidates(controller.catalog, config), counts, config.replication)
    partitions = instance_partitions(controller.catalog, config, shape)
    partition = 0 if shape.partition_column is None else _partition_of(segment, shape.partition_column)
    return assign_to_partition(partitions, counts, partition)


def renewed_record(old: SegmentZkMetadata, segment: SegmentZkMetadata, now_ms: int) -> SegmentZkMetadata:
    """The record of a segment that is uploaded again. `segment`: as for a new one. Pure."""
    if (old.crc, old.crypter) == (segment.crc, segment.crypter):
        # The same content again: its address and the servers' copies stay as they are.
        return replace(
            old,
            refresh_time_ms=now_ms,
            creation_time_ms=segment.creation_time_ms,
            custom_map=segment.custom_map or old.custom_map,
            # Of the same content: a push makes complete what an older release wrote, or somebody edited.
            total_docs=segment.total_docs,
            partition_metadata=segment.partition_metadata,
            column_ranges=segment.column_ranges,
            inputs=segment.inputs or old.inputs,
        )
    extra = segment.extra
    if old.crc != segment.crc:
        extra = {**extra, REPLACED: f"{old.crc} at {now_ms}"}
    elif REPLACED in old.extra:
        extra = {**extra, REPLACED: old.extra[REPLACED]}
    return replace(segment, push_time_ms=old.push_time_ms, refresh_time_ms=now_ms, extra=extra)


def _refresh(controller: Controller, segment: SegmentZkMetadata, stored: StoredSegment) -> None:
    catalog, old = controller.catalog, stored.segment
    table, name, now_ms = segment.table_name_with_type, segment.segment_name, controller.clock.now_ms()
    renewed = renewed_record(old, segment, now_ms)
    if (old.crc, old.crypter) != (segment.crc, segment.crypter):
        before_ms, end_ms = old.served_end_time_ms, segment.end_time_ms
        is_later = end_ms is not None and (before_ms is None or before_ms < end_ms)
        if is_later and table.endswith("_OFFLINE") and len(catalog.tables_of(raw_table_name(table))) > 1:
            # Replicas serve the old version for a while: the boundary of a hybrid table waits for them.
            served = "" if before_ms is None else str(before_ms)
            renewed = replace(renewed, extra={**renewed.extra, SERVED_END: served})
            controller.refreshed.add((table, name))
    try:
        catalog.replace_segment(renewed, stored.version)
    except StaleVersionError as error:
        raise AlreadyExistsError(
            f"another upload of segment '{name}' of table '{table}' went through at the same time: look at it and "
            "upload again"
        ) from error
    LOG.info("segment refreshed table=%s segment=%s from_crc=%d to_crc=%d", table, name, old.crc, segment.crc)
    if old.crc != segment.crc:
        send_refresh(controller, table, name)


def _took_out_arriving(controller: Controller, table: str, name: str) -> bool:
    """Take a segment out whose content changes while a replacement brings it: it comes in as a new one then.

    A refresh would stay ONLINE with its old content until servers have the new one, and the replacement could be ended
    meanwhile. No query sees the segment, so that none misses it.
    """
    stored = controller.catalog.lineage(table)
    entry = stored.lineage.entry_hiding(name) if stored is not None else None
    if stored is None or entry is None or entry[1].state is not LineageState.IN_PROGRESS:
        return False
    try:
        controller.catalog.remove_segments(table, [name], lineage_version=stored.version)
    except StaleVersionError as error:
        raise AlreadyExistsError(
            f"a replacement of segments of table '{table}' went on at the same time: look at it and upload '{name}' "
            "again"
        ) from error
    return True


def _wait_until_dropped(controller: Controller, table: str, name: str) -> None:
    """A server that still holds a deleted segment of this name would take the new one for it: wait until none does."""
    deadline_ns = controller.clock.monotonic_ns() + int(DROP_WAIT_S * 1e9)
    never = threading.Event()
    while name in (controller.catalog.external_view(table) or {}):
        if controller.clock.monotonic_ns() >= deadline_ns:
            raise AlreadyExistsError(
                f"servers are still dropping the deleted segment '{name}' of table '{table}': try again in a moment",
                segment=name,
                table=table,
            )
        controller.clock.wait(never, DROP_POLL_S)


def _partition_of(segment: SegmentZkMetadata, column: str) -> int:
    columns = (segment.partition_metadata or {}).get("columnPartitionMap", {})
    partitions = columns.get(column, {}).get("partitions", [])
    if len(partitions) != 1:
        raise UserError(
            f"segment '{segment.segment_name}' must hold exactly one partition of column '{column}' to be assigned by "
            f"partition, found {len(partitions)}",
            segment=segment.segment_name,
            column=column,
        )
    return int(partitions[0])
