"""Proves a hybrid table on a real cluster: rows that were pushed and rows of the stream that overlap them count once,
up to the time boundary from segments and behind it from the stream.
"""

from __future__ import annotations

import json
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
START_MS = 19_700 * 24 * HOUR_MS
PUSHED, FIRST_OF_STREAM, END = (
    96,
    48,
    200,
)  # records, one an hour: four days are pushed, the stream begins with the third


def time_of(number: int) -> int:
    return START_MS + number * HOUR_MS


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    started = LiveCluster(tmp_path_factory.mktemp("hybrid"), num_servers=1)
    try:
        yield started
    finally:
        started.close()


def test_rows_of_both_halves_count_once(cluster: LiveCluster, tmp_path: Path) -> None:
    stream = table_config(tmp_path / "topics", rows=40, replication=1)
    offline = {**stream, "tableType": "OFFLINE", "tableIndexConfig": {}}
    create_topic(tmp_path / "topics" / "events", 1)
    producer = FileStreamProducer(tmp_path / "topics" / "events", SystemClock())
    numbers = range(FIRST_OF_STREAM, END)
    producer.append(0, [(None, json.dumps({"id": n, "kind": f"k{n % 3}", "ts": time_of(n)}).encode()) for n in numbers])
    producer.close()
    rows = pa.RecordBatch.from_pydict(
        {
            "kind": pa.array([f"k{n % 3}" for n in range(PUSHED)]),
            "id": pa.array(range(PUSHED), pa.int64()),
            "ts": pa.array([time_of(n) for n in range(PUSHED)], pa.int64()),
        }
    )
    cluster.add_table(SCHEMA, offline, [[rows]])
    cluster.controller.add_table(stream)

    def answer(where: str = "") -> dict[str, Any]:
        return cluster.query(f"SELECT kind, COUNT(*), SUM(id) FROM events {where} GROUP BY kind LIMIT 10", "sql")

    def totals(response: dict[str, Any]) -> tuple[int, int]:
        table = response["resultTable"]["rows"]
        return sum(row[1] for row in table), int(sum(row[2] for row in table))

    wait_until(lambda: totals(answer()) == (END, sum(range(END))), 120, "all rows are answered once")
    for _ in range(20):
        response = answer()
        assert response["exactness"] == "exact", response
        assert totals(response) == (END, sum(range(END)))
    assert response["timeBoundary"] == {"timeColumn": "ts", "timeValue": str(time_of(PUSHED - 1) - 24 * HOUR_MS)}
    assert totals(answer(f"WHERE ts >= {time_of(60)} AND ts < {time_of(80)}")) == (20, sum(range(60, 80)))
    by_half = [
        cluster.query(f"SELECT COUNT(*) FROM events_{half}", "sql")["resultTable"]["rows"][0][0]
        for half in ("OFFLINE", "REALTIME")
    ]
    assert by_half == [PUSHED, END - FIRST_OF_STREAM], "each half by its name has all of its rows"
    boundary = httpx.get(f"{cluster.broker_url}/debug/timeBoundary/events", timeout=60).json()
    assert boundary == response["timeBoundary"]
