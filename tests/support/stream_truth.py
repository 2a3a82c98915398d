"""What a topic holds, read by itself: the truth that answers over a table of this stream are compared with."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import events_table
from events_table import Row

from pinotpy.stream.spec import StreamConsumerFactory

_BATCH_MAX = 100_000


class Totals(NamedTuple):
    """COUNT(*), SUM(id) and SUM(hash)."""

    rows: int = 0
    ids: int = 0
    hashes: int = 0


def question(table: str = "events") -> str:
    """The query whose answers `StreamTruth.compare` knows."""
    return f"SELECT kind, COUNT(*), SUM(id), SUM(hash) FROM {table} GROUP BY kind LIMIT 1000"


class StreamTruth:
    """Records of a topic by partition; reads on when it is asked for more. Offsets are whole numbers.

    Args:
        row_of: what a record's payload is as a row; None: it is none.
    """

    def __init__(
        self,
        factory: StreamConsumerFactory,
        num_partitions: int,
        row_of: Callable[[bytes | None], Row | None] = events_table.row_of,
    ) -> None:
        self._factory = factory
        self._row_of = row_of
        self._lock = threading.Lock()
        self._partitions = [_Partition() for _ in range(num_partitions)]

    def compare(self, response: dict[str, Any]) -> int:
        """Rows of an answer to `question`; -1 if it says itself that it is not exact. AssertionError: it says that it
        is, and has not exactly the records up to its offsets.
        """
        if response["exceptions"] or response.get("exactness") != "exact" or "partitionOffsets" not in response:
            return -1  # rows are missing: on a slow machine a server may be taken for dead
        expected = self.groups(answered_ranges(response))
        found = {kind: Totals(*map(int, sums)) for kind, *sums in response["resultTable"]["rows"]}
        assert found == expected, f"{expected} expected, found {response}"
        return sum(each.rows for each in found.values())

    def rows_before(self, *ends: int) -> int:
        """How many rows the records before the end of each partition are; one end is that of all partitions."""
        numbers = range(len(self._partitions))
        ranges = {number: (0, ends[number % len(ends)]) for number in numbers}
        return sum(each.rows for each in self.groups(ranges).values())

    def groups(self, ranges: dict[int, tuple[int, int]]) -> dict[str, Totals]:
        """By kind, the rows of the records in [start, end) of each partition."""
        total: Counter[tuple[str, int]] = Counter()
        with self._lock:
            for partition, (start, end) in ranges.items():
                self._read_to(partition, end)
                for kind, rows in self._partitions[partition].by_kind.items():
                    for place, sum_ in enumerate(rows.between(start, end)):
                        total[kind, place] += sum_
        places = range(len(Totals._fields))
        kinds = {kind for kind, place in total if place == 0 and total[kind, place]}
        return {kind: Totals(*(total[kind, place] for place in places)) for kind in kinds}

    def _read_to(self, number: int, end: int) -> None:
        partition = self._partitions[number]
        if partition.end >= end:
            return
        consumer = self._factory.consumer(number)
        try:
            while partition.end < end:
                batch = consumer.fetch(partition.end, records_max=_BATCH_MAX, timeout_s=60.0)
                assert len(batch), f"partition {number} ends at {partition.end}, an answer says {end}"
                for payload in batch.payloads.to_pylist():
                    partition.add(self._row_of(payload))
        finally:
            consumer.close()


class _Partition:
    """The records of a partition before `end`."""

    def __init__(self) -> None:
        self.end = 0
        self.by_kind: dict[str, _Rows] = {}

    def add(self, row: Row | None) -> None:
        if row is not None:
            self.by_kind.setdefault(row.kind, _Rows()).add(self.end, row)
        self.end += 1


class _Rows:
    """Rows of a kind with the totals up to each: those of a range are a difference."""

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._totals = [Totals()]

    def add(self, offset: int, row: Row) -> None:
        before = self._totals[-1]
        self._offsets.append(offset)
        self._totals.append(Totals(before.rows + 1, before.ids + row.id, before.hashes + row.hash))

    def between(self, start: int, end: int) -> Totals:
        first, last = (self._totals[bisect_left(self._offsets, offset)] for offset in (start, end))
        return Totals(*(after - before for before, after in zip(first, last, strict=True)))


def answered_ranges(response: dict[str, Any], first_offset: int = 0) -> dict[int, tuple[int, int]]:
    """[first offset, end) of every partition that an answer has rows of, by its `partitionOffsets`.

    Segments that are done before those of the chain are not in it: they reach from `first_offset` to where it begins.
    """
    return {
        int(partition): (first_offset, max(int(each["end"]) for each in segments))
        for partition, segments in response["partitionOffsets"].items()
    }
