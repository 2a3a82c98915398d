"""One segment's archive → the same rows with partitions in their metadata, packed again.

Whoever loads the archive gets the buffers that it had, byte by byte: only the metadata file is another one.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pinotpy.config.indexing import ColumnPartitionConfig
from pinotpy.segment.archive.archive import pack_segment, unpack_segment
from pinotpy.segment.build.partitions_later import with_partitions, write_metadata
from pinotpy.segment.immutable import load_segment
from pinotpy.segment.metadata import SegmentMetadata

_COPY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A segment's metadata before and after; equal where nothing is new, and `archive` is None then."""

    before: SegmentMetadata
    after: SegmentMetadata
    archive: Path | None


def rewritten(
    source: BinaryIO, wanted: Mapping[str, ColumnPartitionConfig], folder: Path, *, packs: bool = True
) -> Rewritten:
    """Read an archive to its end, check every byte of the segment, compute the partitions of the scheme `wanted`.

    Args:
        folder: of this segment alone, which the caller removes; it takes the archive, the segment, and the new archive.
        packs: false: only compute.

    Raises:
        UnsafeArchiveError, SegmentCorruptError: the archive is damaged. OSError: the disk takes no more.
    """
    for leftover in folder.glob("unpacked*"):  # of an attempt that broke off
        shutil.rmtree(leftover)
    fetched = folder / "fetched.tar.gz"
    with fetched.open("wb") as copy:
        shutil.copyfileobj(source, copy, _COPY_BYTES)
    unpacked = unpack_segment(fetched, folder / "unpacked", is_durable=False)
    fetched.unlink()
    with closing(load_segment(unpacked)) as segment:
        before = segment.metadata
        after = with_partitions(segment, wanted)
    if after.crc == before.crc or not packs:
        return Rewritten(before, after, None)
    write_metadata(unpacked, after)
    return Rewritten(before, after, pack_segment(unpacked, folder / "annotated.tar.gz"))
