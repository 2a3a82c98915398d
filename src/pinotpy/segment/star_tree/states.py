"""The states of star-tree records while a tree is built: made from rows, then added up from record to record.

`grouped(order, starts)` gives the states of new records: record g is made of the records order[starts[g]] …
order[starts[g + 1] - 1] of the old ones (int64; starts has one entry more than there are new records).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.functions.sketches.hyperloglog import LOG2M_DEFAULT, hash_values, register_entries
from pinotpy.functions.sketches.multiset import Multisets, collect_multisets, numbers_of, thin
from pinotpy.functions.sketches.quantile_digest import longs_of
from pinotpy.kernels.aggregate import star_tree as kernels
from pinotpy.kernels.aggregate.exact_sums import MORSEL_DOCS_MAX, UNIT_BIAS, WINDOW, WINDOW_MAIN, WINDOW_SPECIAL
from pinotpy.segment.data_source import Column
from pinotpy.segment.star_tree import metadata as names
from pinotpy.segment.star_tree.metadata import StateMetadata

Buffers = dict[str, NDArray[Any]]

ENTRY_BITS: Final = LOG2M_DEFAULT + 5  # of a register's number and rank
_NO_OVERFLOW: Final = np.empty((0, 4), np.int64)
_HALF: Final = np.int64(0xFFFFFFFF)


class States(Protocol):
    """One state of all records."""

    def grouped(self, order: Int64Array, starts: Int64Array) -> Self: ...

    def joined(self, more: Self) -> Self:
        """These, then those."""
        ...

    def buffers(self) -> Buffers:
        """What is stored, by the last part of the buffer's kind."""
        ...


def states_of_rows(state: StateMetadata, column: Column, order: Int64Array, starts: Int64Array) -> States:
    """The states of records that are made of rows of a column."""
    if state.kind == names.SUM:
        values = column_values(column)
        if state.data_type.stored.is_floating:
            assert len(values) <= MORSEL_DOCS_MAX, "spec.py refuses it"
            return _doubles(values).grouped(order, starts)
        bound = max(-int(values.min()), int(values.max())) * len(values) if len(values) else 0
        return Sums(values, None if bound < 2**63 else values >> np.int64(63), _NO_OVERFLOW).grouped(order, starts)
    if state.kind in (names.MIN, names.MAX):
        return Extremes(column_values(column), state.kind == names.MIN, state.data_type).grouped(order, starts)
    records = np.empty(len(order), np.int64)
    records[order] = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    if state.kind == names.HYPERLOGLOG:
        return Registers.of(records, _register_entries(column, state.data_type), len(starts) - 1)
    values = column_values(column)
    if state.kind == names.LONG_QUANTILES:
        values = longs_of(values)
    return Quantiles(thin(collect_multisets(records, values, np.ones(len(values), np.int64), len(starts) - 1)))


def column_values(column: Column) -> NDArray[Any]:
    """Values of a single-value column of numbers: int64 or float64, one a doc."""
    if column.dictionary is None:
        raw = column.raw_values()
        assert isinstance(raw, np.ndarray), "numbers only"
        return raw.astype(np.float64 if column.data_type.stored.is_floating else np.int64, copy=False)
    values: NDArray[Any] = numbers_of(column.dictionary.arrow())[column.ids()]
    return values


def _register_entries(column: Column, data_type: DataType) -> Int64Array:
    if column.dictionary is not None:
        entries: Int64Array = register_entries(hash_values(column.dictionary.arrow(), data_type), LOG2M_DEFAULT)[
            column.ids()
        ]
        return entries
    raw = column.raw_values()
    return register_entries(hash_values(raw if isinstance(raw, pa.Array) else pa.array(raw), data_type), LOG2M_DEFAULT)


def _doubles(values: NDArray[np.float64]) -> Sums:
    low, high = np.empty(len(values), np.int64), np.empty(len(values), np.int64)
    bits = np.ascontiguousarray(values).view(np.uint64)
    outside = kernels.window_words(bits, low, high)
    return Sums(low, high, _overflow(bits) if outside else _NO_OVERFLOW)


