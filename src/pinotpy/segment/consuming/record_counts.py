"""What became of the records of each segment of a log: how many were read between its offsets, and how many of them are
rows, were filtered, or were rejected.

Counts come batch by batch, and a segment may end within a batch. Where all records of a batch are rows, its rows say
how many records lie before the end. Of any other batch the offsets of its records are kept for a while, with what
became of each; where they are gone, or were never known, the counts of a segment that ends there are not known either.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array

# Batches whose records are kept one by one; a segment's end is decided a moment after its criterion was met.
DETAILS_MAX: Final = 256
_STEP_TYPES: Final = (np.uint8, np.uint16, np.uint32)


class RecordCounts(NamedTuple):
    """records - tombstones + added = indexed + filtered + rejected; added: rows beyond one a record."""

    records: int = 0
    tombstones: int = 0
    added: int = 0
    indexed: int = 0
    filtered: int = 0
    rejected: int = 0

    @property
    def is_balanced(self) -> bool:
        return min(self) >= 0 and self.records - self.tombstones + self.added == (
            self.indexed + self.filtered + self.rejected
        )

    @property
    def is_plain(self) -> bool:
        """Every record is one row."""
        return self == RecordCounts(self.records, indexed=self.records)

    def plus(self, other: RecordCounts) -> RecordCounts:
        return RecordCounts(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def minus(self, other: RecordCounts) -> RecordCounts:
        return RecordCounts(*(mine - theirs for mine, theirs in zip(self, other, strict=True)))


NOTHING: Final = RecordCounts()


@dataclass(frozen=True, slots=True)
class RecordFates:
    """Of a batch of which some records are no row, and none is several: which ones, packed, since hardly any is looked
    at. offsets: of all its records. filtered, rejected, tombstones: numbers of records in it.
    """

    offsets: str
    filtered: str
    rejected: str
    tombstones: str

    @classmethod
    def of(cls, offsets: Int64Array, filtered: Int64Array, rejected: Int64Array, tombstones: Int64Array) -> RecordFates:
        """All ascending."""
        return cls(*map(pack_ascending, (offsets, filtered, rejected, tombstones)))

    def before(self, offset: int) -> RecordCounts:
        """Of the records before an offset."""
        records = _below(self.offsets, offset)
        filtered, rejected, tombstones = (
            _below(numbers, records) for numbers in (self.filtered, self.rejected, self.tombstones)
        )
        return RecordCounts(
            records,
            tombstones,
            indexed=records - tombstones - filtered - rejected,
            filtered=filtered,
            rejected=rejected,
        )


@dataclass(frozen=True, slots=True)
class BatchCounts:
    """Of one batch."""

    counts: RecordCounts
    fates: RecordFates | None = None

    def to_json(self) -> list[Any]:
        fates = self.fates
        packed = () if fates is None else (fates.offsets, fates.filtered, fates.rejected, fates.tombstones)
        return [*self.counts, *packed]

    @classmethod
    def from_json(cls, document: Sequence[Any]) -> BatchCounts:
        counts = RecordCounts(*document[: len(RecordCounts._fields)])
        packed = document[len(counts) :]
        return cls(counts, RecordFates(*packed) if packed else None)


@dataclass(slots=True)
class _Run:
    """Batches that follow each other. taken: of its records, those before the last segment's end.
    counts: None: not known.
    """

    next_offset: Any
    end_row: int
    counts: RecordCounts | None
    fates: RecordFates | None = None
    taken: RecordCounts = NOTHING

    @property
    def is_plain(self) -> bool:
        return self.counts is not None and self.counts.is_plain

    @property
    def left(self) -> RecordCounts | None:
        return None if self.counts is None else self.counts.minus(self.taken)


class SegmentCounts:
    """Of the batches of one log, cut as its segments are. The caller holds a lock."""

    def __init__(self, start_offset: Any) -> None:
        self._runs: list[_Run] = []
        self._end_row = 0  # of what lies before the first run
        self._next_offset = self._cut_offset = start_offset

    def add(self, batch: BatchCounts | None, next_offset: Any, end_row: int) -> None:
        """A batch was published, or nothing new. batch: None: not known."""
        if next_offset <= self._next_offset:
            return
        self._next_offset = next_offset
        run = (
            _Run(next_offset, end_row, None) if batch is None else _Run(next_offset, end_row, batch.counts, batch.fates)
        )
        last = self._runs[-1] if self._runs else None
        if last is None or not ((last.is_plain and run.is_plain) or last.counts is run.counts is None):
            self._runs.append(run)
            if len(self._runs) > DETAILS_MAX:
                self._join_first()
        else:
            last.next_offset, last.end_row, last.counts = next_offset, end_row, _sum(last.counts, run.counts)

    def cut(self, end_offset: Any, end_row: int) -> RecordCounts | None:
        """Of the records between the cut before and this one; None where that is not known."""
        total: RecordCounts | None = NOTHING
        while self._runs and self._runs[0].next_offset <= end_offset:
            run = self._runs.pop(0)
            total, self._end_row, self._cut_offset = _sum(total, run.left), run.end_row, run.next_offset
        if self._runs and end_offset > self._cut_offset:
            total, self._cut_offset = _sum(total, self._take(self._runs[0], end_offset, end_row)), end_offset
        return total if total is not None and total.is_balanced else None

    def _take(self, run: _Run, end_offset: Any, end_row: int) -> RecordCounts | None:
        """What of a run lies before the end and was not taken yet."""
        before = self._before(run, end_offset, end_row)
        if before is None:
            run.counts = run.fates = None  # nor is the rest known
            return None
        taken, run.taken = run.taken, before
        return before.minus(taken)

    def _before(self, run: _Run, end_offset: Any, end_row: int) -> RecordCounts | None:
        if run.is_plain:
            num_rows = end_row - self._end_row
            return RecordCounts(num_rows, indexed=num_rows)
        if run.counts is None or run.fates is None:
            return None
        return run.fates.before(end_offset)

    def _join_first(self) -> None:
        first, second = self._runs[:2]
        self._runs[:2] = [_Run(second.next_offset, second.end_row, _sum(first.left, second.left))]


def _sum(one: RecordCounts | None, other: RecordCounts | None) -> RecordCounts | None:
    return None if one is None or other is None else one.plus(other)


def _below(packed: str, limit: int) -> int:
    return int(np.searchsorted(unpack_ascending(packed), limit, "left"))


def pack_ascending(numbers: Int64Array) -> str:
    """Ascending numbers as text: how many, the first one, and steps, one where all are the same."""
    if not len(numbers):
        return "0"
    steps: NDArray[Any] = np.diff(numbers)
    if len(steps) and (steps == steps[0]).all():
        return f"{len(numbers)},{numbers[0]},{steps[0]}"
    most = int(steps.max(initial=0))
    dtype = next((kind for kind in _STEP_TYPES if most <= np.iinfo(kind).max), np.int64)
    packed = base64.b64encode(steps.astype(dtype).tobytes()).decode()
    return f"{len(numbers)},{numbers[0]},{np.dtype(dtype).str},{packed}"


def unpack_ascending(text: str) -> Int64Array:
    """What `pack_ascending` packed."""
    count, *rest = text.split(",")
    if not rest:
        return np.empty(0, np.int64)
    if len(rest) == 2:
        return np.int64(rest[0]) + np.int64(rest[1]) * np.arange(int(count), dtype=np.int64)
    steps = np.frombuffer(base64.b64decode(rest[2]), rest[1]).astype(np.int64)
    return np.cumsum(np.concatenate([np.array([int(rest[0])], np.int64), steps]))
