"""Groups of a long scan over keys of one word (hash_table.py), made part by part of rows that the scan deals out
(kernels/group/radix_partition.py): tables of parts stay in the cache, nothing is put together by key, and where the
answer shows the first groups of a ranking, no others leave their part.

Rows wait in memory: where they would take more than "partitioned rows" of the query's budget (memory_shares.py), each
thread brings those that it has into a table of its own, as without dealing, and the tables are put together at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.functions.state.plans import SlotPlan
from pinotpy.kernels.aggregate.result_context import (
    G_ARENA,
    G_CHUNKS,
    G_MORSELS,
    G_NUM_GROUPS,
    G_OVERFLOW_ARENA,
    G_PARTITION_SHIFT,
    G_PARTITION_WORDS,
    G_STREAMS,
    ResultContext,
)
from pinotpy.kernels.group import radix_partition
from pinotpy.kernels.runtime import abi
from pinotpy.pql.ast import Call
from pinotpy.query.aggregate.emit import RowFields, record_updates
from pinotpy.query.aggregate.layout import Layout, projected_columns
from pinotpy.query.group.groups import MergedGroups
from pinotpy.query.group.hash_table import ThreadHashTable
from pinotpy.query.group.top_n_groups import Ranking
from pinotpy.query.plan.scan_plan import ScanPlan, Shape
from pinotpy.query.project.sources import Source, Sources
from pinotpy.query.runtime.parallel import in_shares, run_pieces, run_workers

# Of fewer dealt rows one table is made.
PARTITIONED_ROWS_MIN: Final = 1 << 16
# About so many docs a part: with its table some hundred KiB.
PART_DOCS: Final = 1 << 15
PART_BITS_MIN, PART_BITS_MAX = 4, 10
# Aggregations read at most so many fields of a row: more keep registers that keys and expressions need.
FIELDS_MAX: Final = 10
FIELDS_OF_EXPRESSIONS_MAX: Final = 6
POOL_BYTES_MAX: Final = 2 << 30
# Rows of one step: some milliseconds.
_STEP_ROWS: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Chunks:
    """Rows that wait: address and rows of each chunk, by part; chunks of part p are starts[p] … starts[p + 1]."""

    addresses: Int64Array
    sizes: Int64Array
    starts: Int64Array


@dataclass(slots=True)
class RadixPartitionedTable:
    """One scan's groups; `fields` is known when its instructions are emitted."""

    thread_table: ThreadHashTable
    layout: Layout
    bits: int
    pool_bytes: int
    fields: RowFields | None = field(default=None)

    @property
    def plan(self) -> ScanPlan:
        return self.thread_table.plan

    def emit(self, shape: Shape, key_sources: Sequence[Source], sources: Sources) -> None:
        """All select instructions of the (one) shape."""
        self.thread_table.emit_keys(shape, key_sources)
        self.fields = fields = record_updates(shape, self.layout, sources)
        registers = [*fields.values, *fields.flags]
        shape.begin(radix_partition.begin_partitioning.address, 64 - self.bits, 1 + len(registers), self.pool_bytes)
        shape.emit(radix_partition.partition_rows.address, len(fields.values), len(fields.flags), *registers)

    def on_flush(self, context: ResultContext) -> None:
        """Too many rows of one thread wait: they become groups of its table."""
        self._take(context)

    def merged(self, contexts: Sequence[ResultContext], ranking: Ranking | None) -> MergedGroups:
        """The groups of all threads; of those that can be shown by `ranking` at least."""
        chunks = [waiting_chunks(context) for context in contexts]
        num_rows = sum(int(one.sizes.sum()) for one in chunks)
        if num_rows < PARTITIONED_ROWS_MIN or any(context.words[G_NUM_GROUPS] for context in contexts):
            run_pieces(self.plan, [partial(self._take, context) for context in contexts], in_turn=True)
            return self.thread_table.merged(self.layout, contexts)
        return self._in_parts(contexts, chunks, num_rows, ranking)

    def _take(self, context: ResultContext) -> None:
        assert self.fields is not None
        chunks = waiting_chunks(context)
        state = abi.State(self.plan.control.words, context.address)
        self._check(
            radix_partition.take_rows(
                state.words, state.address, self.fields.program, chunks.addresses, chunks.sizes, len(self.fields.values)
            )
        )

    def _in_parts(
        self, contexts: Sequence[ResultContext], chunks: Sequence[Chunks], num_rows: int, ranking: Ranking | None
    ) -> MergedGroups:
        assert self.fields is not None
        plan, fields, num_parts = self.plan, self.fields, 1 << self.bits
        parts = np.concatenate(
            [np.repeat(np.arange(num_parts), np.diff(one.starts)) for one in chunks if len(one.sizes)]
        )
        order = np.argsort(parts.astype(np.uint16), kind="stable")
        addresses, sizes = (
            np.concatenate([getattr(one, name) for one in chunks if len(one.sizes)])[order]
            for name in ("addresses", "sizes")
        )
        starts = np.concatenate([[0], np.cumsum(np.bincount(parts, minlength=num_parts))])
        before = np.concatenate([[0], np.cumsum(sizes)])[starts]
        rows = np.diff(before).tolist()
        rank = np.array(
            [-1, 0, 0, 0] if ranking is None else [ranking.kind, ranking.word, ranking.seen_word, ranking.ascending],
            np.int64,
        )
        # A part has no more groups than rows: LIMIT 2147483647 is no reason for 16 GiB of scratch.
        num_chosen = 0 if ranking is None else min(ranking.shown, max(rows))
        num_workers = plan.num_threads
        borders = [
            *np.searchsorted(before, [num_rows * worker // num_workers for worker in range(num_workers)]).tolist(),
            num_parts,
        ]
        made = [ResultContext(plan.control.words, self.layout.row_words, 1) for _ in range(num_workers)]
        workers = []
        for context, low, high in zip(made, borders[:-1], borders[1:], strict=True):
            context.words[G_PARTITION_WORDS] = 1 + len(fields.values) + len(fields.flags)
            state, heap = abi.State(plan.control.words, context.address), np.empty(num_chosen)

            def work(first: int, last: int, state: abi.State = state, heap: NDArray[np.float64] = heap) -> None:
                self._check(
                    radix_partition.group_parts(
                        state.words,
                        state.address,
                        fields.program,
                        addresses,
                        sizes,
                        starts,
                        first,
                        last,
                        len(fields.values),
                        rank,
                        heap,
                    )
                )

            workers.append(in_shares(rows, low, high, _STEP_ROWS, work))
        try:
            run_workers(plan, workers, in_turn=True)
            tables = [context.vector(G_ARENA).reshape(-1, self.layout.row_words) for context in made]
            keys = np.concatenate([context.vector(G_MORSELS) for context in made])
            overflow, first_row = [], 0
            for context, table in zip(made, tables, strict=True):
                entries = context.vector(G_OVERFLOW_ARENA).reshape(-1, 5).copy()
                entries[:, 0] += first_row
                overflow.append(entries)
                first_row += len(table)
            plan.control.reserve(first_row * (self.layout.row_words + 1) * 8)
            return MergedGroups(
                np.concatenate(tables), np.concatenate(overflow), lambda chosen: self._decode(keys[chosen])
            )
        finally:
            for context in made:
                context.close()

    def _decode(self, words: Int64Array) -> list[pa.Array]:
        return self.thread_table.decode_keys(words)

    def _check(self, code: int) -> None:
        """Raise for an error word of a kernel."""
        if code == abi.E_OK:
            return
        control = self.plan.control
        control.check()
        if code == abi.E_CANCELLED:
            raise control.cancelled_error()
        assert code == abi.E_MEMORY, f"unknown error word {code}"
        raise control.memory_error()


def why_not_partitioned(plan: ScanPlan, layout: Layout) -> str | None:
    """Why rows of the query cannot wait in partitions until they are grouped; None: they can."""
    if plan.pre_aggregated:
        return "a record of a star-tree is more than one row"
    if any(entry.unnests for entry in layout.aggregations):
        return "an aggregation reads each value of a multi-value column"
    if not _is_alike(plan):
        return "a column is raw or has nulls in some segments only"
    num_fields = sum(_num_fields(layout))
    if num_fields > (FIELDS_OF_EXPRESSIONS_MAX if _computes(layout) else FIELDS_MAX):
        return f"aggregations read {num_fields} fields of a row, which registers do not hold beside keys"
    return None


def chunks_of_pool(plan: ScanPlan, layout: Layout) -> float:
    """How many chunks of each partition the pool of a thread holds."""
    chunk_bytes = radix_partition.CHUNK_ROWS * (1 + sum(_num_fields(layout))) * 8
    return _pool_bytes(plan) / (((1 << _bits(plan)) + abi.BLOCK // radix_partition.CHUNK_ROWS) * chunk_bytes)


def make_radix_partitioned(plan: ScanPlan, layout: Layout, thread_table: ThreadHashTable) -> RadixPartitionedTable:
    """The table for a query that it can serve; `thread_table` takes rows early where the pool is full."""
    return RadixPartitionedTable(thread_table, layout, _bits(plan), _pool_bytes(plan))


def _bits(plan: ScanPlan) -> int:
    return min(max((int(plan.docs_expected) // PART_DOCS).bit_length(), PART_BITS_MIN), PART_BITS_MAX)


def _pool_bytes(plan: ScanPlan) -> int:
    return int(min(plan.control.share("partitioned rows"), POOL_BYTES_MAX)) // plan.num_threads


def _num_fields(layout: Layout) -> tuple[int, int]:
    """Values and flags of a row that aggregations read."""
    values = {entry.source for entry in layout.aggregations if isinstance(entry.plan, SlotPlan) and entry.plan.updates}
    flags = {(entry.aggregation.filter, entry.source) for entry in layout.aggregations if entry.flagged}
    return len(values), len(flags)


def _computes(layout: Layout) -> bool:
    return any(isinstance(entry.source, Call) for entry in layout.aggregations)


def _is_alike(plan: ScanPlan) -> bool:
    """Whether all columns are read alike in all morsels, so that rows of all have the same fields."""
    segments = plan.morsels[:, abi.U_SEGMENT]
    for name in projected_columns(plan.context):
        meta = plan.metas.of(name)[segments]
        coded, nullable = meta[:, abi.M_CARDINALITY] >= 0, meta[:, abi.M_NULLS] != 0
        if coded.any() != coded.all() or nullable.any() != nullable.all():
            return False
    return True


def waiting_chunks(context: ResultContext) -> Chunks:
    """What waits in one thread's context."""
    words = context.words
    if not words[G_PARTITION_WORDS]:
        return Chunks(np.empty(0, np.int64), np.empty(0, np.int64), np.zeros(1, np.int64))
    num_parts, width = 1 << (64 - int(words[G_PARTITION_SHIFT])), int(words[G_PARTITION_WORDS])
    opened = context.vector(G_CHUNKS).reshape(-1, 2)
    opened = opened[np.argsort(opened[:, 0].astype(np.uint16), kind="stable")]
    streams = context.words_at(G_STREAMS, 2 * num_parts).reshape(-1, 2)
    sizes = np.full(len(opened), radix_partition.CHUNK_ROWS, np.int64)
    starts = np.concatenate([[0], np.cumsum(np.bincount(opened[:, 0], minlength=num_parts))])
    seen = np.flatnonzero(np.diff(starts))
    lasts = starts[seen + 1] - 1
    sizes[lasts] = (streams[seen, 0] - opened[lasts, 1]) // (8 * width)
    return Chunks(np.ascontiguousarray(opened[:, 1]), sizes, starts)
