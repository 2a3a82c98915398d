"""Memory shared by the checks of uploads: if it is not free, a check does not wait but uses the disk."""

from __future__ import annotations

import threading


class CheckRoom:
    """See `segment.archive.archive_check.Room`. Shared between threads; the lock guards the bytes that are left."""

    def __init__(self, size_bytes: int) -> None:
        self._left_bytes = size_bytes
        self._lock = threading.Lock()

    @property
    def left_bytes(self) -> int:
        return self._left_bytes

    def take(self, size_bytes: int) -> bool:
        with self._lock:
            if size_bytes > self._left_bytes:
                return False
            self._left_bytes -= size_bytes
            return True

    def give_back(self, size_bytes: int) -> None:
        with self._lock:
            self._left_bytes += size_bytes
