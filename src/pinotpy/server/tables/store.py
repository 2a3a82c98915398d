"""Segments on this server's disk: `<data dir>/<table>/<segment>/`, written whole or not at all.

A segment that is here with the right CRC is opened without a download; one that cannot be trusted (truncated, damaged,
of another CRC) is moved aside and fetched again: from the deep store, and if that has no good archive, from a replica.
Names come from ZooKeeper and pass the name rules before they become paths.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import quote

from pinotpy.clock import SystemClock
from pinotpy.errors import DataError, NotFoundError, PinotError, RemoteError, SegmentCorruptError, UnsafeArchiveError
from pinotpy.fs.crypters import Crypters, SegmentCrypter, decrypted
from pinotpy.fs.private_folder import make_private_folder
from pinotpy.names import check_segment_name, check_table_name, is_segment_name, raw_table_name, split_table_name
from pinotpy.segment import layout
from pinotpy.segment.archive.archive import unpack_segment
from pinotpy.segment.archive.tar_stream import ArchiveLimits
from pinotpy.segment.immutable import ImmutableSegment, load_segment
from pinotpy.server.disk import disk_faults
from pinotpy.server.tables.archive_faults import ArchiveFaults
from pinotpy.service.peer_archives import PeerArchives

log = logging.getLogger(__name__)
_REMOVED: Final = ".removed-"


class Fetcher(Protocol):
    """Brings an archive: `fetcher.ArchiveFetcher`, or a test's twin."""

    def fetch(self, url: str, target: Path, rest_path: str) -> None: ...


