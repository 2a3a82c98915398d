"""One segment upload, from the bytes that arrived at this controller to a registered segment.

The steps of `accept_upload`: unpack into memory or a scratch folder → verify every byte → check against schema and
table → quota → preconditions → deep store → registration by the leader. A metadata push has no bytes to verify or
store: servers fetch them from their address, and verify them there. After any failure nothing is left: scratch goes
with its folder, the stored archive is removed (by the leader if this controller dies: `upload_leftovers`), and
registration undoes its own first write.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.controller.column_ranges import ranges_of
from pinotpy.controller.context import Controller
from pinotpy.controller.lineage import segments_beside
from pinotpy.controller.partition_gaps import tell_unpartitioned
from pinotpy.controller.registration import check_conditions
from pinotpy.controller.segment_check import check_segment, checks_years_of, missing_columns
from pinotpy.controller.segment_inputs import drop_replaced_inputs, drop_unnamed_inputs, input_list, inputs_record
from pinotpy.controller.upload_conditions import UploadConditions
from pinotpy.controller.upload_leftovers import end_upload, forget_upload
from pinotpy.errors import (
    ConnectionLostError,
    DataError,
    NotFoundError,
    OutOfCapacityError,
    QuotaExceededError,
    RecordTooLargeError,
    RemoteError,
    StaleVersionError,
    UserError,
)
from pinotpy.fs.crypters import encrypted
from pinotpy.names import TableType, check_table_name, raw_table_name, split_table_name, table_name_with_type
from pinotpy.segment.input_list import InputList
from pinotpy.segment.metadata import SegmentMetadata
from pinotpy.service.code_memory import CODE_MEMORY

Register = Callable[[SegmentZkMetadata, UploadConditions], SegmentZkMetadata | None]


@dataclass(frozen=True, slots=True)
class UploadRequest:
    """What the uploader asked for, besides the bytes."""

    table: str | None  # raw or with type; None: the segment says
    table_type: TableType
    allow_refresh: bool = True
    refresh_only: bool = False
    if_match: str | None = None
    custom_map: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Arrival:
    """What lies on this controller's disk of an upload.

    Attributes:
        archive: the segment's tar.gz; of a metadata push one with the metadata file alone.
        stays_at: URI where the segment's bytes stay, for servers to fetch; None = they go to the deep store.
        size_bytes: of the whole archive, wherever it lies.
        is_whole: false for a metadata push.
        crypter: what the bytes that stay elsewhere are encrypted with, "" if nothing.
        announced: the metadata that came beside the address of a segment that is copied; it must be that one.
        inputs: the list of the segment's input files; None if it came without.
    """

    archive: Path
    size_bytes: int
    stays_at: str | None = None
    is_whole: bool = True
    crypter: str = ""
    announced: Path | None = None
    inputs: Path | None = None


@dataclass(frozen=True, slots=True)
class Uploaded:
    """The result of an upload. `missing_columns`: of the schema, which the segment does not have."""

    segment_name: str
    table_name_with_type: str
    missing_columns: tuple[str, ...] = ()


def target_table(request: UploadRequest, named_by_segment: str | None = None) -> str:
    """Name with type of the table that an upload goes to; UserError if name and type contradict each other."""
    name = request.table or named_by_segment
    if not name:
        raise UserError("Could not find paramName tableName in path or query params: name the table with ?tableName=")
    raw, suffix = split_table_name(name)
    if suffix is not None and suffix is not request.table_type:
        raise UserError(f"Table name: {name[:200]} does not match table type: {request.table_type.value}")
    return table_name_with_type(check_table_name(raw), request.table_type)


def accept_upload(
    controller: Controller,
    arrival: Arrival,
    scratch: Path,
    request: UploadRequest,
    register: Register,
    may_write: Callable[[str], None],
) -> Uploaded:
    """Accept the segment or refuse it.

    Args:
        scratch: an empty folder that the caller removes.
        register: the leader's half; returns the record that was replaced.
        may_write: raises AccessDeniedError unless the caller may write to the table.

    Raises:
        UnsafeArchiveError, SegmentCorruptError, UserError: the bytes are no segment, or not one of this table (4xx).
        QuotaExceededError, AlreadyExistsError, PreconditionFailedError: it may not come in now.
        OutOfCapacityError: the deep store cannot take it.
    """
    metadata = (
        read_archive(arrival.archive, scratch, controller) if arrival.is_whole else read_metadata(arrival.archive)
    )
    if arrival.announced is not None:
        _check_announced(read_metadata(arrival.announced), metadata)
    table = target_table(request, metadata.table_name)
    may_write(table)
    config, schema = table_documents(controller, table)
    check_segment(metadata, schema, table, config.segments.time_column_name, checks_years=checks_years_of(config))
    if arrival.stays_at is None:
        # What goes to the deep store is encrypted as the table wants it, whatever it came as.
        sealed = sealed_archive(controller, arrival.archive, config, metadata.segment_name)
        arrival = replace(
            arrival, archive=sealed, size_bytes=sealed.stat().st_size, crypter=config.segments.crypter_class_name or ""
        )
    inputs = input_list(arrival.inputs) if arrival.inputs is not None else None
    done = _store_and_register(controller, arrival, metadata, inputs, table, config, request, register)
    return replace(done, missing_columns=missing_columns(metadata, schema, config))


def _check_announced(announced: SegmentMetadata, actual: SegmentMetadata) -> None:
    if (announced.segment_name, announced.crc) != (actual.segment_name, actual.crc):
        raise UserError(
            f"expected segment '{announced.segment_name}' with CRC {announced.crc} at DOWNLOAD_URI, as the metadata "
            "say, "
            f"found '{actual.segment_name}' with CRC {actual.crc}",
            segment=announced.segment_name,
        )


def sealed_archive(controller: Controller, archive: Path, config: TableConfig, segment: str) -> Path:
    """The archive for the deep store: encrypted beside it, if the table names a crypter."""
    name = config.segments.crypter_class_name
    if not name:
        return archive
    sealed = archive.with_name(f"{archive.name}.encrypted")
    encrypted(controller.crypters.of(name), archive, sealed, segment)
    return sealed


def segment_record(
    metadata: SegmentMetadata,
    table: str,
    *,
    size_bytes: int,
    download_url: str,
    now_ms: int,
    custom_map: dict[str, str] | None = None,
    crypter: str = "",
    inputs: InputList | None = None,
) -> SegmentZkMetadata:
    """The cluster's record of a segment."""
    time_range = metadata.time_range
    partitions = {
        column.name: {
            "functionName": column.partition.function_name,
            "numPartitions": column.partition.num_partitions,
            "partitions": list(column.partition.partitions),
            "functionConfig": None,
        }
        for column in metadata.columns
        if column.partition is not None
    }
    return SegmentZkMetadata(
        segment_name=metadata.segment_name,
        table_name_with_type=table,
        crc=metadata.crc,
        total_docs=metadata.num_docs,
        creation_time_ms=metadata.creation_time_ms,
        download_url=download_url,
        push_time_ms=now_ms,
        size_bytes=size_bytes,
        crypter=crypter,
        start_time_ms=time_range.start_ms if time_range else None,
        end_time_ms=time_range.end_ms if time_range else None,
        start_time_raw=time_range.start_raw if time_range else "",
        end_time_raw=time_range.end_raw if time_range else "",
        partition_metadata={"columnPartitionMap": partitions} if partitions else None,
        column_ranges=ranges_of(metadata).to_text(),
        custom_map=custom_map or {},
        inputs=inputs_record(inputs) if inputs is not None else None,
    )


