"""The deep store on a local or mounted folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from pinotpy.errors import DataError, InvalidConfigError, NotFoundError, UserError
from pinotpy.fs.deep_store import StoredFile, check_key, check_prefix
from pinotpy.fs.private_folder import make_private_folder
from pinotpy.fs.whole_files import copy_whole, drop, link_whole, sync_folder, unfinished_before

_TRIES: Final = 100


class LocalDeepStore:
    """Files below `root`, which is created. Links inside the root are not followed: they are no files of the store. No
    key begins with a dot, so what is being written is never listed and never opened.
    """

    def __init__(self, root: Path) -> None:
        try:
            make_private_folder(root)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise InvalidConfigError(
                f"the deep store '{root}' cannot be made: {reason}: expected a folder that this daemon may write to"
            ) from error
        self._root = root.resolve()

    def uri(self, key: str) -> str | None:
        return None

    def put(self, key: str, source: Path, *, is_final: bool = False) -> StoredFile:
        target = self._path(key)
        with _translated(key), source.open("rb") as reader:

            def write() -> None:
                reader.seek(0)  # a first try may have read it
                if is_final:
                    link_whole(reader, source, target)
                else:
                    copy_whole(reader, target)

            self._write(target, write)
        return self._stat(key, target)

    def get(self, key: str, target: Path) -> StoredFile:
        path = self._existing(key)
        with _translated(key), path.open("rb") as reader:
            size_bytes = copy_whole(reader, target)
        return StoredFile(key, size_bytes, self._stat(key, path).modified_ms)

    def open(self, key: str) -> BinaryIO:
        path = self._existing(key)
        with _translated(key):
            return path.open("rb")

    def delete(self, key: str) -> bool:
        path = self._path(key)
        if path.is_symlink() or not path.is_file():
            return False
        with _translated(key):
            path.unlink()
        self._drop_empty_folders(path.parent)
        return True

    def list(self, prefix: str = "") -> Iterator[StoredFile]:
        parts = check_prefix(prefix)
        folder = self._root.joinpath(*parts)
        keys = []
        for directory, folders, names in os.walk(folder, followlinks=False):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in names:
                path = Path(directory, name)
                if not name.startswith(".") and not path.is_symlink():
                    keys.append("/".join(path.relative_to(self._root).parts))
        for key in sorted(keys):
            # A file may go between the walk and here: then it is not there.
            with suppress(NotFoundError, UserError):
                yield self._stat(key, self._existing(key))

    def move(self, key: str, new_key: str) -> StoredFile:
        source, target = self._existing(key), self._path(new_key)
        with _translated(key):
            self._write(target, lambda: os.replace(source, target))
            sync_folder(target.parent)
        self._drop_empty_folders(source.parent)
        return self._stat(new_key, target)

    def drop_unfinished(self, prefix: str, before_ms: int) -> int:
        # As if for a file in it: a link on the way leads out of the store.
        folder, gone = self._path("/".join([*check_prefix(prefix), "any"])).parent, 0
        with _translated(prefix):
            for path in unfinished_before(folder, before_ms):
                gone += drop(path)
                self._drop_empty_folders(path.parent)
        return gone

    def _write(self, target: Path, write: Callable[[], object]) -> None:
        # Others delete the folder whenever it is empty: before it is written to, or while mkdir looks whether what is
        # there is a folder.
        for tries_left in reversed(range(_TRIES)):
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                write()
            except (FileNotFoundError, FileExistsError):
                if not tries_left:
                    raise
            else:
                return

    def _path(self, key: str) -> Path:
        path = self._root.joinpath(*check_key(key))
        # A link inside the root would lead a checked name out of it.
        folder = path.parent
        while folder != self._root:
            if folder.is_symlink():
                raise UserError(f"'{key}' leads out of the deep store: '{folder.name}' is a link", key=key)
            folder = folder.parent
        return path

    def _existing(self, key: str) -> Path:
        path = self._path(key)
        if path.is_symlink() or not path.is_file():
            raise NotFoundError(f"no file '{key}' in the deep store", key=key)
        return path

    def _stat(self, key: str, path: Path) -> StoredFile:
        with _translated(key):
            stat = path.stat()
        return StoredFile(key, stat.st_size, stat.st_mtime_ns // 1_000_000)

    def _drop_empty_folders(self, folder: Path) -> None:
        while folder != self._root:
            try:
                folder.rmdir()
            except OSError:
                return  # not empty, or somebody else was faster
            folder = folder.parent


@contextmanager
def _translated(key: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise NotFoundError(f"no file '{key}' in the deep store", key=key) from error
    except OSError as error:
        raise DataError(f"deep store failed on '{key}': {(error.strerror or str(error)).lower()}", key=key) from error
