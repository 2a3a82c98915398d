"""Files of this machine or of what is mounted here: plain paths and `file:` URIs."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from pinotpy.errors import DataError, NotFoundError, UserError
from pinotpy.fs.file_system import UNFINISHED, FileEntry, TransferLimits
from pinotpy.fs.uris import file_uri, local_path, masked, scheme_of
from pinotpy.fs.whole_files import COPY_BYTES, copy_whole, drop, sync_folder, unfinished_before, write_whole

_NOT_THERE: Final = (errno.ENOENT, errno.ENOTDIR)


def open_local(authority: str, configs: Mapping[str, str]) -> LocalFiles:
    """The files of this machine; there is nothing to configure."""
    return LocalFiles()


class LocalFiles:
    """See `file_system.FileSystem`. Links are followed: an input folder may have them. Deep stores are
    `local.LocalDeepStore`.
    """

    def list(self, uri: str) -> Iterator[FileEntry]:
        root = local_path(uri)
        if root.is_file():
            return iter([self.stat(uri)])
        paths: list[Path] = []
        with _translated(uri):
            for directory, folders, names in os.walk(root, onerror=_raise_unless_gone, followlinks=True):
                seen = {os.path.realpath(directory), *(os.path.realpath(parent) for parent in Path(directory).parents)}
                folders[:] = [
                    name for name in folders if os.path.realpath(os.path.join(directory, name)) not in seen
                ]  # a link to above
                paths += [Path(directory, name) for name in names if not name.startswith(UNFINISHED)]
        return self._stats(sorted(_written_as(uri, path) for path in paths))

    def stat(self, uri: str) -> FileEntry:
        path = local_path(uri)
        with _translated(uri):
            status = path.stat()
        if not path.is_file():
            raise NotFoundError(f"'{masked(uri)}' is no file", uri=masked(uri))
        return FileEntry(uri, status.st_size, status.st_mtime_ns // 1_000_000)

    def exists(self, uri: str) -> bool:
        return local_path(uri).is_file()

    def open(self, uri: str) -> BinaryIO:
        path = local_path(uri)
        with _translated(uri):
            if stat.S_ISFIFO(path.stat().st_mode):
                raise NotFoundError(
                    f"'{masked(uri)}' is no file but a pipe, whose end nobody can wait for", uri=masked(uri)
                )
            return path.open("rb")

    def fetch(self, uri: str, target: Path, limits: TransferLimits | None = None) -> FileEntry:
        with self.open(uri) as reader, _translated(uri):
            size_bytes = write_whole(
                iter(lambda: reader.read(COPY_BYTES), b""), target, limits or TransferLimits(), uri
            )
        return FileEntry(uri, size_bytes, self.stat(uri).modified_ms)

    def put(self, uri: str, source: Path) -> FileEntry:
        target = self._writable(uri)
        with _translated(str(source)):
            reader = source.open("rb")
        with reader, _translated(uri):
            target.parent.mkdir(parents=True, exist_ok=True)
            copy_whole(reader, target)
        return self.stat(uri)

    def move(self, uri: str, new_uri: str) -> FileEntry:
        source, target = local_path(uri), self._writable(new_uri)
        self.stat(uri)
        with _translated(uri):
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(source, target)
            sync_folder(target.parent)
        return self.stat(new_uri)

    def delete(self, uri: str) -> bool:
        path = local_path(uri)
        if path.is_dir():
            raise UserError(f"'{masked(uri)}' is a folder: expected a file", uri=masked(uri))
        with _translated(uri):
            return drop(path)

    def drop_unfinished(self, uri: str, before_ms: int) -> int:
        with _translated(uri):
            return sum(drop(path) for path in unfinished_before(local_path(uri), before_ms))

    def _stats(self, uris: Iterable[str]) -> Iterator[FileEntry]:
        for uri in uris:
            # A file may go between the walk and here: then it is not there.
            with suppress(NotFoundError):
                yield self.stat(uri)
                continue
            if (path := local_path(uri)).is_symlink() and not path.name.startswith("."):
                raise DataError(f"'{masked(uri)}' is a link to a file that is not there", uri=masked(uri))

    def _writable(self, uri: str) -> Path:
        path = local_path(uri)
        if uri.endswith("/") or path.is_dir():
            raise UserError(f"'{masked(uri)}' is a folder: expected the name of a file", uri=masked(uri))
        return path


def _written_as(uri: str, path: Path) -> str:
    return str(path) if scheme_of(uri) == "" else file_uri(path)


def _raise_unless_gone(error: OSError) -> None:
    if error.errno not in _NOT_THERE:
        raise DataError(f"'{error.filename}' cannot be listed: {(error.strerror or str(error)).lower()}") from error


@contextmanager
def _translated(uri: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _NOT_THERE:
            raise NotFoundError(f"no file '{masked(uri)}'", uri=masked(uri)) from error
        raise DataError(f"'{masked(uri)}': {(error.strerror or str(error)).lower()}", uri=masked(uri)) from error
