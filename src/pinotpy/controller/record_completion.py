"""Completes the record of a segment that is there by the metadata of its content, as a push of the same content does.

Records that older releases wrote lack what brokers prune by (ADR 28). The metadata file has it all, and nothing else
moves: no archive, no replica, no time. That the metadata are those of the content that the record names is shown by
their CRC, which covers everything that is taken from them.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.controller.context import Controller
from pinotpy.controller.upload import segment_record
from pinotpy.errors import (
    AlreadyExistsError,
    DataError,
    NotFoundError,
    PreconditionFailedError,
    StaleVersionError,
    UserError,
)
from pinotpy.segment.metadata_reader import read_metadata

LOG = logging.getLogger(__name__)


def complete_record(
    controller: Controller, table: str, segment: str, metadata_file: bytes, *, dry_run: bool = False
) -> tuple[SegmentZkMetadata, SegmentZkMetadata]:
    """The record before and after; equal where it was complete.

    Args:
        table: name with type.
        metadata_file: the `metadata` file of the segment, as it stands.
        dry_run: write nothing.

    Raises:
        NotFoundError: there is no such segment.
        UserError: these are no metadata, or another segment's.
        PreconditionFailedError: they are of another content than the record.
        AlreadyExistsError: the record changed at the same time.
    """
    stored = controller.catalog.segment(table, segment)
    if stored is None:
        raise NotFoundError(f"Failed to find segment: {segment[:400]} in table: {table[:200]}")
    try:
        metadata = read_metadata(metadata_file, "of the request")
    except DataError as error:
        raise UserError(f"the body is no segment's metadata: {error.message}") from error
    old = stored.segment
    if metadata.segment_name != segment:
        raise UserError(f"expected metadata of segment '{segment}', found those of '{metadata.segment_name[:200]}'")
    if metadata.crc != old.crc:
        raise PreconditionFailedError(
            f"expected metadata of the content that segment '{segment}' of table '{table}' has, with CRC {old.crc}, "
            f"found CRC {metadata.crc}: it was replaced meanwhile, or takes rows of a stream yet",
            segment=segment,
            table=table,
        )
    known = segment_record(metadata, table, size_bytes=0, download_url="", now_ms=0)
    renewed = replace(
        old,
        total_docs=known.total_docs,
        partition_metadata=known.partition_metadata,
        column_ranges=known.column_ranges,
    )
    if renewed != old and not dry_run:
        try:
            controller.catalog.replace_segment(renewed, stored.version)
        except StaleVersionError as error:
            raise AlreadyExistsError(
                f"the record of segment '{segment}' of table '{table}' changed at the same time: try again"
            ) from error
        LOG.info("record completed table=%s segment=%s crc=%d", table, segment, old.crc)
    return old, renewed
