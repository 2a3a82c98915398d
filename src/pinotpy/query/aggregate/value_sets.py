"""From the entries that morsels left of a value set to its state columns: pairs of all morsels united by value, by
group.

Dict ids become values, of texts numbers in one dictionary of all morsels; then the kernels of
aggregate/distinct_pairs.py deal the pairs to parts and unite each, on the threads of the query.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType, StoredType
from pinotpy.decimals import encode_decimal
from pinotpy.errors import QueryExecutionError
from pinotpy.functions.sketches.quantile_digest import longs_of
from pinotpy.functions.state.grouping import number_keys
from pinotpy.functions.state.plans import ValueSetPlan
from pinotpy.kernels.aggregate import distinct_pairs, ranks
from pinotpy.kernels.aggregate.result_context import D_ARENA
from pinotpy.kernels.runtime import abi, partitioning
from pinotpy.pql.ast import Identifier, Literal
from pinotpy.query.aggregate.layout import AggregationLayout
from pinotpy.query.plan.scan_plan import ScanPlan
from pinotpy.query.project.sources import Sources
from pinotpy.query.runtime.parallel import run_each

# A text dictionary is numbered whole where it has at most so many values for every entry; else the entries' own texts
# are.
_DICTIONARY_PER_ENTRY_MAX: Final = 4
_TEXT_BYTES_MAX: Final = 2**31 - 1
# Numbers of texts, as Arrow makes them and in one piece.
_NUMBERS_COPIES: Final = 2
# What Arrow's hash table has for a text beside its bytes.
_HASHED_TEXT_BYTES: Final = 40

_STORED_ARROW: Final = {
    StoredType.INT: pa.int32(),
    StoredType.LONG: pa.int64(),
    StoredType.FLOAT: pa.float32(),
    StoredType.DOUBLE: pa.float64(),
    StoredType.VAR: pa.binary(),
}


@dataclass(frozen=True, slots=True)
class ThreadEntries:
    """What a thread left: entries int64[n, 2], and group and morsel of each of its arena rows."""

    entries: Int64Array
    groups: Int64Array
    morsels: Int64Array


@dataclass(frozen=True, slots=True)
class ValueSets:
    """The distinct values of every group: those of group g are offsets[g] … offsets[g + 1]. values: Arrow, stored form,
    null free; counts: int64, how often each was seen (empty where the function does not count).
    """

    offsets: Int64Array
    values: pa.Array
    counts: Int64Array

    def groups(self) -> Int64Array:
        """The group of every value."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


def collect_value_sets(
    index: int,
    entry: AggregationLayout,
    value_set: ValueSetPlan,
    threads: Sequence[tuple[Any, Int64Array, int]],
    groups: Int64Array,
    num_groups: int,
    sources: Sources,
    plan: ScanPlan,
) -> list[pa.Array]:
    """State columns of an aggregation that has a value set; where it counts by segment, the parts of a group are
    merged.

    Args:
        threads: (result context, morsel of each arena row, number of the first row) of every thread.
        groups: group of every row of all threads.
        plan: the one that ran; that of `sources` may be shared by several queries (prepared.py).
    """
    parts, group_of_part = groups, np.empty(0, np.int64)
    if value_set.by_segment:
        morsels = np.concatenate([morsels for _, morsels, _ in threads])
        parts, first = number_keys(groups * len(sources.plan.segments) + sources.plan.morsels[morsels, abi.U_SEGMENT])
        group_of_part = groups[first]
    found = []
    for context, morsels, first_row in threads:
        entries = context.vector(entry.value_set + D_ARENA).reshape(-1, distinct_pairs.ENTRY_WORDS)
        found.append(ThreadEntries(entries, parts[first_row : first_row + len(morsels)], morsels))
    metas = np.ascontiguousarray(sources.value_sets.get(index, np.zeros(sources.plan.num_morsels, np.int64)))
    if value_set.rank_of is not None and plan.is_final:
        return _ranked(plan, entry, value_set, value_set.rank_of, found, num_groups, metas)
    if value_set.count_state is not None and plan.is_final:
        return value_set.count_state(
            np.diff(_deduplicated(plan, entry, found, num_groups, metas, counted=False, only_sizes=True).offsets)
        )
    num_parts = len(group_of_part) if value_set.by_segment else num_groups
    deduplicated = _deduplicated(plan, entry, found, num_parts, metas, counted=value_set.counted, only_sizes=False)
    if value_set.assemble is not None:
        states = value_set.assemble(deduplicated.offsets, deduplicated.values, deduplicated.counts)
    else:
        states = value_set.collect(deduplicated.groups(), deduplicated.values, deduplicated.counts, num_parts)
    return entry.function.merge(states, group_of_part, num_groups) if value_set.by_segment else states


