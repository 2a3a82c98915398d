"""The layout of segment archives in the deep store.

`segments/<table>/<segment>/<crc>.tar.gz`: a refresh writes beside the old file, so that a record's CRC always has its
bytes, and an aborted refresh has replaced nothing. Deleted archives stay for a while in
`Deleted_Segments/<table>/<segment>/<crc>.until-<ms>.tar.gz`. Lists of input files are stored beside the archives as
`<sha256>.inputs.json`, named by the SHA-256 in the record: concurrent writers cannot change the list that a record
names.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote, urlsplit

from pinotpy.cluster.segment_metadata import InputsRecord, SegmentZkMetadata
from pinotpy.controller.identity import Identity
from pinotpy.errors import DataError, NotFoundError, OutOfCapacityError, RemoteError
from pinotpy.fs.deep_store import DeepStore, StoredFile
from pinotpy.names import check_segment_name, check_table_name, raw_table_name
from pinotpy.segment.input_list import INPUT_LIST_MAX_BYTES, INPUT_LIST_SUFFIX, InputList

LOG = logging.getLogger(__name__)

LIVE, DELETED = "segments", "Deleted_Segments"
_ARCHIVE = ".tar.gz"
_COMPARED_BYTES = 1 << 20
_UNTIL = re.compile(r"\.until-(\d{1,15})\.(?:tar\.gz|inputs\.json)$")
_DELETED_ARCHIVE = re.compile(r"([^/]+)/(\d{1,20})\.until-(\d{1,15})\.tar\.gz$")
_DELETED_INPUTS = re.compile(r"/[0-9a-f]{64}\.until-(\d{1,15})\.inputs\.json$")


@dataclass(frozen=True, slots=True)
class DeletedArchive:
    """An archive among the deleted ones. until_ms: when it goes for good, in ms since the epoch."""

    key: str
    segment: str
    crc: int
    until_ms: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SegmentFiles:
    """Archives of segments by table, segment and CRC. Safe to share between threads, as its store is."""

    store: DeepStore
    identity: Identity  # of this controller, for download URLs

    def download_url(self, table: str, segment: str, crc: int) -> str:
        """Where servers fetch the archive: the deep store, or this controller's REST where that is a folder of its
        own.
        """
        return self.store.uri(_key(table, segment, crc)) or self.controller_url(table, segment)

    def controller_url(self, table: str, segment: str) -> str:
        """This controller's REST for the archive."""
        return f"{self.identity.url}/segments/{quote(raw_table_name(table), safe='')}/{quote(segment, safe='')}"

    def keeps(self, segment: SegmentZkMetadata) -> bool:
        """Whether a segment's archive is in the deep store; otherwise it stayed where it was pushed from."""
        parts = urlsplit(segment.download_url)
        if parts.scheme in ("", "http", "https") and parts.path.startswith(f"/{LIVE}/") and not parts.query:
            return True
        return segment.download_url == self.store.uri(
            _key(segment.table_name_with_type, segment.segment_name, segment.crc)
        )

    def put(self, table: str, segment: str, crc: int, archive: Path) -> StoredFile:
        """Store an archive atomically. Nobody may write to the file any more: the store may share its bytes.

        Raises:
            OutOfCapacityError: the store cannot take it (full, unreachable).
        """
        try:
            return self.store.put(_key(table, segment, crc), archive, is_final=True)
        except (DataError, RemoteError) as error:
            raise OutOfCapacityError(
                f"the deep store cannot take segment '{segment}': {error.message}", table=table, segment=segment
            ) from error

    def has(self, table: str, segment: str, crc: int) -> bool:
        """Whether the archive is there."""
        return self._has(_key(table, segment, crc))

    def holds(self, table: str, segment: str, crc: int, archive: Path) -> bool:
        """Whether what lies in the store is this archive, byte by byte. What the store cannot read is another."""
        try:
            with self.open(table, segment, crc) as stored, archive.open("rb") as wanted:
                while True:
                    piece = wanted.read(_COMPARED_BYTES)
                    if _read_exactly(stored, len(piece) or 1) != piece:
                        return False
                    if not piece:
                        return True
        except (NotFoundError, DataError):
            return False

    def archives(self, table: str, segment: str | None = None) -> dict[tuple[str, int], StoredFile]:
        """The archives of a table, both halves of it, or of one segment, by segment and CRC."""
        found = {}
        for file in self.store.list(f"{LIVE}/{_table(table)}" if segment is None else _folder(table, segment)):
            *_, segment, name = file.key.split("/")
            stem = name.removesuffix(_ARCHIVE)
            if stem != name and stem.isdigit():
                found[segment, int(stem)] = file
        return found

    def put_inputs(self, table: str, segment: str, inputs: InputList, scratch: Path) -> None:
        """Store a list of input files, if it is not there. Raises OutOfCapacityError: the store cannot take it.

        Args:
            scratch: a folder for the file on its way.
        """
        key = _inputs_key(table, segment, inputs.digest)
        if self._has(key):
            return
        file = scratch / f"{inputs.digest}{INPUT_LIST_SUFFIX}"
        file.write_bytes(inputs.to_bytes())
        try:
            self.store.put(key, file)
        except (DataError, RemoteError) as error:
            raise OutOfCapacityError(
                f"the deep store cannot take the list of input files of segment '{segment}': {error.message}",
                table=table,
            ) from error

    def read_inputs(self, table: str, segment: str, sha256: str) -> bytes:
        """A list of input files; NotFoundError if it is not in this store."""
        with self.store.open(_inputs_key(table, segment, sha256)) as file:
            return file.read(INPUT_LIST_MAX_BYTES + 1)

    def drop_inputs(self, table: str, segment: str, sha256: str) -> None:
        """Delete a list of input files."""
        self.store.delete(_inputs_key(table, segment, sha256))

    def _has(self, key: str) -> bool:
        try:
            self.store.open(key).close()
        except NotFoundError:
            return False
        return True

    def open(self, table: str, segment: str, crc: int) -> BinaryIO:
        """Open an archive for reading; NotFoundError if it is not in this store."""
        return self.store.open(_key(table, segment, crc))

    def set_aside(self, table: str, segment: str, crc: int, *, until_ms: int) -> str | None:
        """Move one archive to the deleted ones, kept until `until_ms`; returns its key there, if there was one."""
        key = f"{_deleted_folder(table, segment)}/{crc}.until-{until_ms}.tar.gz"
        if not self.has(table, segment, crc):
            return None
        self.store.move(_key(table, segment, crc), key)
        return key

    def deleted_archives(self, table: str, segment: str | None = None) -> list[DeletedArchive]:
        """The deleted archives of a table, both halves of it, or of one segment, those that stay longest last. A
        segment has several if its content was replaced before.
        """
        folder = f"{DELETED}/{_table(table)}" if segment is None else _deleted_folder(table, segment)
        found = []
        for file in self.store.list(folder):
            match = _DELETED_ARCHIVE.search(file.key)
            if match is not None:
                found.append(DeletedArchive(file.key, match[1], int(match[2]), int(match[3]), file.size_bytes))
        return sorted(found, key=lambda archive: (archive.segment, archive.until_ms, archive.crc))

    def deleted_inputs(self, table: str, archive: DeletedArchive) -> list[str]:
        """Keys of the lists of input files that were deleted together with an archive."""
        keys = (file.key for file in self.store.list(_deleted_folder(table, archive.segment)))
        matches = ((key, _DELETED_INPUTS.search(key)) for key in keys)
        return [key for key, match in matches if match is not None and int(match[1]) == archive.until_ms]

    def remove(self, key: str) -> None:
        """Permanently delete an archive that was set aside."""
        self.store.delete(key)

    def retire(
        self, table: str, segment: str, *, until_ms: int | None, spared: Iterable[SegmentZkMetadata] = ()
    ) -> None:
        """Move all files of a segment but those that the records `spared` name to the deleted ones, kept until
        `until_ms`; None deletes them at once.
        """
        keys = {_key(table, segment, record.crc) for record in spared}
        keys |= {_inputs_key(table, segment, record.inputs.sha256) for record in spared if record.inputs is not None}
        for file in list(self.store.list(_folder(table, segment))):
            if file.key in keys:
                continue
            if until_ms is None:
                self.store.delete(file.key)
            else:
                stem, dot, ending = file.key.rpartition("/")[2].partition(".")
                self.store.move(file.key, f"{_deleted_folder(table, segment)}/{stem}.until-{until_ms}{dot}{ending}")

    def restore(self, table: str, segment: str, crc: int, inputs: InputsRecord | None = None) -> bool:
        """Give a live archive, and its list of input files, that are among the deleted ones their places again; whether
        the archive has it.
        """
        if inputs is not None:
            self._restore(table, segment, _inputs_key(table, segment, inputs.sha256))
        return self._restore(table, segment, _key(table, segment, crc))

    def _restore(self, table: str, segment: str, key: str) -> bool:
        if self._has(key):
            return True
        stem = key.rpartition("/")[2].partition(".")[0]
        for file in list(self.store.list(_deleted_folder(table, segment))):
            if file.key.rpartition("/")[2].startswith(f"{stem}.until-"):
                self.store.move(file.key, key)
                return True
        return False

    def drop_unfinished(self, table: str, before_ms: int) -> int:
        """Delete archives of a table that a killed controller left unfinished, untouched since `before_ms`; returns how
        many.
        """
        return self.store.drop_unfinished(f"{LIVE}/{_table(table)}", before_ms)

    def purge(self, now_ms: int) -> int:
        """Delete the deleted archives whose retention is over; returns how many."""
        gone = 0
        for file in list(self.store.list(DELETED)):
            match = _UNTIL.search(file.key)
            if match is not None and int(match.group(1)) <= now_ms:
                gone += self.store.delete(file.key)
        return gone


def _table(table: str) -> str:
    return check_table_name(raw_table_name(table))


def _folder(table: str, segment: str) -> str:
    return f"{LIVE}/{_table(table)}/{check_segment_name(segment)}"


def _deleted_folder(table: str, segment: str) -> str:
    return f"{DELETED}/{_table(table)}/{check_segment_name(segment)}"


def _key(table: str, segment: str, crc: int) -> str:
    return f"{_folder(table, segment)}/{crc}{_ARCHIVE}"


def _inputs_key(table: str, segment: str, sha256: str) -> str:
    return f"{_folder(table, segment)}/{sha256}{INPUT_LIST_SUFFIX}"


def _read_exactly(file: BinaryIO, size_bytes: int) -> bytes:
    """The next bytes of a file, fewer only at its end: stores may give less at a time."""
    pieces: list[bytes] = []
    while size_bytes and (piece := file.read(size_bytes)):
        pieces.append(piece)
        size_bytes -= len(piece)
    return b"".join(pieces)