class SegmentStore:
    """Opens segments from disk, downloading them first where needed. One thread per segment at a time calls it.

    Args:
        data_dir: folder of the loaded segments; archives are unpacked beside them, so that they appear in one step.
        segment_dir: folder where archives arrive, maybe on another disk, of this server alone; default: within
            `data_dir`.
        limits: what an archive may hold.
        crypters: decrypt archives whose record names a crypter.
        peers: servers that may have what the fetcher cannot bring; None: there are none.
        faults: is told of archives that the fetcher could not bring.
        on_peer: is told of which table a segment came from a peer.
    """

    def __init__(
        self,
        data_dir: Path,
        fetcher: Fetcher,
        *,
        segment_dir: Path | None = None,
        limits: ArchiveLimits | None = None,
        crypters: Crypters | None = None,
        peers: PeerArchives | None = None,
        faults: ArchiveFaults | None = None,
        on_peer: Callable[[str], None] = lambda table: None,
    ) -> None:
        self._data_dir = data_dir
        self._fetcher = fetcher
        self._limits = limits
        self._crypters = crypters or Crypters({})
        self._peers, self._on_peer = peers, on_peer
        self._faults = faults or ArchiveFaults(SystemClock())
        self._placing = threading.Lock()  # the folder of a table goes with its last segment, or gets its next one
        self._incoming = data_dir / ".incoming"
        self._arrivals = self._incoming if segment_dir is None else segment_dir / "arriving"
        for folder in {self._incoming, self._arrivals}:
            # Whatever a crash left half-done.
            shutil.rmtree(folder, ignore_errors=True)
            make_private_folder(folder)
        for name in _folders(data_dir):
            table = data_dir / name
            for doomed in table.glob(f"{_REMOVED}*"):
                shutil.rmtree(doomed, ignore_errors=True)
            if split_table_name(name)[1]:
                with contextlib.suppress(OSError):  # it has segments
                    table.rmdir()

    def open(
        self, table: str, segment_name: str, crc: int, download_url: str, crypter: str = "", *, anew: bool = False
    ) -> ImmutableSegment:
        """The segment with this CRC, from disk or from the deep store; `anew`: from the deep store only.

        Raises: RemoteError (no download), DataError and its kin (the archive is not that segment), InvalidConfigError
        (this server does not know its crypter), DiskError.
        """
        with disk_faults(f"segment '{segment_name}' is not loaded"):
            return self._open(table, segment_name, crc, download_url, crypter, anew=anew)

    def _open(
        self, table: str, segment_name: str, crc: int, download_url: str, crypter: str, *, anew: bool
    ) -> ImmutableSegment:
        directory = self._directory(table, segment_name)
        if directory.is_dir() and not anew:
            segment = self._open_local(directory, crc)
            if segment is not None:
                return segment
        opened = self._from_deep_store(table, directory, crc, download_url, crypter)
        self._faults.gone(table, segment_name)
        return opened

    def _from_deep_store(
        self, table: str, directory: Path, crc: int, download_url: str, crypter: str
    ) -> ImmutableSegment:
        rest_path = f"/segments/{quote(raw_table_name(table), safe='')}/{quote(directory.name, safe='')}"
        known = self._crypters.of(crypter)
        try:
            return self._download(directory, crc, download_url, rest_path, known)
        except (SegmentCorruptError, UnsafeArchiveError) as error:
            # Bytes may be damaged on their way, or be those of a moment: once more, then it is the archive.
            log.warning(
                "downloaded archive refused segment=%s reason=%s: fetching it again", directory.name, error.message
            )
        return self._download(directory, crc, download_url, rest_path, known)

    def open_from_peer(self, table: str, segment_name: str, crc: int, fault: PinotError) -> ImmutableSegment:
        """The segment with this CRC from a replica, after `open` failed with `fault`.

        Raises: `fault`, if there are no peers or it is none of the deep store's. RemoteError (no replica gives it
        either: that may pass, whatever the fault was), DiskError.
        """
        if self._peers is None or not isinstance(fault, RemoteError | NotFoundError | DataError):
            raise fault
        log.error(
            "deep store does not give segment, its replicas are asked table=%s segment=%s crc=%d reason=%s",
            table,
            segment_name,
            crc,
            fault.message,
        )
        self._faults.found(table, segment_name, crc, fault.message)
        with disk_faults(f"segment '{segment_name}' is not loaded"):
            directory = self._directory(table, segment_name)
            peer = self._fetch_from_peer(self._peers, table, directory, crc, fault)
            self._faults.found(table, segment_name, crc, fault.message, peer)
            self._on_peer(table)
            log.warning(
                "segment fetched from a replica table=%s segment=%s crc=%d from=%s", table, segment_name, crc, peer
            )
            return load_segment(directory, verify=False)

    def _fetch_from_peer(self, peers: PeerArchives, table: str, directory: Path, crc: int, fault: PinotError) -> str:
        with tempfile.TemporaryDirectory(dir=self._arrivals) as arrivals:
            archive = Path(arrivals) / "segment.tar.gz"
            try:
                _, peer = peers.fetch(
                    table, directory.name, crc, archive, lambda arrived: self._unpack(arrived, directory, crc)
                )
            except RemoteError as error:
                raise RemoteError(f"{fault.message}; and {error.message}", table=table) from fault
        return peer

    def scratch(self) -> Path:
        """A new folder beside the segments, for what is built here; whoever asked removes what is left of it."""
        return Path(tempfile.mkdtemp(dir=self._incoming))

    def adopt(self, table: str, built: Path) -> ImmutableSegment:
        """The segment that was built in the folder `built` on this disk, now under its name in its table."""
        with disk_faults(f"segment '{built.name}' is not kept"):
            directory = self._directory(table, built.name)
            with tempfile.TemporaryDirectory(dir=self._incoming) as hands:
                # In one step it is ours, or was discarded: then what is served under its name stays.
                taken = built.rename(Path(hands) / built.name)
                self._put(taken, directory)
            return load_segment(directory, verify=False)

    def distrust(self, table: str, segment_name: str) -> None:
        """Have the next load check all of the segment's bytes."""
        with contextlib.suppress(OSError):
            (self._directory(table, segment_name) / layout.VERIFIED).unlink(missing_ok=True)

    def delete(self, table: str, segment_name: str) -> None:
        """Remove the segment's files; nothing happens if there are none."""
        self._faults.gone(table, segment_name)
        directory = self._directory(table, segment_name)
        if directory.is_dir():
            _remove(directory)
            log.info("segment deleted table=%s segment=%s", table, segment_name)
        with self._placing, contextlib.suppress(OSError):  # others are there, or the folder is not
            directory.parent.rmdir()

    def held(self) -> dict[str, list[str]]:
        """The segments on disk by table, whether they are served or not: folders that a segment's metadata lies in.
        What else lies there is somebody else's, and what links lead to as well. Raises OSError.
        """
        tables = [name for name in _folders(self._data_dir) if split_table_name(name)[1]]
        return {
            table: [
                name
                for name in _folders(self._data_dir / table)
                if is_segment_name(name) and (self._data_dir / table / name / layout.METADATA).is_file()
            ]
            for table in tables
        }

    def size_bytes(self, table: str, segment_name: str) -> int:
        """Bytes on disk, 0 if it is not here."""
        directory = self._directory(table, segment_name)
        return sum(file.stat().st_size for file in directory.iterdir()) if directory.is_dir() else 0

    def _open_local(self, directory: Path, crc: int) -> ImmutableSegment | None:
        try:
            segment = load_segment(directory, verify=False)
        except DataError as error:
            log.warning("local segment refused segment=%s reason=%s: fetching it again", directory.name, error.message)
            _remove(directory)
            return None
        if segment.crc == crc:
            return segment
        log.info(
            "local segment is another version segment=%s expected_crc=%s found_crc=%s", directory.name, crc, segment.crc
        )
        segment.close()
        return None

    def _download(
        self, directory: Path, crc: int, download_url: str, rest_path: str, crypter: SegmentCrypter
    ) -> ImmutableSegment:
        with tempfile.TemporaryDirectory(dir=self._arrivals) as arrivals:
            fetched, archive = Path(arrivals) / "fetched", Path(arrivals) / "segment.tar.gz"
            self._fetcher.fetch(download_url, fetched, rest_path)
            decrypted(crypter, fetched, archive, directory.name)
            self._unpack(archive, directory, crc)
        log.info("segment downloaded segment=%s crc=%s", directory.name, crc)
        return load_segment(directory, verify=False)

    def _unpack(self, archive: Path, directory: Path, crc: int) -> None:
        """Put the segment of an archive in its place, if it is whole and the one with this CRC."""
        with tempfile.TemporaryDirectory(dir=self._incoming) as scratch:
            unpacked = unpack_segment(archive, Path(scratch), limits=self._limits)
            archive.unlink()  # checking it needs no room for both
            checked = load_segment(unpacked, verify=True)
            try:
                if checked.crc != crc or checked.name != directory.name:
                    raise SegmentCorruptError(
                        "the archive holds another segment",
                        file=directory.name,
                        expected=f"CRC {crc}",
                        found=f"'{checked.name}' CRC {checked.crc}",
                    )
            finally:
                checked.close()
            self._put(unpacked, directory)

    def _put(self, whole: Path, directory: Path) -> None:
        if directory.exists():
            _remove(directory)
        with self._placing:
            directory.parent.mkdir(parents=True, exist_ok=True)
            whole.rename(directory)

    def _directory(self, table: str, segment_name: str) -> Path:
        return self._data_dir / check_table_name(table) / check_segment_name(segment_name)


def _folders(directory: Path) -> list[str]:
    """Names of the folders in it, links left out. Raises OSError."""
    with os.scandir(directory) as entries:
        return [each.name for each in entries if each.is_dir(follow_symlinks=False)]


def _remove(directory: Path) -> None:
    # Renamed first: a crash in the middle must not leave half a segment under its name. Open maps stay valid.
    doomed = directory.parent / f"{_REMOVED}{directory.name}"
    shutil.rmtree(doomed, ignore_errors=True)
    directory.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)
