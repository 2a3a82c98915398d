"""Files in the memory of this process, `memory://space/path`: the twin for tests."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from pinotpy.clock import SystemClock
from pinotpy.errors import NotFoundError
from pinotpy.fs.file_system import FileEntry, TransferLimits
from pinotpy.fs.uris import authority_and_path, path_of_file
from pinotpy.fs.whole_files import fetch_whole, opened_source


def open_memory(authority: str, configs: Mapping[str, str]) -> MemoryFiles:
    """The space of this name; it lives as long as the process."""
    with _LOCK:
        return _SPACES.setdefault(authority, MemoryFiles())


class MemoryFiles:
    """See `file_system.FileSystem`; `_lock` guards `_files`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[str, tuple[bytes, int]] = {}

    def list(self, uri: str) -> Iterator[FileEntry]:
        authority, path = authority_and_path(uri)
        folder = path.rstrip("/") + "/" if path else ""
        with self._lock:
            names = sorted(name for name in self._files if name.startswith(folder) or name == path)
            return iter(
                [
                    FileEntry(f"memory://{authority}/{name}", len(self._files[name][0]), self._files[name][1])
                    for name in names
                ]
            )

    def stat(self, uri: str) -> FileEntry:
        with self._lock:
            content, modified_ms = self._file(uri)
        return FileEntry(uri, len(content), modified_ms)

    def exists(self, uri: str) -> bool:
        with self._lock:
            return authority_and_path(uri)[1] in self._files

    def open(self, uri: str) -> BinaryIO:
        with self._lock:
            return io.BytesIO(self._file(uri)[0])

    def fetch(self, uri: str, target: Path, limits: TransferLimits | None = None) -> FileEntry:
        with self._lock:
            content, modified_ms = self._file(uri)
        fetch_whole(iter([content]), target, limits or TransferLimits(), uri)
        return FileEntry(uri, len(content), modified_ms)

    def put(self, uri: str, source: Path) -> FileEntry:
        name = path_of_file(uri)
        with opened_source(source) as reader:
            content = reader.read()
        with self._lock:
            self._files[name] = (content, SystemClock().now_ms())
        return self.stat(uri)

    def move(self, uri: str, new_uri: str) -> FileEntry:
        new_name = path_of_file(new_uri)
        with self._lock:
            content = self._file(uri)
            del self._files[authority_and_path(uri)[1]]
            self._files[new_name] = content
        return self.stat(new_uri)

    def delete(self, uri: str) -> bool:
        with self._lock:
            return self._files.pop(authority_and_path(uri)[1], None) is not None

    def _file(self, uri: str) -> tuple[bytes, int]:
        content = self._files.get(authority_and_path(uri)[1])
        if content is None:
            raise NotFoundError(f"no file '{uri}'", uri=uri)
        return content


_LOCK = threading.Lock()
_SPACES: dict[str, MemoryFiles] = {}
