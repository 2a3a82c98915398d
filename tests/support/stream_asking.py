"""Queries over a stream's table, asked all the time and compared with the stream."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from events_table import PARTITIONS, records
from live_cluster import LiveCluster, wait_until
from stream_truth import StreamTruth, answered_ranges

from pinotpy.cli.asking import ask
from pinotpy.client.controller import ControllerClient
from pinotpy.clock import SystemClock
from pinotpy.cluster.realtime_records import RealtimeRecord, SegmentStatus
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.errors import PinotError
from pinotpy.stream.file import DIRECTORY, FileStreamConsumerFactory, FileStreamProducer, create_topic
from pinotpy.stream.settings import StreamSettings

BATCH = 100


class Producing:
    """Writes a topic `events` of files in `folder`, the same records to each partition, until it is stopped."""

    def __init__(self, folder: Path) -> None:
        create_topic(folder / "events", PARTITIONS)
        settings = StreamSettings("file", "events", {DIRECTORY: str(folder)})
        self.truth = StreamTruth(FileStreamConsumerFactory(settings, SystemClock()), PARTITIONS)
        self.produced = 0
        self._producer = FileStreamProducer(folder / "events", SystemClock())
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> int:
        """Rows that all its records are."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join(60)
        self._producer.close()
        return self.truth.count(dict.fromkeys(range(PARTITIONS), (0, self.produced)))[0]

    def _run(self) -> None:
        while not self._ended.is_set():
            for partition in range(PARTITIONS):
                self._producer.append(partition, records(self.produced, BATCH))
            self.produced += BATCH
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
        response = ask(self._url, "SELECT kind, COUNT(*), SUM(id) FROM events GROUP BY kind LIMIT 100", "sql")
        if response["exceptions"] or response["exactness"] != "exact" or "partitionOffsets" not in response:
            self.counts["flagged"] += 1
            return -1
        ranges = answered_ranges(response)
        if len(ranges) != PARTITIONS:
            self.wrong.append(f"partitions are missing: {response}")
            return -1
        rows, total, groups = self._truth.count(ranges)
        table = response["resultTable"]["rows"]
        is_right = {kind: count for kind, count, _ in table} == groups and sum(row[2] for row in table) == total
        self.counts["right" if is_right else "wrong"] += 1
        if not is_right:
            self.wrong.append(f"{rows} rows of {total} expected, found {response}")
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
