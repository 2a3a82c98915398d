"""Queries over a stream's table, asked all the time and compared with the stream."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import events_table
from events_table import PARTITIONS, Row
from live_cluster import LiveCluster, wait_until
from stream_truth import StreamTruth, question

from pinotpy.cli.asking import ask
from pinotpy.client.controller import ControllerClient
from pinotpy.clock import SystemClock
from pinotpy.cluster.realtime_records import RealtimeRecord, SegmentStatus
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.errors import PinotError
from pinotpy.stream.file import DIRECTORY, FileStreamConsumerFactory, FileStreamProducer, create_topic
from pinotpy.stream.settings import StreamSettings
from pinotpy.stream.spec import StreamConsumerFactory, StreamProducer

BATCH = 100


class Events(Protocol):
    """Records of the table, and what they are as rows."""

    def records(self, first: int, count: int, partition: int = 0, /) -> list[tuple[bytes | None, bytes | None]]: ...

    def row_of(self, payload: bytes | None, /) -> Row | None: ...


class Producing:
    """Writes a topic of PARTITIONS partitions until it is stopped; each has records of its own.

    Args:
        factory: reads the topic, to compare answers with what is in it.
        events: the records (`events_table` or `hostile_events`).
    """

    def __init__(self, producer: StreamProducer, factory: StreamConsumerFactory, events: Events = events_table) -> None:
        self.truth = StreamTruth(factory, PARTITIONS, events.row_of)
        self.produced = 0
        self._producer = producer
        self._events = events
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    @classmethod
    def files(cls, folder: Path, topic: str = "events", events: Events = events_table) -> Producing:
        """A new topic of files in `folder`."""
        create_topic(folder / topic, PARTITIONS)
        settings = StreamSettings("file", topic, {DIRECTORY: str(folder)})
        producer = FileStreamProducer(folder / topic, SystemClock())
        return cls(producer, FileStreamConsumerFactory(settings, SystemClock()), events)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> int:
        """Rows that all its records are."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join(60)
        self._producer.close()
        return self.rows()

    def append(self, count: int = BATCH) -> None:
        """Append so many records to each partition."""
        for partition in range(PARTITIONS):
            self._producer.append(partition, self._events.records(self.produced, count, partition))
        self.produced += count

    def rows(self) -> int:
        """That all records so far are."""
        return self.truth.rows_before(self.produced)

    def _run(self) -> None:
        while not self._ended.is_set():
            self.append()
            self._ended.wait(0.1)


class Asking:
    """Asks all the time and compares what says that it is exact with the stream."""

    def __init__(self, cluster: LiveCluster, truth: StreamTruth) -> None:
        self._url, self._truth = cluster.broker_url, truth
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(2)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive(), "a query hangs"

    def rows(self) -> int:
        """Rows of one answer; -1 if it is not exact."""
        response = ask(self._url, question(), "sql")
        try:
            rows = self._truth.compare(response)
        except AssertionError as error:
            self.counts["wrong"] += 1
            self.wrong.append(str(error))
            return -1
        if rows >= 0 and len(response["partitionOffsets"]) != PARTITIONS:
            self.wrong.append(f"partitions are missing: {response}")
            return -1
        self.counts["right" if rows >= 0 else "flagged"] += 1
        return rows

    def _ask(self) -> None:
        while not self._stop.is_set():
            try:
                self.rows()
            except PinotError:
                self.counts["no broker"] += 1
                self._stop.wait(0.05)


def stream_records(controller: ControllerClient) -> list[RealtimeRecord]:
    """Records of the segments of the stream, each partition's in order."""
    found = controller.segment_records("events", table_type="REALTIME")
    read = [
        RealtimeRecord.from_metadata(SegmentZkMetadata.from_record(ZNRecord(name, each), "events_REALTIME"))
        for name, each in found.items()
    ]
    return sorted((each for each in read if each is not None), key=lambda each: each.name)


def chain_faults(records: Sequence[RealtimeRecord]) -> list[str]:
    """Where a segment does not start at the end of the one before it, and partitions without exactly one that takes
    rows, the last.
    """
    faults = []
    for partition in range(PARTITIONS):
        chain = [each for each in records if each.name.partition == partition]
        for before, after in pairwise(chain):
            if after.name.sequence != before.name.sequence + 1 or after.start_offset != before.end_offset:
                faults.append(f"{before.name} ends at {before.end_offset}, {after.name} starts at {after.start_offset}")
            if before.status is SegmentStatus.IN_PROGRESS:
                faults.append(f"{before.name} takes rows, and {after.name} is there")
        if not chain or chain[-1].status is not SegmentStatus.IN_PROGRESS:
            faults.append(f"no segment of partition {partition} takes rows")
    return faults


def wait_until_done(cluster: LiveCluster) -> int:
    """Until every segment that ended is done, which are counted; each starts where the one before it ends."""

    def statuses() -> Counter[SegmentStatus]:
        return Counter(each.status for each in stream_records(cluster.controller))

    wait_until(
        lambda: statuses()[SegmentStatus.IN_PROGRESS] == PARTITIONS and not statuses()[SegmentStatus.COMMITTING],
        900,
        "all that ended is done",
    )
    faults = chain_faults(stream_records(cluster.controller))
    assert not faults, faults
    return statuses()[SegmentStatus.DONE]