def _overflow(bits: NDArray[np.uint64]) -> Int64Array:
    # (row, window, low, high) of the doubles outside the main window, as kernels.aggregate.exact_sums.spill has them.
    exponents = ((bits >> np.uint64(52)) & np.uint64(0x7FF)).astype(np.int64)
    special = exponents == 0x7FF
    windows = np.where(special, WINDOW_SPECIAL, exponents // WINDOW)
    shift = exponents - (WINDOW * WINDOW_MAIN - 1)
    rows = np.flatnonzero(((shift < 1) | (shift > WINDOW)) & (bits << np.uint64(1) != 0))
    bits, exponents, special, windows = bits[rows], exponents[rows], special[rows], windows[rows]
    fraction = (bits & np.uint64((1 << 52) - 1)).astype(np.int64)
    negative = bits >> np.uint64(63) != 0
    mantissa = np.where(exponents == 0, fraction, fraction | np.int64(1 << 52))
    mantissa = np.where(negative, -mantissa, mantissa)
    # The unit of a window is 2^(WINDOW * window - UNIT_BIAS); subnormals have the exponent of the least normal number.
    places = np.maximum(exponents, 1) - (WINDOW * windows - (UNIT_BIAS - 1075))
    low, high = mantissa << places, mantissa >> (64 - places)
    flags = np.where(fraction != 0, 4, np.where(negative, 2, 1))
    return np.column_stack([rows, windows, np.where(special, flags, low), np.where(special, 0, high)])


@dataclass(frozen=True, slots=True)
class Sums:
    """Exact sums: integers in one word, or wide ones in two; doubles as the two words of the main window, and what lies
    outside of it as rows (record, window, low, high), ascending (docs/adr/0003-sums.md)."""

    low: Int64Array
    high: Int64Array | None
    overflow: Int64Array

    def grouped(self, order: Int64Array, starts: Int64Array) -> Sums:
        low = np.empty(len(starts) - 1, np.int64)
        if self.high is None:
            kernels.add_longs(self.low, order, starts, low)
            return Sums(low, None, _NO_OVERFLOW)
        high = np.empty_like(low)
        kernels.add_wide(self.low, self.high, order, starts, low, high)
        return Sums(low, high, self._overflow_of(order, starts) if len(self.overflow) else _NO_OVERFLOW)

    def _overflow_of(self, order: Int64Array, starts: Int64Array) -> Int64Array:
        # Every occurrence of a record that has spilled parts brings them to its new record.
        records = self.overflow[:, 0]
        has = np.zeros(len(self.low), np.bool_)
        has[records] = True
        occurrences = np.flatnonzero(has[order])
        first = np.searchsorted(records, order[occurrences], side="left")
        lengths = np.searchsorted(records, order[occurrences], side="right") - first
        parts = self.overflow[ranges(first, lengths)]
        parts[:, 0] = np.repeat(np.searchsorted(starts, occurrences, side="right") - 1, lengths)
        return _summed(parts)

    def joined(self, more: Sums) -> Sums:
        overflow = more.overflow.copy()
        overflow[:, 0] += len(self.low)
        high = None if self.high is None or more.high is None else np.concatenate([self.high, more.high])
        return Sums(np.concatenate([self.low, more.low]), high, np.concatenate([self.overflow, overflow]))

    def buffers(self) -> Buffers:
        buffers: Buffers = {names.LOW: self.low}
        if self.high is not None:
            buffers[names.HIGH] = self.high
        if len(self.overflow):
            buffers[names.OVERFLOW] = self.overflow
        return buffers


def _summed(parts: Int64Array) -> Int64Array:
    """Parts of equal (record, window) added up as 128-bit integers, or their flags united; ascending."""
    if not len(parts):
        return parts
    keys = parts[:, 0] * 64 + parts[:, 1]
    order = np.argsort(keys, kind="stable")
    parts, keys = parts[order], keys[order]
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    # Four limbs of 32 bits: their sums stay far below 2^63.
    limbs = [
        np.add.reduceat(limb, starts)
        for column in (2, 3)
        for limb in (parts[:, column] & _HALF, parts[:, column] >> np.int64(32))
    ]
    # The upper half of the low word is unsigned.
    limbs[1] = np.add.reduceat((parts[:, 2] >> np.int64(32)) & _HALF, starts)
    for i in range(3):
        limbs[i + 1] += limbs[i] >> np.int64(32)
        limbs[i] &= _HALF
    out = parts[starts]
    out[:, 2], out[:, 3] = limbs[0] | (limbs[1] << np.int64(32)), limbs[2] | (limbs[3] << np.int64(32))
    special = out[:, 1] == WINDOW_SPECIAL
    out[special, 2] = np.bitwise_or.reduceat(parts[:, 2], starts)[special]
    out[special, 3] = 0
    return out


@dataclass(frozen=True, slots=True)
class Extremes:
    """Least or greatest values, int64 or float64."""

    values: NDArray[Any]
    is_min: bool
    data_type: DataType

    def grouped(self, order: Int64Array, starts: Int64Array) -> Extremes:
        out = np.empty(len(starts) - 1, self.values.dtype)
        (kernels.least if self.is_min else kernels.greatest)(self.values, order, starts, out)
        return Extremes(out, self.is_min, self.data_type)

    def joined(self, more: Extremes) -> Extremes:
        return Extremes(np.concatenate([self.values, more.values]), self.is_min, self.data_type)

    def buffers(self) -> Buffers:
        return {names.VALUE: self.values.astype(self.data_type.stored.numpy)}


@dataclass(frozen=True, slots=True)
class Registers:
    """HyperLogLogs: the registers of record r that are not 0 are entries[offsets[r] : offsets[r + 1]], register << 5 |
    rank.
    """

    offsets: Int64Array
    entries: NDArray[np.uint16]

    @classmethod
    def of(cls, records: Int64Array, entries: Int64Array, num_records: int) -> Registers:
        """The highest rank of each register, from pairs in any order."""
        keys = np.sort((records << ENTRY_BITS) | entries)
        last = np.ones(len(keys), np.bool_)
        np.not_equal(keys[1:] >> 5, keys[:-1] >> 5, out=last[:-1])
        keys = keys[last]
        offsets = np.zeros(num_records + 1, np.int64)
        np.cumsum(np.bincount(keys >> ENTRY_BITS, minlength=num_records), out=offsets[1:])
        return cls(offsets, (keys & ((1 << ENTRY_BITS) - 1)).astype(np.uint16))

    def grouped(self, order: Int64Array, starts: Int64Array) -> Registers:
        lengths = np.diff(self.offsets)[order]
        groups = np.repeat(np.repeat(np.arange(len(starts) - 1), np.diff(starts)), lengths)
        return Registers.of(
            groups, self.entries[ranges(self.offsets[order], lengths)].astype(np.int64), len(starts) - 1
        )

    def joined(self, more: Registers) -> Registers:
        return Registers(
            np.concatenate([self.offsets, more.offsets[1:] + self.offsets[-1]]),
            np.concatenate([self.entries, more.entries]),
        )

    def buffers(self) -> Buffers:
        return {names.OFFSETS: self.offsets, names.VALUES: self.entries}


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Multisets of values, thinned beyond their bound (functions.sketches.multiset)."""

    multisets: Multisets

    def grouped(self, order: Int64Array, starts: Int64Array) -> Quantiles:
        lengths = self.multisets.lengths[order]
        groups = np.repeat(np.repeat(np.arange(len(starts) - 1), np.diff(starts)), lengths)
        entries = ranges(self.multisets.offsets[order], lengths)
        return Quantiles(
            thin(
                collect_multisets(
                    groups, self.multisets.values[entries], self.multisets.counts[entries], len(starts) - 1
                )
            )
        )

    def joined(self, more: Quantiles) -> Quantiles:
        mine, other = self.multisets, more.multisets
        offsets = np.concatenate([mine.offsets, other.offsets[1:] + mine.offsets[-1]])
        return Quantiles(
            Multisets(offsets, np.concatenate([mine.values, other.values]), np.concatenate([mine.counts, other.counts]))
        )

    def buffers(self) -> Buffers:
        # A value occurs at most once a row, and a segment has less than 2^31 rows.
        return {
            names.OFFSETS: self.multisets.offsets,
            names.VALUES: self.multisets.values,
            names.COUNTS: self.multisets.counts.astype(np.uint32),
        }


def ranges(first: Int64Array, lengths: Int64Array) -> Int64Array:
    """first[0], first[0] + 1 … (lengths[0] of them), first[1] …"""
    ends = np.cumsum(lengths)
    out: Int64Array = np.repeat(first - (ends - lengths), lengths)
    out += np.arange(len(out))
    return out
