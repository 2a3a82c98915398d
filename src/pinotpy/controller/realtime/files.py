"""Files of commits: stored as they arrive, under the name that their record will have if DONE takes them.

An archive's place in the deep store has its CRC in its name, so that two replicas' attempts never write to one file,
and DONE moves nothing. What comes of no commit is cleaned up as uploads that broke off.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

from pinotpy.cluster.llc_names import known_llc_name
from pinotpy.controller.context import Controller
from pinotpy.controller.segment_check import check_segment
from pinotpy.controller.upload import read_archive, read_metadata, sealed_archive, table_documents
from pinotpy.errors import UserError
from pinotpy.failpoints import FailPoint, reach
from pinotpy.names import TableType, table_name_with_type
from pinotpy.segment.metadata import SegmentMetadata

_FIELDS: Final = ("crc", "size", "crypter")


@dataclass(frozen=True, slots=True)
class StoredFile:
    """An archive in the deep store. location: a URI whose fragment has the rest, as messages bring it back."""

    url: str
    crc: int
    size_bytes: int
    crypter: str

    @property
    def location(self) -> str:
        return f"{self.url}#crc={self.crc}&size={self.size_bytes}&crypter={self.crypter}"

    @classmethod
    def of_location(cls, location: str) -> StoredFile:
        """Raises UserError: it is none of ours."""
        url, _, fragment = location.rpartition("#")
        fields = parse_qs(fragment, keep_blank_values=True)
        try:
            crc, size, crypter = (fields[name][0] for name in _FIELDS)
            return cls(url, int(crc), int(size), crypter)
        except (KeyError, ValueError, IndexError):
            raise UserError(f"'{urlsplit(location).path[:200]}' is no location that a controller gave") from None


def realtime_table_of(segment_name: str) -> str:
    """The table of a segment of a stream, by its name. Raises DataError."""
    return table_name_with_type(known_llc_name(segment_name).table, TableType.REALTIME)


def store_file(controller: Controller, segment_name: str, archive: Path, scratch: Path) -> StoredFile:
    """Check every byte of a segment's archive and store it.

    Raises: UserError, NotFoundError (no such segment or table), OutOfCapacityError.
    """
    table = realtime_table_of(segment_name)
    config, schema = table_documents(controller, table)
    metadata = read_archive(archive, scratch, controller)
    if metadata.segment_name != segment_name:
        raise UserError(f"expected segment '{segment_name}', found '{metadata.segment_name}'", segment=segment_name)
    check_segment(metadata, schema, table, config.segments.time_column_name, is_of_stream=True)
    sealed = sealed_archive(controller, archive, config, segment_name)
    size_bytes = sealed.stat().st_size
    controller.catalog.uploads.begin(table, segment_name, [metadata.crc], controller.clock.now_ms())
    reach(FailPoint.FILE_RECEIVED)
    controller.files.put(table, segment_name, metadata.crc, sealed)
    reach(FailPoint.FILE_STORED)
    url = controller.files.download_url(table, segment_name, metadata.crc)
    return StoredFile(url, metadata.crc, size_bytes, config.segments.crypter_class_name or "")


def metadata_of(controller: Controller, segment_name: str, file: StoredFile, sent: Path | None) -> SegmentMetadata:
    """The metadata of a stored file: as the committer sent it, else read of the file.

    Raises: UserError (it is of another file), NotFoundError (there is no such file).
    """
    if sent is not None:
        metadata = read_metadata(sent)
    else:
        from pinotpy.segment.archive.archive import read_archive_metadata

        with controller.files.open(realtime_table_of(segment_name), segment_name, file.crc) as archive:
            metadata, _ = read_archive_metadata(archive)
    if (metadata.segment_name, metadata.crc) != (segment_name, file.crc):
        raise UserError(
            f"expected metadata of segment '{segment_name}' with CRC {file.crc}, found '{metadata.segment_name}' with "
            f"CRC {metadata.crc}"
        )
    return metadata
