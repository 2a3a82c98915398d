"""The shared dictionary of one column's values over the segments of a table. Ids are only ever appended: what an id
means, and what was mapped to it, stays true as long as anybody holds the shared dictionary.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import StoredType
from pinotpy.kernels.aggregate.distinct_bitmaps import flag_ids
from pinotpy.kernels.group.shared_codes import is_ascending
from pinotpy.segment.data_source import Dictionary
from pinotpy.segment.shared_codes.values import (
    NO_ORDER,
    Bytes,
    Ids,
    Integers,
    Values,
    Words,
    union,
    values_of_dictionary,
)

IDS_MAX: Final = 2**31 - 1
# Sets of dictionaries whose codes are kept, beside those of all.
SUBSETS_KEPT_MAX: Final = 8
_WAIT_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class CodeMap:
    """`ids` int32[cardinality]: shared code of every dict id of one segment, at `address`; `ascending`: they ascend, as
    after a union.
    """

    ids: Ids
    address: int
    ascending: bool


@dataclass(frozen=True, slots=True)
class SharedCodes:
    """What a query sees of a shared dictionary: hold it as long as the addresses are in use.

    num_ids: all ids of `code_maps` are below it.
    code_maps: int64, one address of int32[cardinality] for each dictionary that was asked for.
    ascending: bool, one a dictionary: its code map ascends.
    size_bytes: of what was made for these dictionaries alone.
    """

    num_ids: int
    code_maps: Int64Array
    ascending: NDArray[np.bool_]
    _values: Values | _Members
    _order: Ids
    _held: tuple[CodeMap, ...]
    size_bytes: int = 0

    def values(self, ids: Integers) -> pa.Array:
        """The values of shared codes, Arrow in stored form (int32, int64, float32, float64, binary)."""
        return self._values.take(ids)

    @property
    def by_id(self) -> Values:
        """The values of all ids; there is no such list for codes that are `SharedDictionary.exact`."""
        assert not isinstance(self._values, _Members)
        return self._values

    def extended(self, dictionaries: Sequence[Dictionary], stored: StoredType) -> ExtendedCodes:
        """These codes, and codes behind them for the values that only `dictionaries` have; those last as long as
        somebody holds the result, and nothing of them is kept here.
        """
        parts = [values_of_dictionary(dictionary, stored) for dictionary in dictionaries]
        fresh = union(parts)
        codes = self._codes_of(fresh)
        missing = np.flatnonzero(codes < 0)
        num_ids = self.num_ids + len(missing)
        _check_size(num_ids)
        codes[missing] = np.arange(self.num_ids, num_ids, dtype=np.int32)
        maps = []
        for part in parts:
            # Both are of one type, and every value of a part is in the union.
            ids = codes[fresh.code_map(NO_ORDER, part)[0]]  # type: ignore[arg-type]
            maps.append(CodeMap(ids, ids.ctypes.data, bool(is_ascending(ids))))
        return ExtendedCodes(num_ids, tuple(maps), self, fresh.picked(missing))

    def _codes_of(self, values: Words | Bytes) -> Ids:
        """The codes of values, int32; -1 of those that have none here."""
        known = self._values
        if not isinstance(known, _Members):
            return known.code_map(self._order, values)[0]
        codes, _ = known.values.code_map(self._order, values)
        places = np.minimum(known.members.searchsorted(codes), len(known.members) - 1)
        return np.where(known.members[places] == codes, places, -1).astype(np.int32)


@dataclass(frozen=True, slots=True)
class ExtendedCodes:
    """Shared codes of a table, and behind them those that one query made for itself.

    num_ids: all ids are below it; code_maps: of the dictionaries that the query's own codes were made for.
    """

    num_ids: int
    code_maps: tuple[CodeMap, ...]
    _shared: SharedCodes
    _own: Values

    def values(self, ids: Integers) -> pa.Array:
        """The values of codes, Arrow in stored form."""
        num_shared = self.num_ids - len(self._own)
        is_own = ids >= num_shared
        if not is_own.any():
            return self._shared.values(ids)
        parts = [self._shared.values(ids[~is_own]), self._own.take(ids[is_own] - num_shared)]
        if parts[0].type != parts[1].type:  # texts of more than 2 GiB
            parts = [part.cast(pa.large_binary()) for part in parts]
        places = np.empty(len(ids), np.int64)
        places[np.concatenate([np.flatnonzero(~is_own), np.flatnonzero(is_own)])] = np.arange(len(ids))
        return pa.concat_arrays(parts).take(pa.array(places))


class Work(Protocol):
    """Who makes codes: runs jobs, accounts for the memory that they take, and says when to stop by raising."""

    def run(self, jobs: Sequence[Callable[[], None]]) -> None: ...

    def check(self) -> None: ...

    def reserve(self, size_bytes: int) -> None: ...

    def release(self, size_bytes: int) -> None: ...


class InTurn:
    """Work on the calling thread, with no limit."""

    def run(self, jobs: Sequence[Callable[[], None]]) -> None:
        for job in jobs:
            job()

    def check(self) -> None: ...

    def reserve(self, size_bytes: int) -> None: ...

    def release(self, size_bytes: int) -> None: ...


@dataclass(frozen=True, slots=True)
class _Members:
    """The values of some ids, numbered anew: `members` int32, the id of each number."""

    values: Values
    members: Ids

    def take(self, ids: Integers) -> pa.Array:
        return self.values.take(self.members[ids])


class SharedDictionary:
    """Shared between threads. Readers take `_known` once; `_building` is held by who appends, `_lock` while the list of
    code maps is read or written.
    """

    def __init__(self, stored: StoredType) -> None:
        self.stored = stored
        self._building, self._lock = threading.Lock(), threading.Lock()
        self._known: tuple[Values, Ids] | None = None  # values by id, ids in the order of the values
        self._num_mapped = 0  # dictionaries, those that are gone among them
        # By the addresses of their code maps, codes of some of the dictionaries; as long as there are `_kept_of` maps.
        self._kept: dict[bytes, SharedCodes] = {}
        self._kept_of = 0
        # A code map goes with its dictionary, and that with its segment.
        self._code_maps: WeakKeyDictionary[Dictionary, CodeMap] = WeakKeyDictionary()
        self._num_sorted = 0

    @property
    def num_ids(self) -> int:
        known = self._known
        return 0 if known is None else len(known[0])

    @property
    def nbytes(self) -> int:
        """Memory of values and code maps."""
        known = self._known
        if known is None:
            return 0
        maps = sum(code_map.ids.nbytes for code_map in self._live())
        return known[0].nbytes + known[1].nbytes + maps + sum(codes.size_bytes for codes in list(self._kept.values()))

    @property
    def num_appended(self) -> int:
        """Ids that were given after the first ones: only those ascend with their values."""
        return self.num_ids - self._num_sorted

    @property
    def num_live(self) -> int:
        """At most so many ids belong to a value of a dictionary that still exists."""
        return min(sum(len(code_map.ids) for code_map in self._live()), self.num_ids)

    def dictionaries(self) -> list[Dictionary]:
        """Those that are mapped and still exist."""
        with self._lock:
            return list(self._code_maps.keys())

    def find(self, dictionaries: Sequence[Dictionary]) -> SharedCodes | None:
        """The ids of these dictionaries; None if one of them is not mapped."""
        get = self._code_maps.get
        found = [get(dictionary) for dictionary in dictionaries]
        if None in found:
            return None
        known = self._known  # after the code maps: it holds at least their ids
        assert known is not None
        held = tuple(code_map for code_map in found if code_map is not None)
        addresses = np.fromiter((code_map.address for code_map in held), np.int64, len(held))
        return SharedCodes(
            len(known[0]),
            addresses,
            np.fromiter((code_map.ascending for code_map in held), np.bool_, len(held)),
            *known,
            held,
        )

    def exact(self, dictionaries: Sequence[Dictionary]) -> SharedCodes | None:
        """Codes of the values of these dictionaries and no others, so that `num_ids` depends on them alone, not on what
        else was mapped; None if one of them is not mapped. They are kept for the last few that asked.
        """
        found = self.find(dictionaries)
        if found is None or len({id(dictionary) for dictionary in dictionaries}) == self._num_mapped:
            return found
        self._forget_gone()
        key = found.code_maps.tobytes()
        kept = self._kept.get(key)
        if kept is None:
            kept = _of_members(found)
            with self._lock:  # a new dict, so that threads that read the old one are not disturbed
                last = list(self._kept.items())[-(SUBSETS_KEPT_MAX - 1) :]
                self._kept = {**dict(last), key: kept}
        return kept

    def add(self, dictionaries: Sequence[Dictionary], work: Work | None = None) -> None:
        """Map these dictionaries; the first call numbers their values in order, later ones append what is new.

        Raises OverflowError when ids no longer fit 31 bits, and what `work` raises; then nothing is mapped.
        """
        work = work or InTurn()
        while not self._building.acquire(timeout=_WAIT_S):  # another query maps others, or the same
            work.check()
        try:
            new = [dictionary for dictionary in dict.fromkeys(dictionaries) if dictionary not in self._code_maps]
            if new:
                self._add(new, work)
        finally:
            self._building.release()

    def _add(self, new: Sequence[Dictionary], work: Work) -> None:
        parts: list[Words | Bytes | None] = [None] * len(new)

        def read(place: int) -> None:
            parts[place] = values_of_dictionary(new[place], self.stored)

        work.run([partial(read, place) for place in range(len(new))])
        # Counted before there are ids, which stay where mapping them fails.
        self._num_mapped += len(new)
        known = [part for part in parts if part is not None]
        fresh = union(known, work.run)
        work.check()
        self._number(fresh)
        assert self._known is not None
        values, order = self._known
        maps: list[CodeMap | None] = [None] * len(new)

        def map_codes(place: int) -> None:
            ids, num_missing = values.code_map(order, known[place])
            assert num_missing == 0, "every value was numbered before"
            maps[place] = CodeMap(ids, ids.ctypes.data, bool(is_ascending(ids)))

        work.run([partial(map_codes, place) for place in range(len(new))])
        with self._lock:
            for dictionary, code_map in zip(new, maps, strict=True):
                assert code_map is not None
                self._code_maps[dictionary] = code_map
            self._kept, self._kept_of = {}, len(self._code_maps)

    def fork(self) -> SharedDictionary:
        """Another one that begins with all that this one knows, and that nobody else sees."""
        forked = SharedDictionary(self.stored)
        with self._lock:
            forked._known, forked._num_sorted, forked._num_mapped = self._known, self._num_sorted, self._num_mapped
            forked._code_maps = WeakKeyDictionary(self._code_maps)
        return forked

    def _number(self, fresh: Words | Bytes) -> None:
        """Give ids to the values that have none."""
        if self._known is None:
            _check_size(len(fresh))
            self._known, self._num_sorted = (fresh, NO_ORDER), len(fresh)
            return
        values, order = self._known
        ids, num_missing = values.code_map(order, fresh)
        if num_missing:
            _check_size(len(values) + num_missing)
            longer = values.extended(fresh, np.flatnonzero(ids < 0))
            self._known = longer, longer.merged_order(order, len(values))

    def _live(self) -> list[CodeMap]:
        self._forget_gone()
        with self._lock:
            return list(self._code_maps.values())

    def _forget_gone(self) -> None:
        """Codes of some dictionaries hold their code maps, also after the dictionaries are gone."""
        with self._lock:
            if len(self._code_maps) != self._kept_of:
                self._kept, self._kept_of = {}, len(self._code_maps)


def _of_members(found: SharedCodes) -> SharedCodes:
    """The same dictionaries, of ids that the others have as well, numbered by themselves."""
    maps = list({code_map.address: code_map for code_map in found._held}.values())
    flags = np.zeros(found.num_ids, np.uint8)
    flag_ids(
        np.array([code_map.address for code_map in maps], np.int64),
        np.array([len(code_map.ids) for code_map in maps], np.int64),
        0,
        len(maps),
        flags,
    )
    members = np.flatnonzero(flags).astype(np.int32)
    if len(members) == found.num_ids:
        return found
    numbers = np.cumsum(flags, dtype=np.int32) - np.int32(1)
    own: dict[int, CodeMap] = {}
    for code_map in maps:
        ids = numbers[code_map.ids]
        own[code_map.address] = CodeMap(ids, ids.ctypes.data, code_map.ascending)
    held = tuple(own[code_map.address] for code_map in found._held)
    return SharedCodes(
        len(members),
        np.fromiter((code_map.address for code_map in held), np.int64, len(held)),
        found.ascending,
        _Members(found.by_id, members),
        found._order,
        held,
        members.nbytes + sum(code_map.ids.nbytes for code_map in own.values()),
    )


def _check_size(num_ids: int) -> None:
    if num_ids > IDS_MAX:
        raise OverflowError(f"{num_ids} distinct values do not fit ids of 31 bits")
