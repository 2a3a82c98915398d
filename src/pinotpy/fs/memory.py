"""The deep store in memory: the twin for tests and simulations, with faults on order."""

from __future__ import annotations

import io
import os
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from pinotpy.clock import Clock, SystemClock
from pinotpy.errors import DataError, NotFoundError
from pinotpy.fs.deep_store import StoredFile, check_key, check_prefix


class MemoryDeepStore:
    """Files in a dict; `_lock` guards it. `fault(operation, key)` may raise what storage would (disk full,
    unreachable).
    """

    def __init__(self, clock: Clock | None = None, fault: Callable[[str, str], None] | None = None) -> None:
        self._clock = clock or SystemClock()
        self._fault = fault or (lambda operation, key: None)
        self._lock = threading.Lock()
        self._files: dict[str, tuple[bytes, int]] = {}

    def uri(self, key: str) -> str | None:
        return None

    def put(self, key: str, source: Path, *, is_final: bool = False) -> StoredFile:
        check_key(key)
        self._fault("put", key)
        try:
            content = source.read_bytes()
        except FileNotFoundError as error:
            raise NotFoundError(f"no file '{key}' in the deep store", key=key) from error
        with self._lock:
            self._refuse_file_as_folder(key)
            self._files[key] = (content, self._clock.now_ms())
            return self._stored(key)

    def get(self, key: str, target: Path) -> StoredFile:
        check_key(key)
        self._fault("get", key)
        with self._lock:
            stored, content = self._stored(key), self._files[key][0]
        unfinished = target.with_name(f".unfinished-{uuid.uuid4().hex}")
        unfinished.write_bytes(content)
        os.replace(unfinished, target)
        return stored

    def open(self, key: str) -> BinaryIO:
        check_key(key)
        self._fault("open", key)
        with self._lock:
            self._stored(key)
            return io.BytesIO(self._files[key][0])

    def delete(self, key: str) -> bool:
        check_key(key)
        self._fault("delete", key)
        with self._lock:
            return self._files.pop(key, None) is not None

    def list(self, prefix: str = "") -> Iterator[StoredFile]:
        parts = check_prefix(prefix)
        self._fault("list", prefix)
        folder = "/".join(parts) + "/" if parts else ""
        with self._lock:
            stored = [self._stored(key) for key in sorted(self._files) if key.startswith(folder)]
        return iter(stored)

    def move(self, key: str, new_key: str) -> StoredFile:
        check_key(key)
        check_key(new_key)
        self._fault("move", key)
        with self._lock:
            self._stored(key)
            self._refuse_file_as_folder(new_key)
            self._files[new_key] = self._files.pop(key)
            return self._stored(new_key)

    def drop_unfinished(self, prefix: str, before_ms: int) -> int:
        check_prefix(prefix)
        self._fault("drop_unfinished", prefix)
        return 0  # what is put is there at once

    def _stored(self, key: str) -> StoredFile:
        if key not in self._files:
            raise NotFoundError(f"no file '{key}' in the deep store", key=key)
        content, modified_ms = self._files[key]
        return StoredFile(key, len(content), modified_ms)

    def _refuse_file_as_folder(self, key: str) -> None:
        parts = key.split("/")
        folders = {"/".join(parts[:count]) for count in range(1, len(parts))}
        if folders & self._files.keys() or any(other.startswith(key + "/") for other in self._files):
            raise DataError(f"deep store failed on '{key}': a file where a folder is needed, or the reverse", key=key)
