"""Numbers for the texts of a raw column, the same in all segments that a query reads (kernels/text_parts.py): groups and distinct
values are counted by number, and only the texts of an answer are read again.

    numbers = number_texts(plan, "session", segments)
    numbers.ids[segment]          # uint32[num_docs], written at the docs that the plan reads
    numbers.values(ids)           # Arrow binary

Docs are dealt in runs and numbered in waves, so that what lies between the two steps stays small however many docs there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.errors import QueryExecutionError
from pinotpy.kernels import abi
from pinotpy.kernels import text_parts as kernels
from pinotpy.query.control import QueryControl
from pinotpy.query.jobs import run_jobs
from pinotpy.query.plan import ScanPlan

Ids = NDArray[np.uint32]
# Docs that are dealt at once, a job of a thread, and in all runs of a wave.
RUN_DOCS: Final = 1 << 17
WAVE_DOCS: Final = 1 << 22
# About so many docs a part: of texts that repeat, its table fits a cache.
PART_DOCS: Final = 1 << 15
HASH_MASK: Final = 2**64 - 1
_RUN_BYTES: Final = kernels.ENTRY_WORDS * 8 + 4  # of a doc
_BYTES_MAX: Final = 2**31 - 1
_NO_DOCS: Final = np.zeros(0, np.int32)
_Run = tuple[int, NDArray[np.int32], int, int]  # segment, docs (none: those from the third on), first doc, how many


class TextNumbers:
    """The distinct texts of a raw column at the docs that a plan reads.

    count: of distinct texts. num_ids: all numbers are below it, not all of them are used. ids: by segment, uint32[num_docs],
    the number of each doc that is read; nothing of interest at others. Texts are read where they lie: hold the segments.
    """

    def __init__(self, control: QueryControl, tables: Sequence[tuple[NDArray[np.uint64], int]], ids: dict[int, Ids]) -> None:
        self.ids = ids
        self._control, self._kept = control, [table for table, _ in tables]
        self._tables = np.array([(table.ctypes.data, count) for table, count in tables], np.int64)
        self.count = int(self._tables[:, 1].sum())
        self.num_ids = int(self._tables[:, 1].max()) * len(tables)
        self._same: NDArray[np.int32] | None = None

    def all_ids(self) -> NDArray[np.int64]:
        """The numbers that are used."""
        parts = len(self._tables)
        return np.concatenate([np.arange(count) * parts + part for part, count in enumerate(self._tables[:, 1].tolist())])

    def values(self, ids: NDArray[np.integer[Any]]) -> pa.Array:
        """The texts of numbers, binary; of one that is not used, the empty one."""
        numbers, offsets = ids.astype(np.int64), np.empty(len(ids) + 1, np.int64)
        kernels.text_lengths(self._tables, numbers, offsets)
        size = int(offsets[-1])
        if size > _BYTES_MAX:
            raise QueryExecutionError(f"the values of the groups take {size} bytes, more than an answer holds: group by shorter values or fewer")
        self._control.reserve(size + len(ids) * 4)
        body = np.empty(max(size, 1), np.uint8)
        kernels.copy_texts(self._tables, numbers, offsets, body)
        return pa.Array.from_buffers(pa.binary(), len(ids), [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(body)])

    def same(self) -> NDArray[np.int32]:
        """int32[num_ids], every number itself: what global ids of a segment's ids are (global_ids.py)."""
        if self._same is None:
            self._control.reserve(self.num_ids * 4)
            self._same = np.arange(self.num_ids, dtype=np.int32)
        return self._same


def is_numbered(plan: ScanPlan, segment: int, name: str) -> bool:
    """Whether a column has raw single texts in a segment, in a form that is numbered here."""
    meta = plan.metas.of(name)[segment]
    return bool(meta[abi.M_CARDINALITY] < 0 and meta[abi.M_RAW_OFFSETS] and plan.segments[segment].column(name).single_value)


def number_texts(plan: ScanPlan, name: str, segments: Sequence[int], *, with_ids: bool = True, hash_mask: int = HASH_MASK) -> TextNumbers:
    """Numbers for the texts of a column in some of the segments that a plan reads.

    Args:
        plan: one that reads everything (match_all) or is narrowed to lists.
        with_ids: the ids of docs are wanted, not only which texts there are.
        hash_mask: bits of hashes that count; for tests.

    Raises: what the plan's control raises.
    """
    return _Numbering(plan, name, segments, with_ids, hash_mask).numbers()