def united_dictionaries(
    plan: ScanPlan, value_set: ValueSetPlan, dictionaries: Sequence[NDArray[Any]]
) -> list[pa.Array]:
    """State columns, one row, of a function that needs the set of values only: of all values of dictionaries of one
    fixed type.
    """
    assert value_set.assemble is not None
    none, threads = np.zeros(1, np.int64), []
    floating = dictionaries[0].dtype.kind == "f"
    for values in dictionaries:
        entries = np.ones((len(values), distinct_pairs.ENTRY_WORDS), np.int64)
        entries[:, 1] = (values.astype(np.float64) + 0.0).view(np.int64) if floating else values
        threads.append(ThreadEntries(entries, none, none))
    only_sizes = value_set.count_state is not None and plan.is_final
    offsets, keys, counts = deduplicate(
        plan, threads, 1, none, np.empty(0, np.int64), counted=False, only_sizes=only_sizes
    )
    if value_set.count_state is not None and only_sizes:
        return value_set.count_state(np.diff(offsets))
    plain: NDArray[Any] = keys.view(np.float64) if floating else keys
    return value_set.assemble(offsets, pa.array(plain.astype(dictionaries[0].dtype, copy=False)), counts)


def _deduplicated(
    plan: ScanPlan,
    entry: AggregationLayout,
    threads: list[ThreadEntries],
    num_groups: int,
    metas: Int64Array,
    *,
    counted: bool,
    only_sizes: bool,
) -> ValueSets:
    assert entry.argument.data_type is not None
    stored = entry.argument.data_type.stored
    codes, texts = np.empty(0, np.int64), None
    keep: list[NDArray[np.int32]] = []
    numbers = plan.numbered.get(entry.source.name) if isinstance(entry.source, Identifier) else None
    if numbers is not None:
        metas = np.zeros_like(metas)  # ids are the same everywhere
    elif stored is StoredType.VAR:
        if isinstance(entry.source, Literal):
            texts = pa.array([_stored(entry.source.value, entry.argument.data_type)], pa.binary())
            for thread in threads:
                thread.entries[:, 1] = 0
            metas = np.zeros_like(metas)
        else:
            codes, texts, metas = _number_texts(plan, threads, metas, keep)
    offsets, keys, counts = deduplicate(plan, threads, num_groups, metas, codes, counted=counted, only_sizes=only_sizes)
    plan.control.release(_NUMBERS_COPIES * sum(each.nbytes for each in keep))
    if only_sizes:
        return ValueSets(offsets, pa.nulls(0), counts)
    if numbers is not None:
        return ValueSets(offsets, numbers.values(keys), counts)
    return ValueSets(offsets, _values(keys, stored) if texts is None else _taken(plan, texts, keys), counts)


def _stored(value: object, data_type: DataType) -> bytes:
    """A constant as a column of texts or decimals stores it."""
    text = str(value)
    return encode_decimal(Decimal(text)) if data_type is DataType.BIG_DECIMAL else text.encode()


def _values(keys: Int64Array, stored: StoredType) -> pa.Array:
    plain: NDArray[Any] = keys.view(np.float64) if stored.is_floating else keys
    with np.errstate(over="ignore"):
        return pa.array(plain.astype(stored.numpy, copy=False), _STORED_ARROW[stored])


def _taken(plan: ScanPlan, texts: pa.Array, codes: Int64Array) -> pa.Array:
    # As many texts as codes are usually all of them, in another order.
    if len(codes) and len(texts):
        longest = texts.nbytes * (len(codes) / len(texts))
        plan.control.reserve(int(longest))
        if longest > _TEXT_BYTES_MAX:
            exact = int(np.diff(_offsets(texts))[codes].sum())
            if exact > _TEXT_BYTES_MAX:
                raise QueryExecutionError(
                    f"the values of the groups take {exact} bytes, more than an answer holds: group by shorter values "
                    "or fewer"
                )
    return texts.take(pa.array(codes))


def _offsets(texts: pa.Array) -> Int64Array:
    return np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)


# --- texts ---------------------------------------------------------------------------------------------------------


