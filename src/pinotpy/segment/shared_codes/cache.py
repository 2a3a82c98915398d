"""The shared dictionaries of all columns that queries group by, under a byte budget.

A query that needs codes makes those that are missing (`make`) and leaves them here for others. Whether a column can
have codes depends on its dictionaries and the budget alone, not on what is here. What a query could not finish, and
dictionaries that are worn, are built by one thread of low priority. Least recently asked for goes first when the
budget is passed; queries that hold ids keep what they hold.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final
from weakref import WeakSet

import numpy as np

from pinotpy.data_types import DataType, StoredType
from pinotpy.errors import PinotError
from pinotpy.segment.data_source import Dictionary
from pinotpy.segment.shared_codes.dictionary import SharedCodes, SharedDictionary, Work

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
        # Dictionaries that did not fit the budget, and how many they were.
        self._refused: dict[Key, tuple[WeakSet[Dictionary], int]] = {}
        self._thread: threading.Thread | None = None
        self._closed = False

    def find(
        self, table: str, column: str, data_type: DataType, dictionaries: Sequence[Dictionary]
    ) -> SharedCodes | None:
        """Ids for these dictionaries of one column; None where they are not (yet) known: then they are asked for."""
        key = table, column, data_type.stored
        found = self._known(key, dictionaries)
        if found is None and dictionaries:
            self._ask(key, dictionaries)
        return found

    def make(
        self, table: str, column: str, data_type: DataType, dictionaries: Sequence[Dictionary], work: Work
    ) -> SharedCodes | None:
        """Ids for these dictionaries of one column, made now where they are not known; None where a shared dictionary
        of exactly these takes more than the budget.

        Raises what `work` raises; then they are built in the background.
        """
        key = table, column, data_type.stored
        found = self._known(key, dictionaries)
        if found is not None or not dictionaries or self._is_refused(key, dictionaries):
            return found
        if _least_bytes(data_type.stored, dictionaries) > self._budget_bytes:
            return None
        size_bytes = build_bytes(data_type.stored, dictionaries)
        work.reserve(size_bytes)
        try:
            return self._make(key, dictionaries, work)
        except PinotError:
            self._ask(key, dictionaries)
            raise
        finally:
            work.release(size_bytes)

    def _known(self, key: Key, dictionaries: Sequence[Dictionary]) -> SharedCodes | None:
        entry = self._entries.get(key)
        if entry is None or not dictionaries:
            return None
        found = entry.exact(dictionaries)
        with self._condition:
            if found is not None and key in self._entries:
                self._entries.move_to_end(key)
        return found

    def _ask(self, key: Key, dictionaries: Sequence[Dictionary]) -> None:
        """Let the background build what is missing for these."""
        if self._is_refused(key, dictionaries) or _least_bytes(key[2], dictionaries) > self._budget_bytes:
            return
        with self._condition:
            if self._closed or (key not in self._waiting and len(self._waiting) >= WAITING_MAX):
                return
            # The last who asked knows best which segments there are.
            self._waiting[key] = list(dictionaries)
            if self._in_background and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="global-ids", daemon=True)
                self._thread.start()
            self._condition.notify()

    def _is_refused(self, key: Key, dictionaries: Sequence[Dictionary]) -> bool:
        """Whether these, or some of them, were found to take more than the budget."""
        refused = self._refused.get(key)
        if refused is None or len(refused[0]) < refused[1]:  # what is left of them may fit
            return False
        asked = {id(dictionary) for dictionary in dictionaries}
        return all(id(dictionary) in asked for dictionary in refused[0])

    def _make(self, key: Key, dictionaries: Sequence[Dictionary], work: Work) -> SharedCodes | None:
        with self._condition:
            if self._closed:
                return None
            # Another query that wants the same waits until this one has mapped them.
            entry = self._entries.setdefault(key, SharedDictionary(key[2]))
        entry.add(dictionaries, work)
        if entry.nbytes > self._budget_bytes:
            entry = SharedDictionary(key[2])  # what else is mapped may be too much
            entry.add(dictionaries, work)
        found = entry.exact(dictionaries)
        if not self._keep(key, entry, dictionaries):
            return None
        if _is_worn(entry):
            self._ask(key, dictionaries)
        return found

    def _keep(self, key: Key, entry: SharedDictionary, dictionaries: Sequence[Dictionary]) -> bool:
        """Whether the entry fits the budget, for which others may go."""
        size_bytes = entry.nbytes
        with self._condition:
            if size_bytes > self._budget_bytes:
                self._refused[key] = (held := WeakSet(dictionaries)), len(held)
                self._entries.pop(key, None)
            elif not self._closed:
                self._refused.pop(key, None)
                self._entries[key] = entry
                self._entries.move_to_end(key)
        _log.debug("shared codes table=%s column=%s ids=%d bytes=%d", key[0], key[1], entry.num_ids, size_bytes)
        while self.nbytes > self._budget_bytes:
            with self._condition:
                if len(self._entries) < 2:
                    break
                self._entries.popitem(last=False)
        return size_bytes <= self._budget_bytes

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
        wanted = dictionaries
        if entry is not None and _is_worn(entry):
            wanted = list(dict.fromkeys([*entry.dictionaries(), *dictionaries]))
            entry = None
        if entry is None:
            if _least_bytes(key[2], wanted) > self._budget_bytes:
                return
            entry = SharedDictionary(key[2])
        entry.add(wanted)
        self._keep(key, entry, wanted)


def _is_worn(entry: SharedDictionary) -> bool:
    num_ids = entry.num_ids
    if num_ids < RENUMBER_IDS_MIN:
        return False
    return entry.num_appended > num_ids * APPENDED_SHARE_MAX or entry.num_live < num_ids * DEAD_SHARE_MAX


def build_bytes(stored: StoredType, dictionaries: Sequence[Dictionary]) -> int:
    """Memory at most while codes of these are made: two lists of values as they are united, and the code maps."""
    values = sum(_bytes_of_values(dictionary, stored) for dictionary in dictionaries)
    return 2 * values + sum(4 * dictionary.cardinality for dictionary in dictionaries)


def _bytes_of_values(dictionary: Dictionary, stored: StoredType) -> int:
    if stored.is_fixed:
        return 8 * dictionary.cardinality
    _, offsets, _ = dictionary.arrow().buffers()
    ends = np.frombuffer(offsets, np.int32)
    return int(ends[dictionary.cardinality]) + 8 * (dictionary.cardinality + 1)


def _least_bytes(stored: StoredType, dictionaries: Sequence[Dictionary]) -> int:
    """What a shared dictionary takes at least: all code maps and the values of the largest dictionary."""
    largest = max(dictionaries, key=lambda dictionary: dictionary.cardinality)
    return sum(4 * dictionary.cardinality for dictionary in dictionaries) + _bytes_of_values(largest, stored)
