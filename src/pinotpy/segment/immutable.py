"""Opening a segment: check it, map it, hand out its columns, close it when the last query has let go."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.data_types import DataType
from pinotpy.errors import SegmentCorruptError, UnknownColumnError
from pinotpy.segment import layout
from pinotpy.segment.buffers import ColumnBuffers
from pinotpy.segment.checksum import crc32c
from pinotpy.segment.column import ImmutableColumn
from pinotpy.segment.decoded_cache import DECODED
from pinotpy.segment.directory.directory import Fingerprint, SegmentDirectory
from pinotpy.segment.directory.file_directory import FileDirectory
from pinotpy.segment.integrity import SegmentIntegrity
from pinotpy.segment.metadata import SegmentMetadata
from pinotpy.segment.metadata_reader import metadata_of
from pinotpy.segment.star_tree.reader import StarTree
from pinotpy.segment.verify import check_contents, check_file, check_structure

_log = logging.getLogger(__name__)
_MARKER_MAX_BYTES = 1 << 20
_segment_ids = itertools.count(1)


class ImmutableSegment:
    """Implements data_source.Segment. Shared between threads; the lock guards the count of holders.

    A query calls `acquire` before it touches the segment and `release` afterwards; `close` takes effect when nobody
    holds it.
    """

    visible: NDArray[np.uint8] | None = None
    first_doc = 0

    def __init__(self, directory: SegmentDirectory, metadata: SegmentMetadata, files: list[NDArray[np.uint8]]) -> None:
        self.directory = directory
        self.metadata = metadata
        self.name = metadata.segment_name
        self.table = metadata.table_name
        self.num_docs = metadata.num_docs
        self.crc = metadata.crc
        self._id = next(_segment_ids)
        self._files: list[NDArray[np.uint8]] = files
        self._integrity = SegmentIntegrity(self.name, directory, files, metadata.files)
        self._columns: dict[str, ImmutableColumn] = {}
        self._names = tuple(column.name for column in metadata.columns)
        self._by_name = {column.name: column for column in metadata.columns}
        self._condition = threading.Condition()
        self._num_holders = 0
        self._closing = False
        self._closed = False

    def columns(self) -> tuple[str, ...]:
        return self._names

    def has_column(self, name: str) -> bool:
        return name in self._by_name

    def kind(self, name: str) -> tuple[DataType, bool]:
        """Implements data_source.Segment."""
        column = self._by_name[name]
        return column.data_type, column.single_value

    def column(self, name: str) -> ImmutableColumn:
        found = self._columns.get(name)
        if found is not None:
            return found
        metadata = self._by_name.get(name)
        if metadata is None:
            raise UnknownColumnError(
                f"no column '{name}' in segment '{self.name}' of table '{self.table}'",
                table=self.table,
                segment=self.name,
                column=name,
            )
        assert not self._closed, f"segment '{self.name}' is closed"
        # Two threads may build the same column at once: equal views, one stays.
        buffers = ColumnBuffers(metadata, self._files, f"{self.directory.location}/{layout.COLUMNS}")
        return self._columns.setdefault(name, ImmutableColumn(metadata, self.num_docs, buffers, self._id))

    def look(self) -> None:
        """Implements data_source.Segment."""
        self._integrity.look()

    def check_bytes(self, names: Sequence[str], pause: Callable[[], None]) -> bool:
        """Implements data_source.Segment."""
        compared = False
        for name in names:
            metadata = self._by_name.get(name)
            if metadata is not None:
                compared |= self._integrity.check(f"column '{name}'", metadata.buffers, pause)
        return compared

    @cached_property
    def star_trees(self) -> tuple[StarTree, ...]:
        """The star-trees, in the order of the config that they were built by."""
        location = f"{self.directory.location}/{layout.COLUMNS}"
        return tuple(
            StarTree(
                tree,
                ColumnBuffers(tree, self._files, location),
                self.name,
                self.table,
                self.num_docs,
                self.column,
                self._integrity,
            )
            for tree in self.metadata.star_trees
        )

    def acquire(self) -> bool:
        """Hold the segment; False if it is closing: then act as if it were not here."""
        with self._condition:
            if self._closing:
                return False
            self._num_holders += 1
            return True

    def release(self) -> None:
        """Let go what `acquire` took."""
        with self._condition:
            assert self._num_holders > 0, f"segment '{self.name}' released more often than acquired"
            self._num_holders -= 1
            if self._closing and self._num_holders == 0:
                self._drop()

    def close(self, timeout_s: float = 0.0) -> bool:
        """Refuse new holders; unmap now, or when the last holder lets go. Waits for that up to `timeout_s` seconds;
        returns whether the segment is closed. May be called again.
        """
        with self._condition:
            self._closing = True
            if self._num_holders == 0:
                self._drop()
            elif timeout_s > 0:
                self._condition.wait_for(lambda: self._closed, timeout_s)
            return self._closed

    def _drop(self) -> None:
        # The map itself goes with its last view.
        self._closed = True
        self._files = []
        self._integrity.close()
        self._columns = {}
        self.__dict__.pop("star_trees", None)
        DECODED.forget(self._id)
        self._condition.notify_all()

    def to_batches(
        self, *, batch_docs: int = 65_536, columns: tuple[str, ...] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows in storage form (types of `DataType.arrow`, null where the input had none)."""
        from pinotpy.segment.to_arrow import column_to_arrow

        names = columns if columns is not None else self._names
        self.look()
        self.check_bytes(names, lambda: None)
        arrays = [column_to_arrow(self.column(name)) for name in names]
        for start in range(0, self.num_docs, batch_docs):
            yield pa.RecordBatch.from_arrays([array.slice(start, batch_docs) for array in arrays], names=list(names))

    def __enter__(self) -> ImmutableSegment:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def load_segment(path: Path, *, verify: bool = True) -> ImmutableSegment:
    """Open the segment in folder `path`.

    Args:
        verify: read everything and check every CRC and all that kernels rely on. False: if a marker of an earlier
            full check fits (same CRC, sizes and modification times of all files), that is left to `check_bytes`.

    Raises:
        NotFoundError: there is no such folder.
        SegmentCorruptError, UnsupportedVersionError: the segment cannot be trusted; names file, expected and found.
    """
    return open_segment(FileDirectory(Path(path)), verify=verify)


