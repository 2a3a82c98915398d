"""What uploads leave in the deep store: archives that no record names, and files that were never finished.

A record may come to name an archive between a look at the records and its deletion: by another upload of the same
content, by a registration whose answer was lost. So an archive is set aside first, and then the records are read again;
who registers looks for his archive afterwards, and stores it again if it is not there (`upload._store_and_register`).
One of the two sees the other, and bytes that a record names are never gone for good.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from pinotpy.cluster.segment_uploads import RecordedUpload
from pinotpy.controller.context import Controller
from pinotpy.controller.periods import DAY_MS
from pinotpy.errors import PinotError
from pinotpy.names import raw_table_name

LOG = logging.getLogger(__name__)

HOUR_MS = 3_600_000
BROKEN_OFF_AFTER_MS = HOUR_MS  # what is younger is being done by who began it
# Storages may tell when a file was begun instead of when it was last written to: 10 GiB at 0.5 MB/s take as long.
UNFINISHED_AFTER_MS = 6 * HOUR_MS
UPLOADS_PER_RUN_MAX = 1_000


def end_upload(controller: Controller, upload: RecordedUpload, unwanted: Collection[int]) -> None:
    """Delete what an upload left that no record names. The upload's outcome stands even if stores are unreachable now:
    failures are logged, and leftovers stay recorded.

    Args:
        unwanted: CRCs of archives that need not be kept among the deleted ones: what was refused, what was replaced.
    """
    uploads, crcs = controller.catalog.uploads, {*upload.crcs, *unwanted}
    try:
        drop_unnamed(
            controller, upload, [crc for crc in crcs if not uploads.is_brought_by_another(upload, crc)], unwanted
        )
        uploads.end(upload)
    except PinotError as error:
        LOG.warning(
            "segment files not removed table=%s segment=%s crcs=%s reason=%s",
            upload.table,
            upload.segment,
            sorted(crcs),
            error.message,
        )


def forget_upload(controller: Controller, upload: RecordedUpload) -> None:
    """An upload of which nothing came into the store. If one before it left something, that stays recorded."""
    if upload.is_first:
        try:
            controller.catalog.uploads.end(upload)
        except PinotError as error:
            LOG.warning(
                "record of an upload not deleted table=%s segment=%s reason=%s",
                upload.table,
                upload.segment,
                error.message,
            )


def finish_uploads(controller: Controller) -> None:
    """Clean up after uploads whose controller died, or did not learn their outcome. Failures are logged; their uploads
    stay recorded.
    """
    now_ms, recorded = controller.clock.now_ms(), controller.catalog.uploads.all()
    old = [upload for upload in recorded if now_ms - upload.began_ms >= BROKEN_OFF_AFTER_MS]
    under_way = {_archive(upload, crc) for upload in recorded[len(old) :] for crc in upload.crcs}
    archives = failures = 0
    for upload in old[:UPLOADS_PER_RUN_MAX]:
        try:
            # What is being uploaded again is the matter of who does that.
            crcs = [crc for crc in upload.crcs if _archive(upload, crc) not in under_way]
            archives += drop_unnamed(controller, upload, crcs)
            _bring_back(controller, upload, crcs)
            controller.catalog.uploads.end(upload)
        except PinotError as error:
            failures += 1
            LOG.warning(
                "upload not cleaned up after table=%s segment=%s reason=%s", upload.table, upload.segment, error.message
            )
    if old:
        done = min(len(old), UPLOADS_PER_RUN_MAX)
        LOG.info(
            "uploads that broke off cleaned up after uploads=%d archives=%d failures=%d later=%d",
            done,
            archives,
            failures,
            len(old) - done,
        )


def drop_unfinished(controller: Controller, table: str) -> None:
    """Delete a table's archive files that were never finished."""
    gone = controller.files.drop_unfinished(table, controller.clock.now_ms() - UNFINISHED_AFTER_MS)
    if gone:
        LOG.info("unfinished segment files deleted table=%s files=%d", table, gone)


def drop_unnamed(
    controller: Controller, upload: RecordedUpload, crcs: Collection[int], unwanted: Collection[int] = ()
) -> int:
    """Take away archives of these CRCs that no record names: to the deleted ones, for as long as the settings say and a
    day at least. Returns how many went.

    Args:
        unwanted: those that are deleted for good.

    Raises PinotError: records or files are out of reach. What was set aside is back then, as far as that can be done.
    """
    files, table, segment = controller.files, upload.table, upload.segment
    doomed = set(crcs) - _named(controller, upload) if crcs else set()
    until_ms = controller.clock.now_ms() + max(controller.deleted_segments_retention_ms, DAY_MS)
    aside: dict[int, str] = {}
    try:
        for crc in doomed:
            if (key := files.set_aside(table, segment, crc, until_ms=until_ms)) is not None:
                aside[crc] = key
        named = _named(controller, upload) if aside else set()
    except BaseException:
        for crc in aside:  # what is left over does less harm than what is missing
            files.restore(table, segment, crc)
        raise
    for crc in aside.keys() & named:
        files.restore(table, segment, crc)
        del aside[crc]
    for crc, key in aside.items():
        LOG.info(
            "segment file without a record %s table=%s segment=%s crc=%d",
            "deleted" if crc in unwanted else "set aside",
            table,
            segment,
            crc,
        )
        if crc in unwanted:
            files.remove(key)
    return len(aside)


def _bring_back(controller: Controller, upload: RecordedUpload, crcs: Collection[int]) -> None:
    """Restore archives that a record names but a deletion moved earlier: their controller died before it looked for
    them.
    """
    table, segment = upload.table, upload.segment
    for record in controller.catalog.recorded_now(table, segment):
        # Archives at their push address, or in another controller's folder, are not checked.
        is_here = record.download_url == controller.files.download_url(table, segment, record.crc)
        if record.crc in crcs and is_here and not controller.files.restore(table, segment, record.crc, record.inputs):
            LOG.error(
                "segment file is missing, upload the segment again table=%s segment=%s crc=%d",
                table,
                segment,
                record.crc,
            )


def _named(controller: Controller, upload: RecordedUpload) -> set[int]:
    """CRCs of records of this name, in either half of the table."""
    return {record.crc for record in controller.catalog.recorded_now(upload.table, upload.segment)}


def _archive(upload: RecordedUpload, crc: int) -> tuple[str, str, int]:
    return raw_table_name(upload.table), upload.segment, crc