def read_archive(archive: Path, scratch: Path, controller: Controller) -> SegmentMetadata:
    # Arrow and kernels cost 80 MB: a controller that takes no uploads does without them.
    from pinotpy.segment.archive.archive_check import check_archive
    from pinotpy.segment.archive.tar_stream import ArchiveLimits

    try:
        settings = controller.settings
        limits = ArchiveLimits.of(settings.archive_entries_max, settings.archive_unpacked_bytes_max)
        return check_archive(archive, scratch, limits=limits, room=controller.check_room)
    except (DataError, NotFoundError) as error:
        # Bytes that a client sent: its fault, and its answer names no folder of ours.
        raise UserError(
            f"the upload is no segment: {error.message.replace(str(scratch), '').replace(str(archive.parent), '')}"
        ) from error
    finally:
        CODE_MEMORY.used()


def read_metadata(archive: Path) -> SegmentMetadata:
    from pinotpy.segment.archive.archive import read_metadata_archive

    try:
        with archive.open("rb") as source:
            return read_metadata_archive(source)
    except DataError as error:
        raise UserError(f"the upload is no segment's metadata: {error.message}") from error


def table_documents(controller: Controller, table: str) -> tuple[TableConfig, Schema]:
    stored = controller.catalog.table_config(table)
    if stored is None:
        # 400 as in Pinot 1.5.1: the path of the call exists, its parameter is wrong.
        raise UserError(f"Failed to find table: {table}", table=table)
    schema = controller.catalog.schema(raw_table_name(table))
    if schema is None:
        raise NotFoundError(f"Schema not found for table: {table}", table=table)
    return stored.config, schema.schema


