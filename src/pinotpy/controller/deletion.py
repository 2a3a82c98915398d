"""Deletes segments: from ideal state and records in one write (servers drop them), then their archives.

That write also records that the archives must go. If a deletion is interrupted after it, `finish_deletions` completes
it.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence

from pinotpy.cluster.segment_deletions import RecordedDeletion
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.table_changes import Deletion
from pinotpy.controller.context import Controller
from pinotpy.controller.periods import kept_after_deletion_ms
from pinotpy.errors import PinotError, UserError
from pinotpy.names import check_segment_name

LOG = logging.getLogger(__name__)

FILES_AT_ONCE = 100  # between two looks at what came in meanwhile
FINISHED_AFTER_MS = 600_000  # what is younger is being done by who began it


def delete_segments(
    controller: Controller,
    table: str,
    names: Sequence[str],
    *,
    retention_ms: int | None = None,
    lineage_version: int | None = None,
) -> int:
    """Delete segments of a table; names that do not exist are passed over. Returns how many existed.

    Args:
        lineage_version: of the segment lineage by which nobody sees them any more.

    Raises:
        TableNotFoundError: there is no such table.
        StaleVersionError: the lineage changed meanwhile; nothing, or a part, is deleted.
    """
    catalog = controller.catalog
    valid_names = [name for name in dict.fromkeys(names) if can_exist(name)]
    existing = set(catalog.recorded_segment_names(table)) | set(catalog.segment_names(table))
    deletion = new_deletion(controller, table, retention_ms)
    catalog.remove_segments(table, valid_names, lineage_version=lineage_version, deletion=deletion)
    doomed = [name for name in valid_names if name in existing]
    delete_segment_files(controller, deletion)
    LOG.info("segments deleted table=%s segments=%d first=%s", table, len(doomed), doomed[0] if doomed else "")
    return len(doomed)


def can_exist(name: str) -> bool:
    """Whether a segment can have this name; what cannot exist is deleted already."""
    try:
        check_segment_name(name)
    except UserError:
        return False
    return True


def new_deletion(controller: Controller, table: str, retention_ms: int | None = None) -> Deletion:
    """A deletion that begins now; its archives are kept for `retention_ms`, else as the table's config says, else as
    the settings do.
    """
    now_ms, kept_ms = controller.clock.now_ms(), retention_ms
    if kept_ms is None:
        stored = controller.catalog.table_config(table)
        kept_ms = None if stored is None else kept_after_deletion_ms(stored.config)
    if kept_ms is None:
        kept_ms = controller.deleted_segments_retention_ms
    return Deletion(uuid.uuid4().hex, now_ms, now_ms + kept_ms if kept_ms > 0 else None)


def delete_segment_files(controller: Controller, deletion: Deletion) -> None:
    """Move the archives of a deletion's segments, as they are recorded, to Deleted_Segments.

    A failure is logged, nothing refers to them any more; what is not moved stays recorded.
    """
    for recorded in controller.catalog.deletions.of(deletion):
        _finish(controller, recorded)


def finish_deletions(controller: Controller) -> None:
    """Complete deletions whose controller died, or could not reach the deep store."""
    now_ms = controller.clock.now_ms()
    for recorded in controller.catalog.deletions.all():
        if now_ms - recorded.deletion.began_ms >= FINISHED_AFTER_MS:
            LOG.info(
                "deletion taken up again table=%s segments=%d first=%s",
                recorded.table,
                len(recorded.segments),
                recorded.segments[0],
            )
            _finish(controller, recorded)


def _finish(controller: Controller, recorded: RecordedDeletion) -> None:
    """A segment of the same name may be in the table's other half, or come in meanwhile: its archive stays, or is
    brought back. One that is stored and not yet registered may go; its upload looks for it afterwards
    (`upload._store_and_register`).
    """
    table, is_done = recorded.table, True
    for first in range(0, len(recorded.segments), FILES_AT_ONCE):
        some = recorded.segments[first : first + FILES_AT_ONCE]
        live = controller.catalog.segments_of_halves(table, some)
        for name in some:
            try:
                spared = [segment for segment in live if segment.segment_name == name]
                controller.files.retire(table, name, until_ms=recorded.deletion.until_ms, spared=spared)
            except PinotError as error:
                is_done = False
                LOG.warning("segment file not moved table=%s segment=%s reason=%s", table, name, error.message)
        for segment in controller.catalog.segments_of_halves(table, some):
            _bring_back(controller, segment)
    if is_done:
        controller.catalog.deletions.forget(recorded)


def _bring_back(controller: Controller, segment: SegmentZkMetadata) -> None:
    """The archive of a segment that came in while its namesake's files went."""
    table, name = segment.table_name_with_type, segment.segment_name
    try:
        # Another controller's folder is not searched: its archives were not moved from here.
        is_here = segment.download_url == controller.files.download_url(table, name, segment.crc)
        if is_here and not controller.files.restore(table, name, segment.crc, segment.inputs):
            LOG.error(
                "segment file is missing, upload the segment again table=%s segment=%s crc=%d", table, name, segment.crc
            )
    except PinotError as error:
        LOG.error(
            "segment file not brought back, upload the segment again table=%s segment=%s crc=%d reason=%s",
            table,
            name,
            segment.crc,
            error.message,
        )


def purge_deleted_files(controller: Controller) -> None:
    """Delete the files whose retention in Deleted_Segments is over."""
    gone = controller.files.purge(controller.clock.now_ms())
    if gone:
        LOG.info("deleted segments purged files=%d", gone)
