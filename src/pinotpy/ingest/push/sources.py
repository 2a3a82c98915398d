"""The segments that are to be pushed: archives on any file system, or segment folders on this machine.

Only the metadata is read here (the first kilobytes of an archive), and the list of input files that may lie beside the
segment: name, CRC, time range and input files decide what has to be sent.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pinotpy.errors import DataError, NotFoundError, UserError
from pinotpy.fs.file_systems import file_system_for
from pinotpy.fs.settings import FileSystemSettings
from pinotpy.fs.uris import LOCAL_SCHEMES, local_path, masked, scheme_of
from pinotpy.ingest.archive_listing import ARCHIVE_ENDING, input_list_uri, list_archives
from pinotpy.segment import layout
from pinotpy.segment.archive.archive import pack_segment, read_archive_metadata
from pinotpy.segment.directory.file_directory import FileDirectory
from pinotpy.segment.input_list import INPUT_LIST_MAX_BYTES, InputList
from pinotpy.segment.metadata import SegmentMetadata
from pinotpy.segment.metadata_reader import read_metadata


@dataclass(frozen=True, slots=True)
class SegmentSource:
    """One segment to push. `metadata_bytes`: its metadata file; `folder`: where it lies unpacked, None for an archive;
    `inputs`: the list of its input files, None if there is none beside it.
    """

    uri: str
    metadata: SegmentMetadata
    metadata_bytes: bytes
    size_bytes: int
    folder: Path | None = None
    inputs: InputList | None = None

    @property
    def name(self) -> str:
        return self.metadata.segment_name

    @contextmanager
    def opened(self, file_systems: FileSystemSettings | None) -> Iterator[BinaryIO]:
        """The archive, seekable; of a folder it is packed first."""
        if self.folder is None:
            with file_system_for(self.uri, file_systems).open(self.uri) as stream:
                yield stream
            return
        with tempfile.TemporaryDirectory(prefix="push-") as scratch:
            archive = pack_segment(self.folder, Path(scratch) / f"{self.name}{ARCHIVE_ENDING}")
            with archive.open("rb") as stream:
                yield stream


def read_sources(
    uris: Sequence[str], file_systems: FileSystemSettings | None, *, parallelism: int
) -> list[SegmentSource]:
    """Look at every segment; in the order of `uris`.

    Raises:
        UserError: one is no segment (all that are none are named), or two have one name.
        NotFoundError, RemoteError: it is not there, or its storage cannot be reached.
    """
    with ThreadPoolExecutor(max(1, min(parallelism, len(uris))), "push-look") as pool:
        sources = list(pool.map(lambda uri: _source_or_fault(uri, file_systems), uris))
    faults = [source for source in sources if isinstance(source, str)]
    if faults:
        more = f"; and {len(faults) - 10} more" if len(faults) > 10 else ""
        raise UserError(f"{len(faults)} of {len(uris)} cannot be pushed: {'; '.join(faults[:10])}{more}")
    readable = [source for source in sources if isinstance(source, SegmentSource)]
    by_name: dict[str, SegmentSource] = {}
    for source in readable:
        if source.name in by_name:
            raise UserError(
                f"'{masked(by_name[source.name].uri)}' and '{masked(source.uri)}' are both segment '{source.name}': "
                "push one of them"
            )
        by_name[source.name] = source
    return readable


def find_archives(folder_uri: str, file_systems: FileSystemSettings | None = None) -> list[str]:
    """URIs of the archives below a folder, ascending, without those that a later run of their job replaced."""
    return list(list_archives(folder_uri, file_systems).current)


def _source_or_fault(uri: str, file_systems: FileSystemSettings | None) -> SegmentSource | str:
    try:
        return _read_source(uri, file_systems)
    except DataError as error:
        return f"'{masked(uri)}': {error.message}"


def _read_source(uri: str, file_systems: FileSystemSettings | None) -> SegmentSource:
    if scheme_of(uri) in LOCAL_SCHEMES and (folder := local_path(uri)).is_dir():
        directory = FileDirectory(folder)
        data = directory.read(layout.METADATA, size_max=layout.METADATA_MAX_BYTES)
        metadata = read_metadata(data, f"{folder}/{layout.METADATA}")
        return SegmentSource(
            uri, metadata, data, len(data) + metadata.size_bytes, folder, _read_inputs(str(folder), None)
        )
    files = file_system_for(uri, file_systems)
    size_bytes = files.stat(uri).size_bytes
    with files.open(uri) as stream:
        metadata, data = read_archive_metadata(stream)
    return SegmentSource(uri, metadata, data, size_bytes, inputs=_read_inputs(uri, file_systems))


def _read_inputs(uri: str, file_systems: FileSystemSettings | None) -> InputList | None:
    """The list beside a segment. None also for a signed address: nothing else can be read there."""
    if scheme_of(uri) in ("http", "https") and "?" in uri:
        return None
    where = input_list_uri(uri)
    try:
        with file_system_for(where, file_systems).open(where) as stream:
            return InputList.from_bytes(stream.read(INPUT_LIST_MAX_BYTES + 1), masked(where))
    except NotFoundError:
        return None
