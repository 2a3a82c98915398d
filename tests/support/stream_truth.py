"""What a topic holds, read by itself: the truth that answers over a table of this stream are compared with."""

from __future__ import annotations

import json
import threading
from collections import Counter
from typing import Any

from pinotpy.stream.spec import StreamConsumerFactory

NUMBER = "id"  # a whole number in every record
GROUP = "kind"  # a text


class StreamTruth:
    """Records of a topic by partition; reads on when it is asked for more. Offsets are whole numbers.

    Records that are no objects with NUMBER and GROUP count as rejected: no row.
    """

    def __init__(self, factory: StreamConsumerFactory, num_partitions: int) -> None:
        self._factory = factory
        self._lock = threading.Lock()
        self._records: list[list[dict[str, Any] | None]] = [[] for _ in range(num_partitions)]

    def _read_to(self, partition: int, end: int) -> list[dict[str, Any] | None]:
        with self._lock:
            records = self._records[partition]
            if len(records) < end:
                consumer = self._factory.consumer(partition)
                try:
                    while len(records) < end:
                        batch = consumer.fetch(len(records), records_max=100_000, timeout_s=60.0)
                        assert len(batch), f"partition {partition} ends at {len(records)}, an answer says {end}"
                        records += [_row(payload) for payload in batch.payloads.to_pylist()]
                finally:
                    consumer.close()
            return records

    def count(self, ranges: dict[int, tuple[int, int]]) -> tuple[int, int, Counter[str]]:
        """Rows, sum of NUMBER and rows by GROUP of the records in [start, end) of each partition."""
        rows = total = 0
        groups: Counter[str] = Counter()
        for partition, (start, end) in ranges.items():
            for record in self._read_to(partition, end)[start:end]:
                if record is not None:
                    rows += 1
                    total += record[NUMBER]
                    groups[record[GROUP]] += 1
        return rows, total, groups


def _row(payload: bytes | None) -> dict[str, Any] | None:
    try:
        record = json.loads(payload or b"")
    except ValueError:
        return None
    if not isinstance(record, dict) or not isinstance(record.get(NUMBER), int):
        return None
    return record


def answered_ranges(response: dict[str, Any], first_offset: int = 0) -> dict[int, tuple[int, int]]:
    """[first offset, end) of every partition that an answer has rows of, by its `partitionOffsets`.

    Segments that are done before those of the chain are not in it: they reach from `first_offset` to where it begins.
    """
    return {
        int(partition): (first_offset, max(int(each["end"]) for each in segments))
        for partition, segments in response["partitionOffsets"].items()
    }
