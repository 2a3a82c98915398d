"""Segments as tar.gz: what is uploaded, kept in the deep store and downloaded.

<segment name>/           the only directory
<segment name>/columns    and columns.N
<segment name>/metadata
"""

from __future__ import annotations

import os
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from pinotpy.errors import UnsafeArchiveError, UserError
from pinotpy.names import check_segment_name
from pinotpy.segment import layout
from pinotpy.segment.directory import FileDirectory, SegmentDraft
from pinotpy.segment.gzip_stream import GzipStream
from pinotpy.segment.metadata import SegmentMetadata
from pinotpy.segment.tar_stream import ArchiveLimits, Entry, read_entries

# Dict ids and plain numbers gain little from more effort, and level 1 is three times faster than the default.
_GZIP_LEVEL: Final = 1


def pack_segment(segment_dir: Path, tar_gz_path: Path, *, threads: int | None = None) -> Path:
    """Write the segment in `segment_dir` as `tar_gz_path` (replaced in one step if it exists) and return it.

    Equal segments give equal archives: no times, owners or host in it. `threads` compress, default: the cores, at most 4.
    Raises SegmentCorruptError if the metadata cannot be read; the buffers are not checked.
    """
    directory = FileDirectory(Path(segment_dir))
    metadata = SegmentMetadata.from_bytes(directory.read(layout.METADATA, size_max=layout.METADATA_MAX_BYTES), f"{directory.location}/{layout.METADATA}")
    root = check_segment_name(metadata.segment_name)
    target = Path(tar_gz_path)
    descriptor, temporary = tempfile.mkstemp(prefix=".pack.", suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            with GzipStream(file, _GZIP_LEVEL, threads or min(len(os.sched_getaffinity(0)), 4)) as packed:
                _write_tar(packed, directory, root, [name for name, _ in metadata.files])
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
    return target


def _write_tar(out: GzipStream, directory: FileDirectory, root: str, columns_files: list[str]) -> None:
    def header(name: str, size: int, kind: bytes) -> bytes:
        info = tarfile.TarInfo(name)
        info.size, info.type, info.mode = size, kind, 0o755 if kind == tarfile.DIRTYPE else 0o444
        return info.tobuf(tarfile.PAX_FORMAT)

    out.write(header(root, 0, tarfile.DIRTYPE))
    sizes = directory.fingerprint()
    for name in (layout.METADATA, *columns_files):
        size = sizes[name][0]
        out.write(header(f"{root}/{name}", size, tarfile.REGTYPE))
        for piece in directory.chunks(name):
            out.write(piece)
        out.write(bytes(-size % 512))
    out.write(bytes(1024))


def unpack_segment(tar_path: Path, into_dir: Path, *, limits: ArchiveLimits | None = None) -> Path:
    """Unpack a segment of unknown origin to `into_dir/<segment name>` and return that folder.

    The name is the archive's own: compare it with the one that you expect, then `load_segment` checks the bytes. Files are
    streamed into a temporary folder, opened with O_EXCL and O_NOFOLLOW, and appear in one step; on failure nothing is left.

    Raises:
        UnsafeArchiveError: anything but one directory with the files of a segment, within the limits; says what and why.
        AlreadyExistsError: `into_dir` has a segment of that name.
    """
    draft: SegmentDraft | None = None
    root = ""
    seen: set[str] = set()
    try:
        with open(tar_path, "rb") as source:
            for entry in read_entries(source, limits or ArchiveLimits()):
                folder, file = _split_name(entry)
                if draft is None:
                    root = folder
                    draft = FileDirectory(Path(into_dir) / root).create()
                elif folder != root:
                    raise UnsafeArchiveError(f"archive has two directories, '{root}' and '{folder}': a segment has one")
                if file in seen:
                    raise UnsafeArchiveError(f"archive has '{entry.name[:200]}' twice")
                seen.add(file)
                if file:
                    draft.append(file, b"")
                for piece in entry.contents:
                    draft.append(file, piece)
        missing = {layout.METADATA, layout.COLUMNS} - seen
        if draft is None or missing:
            raise UnsafeArchiveError(f"archive is no segment: '{', '.join(sorted(missing))}' is missing")
        draft.commit()
        return Path(into_dir) / root
    finally:
        if draft is not None:
            draft.abort()


def _split_name(entry: Entry) -> tuple[str, str]:
    """Directory and file ('' for the directory itself) of an allowed name."""
    name = entry.name.removeprefix("./")
    shown = ascii(entry.name[:200])
    folder, _, file = (name.removesuffix("/") + "/" if entry.is_directory else name).partition("/")
    if entry.name.startswith("/") or ".." in name.split("/") or "\\" in name:
        raise UnsafeArchiveError(f"archive entry {shown} leaves its directory", entry=entry.name[:400])
    if not folder or not (file or entry.is_directory):
        raise UnsafeArchiveError(f"archive entry {shown} stands outside of the segment's directory: expected <segment name>/{layout.METADATA}")
    try:
        check_segment_name(folder)
    except UserError as error:
        raise UnsafeArchiveError(f"archive entry {shown}: {error.message}") from None
    if file and (entry.is_directory or not layout.is_segment_file(file)):
        raise UnsafeArchiveError(f"archive entry {shown} is no part of a segment: allowed are {layout.METADATA}, {layout.COLUMNS}, {layout.COLUMNS}.N")
    return folder, file
