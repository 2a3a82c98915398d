"""The shared dictionaries of all columns that queries group by, under a byte budget; built and extended by one thread
of low priority.

A query asks and never waits: where something is missing it gets None, merges by value, and the builder is told. Least
recently asked for goes first when the budget is passed; queries that hold ids keep what they hold.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from pinotpy.data_types import DataType, StoredType
from pinotpy.segment.data_source import Dictionary
from pinotpy.segment.shared_codes.dictionary import SharedCodes, SharedDictionary
from pinotpy.segment.shared_codes.values import values_of_dictionary

_log = logging.getLogger(__name__)
BUDGET_BYTES_DEFAULT: Final = 512 << 20
# Requests that wait; more are dropped, and come again with the next query.
WAITING_MAX: Final = 256
# Numbered anew when more than this share of the ids was appended (code maps no longer ascend) or belongs to nobody any
# more.
APPENDED_SHARE_MAX: Final = 0.25
DEAD_SHARE_MAX: Final = 0.5
# Not numbered anew for fewer ids than this: their code maps fit into a cache in any order.
RENUMBER_IDS_MIN: Final = 4096
_NICENESS: Final = 10

Key = tuple[str, str, StoredType]  # table, column


class SharedDictionaries:
    """Shared between threads; the lock guards the entries and the requests and is never held while building.

    Args:
        budget_bytes: for values and code maps together; 0 turns shared dictionaries off.
        in_background: False: `build_waiting` is called by whoever wants it (tests, scripts).
    """

    def __init__(self, budget_bytes: int = BUDGET_BYTES_DEFAULT, *, in_background: bool = True) -> None:
        self._budget_bytes = budget_bytes
        self._in_background = in_background
        self._condition = threading.Condition()
        self._entries: OrderedDict[Key, SharedDictionary] = OrderedDict()
        self._waiting: dict[Key, list[Dictionary]] = {}
        self._refused: dict[Key, int] = {}  # values of what did not fit the budget
        self._thread: threading.Thread | None = None
        self._closed = False

    def find(
        self, table: str, column: str, data_type: DataType, dictionaries: Sequence[Dictionary]
    ) -> SharedCodes | None:
        """Ids for these dictionaries of one column; None where they are not (yet) known: then they are asked for."""
        if not self._budget_bytes or not dictionaries:
            return None
        key = table, column, data_type.stored
        entry = self._entries.get(key)
        found = None if entry is None else entry.find(dictionaries)
        with self._condition:
            if found is not None:
                if key in self._entries:
                    self._entries.move_to_end(key)
                return found
            num_values = sum(dictionary.cardinality for dictionary in dictionaries)
            if (
                self._closed
                or num_values >= self._refused.get(key, num_values + 1)
                or (key not in self._waiting and len(self._waiting) >= WAITING_MAX)
            ):
                return None
            # The last who asked knows best which segments there are.
            self._waiting[key] = list(dictionaries)
            if self._in_background and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="global-ids", daemon=True)
                self._thread.start()
            self._condition.notify()
        return None

    def build_waiting(self) -> int:
        """Build all that is asked for; gives how many shared dictionaries."""
        built = 0
        while True:
            with self._condition:
                if not self._waiting:
                    return built
                key = next(iter(self._waiting))
                dictionaries = self._waiting.pop(key)
                entry = self._entries.get(key)
            self._build(key, entry, dictionaries)
            built += 1

    def close(self) -> None:
        """Stop building and forget everything."""
        with self._condition:
            self._closed = True
            self._waiting.clear()
            self._entries.clear()
            self._condition.notify_all()

    @property
    def nbytes(self) -> int:
        """Memory of all shared dictionaries that are kept."""
        with self._condition:
            entries = list(self._entries.values())
        return sum(entry.nbytes for entry in entries)

    def _run(self) -> None:
        # Linux lets a single thread be nice.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        while True:
            with self._condition:
                while not self._waiting and not self._closed:
                    self._condition.wait()
                if self._closed:
                    return
            try:
                self.build_waiting()
            except Exception:
                # Queries are right without.
                _log.exception("numbering of a column failed")

    def _build(self, key: Key, entry: SharedDictionary | None, dictionaries: list[Dictionary]) -> None:
        num_values = sum(dictionary.cardinality for dictionary in dictionaries)
        wanted = dictionaries
        if entry is not None and _is_worn(entry):
            wanted = list(dict.fromkeys([*entry.dictionaries(), *dictionaries]))
            entry = None
        if entry is None:
            if _least_bytes(key[2], wanted) > self._budget_bytes:
                with self._condition:
                    self._refused[key] = num_values
                _log.info(
                    "global ids refused table=%s column=%s values=%d budget_bytes=%d",
                    key[0],
                    key[1],
                    num_values,
                    self._budget_bytes,
                )
                return
            entry = SharedDictionary(key[2])
        entry.add(wanted)
        size_bytes = entry.nbytes
        with self._condition:
            if self._closed:
                return
            self._refused.pop(key, None)
            self._entries[key] = entry
            self._entries.move_to_end(key)
        _log.debug("global ids table=%s column=%s ids=%d bytes=%d", key[0], key[1], entry.num_ids, size_bytes)
        self._shrink(key, num_values)

    def _shrink(self, newest: Key, num_values: int) -> None:
        while self.nbytes > self._budget_bytes:
            with self._condition:
                if not self._entries:
                    return
                oldest = next(iter(self._entries))
                del self._entries[oldest]
                if oldest == newest:
                    self._refused[newest] = num_values


def _is_worn(entry: SharedDictionary) -> bool:
    num_ids = entry.num_ids
    if num_ids < RENUMBER_IDS_MIN:
        return False
    return entry.num_appended > num_ids * APPENDED_SHARE_MAX or entry.num_live < num_ids * DEAD_SHARE_MAX


def _least_bytes(stored: StoredType, dictionaries: Sequence[Dictionary]) -> int:
    """What a shared dictionary takes at least: all code maps and the values of the largest dictionary."""
    largest = max(dictionaries, key=lambda dictionary: dictionary.cardinality)
    return sum(4 * dictionary.cardinality for dictionary in dictionaries) + values_of_dictionary(largest, stored).nbytes