def _number_texts(
    plan: ScanPlan, threads: list[ThreadEntries], metas: Int64Array, keep: list[NDArray[np.int32]]
) -> tuple[Int64Array, pa.Array, Int64Array]:
    """Numbers for the dict ids of all morsels: (addresses of int32 numbers by dict id, by morsel; the texts; metas)."""
    used = np.flatnonzero(metas)
    distinct, where = np.unique(metas[used], return_inverse=True)
    dictionaries = [dictionary_at(int(address)) for address in distinct]
    if len(dictionaries) == 1 or not any(
        len(dictionary) for dictionary in dictionaries
    ):  # none: every list of a multi-value is empty
        return np.empty(0, np.int64), dictionaries[0], np.zeros_like(metas)  # ids are numbers already
    num_entries = sum(len(thread.entries) for thread in threads)
    if sum(len(dictionary) for dictionary in dictionaries) > _DICTIONARY_PER_ENTRY_MAX * num_entries:
        place = np.zeros(len(metas), np.int64)
        place[used] = where
        return np.empty(0, np.int64), _number_entries(threads, dictionaries, place), np.zeros_like(metas)
    plan.control.check()
    # Nobody knows beforehand how many of them are different: no fewer than the largest dictionary has.
    largest = max(dictionaries, key=len)
    numbers_bytes = _NUMBERS_COPIES * 4 * sum(len(dictionary) for dictionary in dictionaries)
    hashed_bytes = largest.nbytes + len(largest) * _HASHED_TEXT_BYTES
    plan.control.reserve(numbers_bytes + hashed_bytes)
    # The chunks of one encoding share its dictionary; empty ones are left out.
    encoded = pa.chunked_array(dictionaries).dictionary_encode().chunks
    plan.control.release(hashed_bytes)
    plan.control.reserve(encoded[-1].dictionary.nbytes)
    numbers = np.concatenate([chunk.indices.to_numpy() for chunk in encoded]).astype(np.int32, copy=False)
    keep.append(numbers)
    starts = np.concatenate([[0], np.cumsum([len(dictionary) for dictionary in dictionaries])])
    codes = np.zeros(len(metas), np.int64)
    codes[used] = numbers.ctypes.data + starts[where] * 4
    return codes, encoded[-1].dictionary, metas


def _number_entries(threads: list[ThreadEntries], dictionaries: Sequence[pa.Array], place: Int64Array) -> pa.Array:
    """Few entries of large dictionaries: their texts are looked up one by one; ids become numbers in place."""
    values = []
    for thread in threads:
        places = place[thread.morsels[thread.entries[:, 0] >> distinct_pairs.ROW_SHIFT]]
        order = np.argsort(places, kind="stable")
        starts = np.searchsorted(places[order], np.arange(len(dictionaries) + 1))
        parts = [thread.entries[order[first:last], 1] for first, last in itertools.pairwise(starts)]
        taken = [dictionary.take(pa.array(part)) for dictionary, part in zip(dictionaries, parts, strict=True)]
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        values.append(pa.concat_arrays(taken).take(pa.array(back)))
    encoded = pa.concat_arrays(values).dictionary_encode()
    numbers, first_entry = encoded.indices.to_numpy(zero_copy_only=False), 0
    for thread in threads:
        thread.entries[:, 1] = numbers[first_entry : first_entry + len(thread.entries)]
        first_entry += len(thread.entries)
    return encoded.dictionary


def dictionary_at(meta_address: int) -> pa.Array:
    """The texts of a column's dictionary, in place."""
    meta = distinct_pairs.meta_row(meta_address)
    cardinality = int(meta[abi.M_CARDINALITY])
    if cardinality == 0:
        return pa.array([], pa.binary())
    offsets = pa.foreign_buffer(int(meta[abi.M_DICTIONARY_OFFSETS]), (cardinality + 1) * 4)
    size_bytes = int(np.frombuffer(offsets, np.int32)[-1])
    body = pa.foreign_buffer(int(meta[abi.M_DICTIONARY]), size_bytes) if size_bytes else pa.py_buffer(b"")
    return pa.Array.from_buffers(pa.binary(), cardinality, [None, offsets, body])


# --- uniting -------------------------------------------------------------------------------------------------------


