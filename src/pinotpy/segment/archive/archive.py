"""Segments as tar.gz: what is uploaded, kept in the deep store and downloaded.

<segment name>/           the only directory
<segment name>/columns    and columns.N
<segment name>/metadata
"""

from __future__ import annotations

import os
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final

from pinotpy.errors import UnsafeArchiveError, UserError
from pinotpy.names import check_segment_name
from pinotpy.segment import layout
from pinotpy.segment.archive.gzip_stream import GzipStream
from pinotpy.segment.archive.tar_stream import ArchiveLimits, Entry, read_entries
from pinotpy.segment.directory.directory import SegmentDirectory, SegmentDraft
from pinotpy.segment.directory.file_directory import FileDirectory
from pinotpy.segment.metadata import SegmentMetadata, original_metadata
from pinotpy.segment.metadata_reader import read_metadata

# Dict ids and plain numbers gain little from more effort, and level 1 is three times faster than the default.
_GZIP_LEVEL: Final = 1
_METADATA_LIMITS: Final = ArchiveLimits(
    entries_max=4, file_max_bytes=layout.METADATA_MAX_BYTES, total_max_bytes=layout.METADATA_MAX_BYTES
)


def pack_segment(segment_dir: Path, tar_gz_path: Path, *, threads: int | None = None) -> Path:
    """Write the segment in `segment_dir` as `tar_gz_path` (replaced in one step if it exists) and return it.

    Equal segments give equal archives: no times, owners or host in it. `threads` compress, default: the cores, at most
    4. Raises SegmentCorruptError if the metadata cannot be read; the buffers are not checked.
    """
    directory = FileDirectory(Path(segment_dir))
    metadata, metadata_file = _metadata(directory)
    root = check_segment_name(metadata.segment_name)
    target = Path(tar_gz_path)
    descriptor, temporary = tempfile.mkstemp(prefix=".pack.", suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            with GzipStream(file, _GZIP_LEVEL, threads or min(len(os.sched_getaffinity(0)), 4)) as packed:
                for piece in _tar_pieces(directory, root, metadata_file, [name for name, _ in metadata.files]):
                    packed.write(piece)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
    return target


def packed_original(directory: SegmentDirectory) -> Iterator[bytes]:
    """The archive of a segment as its build left it, piece by piece: without indexes and columns that reloads added.

    Where the segment was packed by the same release, these are the bytes of its first archive. One thread compresses,
    as far ahead as the pieces are taken.

    Raises SegmentCorruptError: the metadata cannot be read, or a file is not there; the buffers are not checked.
    """
    reloaded, metadata_file = _metadata(directory)
    metadata = original_metadata(reloaded)
    if metadata != reloaded:
        metadata_file = metadata.to_bytes()
    sink = BytesIO()
    with GzipStream(sink, _GZIP_LEVEL, 1) as packed:
        for piece in _tar_pieces(directory, metadata.segment_name, metadata_file, [name for name, _ in metadata.files]):
            packed.write(piece)
            if sink.tell():
                yield sink.getvalue()
                sink.seek(0)
                sink.truncate()
    yield sink.getvalue()


def _metadata(directory: SegmentDirectory) -> tuple[SegmentMetadata, bytes]:
    """Read, and as the file stands."""
    data = directory.read(layout.METADATA, size_max=layout.METADATA_MAX_BYTES)
    return read_metadata(data, f"{directory.location}/{layout.METADATA}"), data


def _tar_pieces(
    directory: SegmentDirectory, root: str, metadata: bytes, columns_files: Sequence[str]
) -> Iterator[bytes]:
    yield _header(root, 0, tarfile.DIRTYPE)
    sizes = directory.fingerprint()
    files = [(layout.METADATA, len(metadata), iter([metadata]))]
    files += [(name, sizes[name][0], directory.chunks(name)) for name in columns_files]
    for name, size, pieces in files:
        yield _header(f"{root}/{name}", size, tarfile.REGTYPE)
        yield from pieces
        yield bytes(-size % 512)
    yield bytes(1024)


def _header(name: str, size: int, kind: bytes) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.mode = size, kind, 0o755 if kind == tarfile.DIRTYPE else 0o444
    return info.tobuf(tarfile.PAX_FORMAT)


def unpack_segment(
    tar_path: Path, into_dir: Path, *, limits: ArchiveLimits | None = None, is_durable: bool = True
) -> Path:
    """Unpack a segment of unknown origin to `into_dir/<segment name>` and return that folder.

    The name is the archive's own: compare it with the one that you expect, then `load_segment` checks the bytes. Files
    are streamed into a temporary folder, opened with O_EXCL and O_NOFOLLOW, and appear in one step; on failure nothing
    is left. `is_durable` false: only to look at, the files are not forced to the disk.

    Raises:
        UnsafeArchiveError: anything but one directory with the files of a segment, within the limits; says what and
            why.
        AlreadyExistsError: `into_dir` has a segment of that name.
    """
    draft: SegmentDraft | None = None
    folder = Path(into_dir)
    try:
        with open(tar_path, "rb") as source:
            for root, file, entry in segment_entries(source, limits or ArchiveLimits()):
                if draft is None:
                    folder /= root
                    draft = FileDirectory(folder).create(is_durable=is_durable)
                if file:
                    draft.append(file, b"")
                for piece in entry.contents:
                    draft.append(file, piece)
        assert draft is not None
        draft.commit()
        return folder
    finally:
        if draft is not None:
            draft.abort()


def segment_entries(source: BinaryIO, limits: ArchiveLimits) -> Iterator[tuple[str, str, Entry]]:
    """(folder, file in it or '' for the folder itself, entry) of the archive of a segment, in its order.

    Raises:
        UnsafeArchiveError: anything but one directory with the files of a segment, within the limits; that a file is
            missing is seen behind the last entry.
    """
    root = ""
    seen: set[str] = set()
    for entry in read_entries(source, limits):
        folder, file = _split_name(entry)
        if seen and folder != root:
            raise UnsafeArchiveError(f"archive has two directories, '{root}' and '{folder}': a segment has one")
        if file in seen:
            raise UnsafeArchiveError(f"archive has '{entry.name[:200]}' twice")
        root = folder
        seen.add(file)
        yield folder, file, entry
    missing = {layout.METADATA, layout.COLUMNS} - seen
    if missing:
        raise UnsafeArchiveError(f"archive is no segment: '{', '.join(sorted(missing))}' is missing")


def read_archive_metadata(source: BinaryIO, *, limits: ArchiveLimits | None = None) -> tuple[SegmentMetadata, bytes]:
    """The metadata of a packed segment, read and as its file stands, without reading further than it: it comes first
    where we pack.

    Raises:
        UnsafeArchiveError: no archive of a segment up to there.
        SegmentCorruptError, UnsupportedVersionError: the metadata cannot be trusted, or are those of another segment.
    """
    for entry in read_entries(source, limits or ArchiveLimits()):
        folder, file = _split_name(entry)
        if file != layout.METADATA:
            continue
        if entry.size_bytes > layout.METADATA_MAX_BYTES:
            raise UnsafeArchiveError(
                f"archive has {entry.size_bytes} bytes of metadata, allowed: {layout.METADATA_MAX_BYTES}"
            )
        data = b"".join(entry.contents)
        metadata = read_metadata(data, f"{folder}/{layout.METADATA}")
        if metadata.segment_name != folder:
            raise UnsafeArchiveError(
                f"the archive's folder is '{folder[:200]}', its metadata says segment '{metadata.segment_name[:200]}'"
            )
        return metadata, data
    raise UnsafeArchiveError(f"archive is no segment: '{layout.METADATA}' is missing")


def read_metadata_archive(source: BinaryIO) -> SegmentMetadata:
    """The metadata of a metadata push: an archive as `pack_metadata` makes it, nothing more in it. Raises as
    `read_archive_metadata`.
    """
    metadata, _ = read_archive_metadata(source, limits=_METADATA_LIMITS)
    source.seek(0)
    for entry in read_entries(source, _METADATA_LIMITS):
        if not entry.is_directory and _split_name(entry)[1] != layout.METADATA:
            raise UnsafeArchiveError(
                f"archive of a metadata push has '{entry.name[:200]}': expected {layout.METADATA} alone"
            )
    return metadata


def pack_metadata(metadata: bytes, segment_name: str) -> bytes:
    """The archive of a metadata push: the folder of a segment with its metadata file alone. Equal metadata give equal
    bytes.
    """
    root, out = check_segment_name(segment_name), BytesIO()
    with GzipStream(out, _GZIP_LEVEL, 1) as packed:
        packed.write(_header(root, 0, tarfile.DIRTYPE))
        packed.write(_header(f"{root}/{layout.METADATA}", len(metadata), tarfile.REGTYPE))
        packed.write(metadata + bytes(-len(metadata) % 512) + bytes(1024))
    return out.getvalue()


def _split_name(entry: Entry) -> tuple[str, str]:
    """Directory and file ('' for the directory itself) of an allowed name."""
    name = entry.name.removeprefix("./")
    shown = ascii(entry.name[:200])
    folder, _, file = (name.removesuffix("/") + "/" if entry.is_directory else name).partition("/")
    if entry.name.startswith("/") or ".." in name.split("/") or "\\" in name:
        raise UnsafeArchiveError(f"archive entry {shown} leaves its directory", entry=entry.name[:400])
    if not folder or not (file or entry.is_directory):
        raise UnsafeArchiveError(
            f"archive entry {shown} stands outside of the segment's directory: expected <segment "
            f"name>/{layout.METADATA}"
        )
    try:
        check_segment_name(folder)
    except UserError as error:
        raise UnsafeArchiveError(f"archive entry {shown}: {error.message}") from None
    if file and (entry.is_directory or not layout.is_segment_file(file)):
        raise UnsafeArchiveError(
            f"archive entry {shown} is no part of a segment: allowed are {layout.METADATA}, {layout.COLUMNS}, "
            f"{layout.COLUMNS}.N"
        )
    return folder, file
