"""The shared dictionary of one column's values over the segments of a table. Ids are only ever appended: what an id
means, and what was mapped to it, stays true as long as anybody holds the shared dictionary.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import StoredType
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
    """

    num_ids: int
    code_maps: Int64Array
    ascending: NDArray[np.bool_]
    _values: Values
    _order: Ids
    _held: tuple[CodeMap, ...]

    def values(self, ids: Integers) -> pa.Array:
        """The values of shared codes, Arrow in stored form (int32, int64, float32, float64, binary)."""
        return self._values.take(ids)

    @property
    def by_id(self) -> Values:
        """The values of all ids."""
        return self._values

    def extended(self, dictionaries: Sequence[Dictionary], stored: StoredType) -> ExtendedCodes:
        """These codes, and codes behind them for the values that only `dictionaries` have; those last as long as
        somebody holds the result, and nothing of them is kept here.
        """
        parts = [values_of_dictionary(dictionary, stored) for dictionary in dictionaries]
        fresh = union(parts)
        codes, _ = self._values.code_map(self._order, fresh)
        missing = np.flatnonzero(codes < 0)
        _check_size(len(self._values) + len(missing))
        codes[missing] = np.arange(len(self._values), len(self._values) + len(missing), dtype=np.int32)
        maps = []
        for part in parts:
            # Both are of one type, and every value of a part is in the union.
            ids = codes[fresh.code_map(NO_ORDER, part)[0]]  # type: ignore[arg-type]
            maps.append(CodeMap(ids, ids.ctypes.data, bool(is_ascending(ids))))
        return ExtendedCodes(len(self._values) + len(missing), tuple(maps), self, fresh.picked(missing))


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


class SharedDictionary:
    """Shared between threads. Readers take `_known` once; the lock is held by who appends."""

    def __init__(self, stored: StoredType) -> None:
        self.stored = stored
        self._lock = threading.Lock()
        self._known: tuple[Values, Ids] | None = None  # values by id, ids in the order of the values
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
        return known[0].nbytes + known[1].nbytes + sum(code_map.ids.nbytes for code_map in self._live())

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

    def add(self, dictionaries: Sequence[Dictionary]) -> None:
        """Map these dictionaries; the first call numbers their values in order, later ones append what is new.

        Raises OverflowError when ids no longer fit 31 bits.
        """
        with self._lock:
            new = [dictionary for dictionary in dict.fromkeys(dictionaries) if dictionary not in self._code_maps]
            if not new:
                return
            parts = [values_of_dictionary(dictionary, self.stored) for dictionary in new]
            self._number(union(parts))
            for dictionary, part in zip(new, parts, strict=True):
                assert self._known is not None
                ids, num_missing = self._known[0].code_map(self._known[1], part)
                assert num_missing == 0, "every value was numbered before"
                self._code_maps[dictionary] = CodeMap(ids, ids.ctypes.data, bool(is_ascending(ids)))

    def fork(self) -> SharedDictionary:
        """Another one that begins with all that this one knows, and that nobody else sees."""
        forked = SharedDictionary(self.stored)
        with self._lock:
            forked._known, forked._num_sorted = self._known, self._num_sorted
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
        with self._lock:
            return list(self._code_maps.values())


def _check_size(num_ids: int) -> None:
    if num_ids > IDS_MAX:
        raise OverflowError(f"{num_ids} distinct values do not fit ids of 31 bits")
