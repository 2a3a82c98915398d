"""Proves on real processes, under SIGKILL and SIGSTOP of servers, their workers, controller and broker while rows come:
every answer that says it is exact has exactly the records of the stream up to the offsets that it names, and in the end
no record is lost or doubled, and every segment that ended is done. PINOTPY_CHAOS_SEED replays a run's faults.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from events_table import PARTITIONS, SCHEMA, records, table_config
from live_cluster import LiveCluster, wait_until
from stream_truth import StreamTruth, answered_ranges

from pinotpy.cli.asking import ask
from pinotpy.clock import SystemClock
from pinotpy.errors import PinotError
from pinotpy.stream.file import DIRECTORY, FileStreamConsumerFactory, FileStreamProducer, create_topic
from pinotpy.stream.settings import StreamSettings

pytestmark = [pytest.mark.cluster, pytest.mark.zookeeper, pytest.mark.full]

SECONDS = float(os.environ.get("PINOTPY_CHAOS_SECONDS", "45"))
SEED = int(os.environ.get("PINOTPY_CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
DAEMONS = ("server-0", "server-1", "server-2", "controller", "broker")
BATCH = 100


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("realtime")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[LiveCluster]:
    started = LiveCluster(folder, num_servers=3)
    try:
        yield started
    finally:
        started.close()


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


def children_of(pid: int) -> list[int]:
    """Those of its children, too: workers are forked from a process of their server's."""
    children: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            children += map(int, task.read_text().split())
    return [*children, *(other for child in children for other in children_of(child))]


def disturb(cluster: LiveCluster, dice: random.Random, until: float) -> Counter[str]:
    done: Counter[str] = Counter()
    while time.monotonic() < until:
        name = dice.choice(DAEMONS)
        workers = children_of(cluster.processes.daemons[name].pid)
        if workers and dice.random() < 0.5:
            with contextlib.suppress(ProcessLookupError):
                os.kill(dice.choice(workers), signal.SIGKILL)
                done[f"killed a worker of {name}"] += 1
        elif dice.random() < 0.5:
            cluster.processes.kill(name)
            time.sleep(dice.uniform(0, 2))
            cluster.processes.restart(name)
            done[f"killed {name}"] += 1
        else:
            pid = cluster.processes.daemons[name].pid
            os.kill(pid, signal.SIGSTOP)
            time.sleep(dice.choice([0.5, 3.0, 12.0]))
            os.kill(pid, signal.SIGCONT)
            done[f"paused {name}"] += 1
        time.sleep(dice.uniform(0, 1.5))
    return done


def test_no_record_is_lost_or_doubled_whatever_is_killed(cluster: LiveCluster, folder: Path) -> None:
    create_topic(folder / "topics" / "events", PARTITIONS)
    settings = StreamSettings("file", "events", {DIRECTORY: str(folder / "topics")})
    truth = StreamTruth(FileStreamConsumerFactory(settings, SystemClock()), PARTITIONS)
    producer = FileStreamProducer(folder / "topics" / "events", SystemClock())
    cluster.controller.add_schema(SCHEMA)
    cluster.controller.add_table(table_config(folder / "topics", rows=3_000))
    ended, produced = threading.Event(), 0

    def produce() -> None:
        nonlocal produced
        while not ended.is_set():
            for partition in range(PARTITIONS):
                producer.append(partition, records(produced, BATCH))
            produced += BATCH
            ended.wait(0.1)

    writer = threading.Thread(target=produce)
    writer.start()
    asking = Asking(cluster, truth)
    wait_until(lambda: asking.counts["right"] > 0, 120, "rows of all partitions are answered")
    asking.wrong.clear()  # one partition begins after the other
    dice = random.Random(SEED)
    faults = disturb(cluster, dice, time.monotonic() + SECONDS)
    ended.set()
    writer.join(60)
    asking.stop()
    print(f"seed {SEED}, {produced} records a partition, faults {dict(faults)}, answers {dict(asking.counts)}")
    assert not asking.wrong, f"seed {SEED}: {asking.wrong[:3]}"
    expected = truth.count(dict.fromkeys(range(PARTITIONS), (0, produced)))[0]
    wait_until(lambda: asking.rows() == expected, 900, f"seed {SEED}: all rows are answered")
    assert not asking.wrong, f"seed {SEED}: {asking.wrong[:3]}"

    def statuses() -> Counter[str]:
        found: dict[str, Any] = cluster.controller.segment_records("events", table_type="REALTIME")
        return Counter(each.get("segment.realtime.status", "") for each in found.values())

    wait_until(
        lambda: statuses()["IN_PROGRESS"] == PARTITIONS and not statuses()["COMMITTING"], 900, "all that ended is done"
    )
    assert statuses()["DONE"] > 0
    wait_until(lambda: asking.rows() == expected, 900, f"seed {SEED}: all rows are answered")
    assert not asking.wrong, f"seed {SEED}: {asking.wrong[:3]}"
    producer.close()
