"""Checking one archive in the deep store, and rebuilding it from a replica's original files."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx

from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.controller.context import Controller
from pinotpy.controller.upload_leftovers import end_upload
from pinotpy.errors import DataError, NotFoundError, RemoteError, SegmentCorruptError
from pinotpy.fs.crypters import decrypted, encrypted
from pinotpy.service.code_memory import CODE_MEMORY
from pinotpy.service.peer_archives import PeerArchives

PIECE_BYTES: Final = 1 << 20

Pace = Callable[[int], None]


def check_stored(controller: Controller, record: SegmentZkMetadata, pace: Pace) -> None:
    """Read the archive of a segment whole.

    Args:
        pace: is told after every piece how many bytes it had; it may wait, and raise to end the reading.

    Raises: NotFoundError: it is not there. DataError and its kin: it is not that segment, or a disk cannot read it.
    UnsupportedVersionError, InvalidConfigError (its crypter), RemoteError, OSError: it cannot be told.
    """
    with tempfile.TemporaryDirectory(prefix="scrub-", dir=controller.scratch_dir) as folder:
        copy = Path(folder) / "stored"
        _copy(controller, record, copy, pace)
        archive = Path(folder) / "segment.tar.gz"
        decrypted(controller.crypters.of(record.crypter), copy, archive, record.segment_name)
        _check(controller, record, archive, Path(folder))


def check_elsewhere(controller: Controller, record: SegmentZkMetadata, pace: Pace) -> None:
    """Fetch the archive of a segment whole from where it was pushed from, within the limits of an upload from there.

    Raises: NotFoundError: it is not there. DataError and its kin: it is not that segment. RemoteError and others: it
    cannot be told.
    """
    with tempfile.TemporaryDirectory(prefix="scrub-", dir=controller.scratch_dir) as folder:
        copy, archive = Path(folder) / "fetched", Path(folder) / "segment.tar.gz"
        try:
            controller.fetchers.fetch(record.download_url, copy)
        except DataError as error:
            # What is refused, or too long, says nothing about the bytes.
            raise RemoteError(error.message, **error.context) from error
        pace(copy.stat().st_size)
        decrypted(controller.crypters.of(record.crypter), copy, archive, record.segment_name)
        _check(controller, record, archive, Path(folder))


def rebuild(controller: Controller, peers: PeerArchives, record: SegmentZkMetadata) -> str:
    """Store the archive of a segment again, made by a server that serves it; returns who made it.

    Raises: RemoteError: no replica gives it. OutOfCapacityError: the deep store does not take it. NotFoundError: the
    segment was deleted or replaced meanwhile.
    """
    table, name = record.table_name_with_type, record.segment_name
    with tempfile.TemporaryDirectory(prefix="scrub-", dir=controller.scratch_dir) as folder:
        archive = Path(folder) / "segment.tar.gz"

        def take(arrived: Path) -> None:
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                _check(controller, record, arrived, Path(scratch))

        _, replica = peers.fetch(table, name, record.crc, archive, take)
        sealed = archive
        if record.crypter:
            sealed = archive.with_name("sealed")
            encrypted(controller.crypters.of(record.crypter), archive, sealed, name)
        # Recorded as an upload is: if the segment is deleted meanwhile, no file stays behind.
        recorded = controller.catalog.uploads.begin(table, name, [record.crc], controller.clock.now_ms())
        try:
            if not is_current(controller, record):
                raise NotFoundError(f"segment '{name}' of '{table}' was deleted or replaced meanwhile", table=table)
            controller.files.put(table, name, record.crc, sealed)
        finally:
            end_upload(controller, recorded, ())
    return replica


def is_current(controller: Controller, record: SegmentZkMetadata) -> bool:
    """Whether the segment still has the content that a record says, at the same place."""
    stored = controller.catalog.segment(record.table_name_with_type, record.segment_name)
    return stored is not None and (stored.segment.crc, stored.segment.crypter, stored.segment.download_url) == (
        record.crc,
        record.crypter,
        record.download_url,
    )


def lies_elsewhere(controller: Controller, record: SegmentZkMetadata) -> bool:
    """Whether an archive that is not in this controller's store is in the folder of another one, as its address says,
    or may be: that one lives and does not answer.
    """
    place = urlsplit(record.download_url).netloc
    if not place or place == urlsplit(controller.identity.url).netloc:
        return False
    if f"Controller_{place.replace(':', '_')}" not in controller.catalog.live_instances():
        return False
    try:
        with controller.peers.stream("GET", record.download_url) as answer:
            return answer.status_code != httpx.codes.NOT_FOUND
    except httpx.HTTPError:
        return True


def _copy(controller: Controller, record: SegmentZkMetadata, target: Path, pace: Pace) -> None:
    table, name = record.table_name_with_type, record.segment_name
    try:
        with controller.files.open(table, name, record.crc) as stored, target.open("wb") as sink:
            while piece := stored.read(PIECE_BYTES):
                sink.write(piece)
                pace(len(piece))
    except DataError as error:
        # A storage that refuses says nothing about the bytes: who may not read them must not replace them.
        raise RemoteError(error.message, **error.context) from error
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        raise SegmentCorruptError(
            "archive cannot be read", file=f"{name}.tar.gz", expected="its bytes", found=error.strerror
        ) from error


def _check(controller: Controller, record: SegmentZkMetadata, archive: Path, folder: Path) -> None:
    # Arrow and kernels cost 80 MB: a controller that has nothing to check does without them.
    from pinotpy.segment.archive.archive_check import check_archive
    from pinotpy.segment.archive.tar_stream import ArchiveLimits

    settings, scratch = controller.settings, folder / "unpacked"
    scratch.mkdir()
    limits = ArchiveLimits.of(settings.archive_entries_max, settings.archive_unpacked_bytes_max)
    try:
        metadata = check_archive(archive, scratch, limits=limits, room=controller.check_room)
    except NotFoundError as error:
        raise DataError(error.message) from error
    finally:
        CODE_MEMORY.used()
    if (metadata.segment_name, metadata.crc) != (record.segment_name, record.crc):
        raise SegmentCorruptError(
            "the archive holds another segment",
            file=record.segment_name,
            expected=f"CRC {record.crc}",
            found=f"'{metadata.segment_name}' CRC {metadata.crc}",
        )
