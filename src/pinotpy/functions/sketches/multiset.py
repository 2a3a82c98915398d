"""Multisets of numbers, one a group, as two state columns of equal shape: the sorted distinct values and how often each
was seen. Every percentile is read off one: the exact ones keep all values, the estimating ones thin them out beyond a
limit.

    values   list<int64> or list<double>   ascending, distinct; doubles with −0.0 = 0.0 and one NaN, above all others
    counts   list<int64>                   of each value, > 0

All functions here work on the multisets of all groups at once, flattened: entry i belongs to the group of its position.
numpy and Arrow only, so that a broker merges without compiled kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType, StoredType
from pinotpy.decimals import decode_decimal
from pinotpy.errors import QueryExecutionError

ENTRIES_MAX: Final = 2**31 - 1  # what the offsets of a list column count to
BUCKETS: Final = 2048  # of a thinned multiset

Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Multisets:
    """Multisets of `num_groups` groups, flattened.

    offsets: int64[num_groups + 1], group g has entries offsets[g] … offsets[g + 1].
    values: int64 or float64, ascending within a group; counts: int64, of each value.
    """

    offsets: Int64Array
    values: NDArray[Any]
    counts: Int64Array

    @property
    def num_groups(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Int64Array:
        """Entries of each group."""
        lengths: Int64Array = np.diff(self.offsets)
        return lengths

    def groups(self) -> Int64Array:
        """The group of every entry."""
        return np.repeat(np.arange(self.num_groups), self.lengths)

    def sizes(self) -> Int64Array:
        """Sum of the counts of each group."""
        total = np.concatenate([[0], np.cumsum(self.counts)])
        sizes: Int64Array = total[self.offsets[1:]] - total[self.offsets[:-1]]
        return sizes

    def without_empty(self) -> Multisets:
        """Without the groups that have no entries."""
        filled = np.flatnonzero(self.lengths)
        return Multisets(np.append(self.offsets[filled], self.offsets[-1]), self.values, self.counts)

    def to_arrow(self) -> list[pa.Array]:
        """The two state columns; raises QueryExecutionError for more entries than a column holds."""
        if len(self.values) > ENTRIES_MAX:
            raise QueryExecutionError(
                f"the distinct values of all groups are {len(self.values)}, more than the {ENTRIES_MAX} that an "
                "answer holds: "
                "filter the rows, or use percentileEst or percentileTDigest, which keep less"
            )
        offsets = pa.array(self.offsets.astype(np.int32))
        return [pa.ListArray.from_arrays(offsets, pa.array(items)) for items in (self.values, self.counts)]


def multiset_fields(data_type: DataType) -> list[pa.Field]:
    """State columns of the multisets of a column: int64 for integers, double for FLOAT, DOUBLE and BIG_DECIMAL."""
    kind = pa.int64() if data_type.stored in (StoredType.INT, StoredType.LONG) else pa.float64()
    return [pa.field("values", pa.list_(kind)), pa.field("counts", pa.list_(pa.int64()))]


def numbers_of(values: pa.Array) -> NDArray[Any]:
    """Values in stored form (null free) as int64 or float64; BIG_DECIMAL is rounded to double."""
    if pa.types.is_binary(values.type):
        encoded = values.dictionary_encode()
        doubles = np.array([_double(decode_decimal(data)) for data in encoded.dictionary.to_pylist()], np.float64)
        return doubles[encoded.indices.to_numpy()] if len(doubles) else doubles
    plain: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return plain.astype(np.float64 if pa.types.is_floating(values.type) else np.int64, copy=False)


def _double(value: Decimal) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("-inf") if value < 0 else float("inf")


def collect_multisets(groups: Int64Array, values: NDArray[Any], counts: Int64Array, num_groups: int) -> Multisets:
    """Multisets from entries in any order; the counts of equal values of a group are added.

    Args:
        groups: group of every entry, 0 … num_groups − 1.
        values: int64 or float64; counts: int64 > 0.
    """
    if values.dtype == np.float64:
        values = values + 0.0  # −0.0 becomes 0.0
    order = _order(groups, values, num_groups)
    groups, values, counts = groups[order], values[order], counts[order]
    starts = _run_starts(groups, values)
    if len(starts) != len(values):
        counts = np.add.reduceat(counts, starts)
        groups, values = groups[starts], values[starts]
    offsets = np.searchsorted(groups, np.arange(num_groups + 1))
    return Multisets(offsets.astype(np.int64), values, counts.astype(np.int64, copy=False))


def _order(groups: Int64Array, values: NDArray[Any], num_groups: int) -> Int64Array:
    """Indexes that sort by group, then by value (NaN last)."""
    order = np.argsort(values)
    # Stable passes over 16 bits of the group each: numpy sorts those by radix, several times as fast as 64 bits.
    for shift in range(0, max(num_groups - 1, 0).bit_length(), 16):
        digits = (groups[order] >> shift).astype(np.uint16)
        order = order[np.argsort(digits, kind="stable")]
    return order


def _run_starts(groups: Int64Array, values: NDArray[Any]) -> Int64Array:
    if not len(values):
        return np.empty(0, np.int64)
    differs = np.empty(len(values), np.bool_)
    differs[0] = True
    np.not_equal(values[1:], values[:-1], out=differs[1:])
    if values.dtype == np.float64:
        differs[1:] &= ~(np.isnan(values[1:]) & np.isnan(values[:-1]))
    differs[1:] |= groups[1:] != groups[:-1]
    return np.flatnonzero(differs)


def multisets_of(states: Sequence[pa.Array]) -> Multisets:
    """The multisets of state columns as they travel, one group a row; a null row is empty."""
    lengths = pc.fill_null(pc.list_value_length(states[0]), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    values, counts = (state.flatten().to_numpy(zero_copy_only=False) for state in states)
    return Multisets(offsets, values, counts)


def merge_multisets(states: Sequence[pa.Array], groups: Int64Array, num_groups: int) -> Multisets:
    """The multisets of `num_groups` groups from state rows that belong to `groups`."""
    parts = multisets_of(states)
    return collect_multisets(np.repeat(groups, parts.lengths), parts.values, parts.counts, num_groups)


def thin(multisets: Multisets, buckets: int = BUCKETS) -> Multisets:
    """Bounded memory: multisets of more than 4 × `buckets` distinct values become ones of at most 2 × `buckets` + 3;
    others stay as they are.

    The ranks are cut into buckets, narrow at both ends (the arcsine scale of t-digests), and each bucket's values are
    replaced by the middle one of them. A value that reaches across buckets is kept, and so are the least and the
    greatest. No rank moves by more than size × π / (2 × buckets), at 2,048 buckets 0.077 % of the size, and near the
    ends by far less. Sizes stay.
    """
    if not (multisets.lengths > 4 * buckets).any():
        return multisets
    groups = multisets.groups()
    sizes = multisets.sizes()
    total = np.cumsum(multisets.counts)
    before = np.concatenate([[0], total])[multisets.offsets[:-1]]
    ends = total - before[groups]
    # Middles of the first and the last unit of every entry, as parts of the size.
    low = _bucket((ends - multisets.counts + 0.5) / sizes[groups], buckets)
    high = _bucket((ends - 0.5) / sizes[groups], buckets)
    alone = low != high
    filled_starts = multisets.offsets[:-1][multisets.lengths > 0]
    alone[filled_starts] = True
    alone[np.append(filled_starts[1:], len(total)) - 1] = True
    alone |= (multisets.lengths <= 4 * buckets)[groups]
    starts = np.ones(len(total), np.bool_)
    starts[1:] = alone[1:] | alone[:-1] | (low[1:] != low[:-1]) | (groups[1:] != groups[:-1])
    first = np.flatnonzero(starts)
    weights = np.add.reduceat(multisets.counts, first)
    middle = np.searchsorted(total, (total[first] - multisets.counts[first]) + weights // 2, side="right")
    offsets = np.searchsorted(first, multisets.offsets)
    return Multisets(offsets.astype(np.int64), multisets.values[middle], weights)


def _bucket(parts: Doubles, buckets: int) -> Int64Array:
    return np.floor(buckets * (np.arcsin(2 * parts - 1) / np.pi + 0.5)).astype(np.int64)


def elements(multisets: Multisets, ranks: Int64Array) -> NDArray[Any]:
    """The element at rank ranks[g] (from 0) of each group's sorted multiset; ranks must be below the sizes, no group
    empty.
    """
    total = np.cumsum(multisets.counts)
    before = np.concatenate([[0], total])[multisets.offsets[:-1]]
    chosen: NDArray[Any] = multisets.values[np.searchsorted(total, before + ranks, side="right")]
    return chosen
