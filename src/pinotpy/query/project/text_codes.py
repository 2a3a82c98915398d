"""Numbers for the texts of a raw column, the same in all segments that a query reads: groups and distinct values are
counted by number, and only the texts of an answer are read again.

    numbers = code_texts(plan, "session", segments)
    numbers.ids[segment]          # uint32[num_docs]
    numbers.values(ids)           # Arrow binary

They are those of the docs that the query reads (text_coding.py), or those of all docs, kept from query to query
(text_code_cache.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.errors import QueryExecutionError
from pinotpy.kernels.runtime import abi
from pinotpy.kernels.text import text_codes as kernels
from pinotpy.query.plan.scan_plan import ScanPlan
from pinotpy.query.project.text_code_cache import KeptTexts, kept_texts
from pinotpy.query.project.text_coding import HASH_MASK, Ids, Run, number_runs, run_coding, runs_of
from pinotpy.query.runtime.control import QueryControl

_BYTES_MAX: Final = 2**31 - 1


class TextCodes:
    """Distinct texts of a raw column, among them all at the docs that a plan reads.

    num_ids: all numbers are below it, not all of them are used. ids: by segment, uint32[num_docs], the number of each
    doc that is read; nothing of interest at others. Texts are read where they lie: hold the segments.

    Args:
        tables: address and count of the entries of every part; keep: what they lie in.
        used: the numbers at the docs that are read; None: all that there are.
    """

    def __init__(
        self,
        control: QueryControl,
        tables: Sequence[tuple[int, int]],
        ids: dict[int, Ids],
        keep: object,
        used: Int64Array | None,
    ) -> None:
        self.ids = ids
        self._control, self._kept, self._used = control, keep, used
        self._tables = np.array(tables, np.int64)
        self.num_ids = int(self._tables[:, 1].max()) * len(tables)
        self._same: NDArray[np.int32] | None = None

    @property
    def count(self) -> int:
        """Of the distinct texts at the docs that are read."""
        return int(self._tables[:, 1].sum()) if self._used is None else len(self._used)

    def all_ids(self) -> Int64Array:
        """The numbers at the docs that are read."""
        if self._used is not None:
            return self._used
        parts = len(self._tables)
        return np.concatenate(
            [np.arange(count) * parts + part for part, count in enumerate(self._tables[:, 1].tolist())]
        )

    def values(self, ids: NDArray[np.integer[Any]]) -> pa.Array:
        """The texts of numbers, binary; of one that is not used, the empty one."""
        numbers, offsets = ids.astype(np.int64), np.empty(len(ids) + 1, np.int64)
        kernels.text_lengths(self._tables, numbers, offsets)
        size = int(offsets[-1])
        if size > _BYTES_MAX:
            raise QueryExecutionError(
                f"the values of the groups take {size} bytes, more than an answer holds: group by shorter values or "
                "fewer"
            )
        self._control.reserve(size + len(ids) * 4)
        body = np.empty(max(size, 1), np.uint8)
        kernels.copy_texts(self._tables, numbers, offsets, body)
        return pa.Array.from_buffers(
            pa.binary(), len(ids), [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(body)]
        )

    def same(self) -> NDArray[np.int32]:
        """int32[num_ids], every number itself: what shared codes of a segment's ids are (shared_codes.py)."""
        if self._same is None:
            self._control.reserve(self.num_ids * 4)
            self._same = np.arange(self.num_ids, dtype=np.int32)
        return self._same


def has_text_codes(plan: ScanPlan, segment: int, name: str) -> bool:
    """Whether a column has raw single texts in a segment, in a form that is numbered here."""
    meta = plan.metas.of(name)[segment]
    return bool(
        meta[abi.M_CARDINALITY] < 0 and meta[abi.M_RAW_OFFSETS] and plan.segments[segment].column(name).single_value
    )


def code_texts(
    plan: ScanPlan, name: str, segments: Sequence[int], *, with_ids: bool = True, hash_mask: int = HASH_MASK
) -> TextCodes:
    """Numbers for the texts of a column in some of the segments that a plan reads.

    Args:
        plan: one that reads everything (reads_all_rows) or is narrowed to lists.
        with_ids: the ids of docs are wanted, else which texts there are.
        hash_mask: bits of hashes that count; for tests.

    Raises: what the plan's control raises.
    """
    runs = _runs(plan, set(segments))
    texts = None
    if hash_mask == HASH_MASK:
        texts = kept_texts(
            plan.segments.whole, name, sum(run.count for run in runs), plan.control, plan.num_threads, plan.executor
        )
    if texts is not None:
        return _of_kept(plan, texts, runs, segments, with_ids=with_ids)
    docs = {segment: plan.segments[segment].num_docs for segment in segments}
    numbering = number_runs(plan, plan.metas.of(name), runs, docs, with_ids=with_ids, hash_mask=hash_mask)
    tables = [(table.ctypes.data, count) for table, count in numbering.tables]
    return TextCodes(plan.control, tables, numbering.ids, numbering, None)


def _of_kept(
    plan: ScanPlan, kept: KeptTexts, runs: Sequence[Run], segments: Sequence[int], *, with_ids: bool
) -> TextCodes:
    rows = plan.segments.rows_of_whole
    ids = {segment: kept.ids[segment if rows is None else int(rows[segment])] for segment in segments}
    numbers, used = TextCodes(plan.control, kept.tables, ids, kept, None), None
    if with_ids:
        return numbers
    if sum(run.count for run in runs) < plan.segments.whole.total_docs:
        plan.control.reserve(numbers.num_ids * 9)
        seen = np.zeros(numbers.num_ids, np.uint8)
        run_coding(
            plan, [partial(kernels.see_ids, ids[run.segment], run.listed, run.first, run.count, seen) for run in runs]
        )
        used = np.flatnonzero(seen)
    return TextCodes(plan.control, kept.tables, {}, kept, used)


def _runs(plan: ScanPlan, segments: set[int]) -> list[Run]:
    """The docs that a plan reads of some segments, in runs."""
    of_morsels = plan.morsels[:, abi.U_SEGMENT].tolist()
    if plan.reads_all_rows:
        return [
            run
            for segment in sorted(segments & set(of_morsels))
            for run in runs_of(segment, None, plan.segments[segment].num_docs)
        ]
    return [
        run
        for segment, docs in zip(of_morsels, plan.listed, strict=True)
        if segment in segments
        for run in runs_of(segment, docs, len(docs))
    ]
