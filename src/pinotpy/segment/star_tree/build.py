"""Rows → a star-tree, level by level (the manual's "Index Generation"): no recursion, no loop over rows in Python.

A tree's records are the base records (distinct combinations of the dimensions, sorted by them), then level by level
those behind star nodes, then the aggregated records of the nodes that need one of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.errors import DataError
from pinotpy.kernels.aggregate import star_tree as kernels
from pinotpy.kernels.aggregate.star_tree import (
    N_AGGREGATED,
    N_END,
    N_FIRST,
    N_LAST,
    N_LEVEL,
    N_START,
    N_VALUE,
    NODE_WORDS,
    STAR,
)
from pinotpy.segment import layout
from pinotpy.segment.data_source import Column
from pinotpy.segment.star_tree.metadata import StateMetadata
from pinotpy.segment.star_tree.spec import TreeSpec, states_of
from pinotpy.segment.star_tree.states import States, ranges, states_of_rows

Ids = NDArray[np.uint32]

STAR_ID: Final = np.uint32(0xFFFFFFFF)  # while building; stored as the cardinality of the dimension
# A tree that outgrows its segment so far costs more than it saves: its dimensions or its maxLeafRecords are ill-chosen.
DOCS_PER_ROW_MAX: Final = 20
DOCS_FREE: Final = 1_000_000


class TooManyRecordsError(DataError):
    """A tree would be far larger than its segment."""


@dataclass(frozen=True, slots=True)
class BuiltTree:
    """dimensions: ids by dimension, STAR_ID for stars; counts: rows of each record; nodes: int32[num_nodes,
    NODE_WORDS].
    """

    spec: TreeSpec
    num_base_docs: int
    dimensions: list[Ids]
    counts: Int64Array
    states: list[tuple[StateMetadata, States]]
    nodes: NDArray[np.int32]

    @property
    def num_docs(self) -> int:
        return len(self.counts)


def build_tree(spec: TreeSpec, columns: Mapping[str, Column], num_docs: int) -> BuiltTree:
    """Build one tree over the rows of a segment (at least one); raises TooManyRecordsError."""
    dimensions = [columns[name] for name in spec.dimensions]
    sizes = [column.cardinality for column in dimensions]
    rows = [column.ids() for column in dimensions]
    order, starts = sorted_runs(rows, sizes, num_docs)
    first = order[starts[:-1]]
    states = states_of(spec, columns)
    records = _Records(
        [ids[first].astype(np.uint32) for ids in rows],
        np.diff(starts),
        [states_of_rows(state, columns[state.column], order, starts) for state in states],
        max(num_docs * DOCS_PER_ROW_MAX, DOCS_FREE),
    )
    num_base_docs = records.num_docs
    skipped = [name in spec.skip_star_node_creation_for_dimensions for name in spec.dimensions]
    nodes = _split(records, sizes, skipped, spec.max_leaf_records)
    _aggregate(records, nodes)
    return BuiltTree(
        spec, num_base_docs, records.dimensions, records.counts, list(zip(states, records.states, strict=True)), nodes
    )


def sorted_runs(keys: Sequence[NDArray[Any]], sizes: Sequence[int], count: int) -> tuple[Int64Array, Int64Array]:
    """Sort rows by several keys.

    Args:
        keys: unsigned numbers, shape (count,); sizes: all of keys[i] are below sizes[i].

    Returns (order, starts): the rows in order, and where each run of equal rows starts in it, ending with `count`.
    """
    packed, space = np.zeros(count, np.int64), 1
    for key, size in zip(keys, sizes, strict=True):
        if space * size >= 1 << 63:
            # What is packed so far by its rank: at most `count` numbers.
            packed, space = _ranks(packed), count
        if space == 1:
            packed = key.astype(np.int64)
        else:
            packed *= size
            packed += key
        space *= max(size, 1)
    bits = max(count - 1, 0).bit_length()
    if space << bits <= 1 << 63:
        # Sorting pairs of key and row as one number is several times as fast as sorting rows by key.
        both = (packed << bits) | np.arange(count, dtype=np.int64)
        both.sort()
        order, packed = both & ((1 << bits) - 1), both >> bits
    else:
        order = np.argsort(packed)
        packed = packed[order]
    begins = np.ones(count, np.bool_)
    np.not_equal(packed[1:], packed[:-1], out=begins[1:])
    return order, np.append(np.flatnonzero(begins), count)


def _ranks(values: Int64Array) -> Int64Array:
    order = np.argsort(values)
    ascending = values[order]
    ranks = np.empty(len(values), np.int64)
    ranks[order] = np.cumsum(np.concatenate([[0], ascending[1:] != ascending[:-1]]))
    return ranks


@dataclass(slots=True)
class _Records:
    """All records so far; grows by new ones made of old ones."""

    dimensions: list[Ids]
    counts: Int64Array
    states: list[States]
    num_docs_max: int

    @property
    def num_docs(self) -> int:
        return len(self.counts)

    def append(self, order: Int64Array, starts: Int64Array, first_star: Int64Array | int, end_star: int) -> None:
        """Add a record for each run of `order` (see states.py); dimensions [first_star[g], end_star) of record g are
        stars.
        """
        num_records = self.num_docs + len(starts) - 1
        if num_records > min(self.num_docs_max, layout.DOCS_MAX):
            raise TooManyRecordsError(
                f"it would have more than {min(self.num_docs_max, layout.DOCS_MAX)} records", found=num_records
            )
        source = order[starts[:-1]]
        for index, ids in enumerate(self.dimensions):
            starred = np.less_equal(first_star, index) & (index < end_star)
            self.dimensions[index] = np.concatenate([ids, np.where(starred, STAR_ID, ids[source])])
        counts = np.empty(len(source), np.int64)
        kernels.add_longs(self.counts, order, starts, counts)
        self.counts = np.concatenate([self.counts, counts])
        self.states = [state.joined(state.grouped(order, starts)) for state in self.states]


def _split(
    records: _Records, sizes: Sequence[int], skipped: Sequence[bool], max_leaf_records: int
) -> NDArray[np.int32]:
    """Make the nodes, and the records behind star nodes."""
    root = np.zeros((1, NODE_WORDS), np.int32)
    root[0, N_VALUE], root[0, N_END] = STAR, records.num_docs
    levels, num_nodes = [root], 1
    for level in range(len(sizes)):
        above = levels[-1]
        parents = np.flatnonzero(above[:, N_END] - above[:, N_START] > max_leaf_records)
        if not len(parents):
            break
        first, end = above[parents, N_START].astype(np.int64), above[parents, N_END].astype(np.int64)
        counts = np.empty(len(parents), np.int64)
        kernels.count_children(records.dimensions[level], first, end, counts)
        starred = (counts > 1) & (not skipped[level])
        total = counts + starred
        ends = np.cumsum(total)
        nodes = np.zeros((int(ends[-1]), NODE_WORDS), np.int32)
        begins = ends - total
        kernels.fill_children(records.dimensions[level], first, end, begins + starred, level + 1, nodes)
        if starred.any():
            bounds = _add_star_records(records, first[starred], end[starred], level, sizes)
            star_nodes = begins[starred]
            nodes[star_nodes, N_LEVEL], nodes[star_nodes, N_VALUE] = level + 1, STAR
            nodes[star_nodes, N_START], nodes[star_nodes, N_END] = bounds[:-1], bounds[1:]
        above[parents, N_FIRST], above[parents, N_LAST] = num_nodes + begins, num_nodes + ends
        levels.append(nodes)
        num_nodes += len(nodes)
        if num_nodes > layout.DOCS_MAX:
            raise TooManyRecordsError(f"it would have more than {layout.DOCS_MAX} nodes", found=num_nodes)
    return np.ascontiguousarray(np.concatenate(levels))


def _add_star_records(
    records: _Records, first: Int64Array, end: Int64Array, level: int, sizes: Sequence[int]
) -> Int64Array:
    """Drop dimension `level` of the records [first[i], end[i]) of each parent and add up those that become equal; gives
    where each parent's new records start, ending with the number of records."""
    lengths = end - first
    positions = ranges(first, lengths)
    below = range(level + 1, len(sizes))
    keys: list[NDArray[Any]] = [np.repeat(np.arange(len(first)), lengths)] if len(first) > 1 else []
    keys += [records.dimensions[index][positions] for index in below]
    order, starts = sorted_runs(
        keys, [*([len(first)] if len(first) > 1 else []), *(sizes[index] for index in below)], len(positions)
    )
    before = records.num_docs
    owners = np.searchsorted(np.cumsum(lengths), order[starts[:-1]], side="right")
    records.append(positions[order], starts, level, level + 1)
    return before + np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=len(first)))])


def _aggregate(records: _Records, nodes: NDArray[np.int32]) -> None:
    """Give every node its aggregated record: a new one where neither a single record, nor the star child's, nor the
    only child's is it.
    """
    start, end = nodes[:, N_START].astype(np.int64), nodes[:, N_END].astype(np.int64)
    num_children = nodes[:, N_LAST] - nodes[:, N_FIRST]
    is_leaf = num_children == 0
    has_star = ~is_leaf & (nodes[np.minimum(nodes[:, N_FIRST], len(nodes) - 1), N_VALUE] == STAR)
    alone = is_leaf & (end - start == 1)
    nodes[:, N_AGGREGATED] = np.where(alone, start, -1)
    lacking = np.flatnonzero((is_leaf & ~alone) | (~is_leaf & ~has_star & (num_children > 1)))
    if len(lacking):
        lengths = end[lacking] - start[lacking]
        nodes[lacking, N_AGGREGATED] = records.num_docs + np.arange(len(lacking))
        starts = np.concatenate([[0], np.cumsum(lengths)])
        records.append(
            ranges(start[lacking], lengths), starts, nodes[lacking, N_LEVEL].astype(np.int64), len(records.dimensions)
        )
    kernels.inherit_aggregated(nodes)
