"""Numbers of the raw texts of all docs of a set of segments, kept for later queries beside decoded columns and under
their budget (segment/decoded_cache.py): who asks again for a large part of the docs hashes nothing.

They are made by the first query that reads a good part of the docs, so that the next one has the same numbers. A set of
segments never changes; that of a changed table begins anew, and what was kept for a set goes with it.
"""

from __future__ import annotations

import itertools
import weakref
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from pinotpy.arrays import Int64Array
from pinotpy.errors import MemoryLimitError
from pinotpy.kernels.runtime import abi
from pinotpy.query.project.text_coding import Ids, number_runs, runs_of
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.runtime.memory_shares import share_of_cache
from pinotpy.query.runtime.parallel import Workers
from pinotpy.query.segments.checked_bytes import check_bytes
from pinotpy.query.segments.segment_set import Attachment, SegmentSet
from pinotpy.segment.data_source import Column
from pinotpy.segment.decoded_cache import DECODED

# A query that reads fewer of the docs numbers those alone.
DOCS_SHARE_MIN: Final = 0.25
_tokens: Final = itertools.count(1)


@dataclass(slots=True)
class Asked:
    """What is known of a column of a set: whether its numbers are too large."""

    token: int = field(default_factory=lambda: next(_tokens))
    is_too_large: bool = False


class KeptTexts:
    """One array: parts, the counts of the parts, the entries of the parts, the ids of the segments.

    tables: (address, count) of the entries of each part. ids: by row of the set. They are valid while this is held.
    """

    def __init__(self, held: Int64Array, docs: Int64Array) -> None:
        self._held = held
        parts = int(held[0])
        counts = held[1 : 1 + parts].tolist()
        place, self.tables = 1 + parts, list[tuple[int, int]]()
        for count in counts:
            self.tables.append((held.ctypes.data + place * 8, count))
            place += count * _ENTRY_WORDS
        self.ids: list[Ids] = []
        for count in docs.tolist():
            self.ids.append(held[place:].view(np.uint32)[:count])
            place += (count + 1) // 2


_ENTRY_WORDS: Final = 3


class _AskedColumns(Attachment):
    """By column, what queries over the set asked of its texts."""

    def __init__(self) -> None:
        self.columns: dict[str, Asked] = {}


def kept_texts(
    segments: SegmentSet, name: str, docs_read: int, control: QueryControl, threads: int, executor: Executor | None
) -> KeptTexts | None:
    """The numbers of a column in a whole set; None where there are none, and none are to be made for this query.

    Args:
        docs_read: docs whose texts the query wants.

    Raises: what `control.check` raises.
    """
    column = _column(segments, name) if docs_read >= segments.total_docs * DOCS_SHARE_MIN else None
    if column is None:
        return None
    columns = segments.attached(_AskedColumns).columns
    asked = columns.get(name)
    if asked is None:
        asked = columns.setdefault(name, Asked())
        weakref.finalize(segments, column.drop_derived, _kind(asked))
    if asked.is_too_large:
        return None
    try:
        held = column.derived(_kind(asked), lambda: _made(segments, name, control, threads, executor))
    except _TooLargeError:
        asked.is_too_large = True
        return None
    return KeptTexts(held, segments.docs)


def _kind(asked: Asked) -> str:
    return f"texts.numbered.{asked.token}"


def _column(segments: SegmentSet, name: str) -> Column | None:
    """The column in the first segment, if all have raw single texts that kernels read where they lie."""
    if not len(segments) or not segments.has_column(name):
        return None
    rows, column = segments.column(name), segments[0].column(name)
    if not rows.in_place or not column.keeps_derived or not column.single_value:
        return None
    is_raw = (rows.metas[:, abi.M_CARDINALITY] < 0) & (rows.metas[:, abi.M_RAW_OFFSETS] != 0)
    return column if bool(is_raw.all()) else None


class _TooLargeError(Exception):
    """The numbers would take more than their share of the budget."""


class _Budget(QueryControl):
    """Accounts for the numbers instead of the query, and stops when the query has to."""

    def __init__(self, query: QueryControl) -> None:
        allowed = max(int(share_of_cache("text codes", DECODED.budget_bytes)), 1)
        super().__init__(memory_max_bytes=allowed, process=query.process)
        self._query = query

    def check(self) -> None:
        self._query.check()


def _made(
    segments: SegmentSet, name: str, control: QueryControl, threads: int, executor: Executor | None
) -> Int64Array:
    check_bytes(segments, (name,), control)  # also of segments that the query itself does not read
    metas, docs = segments.column(name).metas, dict(enumerate(segments.docs.tolist()))
    runs = [run for row, count in docs.items() for run in runs_of(row, None, count)]
    budget = _Budget(control)
    try:
        numbered = number_runs(Workers(budget, threads, executor), metas, runs, docs)
    except MemoryLimitError:
        control.check()  # it may be the query's own
        raise _TooLargeError from None
    finally:
        budget.close()
    words = (
        1
        + len(numbered.tables)
        + sum(count * _ENTRY_WORDS for _, count in numbered.tables)
        + sum((count + 1) // 2 for count in docs.values())
    )
    held = np.empty(words, np.int64)
    held[0] = len(numbered.tables)
    held[1 : 1 + len(numbered.tables)] = [count for _, count in numbered.tables]
    place = 1 + len(numbered.tables)
    for table, count in numbered.tables:
        held[place : place + count * _ENTRY_WORDS] = table[: count * _ENTRY_WORDS].view(np.int64)
        place += count * _ENTRY_WORDS
    for row, count in docs.items():
        held[place:].view(np.uint32)[:count] = numbered.ids[row]
        place += (count + 1) // 2
    return held
