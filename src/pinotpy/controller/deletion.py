"""Deleting segments: out of ideal state and records in one write (servers drop them), then the archives."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.controller.context import Controller
from pinotpy.errors import PinotError, UserError
from pinotpy.names import check_segment_name

LOG = logging.getLogger(__name__)

FILES_AT_ONCE = 100  # between two looks at what came in meanwhile


def delete_segments(controller: Controller, table: str, names: Sequence[str], *, retention_ms: int | None = None, lineage_version: int | None = None) -> int:
    """Delete segments of a table; names that do not exist are passed over. Returns how many existed.

    Args:
        lineage_version: of the segment lineage by which nobody sees them any more.

    Raises:
        TableNotFoundError: there is no such table.
        StaleVersionError: the lineage changed meanwhile; nothing, or a part, is deleted.
    """
    catalog = controller.catalog
    wanted = [name for name in dict.fromkeys(names) if can_exist(name)]
    existing = set(catalog.recorded_segment_names(table)) | set(catalog.segment_names(table))
    catalog.remove_segments(table, wanted, lineage_version=lineage_version)
    doomed = [name for name in wanted if name in existing]
    delete_segment_files(controller, table, doomed, retention_ms=retention_ms)
    LOG.info("segments deleted table=%s segments=%d first=%s", table, len(doomed), doomed[0] if doomed else "")
    return len(doomed)


def can_exist(name: str) -> bool:
    """Whether a segment can have this name; what cannot exist is deleted already."""
    try:
        check_segment_name(name)
    except UserError:
        return False
    return True


def delete_segment_files(controller: Controller, table: str, names: Sequence[str], *, retention_ms: int | None = None) -> None:
    """Move the archives of deleted segments to Deleted_Segments. A failure is logged: nothing refers to them any more.

    A segment of the same name may be in the table's other half, or come in meanwhile: its archive stays, or is brought back. One that is stored and not yet
    registered may go; its upload looks for it afterwards (`upload._store_and_register`).
    """
    kept_ms = controller.deleted_segments_retention_ms if retention_ms is None else retention_ms
    until_ms = controller.clock.now_ms() + kept_ms if kept_ms > 0 else None
    for first in range(0, len(names), FILES_AT_ONCE):
        some = names[first : first + FILES_AT_ONCE]
        kept = controller.catalog.segments_of_halves(table, some)
        for name in some:
            try:
                controller.files.retire(table, name, until_ms=until_ms, spared_crcs=[segment.crc for segment in kept if segment.segment_name == name])
            except PinotError as error:
                LOG.warning("segment file not moved table=%s segment=%s reason=%s", table, name, error.message)
        for segment in controller.catalog.segments_of_halves(table, some):
            _bring_back(controller, segment)


def _bring_back(controller: Controller, segment: SegmentZkMetadata) -> None:
    """The archive of a segment that came in while its namesake's files went."""
    table, name = segment.table_name_with_type, segment.segment_name
    try:
        # Another controller's folder is not looked into: what lies there was not moved from here.
        is_here = segment.download_url == controller.files.download_url(table, name, segment.crc)
        if is_here and not controller.files.restore(table, name, segment.crc):
            LOG.error("segment file is missing, upload the segment again table=%s segment=%s crc=%d", table, name, segment.crc)
    except PinotError as error:
        LOG.error("segment file not brought back, upload the segment again table=%s segment=%s crc=%d reason=%s", table, name, segment.crc, error.message)


def purge_deleted_files(controller: Controller) -> None:
    """Delete the files whose time in Deleted_Segments is up."""
    gone = controller.files.purge(controller.clock.now_ms())
    if gone:
        LOG.info("deleted segments purged files=%d", gone)
