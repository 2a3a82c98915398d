"""Deleting segments: out of ideal state and records in one write (servers drop them), then the archives."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pinotpy.controller.context import Controller
from pinotpy.errors import PinotError, UserError
from pinotpy.names import check_segment_name

LOG = logging.getLogger(__name__)


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
    for name in doomed:
        delete_segment_files(controller, table, name, retention_ms=retention_ms)
    LOG.info("segments deleted table=%s segments=%d first=%s", table, len(doomed), doomed[0] if doomed else "")
    return len(doomed)


def can_exist(name: str) -> bool:
    """Whether a segment can have this name; what cannot exist is deleted already."""
    try:
        check_segment_name(name)
    except UserError:
        return False
    return True


def delete_segment_files(controller: Controller, table: str, name: str, *, retention_ms: int | None = None) -> None:
    """Move a segment's archives to Deleted_Segments. A failure is logged: nothing refers to them any more."""
    kept_ms = controller.deleted_segments_retention_ms if retention_ms is None else retention_ms
    try:
        controller.files.retire(table, name, until_ms=controller.clock.now_ms() + kept_ms if kept_ms > 0 else None)
    except PinotError as error:
        LOG.warning("segment file not moved table=%s segment=%s reason=%s", table, name, error.message)


def purge_deleted_files(controller: Controller) -> None:
    """Delete the files whose time in Deleted_Segments is up."""
    gone = controller.files.purge(controller.clock.now_ms())
    if gone:
        LOG.info("deleted segments purged files=%d", gone)