class _Numbering:
    """Numbering at work."""

    def __init__(self, plan: ScanPlan, name: str, segments: Sequence[int], with_ids: bool, hash_mask: int) -> None:
        self._plan, self._metas, self._hash_mask = plan, plan.metas.of(name), np.uint64(hash_mask)
        self._runs = _runs(plan, set(segments))
        docs = sum(count for *_, count in self._runs)
        self._parts = min(1 << max((docs // PART_DOCS).bit_length() - 1, 0), kernels.PARTS_MAX)
        self._tables = [(np.zeros(0, np.uint64), np.zeros(0, np.uint32), 0)] * self._parts
        self._ids: dict[int, Ids] = {}
        if with_ids:
            plan.control.reserve(sum(plan.segments[segment].num_docs for segment in segments) * 4)
            self._ids = {segment: np.empty(plan.segments[segment].num_docs, np.uint32) for segment in segments}

    def numbers(self) -> TextNumbers:
        control = self._plan.control
        wave = max(1, WAVE_DOCS // RUN_DOCS)
        width = max((count for *_, count in self._runs), default=0)
        size_bytes = min(wave, len(self._runs)) * width * _RUN_BYTES
        try:
            control.reserve(size_bytes)
            entries = np.empty((min(wave, len(self._runs)), width * kernels.ENTRY_WORDS), np.uint64)
            docs = np.empty((len(entries), width), np.uint32)
            for first in range(0, len(self._runs), wave):
                self._number(self._runs[first : first + wave], entries, docs)
        finally:
            control.release(size_bytes)
        return TextNumbers(control, [(table, count) for table, _, count in self._tables], self._ids)

    def _number(self, runs: Sequence[_Run], entries: NDArray[np.uint64], docs: Ids) -> None:
        plan = self._plan
        ends = np.zeros((len(runs), self._parts + 1), np.int64)
        words = np.zeros((len(runs), kernels.RUN_WORDS), np.int64)
        run_jobs(
            [partial(self._deal, run, entries[i], docs[i], ends[i], words[i]) for i, run in enumerate(runs)],
            threads=plan.num_threads,
            executor=plan.executor,
        )
        run_jobs([partial(self._number_part, part, words, ends) for part in range(self._parts)], threads=plan.num_threads, executor=plan.executor)

    def _deal(self, run: _Run, entries: NDArray[np.uint64], docs: Ids, ends: NDArray[np.int64], words: NDArray[np.int64]) -> None:
        self._plan.control.check()
        segment, listed, first, count = run
        meta = self._metas[segment]
        hashes = np.empty(count, np.uint64)
        kernels.deal_texts(int(meta[abi.M_DATA]), int(meta[abi.M_RAW_OFFSETS]), listed, first, self._hash_mask, hashes, entries, docs, ends)
        ids = self._ids[segment].ctypes.data if self._ids else 0
        words[:] = entries.ctypes.data, docs.ctypes.data, ids, self._plan.segments[segment].num_docs

    def _number_part(self, part: int, words: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        control = self._plan.control
        control.check()
        table, index, count = self._tables[part]
        held = table.nbytes + index.nbytes
        table, index, count = self._tables[part] = kernels.number_part(words, ends, part, table, index, count)
        control.reserve(table.nbytes + index.nbytes - held)


def _runs(plan: ScanPlan, segments: set[int]) -> list[_Run]:
    """The docs that a plan reads of some segments, in runs."""
    units: list[tuple[int, NDArray[np.int32], int]] = []
    if plan.match_all:
        units = [(segment, _NO_DOCS, plan.segments[segment].num_docs) for segment in np.unique(plan.units[:, abi.U_SEGMENT]).tolist()]
    else:
        units = [(segment, docs, len(docs)) for segment, docs in zip(plan.units[:, abi.U_SEGMENT].tolist(), plan.listed, strict=True)]
    return [
        (segment, docs[first : first + RUN_DOCS], first, min(RUN_DOCS, count - first))
        for segment, docs, count in units
        if segment in segments
        for first in range(0, count, RUN_DOCS)
    ]
