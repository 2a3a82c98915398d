"""Proves on real processes, under SIGKILL and SIGSTOP of random daemons, refreshes of segments and continuous queries:
every answer is right or says that it is not whole, and everything heals. The oracle is what was uploaded.

`rides` never changes: a whole answer has exactly its sums. `swaps` is refreshed all the time between two versions of
every segment: a whole answer shows each segment in one of them, never both, never twice. PINOTPY_CHAOS_SEED replays a
run's faults.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from live_cluster import LiveCluster, wait_until

from pinotpy.errors import PinotError

pytestmark = [pytest.mark.cluster, pytest.mark.full]

SECONDS = float(os.environ.get("PINOTPY_CHAOS_SECONDS", "70"))
SEED = int(os.environ.get("PINOTPY_CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
ROWS, SEGMENTS, SWAPPED = 2000, 12, 4
TOTAL = ROWS * SEGMENTS
SUM = TOTAL * (TOTAL - 1) // 2
DAEMONS = ("server-0", "server-1", "server-2", "broker", "controller", "zookeeper")


def _schema(name: str) -> dict[str, Any]:
    return {
        "schemaName": name,
        "dimensionFieldSpecs": [{"name": "city", "dataType": "STRING"}],
        "metricFieldSpecs": [{"name": "fare", "dataType": "LONG"}],
    }


def _config(name: str) -> dict[str, Any]:
    return {
        "tableName": name,
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "2"},
        "tenants": {},
        "tableIndexConfig": {},
        "metadata": {},
    }


def _rides(number: int) -> list[pa.RecordBatch]:
    fares = range(number * ROWS, (number + 1) * ROWS)
    return [
        pa.RecordBatch.from_pydict(
            {"city": pa.array([f"c{i % 7}" for i in fares]), "fare": pa.array(fares, pa.int64())}
        )
    ]


def _swap(version: int) -> list[pa.RecordBatch]:
    count = 100 + 50 * version
    return [
        pa.RecordBatch.from_pydict({"city": pa.array(["x"] * count), "fare": pa.array([version] * count, pa.int64())})
    ]


class Asking:
    """Clients that ask all the time; counts what came: right, flagged, no broker, wrong (with the answer)."""

    def __init__(self, broker_url: str) -> None:
        self.url = broker_url
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.latencies_s: list[float] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(number,)) for number in range(4)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive(), "a query hangs"

    def _ask(self, number: int) -> None:
        questions = [
            ("SELECT COUNT(*), SUM(fare), MAX(fare) FROM rides LIMIT 10", self._is_right_total),
            ("SELECT city, COUNT(*), SUM(fare) FROM rides GROUP BY city ORDER BY city LIMIT 20", self._is_right_group),
            ("SELECT fare FROM rides WHERE fare >= 23000 ORDER BY fare LIMIT 5000", self._is_right_selection),
            (
                "SELECT $segmentName, COUNT(*), MIN(fare), MAX(fare) FROM swaps GROUP BY $segmentName ORDER BY "
                "$segmentName LIMIT 50",
                self._is_right_swap,
            ),
        ]
        with httpx.Client(timeout=120) as client:
            while not self._stop.is_set():
                text, is_right = questions[number % len(questions)]
                number += 1
                start = time.monotonic()
                try:
                    response = client.post(f"{self.url}/query/sql", json={"sql": text})
                except httpx.TimeoutException:
                    self.counts["hung"] += 1
                    continue
                except httpx.TransportError:
                    self.counts["no broker"] += 1
                    self._stop.wait(0.05)
                    continue
                self.latencies_s.append(time.monotonic() - start)
                answer = response.json()
                if response.status_code != 200 or answer.get("exceptions"):
                    codes = sorted({e["errorCode"] for e in answer.get("exceptions", [])})
                    self.counts[f"flagged {codes or response.status_code}"] += 1
                    if response.status_code == 200 and not (
                        answer["partialResult"] and answer["exactness"] == "partial"
                    ):
                        self.wrong.append(f"exceptions without a flag: {response.text[:600]}")
                elif is_right(answer["resultTable"]["rows"]):
                    self.counts["right"] += 1
                else:
                    self.counts["wrong"] += 1
                    self.wrong.append(f"{text}: {response.text[:600]}")

    @staticmethod
    def _is_right_total(rows: list[list[Any]]) -> bool:
        return rows == [[TOTAL, float(SUM), float(TOTAL - 1)]]

    @staticmethod
    def _is_right_group(rows: list[list[Any]]) -> bool:
        return rows == [[f"c{c}", len(range(c, TOTAL, 7)), float(sum(range(c, TOTAL, 7)))] for c in range(7)]

    @staticmethod
    def _is_right_selection(rows: list[list[Any]]) -> bool:
        return [row[0] for row in rows] == list(range(23000, TOTAL))

    @staticmethod
    def _is_right_swap(rows: list[list[Any]]) -> bool:
        return [row[0] for row in rows] == [f"swaps_{n}" for n in range(SWAPPED)] and all(
            row[1:] in ([100, 0.0, 0.0], [150, 1.0, 1.0]) for row in rows
        )


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    live = LiveCluster(tmp_path_factory.mktemp("chaos"), num_servers=3)
    try:
        live.add_table(_schema("rides"), _config("rides"), [_rides(n) for n in range(SEGMENTS)])
        live.add_table(_schema("swaps"), _config("swaps"), [_swap(0) for _ in range(SWAPPED)])
        yield live
    finally:
        live.close()


def _kill(cluster: LiveCluster, name: str) -> None:
    """SIGKILL, of ZooKeeper's JVM too."""
    daemon = cluster.processes.daemons[name]
    children = [int(pid) for pid in Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children").read_text().split()]
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    cluster.processes.kill(name)


def _refresh(
    cluster: LiveCluster, versions: dict[int, int], rng: random.Random, stop: threading.Event, counts: Counter[str]
) -> None:
    while not stop.is_set():
        number = rng.randrange(SWAPPED)
        try:
            cluster.upload(_schema("swaps"), _config("swaps"), f"swaps_{number}", _swap(1 - versions[number]))
            versions[number] = 1 - versions[number]
            counts["refreshes"] += 1
        except (PinotError, httpx.HTTPError):
            counts["refreshes refused"] += 1
        stop.wait(0.5)


def _versions_agree(cluster: LiveCluster, number: int) -> bool:
    """Whether every replica answers with the same version of a refreshed segment: queries go to them in turn."""
    text = f"SELECT COUNT(*), SUM(fare) FROM swaps WHERE $segmentName = 'swaps_{number}'"
    return len({tuple(each["value"] for each in cluster.query(text)["aggregationResults"]) for _ in range(8)}) == 1


def test_random_kills_never_give_a_wrong_answer_that_is_not_flagged(cluster: LiveCluster) -> None:
    rng = random.Random(SEED)
    counts: Counter[str] = Counter()
    asking = Asking(cluster.broker_url)
    stop = threading.Event()
    refresher = threading.Thread(
        target=_refresh, args=(cluster, dict.fromkeys(range(SWAPPED), 0), random.Random(SEED), stop, counts)
    )
    refresher.start()
    try:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            name = rng.choice(DAEMONS)
            if name.startswith("server") and rng.random() < 0.3:
                counts["stopped server"] += 1
                os.kill(cluster.processes.daemons[name].pid, signal.SIGSTOP)
                stop.wait(rng.uniform(1, 4))
                os.kill(cluster.processes.daemons[name].pid, signal.SIGCONT)
            else:
                counts[f"killed {name.split('-')[0]}"] += 1
                _kill(cluster, name)
                stop.wait(rng.uniform(0, 2))
                cluster.processes.restart(name)
            stop.wait(rng.uniform(0, 2))
    finally:
        stop.set()
        refresher.join(60)
        asking.stop()
        waits = sorted(asking.latencies_s) or [0.0]
        p50_s, p99_s = waits[len(waits) // 2], waits[len(waits) * 99 // 100]
        print(
            f"chaos seed={SEED}: faults and refreshes {dict(counts)}; answers {dict(asking.counts)}; "
            f"p50 {p50_s * 1000:.0f} ms, p99 {p99_s * 1000:.0f} ms, max {waits[-1] * 1000:.0f} ms"
        )
    assert not asking.wrong, asking.wrong[:3]
    assert asking.counts["hung"] == 0 and asking.counts["right"] > 100

    def healed() -> bool:
        views = {name: (cluster.controller.external_view(name)["OFFLINE"] or {}) for name in ("rides", "swaps")}
        online = {
            name: sum(state == "ONLINE" for states in view.values() for state in states.values())
            for name, view in views.items()
        }
        answer = cluster.query("SELECT COUNT(*), SUM(fare) FROM rides")
        if not all(_versions_agree(cluster, number) for number in range(SWAPPED)):
            return False
        return (
            online == {"rides": 2 * SEGMENTS, "swaps": 2 * SWAPPED}
            and not answer["exceptions"]
            and answer["aggregationResults"][0]["value"] == str(TOTAL)
        )

    try:
        healed_s = wait_until(healed, 120, "everything healed")
    except AssertionError:
        for name in ("rides", "swaps"):
            print(
                name, "ideal", cluster.controller.ideal_state(name), "external", cluster.controller.external_view(name)
            )
        print("answer", cluster.query("SELECT COUNT(*), SUM(fare) FROM rides"))
        raise
    print(f"healed {healed_s:.1f} s after the last fault")
