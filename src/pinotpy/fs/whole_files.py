"""Atomic file writes: to a temporary name beside the target, synced on this machine, renamed; within limits of size and
time.
"""

from __future__ import annotations

import errno
import os
import stat
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from pinotpy.errors import DataError, NotFoundError, PinotError, RemoteError
from pinotpy.fs.file_system import UNFINISHED, TransferLimits
from pinotpy.fs.uris import masked

COPY_BYTES = 1 << 20


@contextmanager
def whole_file(target: Path) -> Iterator[BinaryIO]:
    """A new file that appears as `target` when the block ends well, with its bytes on disk; else nothing is left of it.

    Raises OSError.
    """
    unfinished = target.with_name(f"{UNFINISHED}{uuid.uuid4().hex}")
    try:
        with unfinished.open("xb") as writer:
            yield writer
            writer.flush()
            os.fsync(writer.fileno())
        os.replace(unfinished, target)
        sync_folder(target.parent)
    finally:
        unfinished.unlink(missing_ok=True)


def link_whole(reader: BinaryIO, source: Path, target: Path) -> None:
    """Make `target` a second name of the open file `source`, its bytes on disk first; a copy where the file system has
    no such thing.

    For a source that nobody writes to any more. Raises OSError.
    """
    if not stat.S_ISREG(os.fstat(reader.fileno()).st_mode) or source.is_symlink():
        reader.seek(0)
        copy_whole(reader, target)
        return
    os.fsync(reader.fileno())
    try:
        _link(source, target)
    except FileNotFoundError:
        raise
    except OSError:  # another disk, a mount without links, too many of them
        reader.seek(0)
        copy_whole(reader, target)
        return
    sync_folder(target.parent)


def _link(source: Path, target: Path) -> None:
    try:
        # Right under its name: a process that is killed here leaves nothing beside it.
        os.link(source, target)
    except FileExistsError:
        unfinished = target.with_name(f"{UNFINISHED}{uuid.uuid4().hex}")
        try:
            os.link(source, unfinished)
            os.replace(unfinished, target)
        finally:
            # Renaming a file over another name of itself leaves both.
            unfinished.unlink(missing_ok=True)


def copy_whole(reader: BinaryIO, target: Path) -> int:
    """Copy the rest of a local stream; returns its bytes."""
    return write_whole(iter(lambda: reader.read(COPY_BYTES), b""), target, TransferLimits(), str(target))


def fetch_whole(
    chunks: Iterator[bytes], target: Path, limits: TransferLimits, uri: str, expected_bytes: int | None = None
) -> int:
    """`write_whole` of chunks that raise no OSError of their own: one is the disk's here, and a DataError that says
    so.
    """
    try:
        return write_whole(chunks, target, limits, uri, expected_bytes)
    except OSError as error:
        raise DataError(
            f"'{masked(uri)}' cannot be written to this machine's disk: {(error.strerror or str(error)).lower()}",
            uri=masked(uri),
        ) from error


def write_whole(
    chunks: Iterator[bytes], target: Path, limits: TransferLimits, uri: str, expected_bytes: int | None = None
) -> int:
    """Write what comes from `uri`; returns its bytes.

    Raises OSError; DataError over the limit of bytes; RemoteError over the limit of time, or if other than the expected
    bytes came.
    """
    deadline_s = None if limits.timeout_s is None else time.monotonic() + limits.timeout_s
    check_size(expected_bytes or 0, limits, uri)
    size_bytes = 0
    with whole_file(target) as writer:
        for chunk in chunks:
            size_bytes += len(chunk)
            check_size(size_bytes, limits, uri)
            if deadline_s is not None and time.monotonic() > deadline_s:
                raise RemoteError(
                    f"'{masked(uri)}' took longer than {limits.timeout_s:g} s, {size_bytes} bytes had come",
                    uri=masked(uri),
                )
            writer.write(chunk)
        if expected_bytes is not None and size_bytes != expected_bytes:
            raise RemoteError(
                f"'{masked(uri)}' broke off or was replaced meanwhile: expected {expected_bytes} bytes, found "
                f"{size_bytes}",
                uri=masked(uri),
            )
    return size_bytes


def check_size(size_bytes: int, limits: TransferLimits, uri: str) -> None:
    """Raise DataError for a file over the limit."""
    if limits.bytes_max is not None and size_bytes > limits.bytes_max:
        raise DataError(
            f"'{masked(uri)}' is longer than the {limits.bytes_max} bytes that are allowed", uri=masked(uri)
        )


def put_beside(
    path: str, write: Callable[[str], None], rename: Callable[[str], None], drop: Callable[[str], object]
) -> None:
    """Write the future `path` of a remote storage under a temporary name beside it, then rename it; on failure delete
    it.
    """
    unfinished = f"{path.rpartition('/')[0]}/{UNFINISHED}{uuid.uuid4().hex}"
    try:
        write(unfinished)
        rename(unfinished)
    except BaseException:
        with suppress(PinotError):  # it is never listed; what went wrong is told by the error that is on its way
            drop(unfinished)
        raise


def unfinished_before(folder: Path, before_ms: int) -> Iterator[Path]:
    """Unfinished files below a local folder that nobody wrote to since then. Raises OSError for a folder that cannot be
    read.
    """
    for directory, _, names in os.walk(folder, onerror=_raise_unless_gone):
        for path in (Path(directory, name) for name in names if name.startswith(UNFINISHED)):
            with suppress(FileNotFoundError):
                status = path.lstat()
                # By the last change of the file: what was last written may be old, where it is another name of its
                # source.
                if stat.S_ISREG(status.st_mode) and status.st_ctime_ns // 1_000_000 < before_ms:
                    yield path


def drop(path: Path) -> bool:
    """Delete a local file; whether there was one. Raises OSError."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True


def _raise_unless_gone(error: OSError) -> None:
    if error.errno not in (errno.ENOENT, errno.ENOTDIR):
        raise error


def opened_source(path: Path) -> BinaryIO:
    """A local file that is to be stored. Raises NotFoundError."""
    try:
        return path.open("rb")
    except FileNotFoundError as error:
        raise NotFoundError(f"no file '{path}'") from error


def sync_folder(folder: Path) -> None:
    """Make renames within the folder last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
