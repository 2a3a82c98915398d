"""Decompressed and unpacked columns, the checked offsets of their values, and what queries derived from columns, under
a byte budget, least recently used out first.

Who got an array keeps it alive by holding it: eviction only forgets, so no reader ever sees freed memory.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from numpy.typing import NDArray

BUDGET_BYTES_DEFAULT: Final = 256 << 20

Key = tuple[int, str, str]  # id of the open segment, column, kind of buffer


class DecodedCache:
    """Shared between threads; the lock guards the entries and is not held while decoding."""

    def __init__(self, budget_bytes: int = BUDGET_BYTES_DEFAULT) -> None:
        self._lock = threading.Lock()
        self._entries: OrderedDict[Key, NDArray[Any]] = OrderedDict()
        self._used_bytes = 0
        self._budget_bytes = budget_bytes

    @property
    def used_bytes(self) -> int:
        return self._used_bytes

    @property
    def budget_bytes(self) -> int:
        return self._budget_bytes

    def set_budget(self, budget_bytes: int) -> None:
        """Change the budget; what no longer fits goes at once."""
        with self._lock:
            self._budget_bytes = budget_bytes
            self._shrink()

    def get(self, key: Key, decode: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """The decoded bytes of `key`, from here or from `decode`; larger ones than the whole budget are not kept."""
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
                return found
        # Two threads may decode the same column at once: harmless, one result stays.
        decoded = decode()
        decoded.flags.writeable = False
        with self._lock:
            if key not in self._entries and decoded.nbytes <= self._budget_bytes:
                self._entries[key] = decoded
                self._used_bytes += decoded.nbytes
                self._shrink()
        return decoded

    def drop(self, key: Key) -> None:
        """Forget one entry."""
        with self._lock:
            found = self._entries.pop(key, None)
            self._used_bytes -= 0 if found is None else found.nbytes

    def forget(self, segment_id: int) -> None:
        """Drop all columns of a closed segment."""
        with self._lock:
            for key in [key for key in self._entries if key[0] == segment_id]:
                self._used_bytes -= self._entries.pop(key).nbytes

    def _shrink(self) -> None:
        while self._used_bytes > self._budget_bytes:
            self._used_bytes -= self._entries.popitem(last=False)[1].nbytes


DECODED: Final = DecodedCache()