def open_segment(directory: SegmentDirectory, *, verify: bool = True) -> ImmutableSegment:
    """`load_segment` through the directory door."""
    before = directory.fingerprint()
    location = directory.location
    metadata = metadata_of(directory)
    check_structure(metadata, location)
    files = []
    for name, size in metadata.files:
        data = directory.map(name)
        check_file(name, data, size, location)
        files.append(data)
    marker = _marker(metadata, before)
    if verify or _read_marker(directory, before) != marker:
        check_contents(metadata, files, directory)
        directory.put_marker(layout.VERIFIED, orjson.dumps(marker))
    return ImmutableSegment(directory, metadata, files)


def scrub(segment: ImmutableSegment, pace: Callable[[int], None] | None = None) -> None:
    """Read the files of an open segment anew and compare every CRC; raises SegmentCorruptError.

    Goes through read(), never through the map: a page that the disk lost must be an error here, not a SIGBUS.

    pace: is told after every piece how many bytes it had; it may wait, and raise to end the reading.
    """
    metadata, directory = segment.metadata, segment.directory
    found = metadata_of(directory)
    # A reload may have appended files since: what was there stays as it was.
    if found.crc != metadata.crc or found.files[: len(metadata.files)] != metadata.files:
        raise SegmentCorruptError(
            "metadata is not that of the open segment",
            file=f"{directory.location}/{layout.METADATA}",
            expected=metadata.crc,
            found=found.crc,
        )
    for index, (name, size) in enumerate(metadata.files):
        _scrub_file(segment, index, name, size, pace)
    _log.debug("segment scrubbed segment=%s bytes=%d", segment.name, metadata.size_bytes)


def _scrub_file(
    segment: ImmutableSegment, index: int, name: str, size: int, pace: Callable[[int], None] | None
) -> None:
    file = f"{segment.directory.location}/{name}"
    entries = sorted(
        (entry.offset, layout.aligned(entry.size_bytes), entry.crc, entry.kind)
        for entry in segment.metadata.buffers()
        if entry.file == index
    )
    regions = iter([region for region in entries if region[1]])
    region = next(regions, None)
    position, crc, header = 0, 0, b""
    for piece in segment.directory.chunks(name):
        header += (
            piece[: layout.COLUMNS_HEADER_BYTES - len(header)] if len(header) < layout.COLUMNS_HEADER_BYTES else b""
        )
        view = memoryview(piece)
        if position < layout.COLUMNS_HEADER_BYTES:
            skip = min(layout.COLUMNS_HEADER_BYTES - position, len(view))
            view, position = view[skip:], position + skip
        while len(view) and region is not None:
            offset, length, expected, kind = region
            part = view[: offset + length - position]
            crc = crc32c(part, crc)
            view, position = view[len(part) :], position + len(part)
            if position == offset + length:
                if crc != expected:
                    raise SegmentCorruptError(
                        f"buffer '{kind}' at byte {offset} does not match its CRC",
                        file=file,
                        expected=expected,
                        found=crc,
                    )
                region, crc = next(regions, None), 0
        position += len(view)
        if pace is not None:
            pace(len(piece))
    if position != size:
        raise SegmentCorruptError(
            "columns file has a wrong size", file=file, expected=f"{size} bytes", found=f"{position} bytes"
        )
    layout.check_columns_header(header, file)


def _marker(metadata: SegmentMetadata, fingerprint: Fingerprint) -> dict[str, Any]:
    names = (layout.METADATA, *(name for name, _ in metadata.files))
    return {
        "version": 1,
        "crc": metadata.crc_text,
        "files": {name: list(fingerprint.get(name, (-1, -1))) for name in names},
    }


def _read_marker(directory: SegmentDirectory, fingerprint: Fingerprint) -> Any:
    if layout.VERIFIED not in fingerprint:
        return None
    try:
        return orjson.loads(directory.read(layout.VERIFIED, size_max=_MARKER_MAX_BYTES))
    except (SegmentCorruptError, orjson.JSONDecodeError):
        return None