def deduplicate(
    plan: ScanPlan,
    threads: list[ThreadEntries],
    num_groups: int,
    metas: Int64Array,
    codes: Int64Array,
    *,
    counted: bool,
    only_sizes: bool = False,
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """(offsets, keys, counts) of the distinct (group, key) pairs of all threads, by group; with `only_sizes` the
    offsets alone are made. The entries are used up.

    Raises: MemoryLimitError; what `control.check` raises.
    """
    threads = [thread for thread in threads if len(thread.entries)]
    total = sum(len(thread.entries) for thread in threads)
    size_bytes = total * (distinct_pairs.ENTRY_WORDS + 1) * 8
    try:
        plan.control.reserve(size_bytes)
        bits = min(max((total // distinct_pairs.PART_ENTRIES).bit_length(), 1), distinct_pairs.PART_BITS_MAX)
        num_parts = 1 << bits
        sizes = np.zeros((len(threads), num_parts), np.int64)

        def count(i: int) -> None:
            thread = threads[i]
            distinct_pairs.translate(thread.entries, thread.groups, thread.morsels, metas, codes)
            partitioning.count_rows(thread.entries, distinct_pairs.ROW_SHIFT, bits, sizes[i])

        run_each(plan, count, len(threads))
        starts, places = partitioning.places_of(sizes)
        scattered, seen = np.empty((total, distinct_pairs.ENTRY_WORDS), np.int64), np.empty(total, np.int64)

        def scatter(i: int) -> None:
            partitioning.scatter_rows(threads[i].entries, distinct_pairs.ROW_SHIFT, bits, places[i], scattered)

        run_each(plan, scatter, len(threads))
        # Equal shares of parts; few entries are not worth another thread.
        workers = plan.num_threads if total > distinct_pairs.PART_ENTRIES else 1
        shares = [num_parts * worker // workers for worker in range(workers + 1)]
        used, of_groups = np.zeros(num_parts, np.int64), np.zeros((workers, num_groups), np.int64)
        run_each(
            plan,
            lambda w: distinct_pairs.deduplicate(scattered, seen, starts, shares[w], shares[w + 1], used, of_groups[w]),
            workers,
        )
        offsets, targets = partitioning.places_of(of_groups)
        if only_sizes:
            return offsets, np.empty(0, np.int64), np.empty(0, np.int64)
        # They become state columns, and stay.
        plan.control.reserve(int(offsets[-1]) * (1 + counted) * 8)
        keys, counts = np.empty(int(offsets[-1]), np.int64), np.empty(int(offsets[-1]) if counted else 0, np.int64)
        run_each(
            plan,
            lambda w: distinct_pairs.spread(
                scattered, seen, starts, shares[w], shares[w + 1], used, targets[w], keys, counts
            ),
            workers,
        )
        return offsets, keys, counts
    finally:
        plan.control.release(size_bytes)


# --- ranks ---------------------------------------------------------------------------------------------------------


def _ranked(
    plan: ScanPlan,
    entry: AggregationLayout,
    value_set: ValueSetPlan,
    rank_of: Callable[[Int64Array], Int64Array],
    threads: list[ThreadEntries],
    num_groups: int,
    metas: Int64Array,
) -> list[pa.Array]:
    """State columns that keep the value at one rank of each group: of an answer that is made here alone."""
    kind = entry.argument.data_type
    assert kind is not None
    stored = StoredType.LONG if value_set.as_longs else kind.stored
    casts, doubles = kind.stored.is_floating and value_set.as_longs, stored.is_floating
    threads = [thread for thread in threads if len(thread.entries)]
    total = sum(len(thread.entries) for thread in threads)
    size_bytes = total * 16
    try:
        plan.control.reserve(size_bytes)
        sizes, totals = np.zeros((len(threads), num_groups), np.int64), np.zeros((len(threads), num_groups), np.int64)

        def count(i: int) -> None:
            distinct_pairs.translate(
                threads[i].entries, threads[i].groups, threads[i].morsels, metas, np.empty(0, np.int64)
            )
            if casts:
                threads[i].entries[:, 1] = longs_of(threads[i].entries[:, 1].view(np.float64))
            ranks.count_groups(threads[i].entries, sizes[i], totals[i])

        run_each(plan, count, len(threads))
        offsets, places = partitioning.places_of(sizes)
        keys, counts = np.empty(total, np.int64), np.empty(total, np.int64)
        run_each(plan, lambda i: ranks.spread_words(threads[i].entries, doubles, places[i], keys, counts), len(threads))
        seen = np.flatnonzero(np.diff(offsets))
        wanted, num_ranked = np.zeros(num_groups, np.int64), np.zeros(num_groups, np.int64)
        wanted[seen] = rank_of(totals.sum(axis=0)[seen])
        # Equal shares of entries, a group whole.
        workers = plan.num_threads if total > distinct_pairs.PART_ENTRIES else 1
        shares = [
            0,
            *np.searchsorted(offsets, [total * worker // workers for worker in range(1, workers)]).tolist(),
            num_groups,
        ]
        run_each(
            plan,
            lambda w: ranks.select_ranks(keys, counts, offsets, wanted, shares[w], shares[w + 1], num_ranked),
            workers,
        )
        values = _values(ranks.values_of_words(num_ranked[seen], doubles=doubles), stored)
        return value_set.collect(seen, values, np.ones(len(seen), np.int64), num_groups)
    finally:
        plan.control.release(size_bytes)
