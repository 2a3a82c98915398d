"""Proves that a hybrid table answers the same while its pushed half changes: days are pushed, refreshed, replaced by
lineage, and deleted, and the time boundary follows; only retention takes rows away, those of a whole day at once.

The stream has all rows, the pushed segments those of the first days, so that every boundary gives the same answer.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from events_table import SCHEMA, table_config
from live_cluster import LiveCluster, wait_until

from pinotpy.clock import SystemClock
from pinotpy.stream.file import FileStreamProducer, create_topic

pytestmark = [pytest.mark.cluster, pytest.mark.zookeeper]

HOUR_MS = 3_600_000
DAY = 24
START_MS = 19_700 * DAY * HOUR_MS
END = 150  # records, one an hour
SQL = "SELECT COUNT(*), SUM(id), SUM(hash), MIN(id), MAX(id) FROM events"

Row = list[float]


def hash_of(number: int) -> int:
    return number * 2_654_435_761 % 1_000_003


def row_from(first: int) -> Row:
    """The answer where the first records are gone."""
    numbers = range(first, END)
    return [END - first, sum(numbers), sum(map(hash_of, numbers)), first, END - 1]


def rows_of_day(day: int, *, backwards: bool = False) -> pa.RecordBatch:
    numbers = list(range(day * DAY, (day + 1) * DAY))
    if backwards:
        numbers.reverse()
    return pa.RecordBatch.from_pydict(
        {
            "kind": pa.array([f"k{n % 3}" for n in numbers]),
            "id": pa.array(numbers, pa.int64()),
            "hash": pa.array(map(hash_of, numbers), pa.int64()),
            "ts": pa.array([START_MS + n * HOUR_MS for n in numbers], pa.int64()),
        }
    )


class Checker(threading.Thread):
    """Asks all the time. `wrong`: answers that say that they are exact, and are none of `allowed`."""

    def __init__(self, cluster: LiveCluster) -> None:
        super().__init__(daemon=True)
        self.allowed = [row_from(0)]
        self.wrong: list[dict[str, Any]] = []
        self.num_exact = self.num_told = 0
        self._cluster = cluster
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.is_set():
            answer = self._cluster.query(SQL, "sql")
            if answer["exceptions"] or answer["exactness"] != "exact":
                self.num_told += 1
                continue
            self.num_exact += 1
            if answer["resultTable"]["rows"][0] not in self.allowed:
                self.wrong.append(answer)

    def has_asked(self, num_answers: int = 10) -> None:
        """Wait for so many exact answers that began after now."""
        wanted = self.num_exact + num_answers + 1
        wait_until(lambda: self.num_exact >= wanted or bool(self.wrong), 240, f"{wanted} exact answers")
        assert not self.wrong, self.wrong[:2]

    def stop(self) -> None:
        self._stopping.set()
        self.join(120)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LiveCluster]:
    started = LiveCluster(tmp_path / "cluster", num_servers=2)
    try:
        yield started
    finally:
        started.close()


def test_answers_stay_while_pushed_days_come_change_and_go(cluster: LiveCluster, tmp_path: Path) -> None:
    stream = table_config(tmp_path / "topics", rows=40, replication=2)
    offline: dict[str, Any] = {
        **stream,
        "tableType": "OFFLINE",
        "tableIndexConfig": {},
        "segmentsConfig": stream["segmentsConfig"] | {"segmentPushType": "APPEND"},
    }
    create_topic(tmp_path / "topics" / "events", 1)
    producer = FileStreamProducer(tmp_path / "topics" / "events", SystemClock())
    batch = [{"id": n, "kind": f"k{n % 3}", "hash": hash_of(n), "ts": START_MS + n * HOUR_MS} for n in range(END)]
    producer.append(0, [(None, json.dumps(each).encode()) for each in batch])
    producer.close()
    cluster.add_table(SCHEMA, offline, [[rows_of_day(0)], [rows_of_day(1)]])
    cluster.controller.add_table(stream)

    def boundary() -> int:
        """The last hour that is answered from pushed segments."""
        found = httpx.get(f"{cluster.broker_url}/debug/timeBoundary/events", timeout=60).json()
        return (int(found["timeValue"]) - START_MS) // HOUR_MS

    def has_boundary(day: int) -> None:
        """A day before the newest pushed row."""
        wait_until(lambda: boundary() == day * DAY - 1, 120, f"the boundary behind day {day - 1}")

    wait_until(
        lambda: cluster.query(SQL, "sql").get("resultTable", {}).get("rows") == [row_from(0)],
        120,
        "all rows, once each",
    )
    checker = Checker(cluster)
    checker.start()
    try:
        for day in (2, 3):
            cluster.upload(SCHEMA, offline, f"events_{day}", [rows_of_day(day)])
            has_boundary(day)
            checker.has_asked()
        # The same rows in another order are another file.
        cluster.upload(SCHEMA, offline, "events_1", [rows_of_day(1, backwards=True)])
        checker.has_asked()
        both = [rows_of_day(2), rows_of_day(3)]
        controller = cluster.controller
        entry = controller.start_replace_segments("events", ["events_2", "events_3"], ["events_23"])
        cluster.upload(SCHEMA, offline, "events_23", both)
        checker.has_asked()
        controller.end_replace_segments("events", entry)
        checker.has_asked()
        has_boundary(3)
        controller.revert_replace_segments("events", entry)
        checker.has_asked()
        # The boundary goes back, and its rows come from the stream.
        controller.delete_segment("events_OFFLINE", "events_3")
        has_boundary(2)
        checker.has_asked()
        cluster.upload(SCHEMA, offline, "events_3", [rows_of_day(3)])
        has_boundary(3)
        checker.has_asked()

        checker.allowed.append(row_from(DAY))
        # The end of the first day is older than that, the end of the second one is not.
        hours = (int(time.time() * 1000) - START_MS) // HOUR_MS - DAY - 12
        period = {"retentionTimeUnit": "HOURS", "retentionTimeValue": str(hours)}
        controller.update_table("events_OFFLINE", offline | {"segmentsConfig": offline["segmentsConfig"] | period})
        httpx.post(
            f"{cluster.controller_url}/periodictask/run",
            params={"taskname": "RetentionManager", "tableName": "events_OFFLINE"},
            timeout=120,
        ).raise_for_status()
        wait_until(
            lambda: cluster.query(SQL, "sql").get("resultTable", {}).get("rows") == [row_from(DAY)],
            120,
            "a day is gone",
        )
        checker.allowed.remove(row_from(0))
        checker.has_asked()
        has_boundary(3)
    finally:
        checker.stop()
    print({"exact": checker.num_exact, "told": checker.num_told})
    assert not checker.wrong, checker.wrong[:2]