def _store_and_register(
    controller: Controller,
    arrival: Arrival,
    metadata: SegmentMetadata,
    inputs: InputList | None,
    table: str,
    config: TableConfig,
    request: UploadRequest,
    register: Register,
) -> Uploaded:
    catalog, files, name = controller.catalog, controller.files, metadata.segment_name
    record = segment_record(
        metadata,
        table,
        size_bytes=arrival.size_bytes,
        download_url=arrival.stays_at or files.download_url(table, name, metadata.crc),
        now_ms=controller.clock.now_ms(),
        custom_map=request.custom_map,
        crypter=arrival.crypter,
        inputs=inputs,
    )
    stored = catalog.segment(table, name)
    existing = stored.segment if stored is not None else None
    conditions = UploadConditions(
        request.allow_refresh, request.if_match, stored.version if stored is not None else None, request.refresh_only
    )
    check_conditions(record, stored, conditions)
    _check_quota(controller, config, record)
    is_known = existing is not None and (existing.crc, existing.crypter) == (record.crc, record.crypter)
    # The same content again stays where it is, with us or elsewhere; with us only if it is whole: whoever uploads a
    # segment again may do so because its archive is damaged or lost.
    is_same = (
        existing is not None
        and is_known
        and (not files.keeps(existing) or files.holds(table, name, record.crc, arrival.archive))
    )
    is_stored = arrival.stays_at is None and not is_same
    # What may be left of it is recorded before it is there: whoever leads looks after it if this controller dies.
    crcs = ([record.crc] if is_stored else []) + (
        [existing.crc] if existing is not None and existing.crc != record.crc and files.keeps(existing) else []
    )
    recorded = catalog.uploads.begin(table, name, crcs, controller.clock.now_ms()) if crcs else None
    if is_stored:
        try:
            files.put(table, name, record.crc, arrival.archive)
        except OutOfCapacityError as error:
            if recorded is not None and not isinstance(error.__cause__, RemoteError):
                forget_upload(controller, recorded)
            raise
    try:
        if inputs is not None:
            files.put_inputs(table, name, inputs, arrival.archive.parent)
        replaced = register(record, conditions)
    except (
        UserError,
        StaleVersionError,
        RecordTooLargeError,
        ConnectionLostError,
    ):  # what was lost is read back before anything goes
        if inputs is not None:
            drop_unnamed_inputs(controller, table, name, inputs.digest)
        if recorded is not None:
            end_upload(controller, recorded, {record.crc} if is_stored else ())
        raise
    # Any other error does not say what becomes of it: a leader that did not answer may still register it.
    if is_stored and not files.has(table, name, record.crc):
        # A deletion of a segment of this name took its files meanwhile, ours among them.
        files.put(table, name, record.crc, arrival.archive)
    if inputs is not None:
        files.put_inputs(table, name, inputs, arrival.archive.parent)
    drop_replaced_inputs(controller, record, replaced)
    tell_unpartitioned(controller, config, record)
    if recorded is not None:
        # Ours, too: another upload may have replaced it already.
        end_upload(controller, recorded, {known.crc for known in (record, existing, replaced) if known is not None})
    return Uploaded(name, table)


def _check_quota(controller: Controller, config: TableConfig, record: SegmentZkMetadata) -> None:
    """Storage quota of one replica, by the sizes of the archives; every replica takes the same."""
    limit = config.quota.storage_bytes if config.quota is not None else None
    if limit is None or not controller.settings.storage_quota_check:
        return
    beside = segments_beside(controller, record.table_name_with_type, record.segment_name)
    others = [
        segment.size_bytes or 0 for segment in controller.catalog.segments(record.table_name_with_type, beside).values()
    ]
    total_bytes = sum(others) + (record.size_bytes or 0)
    if total_bytes > limit:
        raise QuotaExceededError(
            f"storage quota of table '{record.table_name_with_type}' exceeded: {len(others) + 1} segments would take "
            f"{total_bytes} bytes a replica, "
            f"quota.storage allows {limit}; delete segments or raise the quota",
            table=record.table_name_with_type,
        )
