"""Brings a deleted segment back from Deleted_Segments, as long as its archive is kept there.

What is left of a deleted segment is its archive: its record in the cluster is gone. So it comes in as an upload does,
with all checks: bytes, schema and quota of today, conditions, assignment to servers. Custom map and times of push
begin anew.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from functools import partial
from pathlib import Path

from pinotpy.controller.context import Controller
from pinotpy.controller.registration import register_segment
from pinotpy.controller.segment_files import DeletedArchive
from pinotpy.controller.upload import Arrival, Uploaded, UploadRequest, accept_upload, table_documents
from pinotpy.errors import AlreadyExistsError, NotFoundError, UserError
from pinotpy.fs.crypters import decrypted
from pinotpy.names import TableType, raw_table_name, split_table_name

LOG = logging.getLogger(__name__)


def restore_segment(controller: Controller, half: str, name: str, *, crc: int | None = None) -> Uploaded:
    """Register a deleted segment again; its archive leaves the deleted ones. Called by the leader.

    Args:
        half: name with type of the table.
        crc: which content, where several are kept; without it, what was deleted last.

    Raises:
        AlreadyExistsError: a segment of this name is there.
        NotFoundError: no such archive is kept.
        UserError: several were deleted at once, or the table is a stream's; and what an upload is refused with.
    """
    if split_table_name(half)[1] is TableType.REALTIME:
        raise UserError(
            f"expected a segment of an OFFLINE table, found one of '{half}': where in its stream a segment begins and "
            "ends went with its record, and is not in its archive"
        )
    if controller.catalog.segment(half, name) is not None:
        raise AlreadyExistsError(f"segment '{name[:400]}' of table '{half}' is there: delete it first", segment=name)
    archive = _chosen(controller, half, name, crc)
    config, _ = table_documents(controller, half)
    with tempfile.TemporaryDirectory(
        prefix="restore-", dir=controller.scratch_dir, ignore_cleanup_errors=True
    ) as folder:
        parts, scratch = Path(folder, "parts"), Path(folder, "segment")
        parts.mkdir()
        scratch.mkdir()
        packed = _fetched(controller, archive.key, parts / "archive.tar.gz")
        if config.segments.crypter_class_name:
            plain = parts / "decrypted.tar.gz"
            decrypted(controller.crypters.of(config.segments.crypter_class_name), packed, plain, name)
            packed = plain
        # Of several lists nothing says which one is this content's.
        lists = controller.files.deleted_inputs(half, archive)
        inputs = _fetched(controller, lists[0], parts / "inputs.json") if len(lists) == 1 else None
        restored = accept_upload(
            controller,
            Arrival(packed, packed.stat().st_size, inputs=inputs),
            scratch,
            UploadRequest(raw_table_name(half), TableType.OFFLINE, allow_refresh=False),
            partial(register_segment, controller),
            lambda table: None,  # the route has asked
        )
    for key in (archive.key, *(lists if inputs is not None else ())):
        controller.files.remove(key)
    LOG.info("segment restored table=%s segment=%s crc=%d", half, name, archive.crc)
    return restored


def _chosen(controller: Controller, half: str, name: str, crc: int | None) -> DeletedArchive:
    kept = controller.files.deleted_archives(half, name)
    wanted = [archive for archive in kept if crc is None or archive.crc == crc]
    if not wanted:
        others = f"; kept are the CRCs {', '.join(str(archive.crc) for archive in kept)}" if kept else ""
        raise NotFoundError(
            f"no deleted archive of segment '{name[:400]}' of table '{half}'{f' with CRC {crc}' if crc else ''} is "
            f"kept{others}: GET /tables/{raw_table_name(half)}/deletedSegments lists what is",
            segment=name[:400],
        )
    last = [archive for archive in wanted if archive.until_ms == wanted[-1].until_ms]
    if len({archive.crc for archive in last}) > 1:
        raise UserError(
            f"segment '{name}' of table '{half}' has several deleted archives: name one with crc="
            f"{' or '.join(str(archive.crc) for archive in last)}"
        )
    return last[-1]


def _fetched(controller: Controller, key: str, target: Path) -> Path:
    with controller.files.store.open(key) as source, target.open("wb") as copy:
        shutil.copyfileobj(source, copy)
    return target
