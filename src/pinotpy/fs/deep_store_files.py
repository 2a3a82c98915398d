"""The deep store on any file system, below one URI."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from pinotpy.errors import UserError
from pinotpy.fs.deep_store import StoredFile, check_key, check_prefix
from pinotpy.fs.file_system import FileEntry, FileSystem, WritesBeside
from pinotpy.fs.uris import join


class FileDeepStore:
    """See `deep_store.DeepStore`: the file of key `a/b` is `<root>/a/b`."""

    def __init__(self, root: str, files: FileSystem) -> None:
        self.root = root.rstrip("/")
        self._files = files

    def uri(self, key: str) -> str:
        return join(self.root, *check_key(key))

    def put(self, key: str, source: Path, *, is_final: bool = False) -> StoredFile:
        return _stored(key, self._files.put(self.uri(key), source))

    def get(self, key: str, target: Path) -> StoredFile:
        return _stored(key, self._files.fetch(self.uri(key), target))

    def open(self, key: str) -> BinaryIO:
        return self._files.open(self.uri(key))

    def delete(self, key: str) -> bool:
        return self._files.delete(self.uri(key))

    def list(self, prefix: str = "") -> Iterator[StoredFile]:
        folder = join(self.root, *check_prefix(prefix)) + "/"
        for entry in self._files.list(folder):
            key = entry.uri.removeprefix(self.root + "/")
            if _is_key(key):  # whatever else lies in the bucket is no file of the store
                yield _stored(key, entry)

    def move(self, key: str, new_key: str) -> StoredFile:
        return _stored(new_key, self._files.move(self.uri(key), self.uri(new_key)))

    def drop_unfinished(self, prefix: str, before_ms: int) -> int:
        folder = join(self.root, *check_prefix(prefix)) + "/"
        return self._files.drop_unfinished(folder, before_ms) if isinstance(self._files, WritesBeside) else 0


def _stored(key: str, entry: FileEntry) -> StoredFile:
    return StoredFile(key, entry.size_bytes, entry.modified_ms)


def _is_key(key: str) -> bool:
    try:
        check_key(key)
    except UserError:
        return False
    return True
