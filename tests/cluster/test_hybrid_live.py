"""Proves a hybrid table on a real cluster: rows that were pushed and rows of the stream that overlap them count once,
up to the time boundary from segments and behind it from the stream; and that nulls of both halves are nulls, or default
values, as the query says.
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

LOW = -(2**31)
WITH_NULLS = SCHEMA | {
    "dimensionFieldSpecs": [*SCHEMA["dimensionFieldSpecs"], {"name": "late", "dataType": "INT"}],
}
# Text → rows where nulls are nulls, and where they are default values; written down by hand. Every fifth `late` is
# null, the others are equal to the id: 40 nulls in 200 rows, and 16,000 is the sum of the others.
NULLS: dict[str, tuple[list[list[Any]], list[list[Any]]]] = {
    "SELECT COUNT(*), COUNT(late), SUM(late), MIN(late), MAX(late) FROM events": (
        [[200, 160, 16_000, 1, 199]],
        [[200, 200, 16_000 + 40 * LOW, LOW, 199]],
    ),
    "SELECT AVG(late) FROM events": ([[100]], [[(16_000 + 40 * LOW) / 200]]),
    "SELECT COUNT(*) FROM events WHERE late IS NULL": ([[40]], [[40]]),
    "SELECT COUNT(*) FROM events WHERE late < 10": ([[8]], [[48]]),
    "SELECT COUNT(*) FROM events WHERE late <> 7": ([[159]], [[199]]),
    # Pushed, sealed, and still consumed.
    "SELECT late, COUNT(*) FROM events WHERE id IN (1, 5, 100, 195, 199) GROUP BY late ORDER BY late NULLS LAST": (
        [[1, 1], [199, 1], [None, 3]],
        [[LOW, 3], [1, 1], [199, 1]],
    ),
    "SELECT id, late FROM events WHERE id IN (5, 6, 195, 196) ORDER BY id": (
        [[5, None], [6, 6], [195, None], [196, 196]],
        [[5, LOW], [6, 6], [195, LOW], [196, 196]],
    ),
    "SELECT COUNT(*), SUM(late) FROM events_OFFLINE": ([[96, 4_560 - 950]], [[96, 4_560 - 950 + 20 * LOW]]),
    "SELECT COUNT(*), SUM(late) FROM events_REALTIME": ([[152, 18_772 - 3_675]], [[152, 18_772 - 3_675 + 30 * LOW]]),
}


def late(number: int) -> int | None:
    return number if number % 5 else None


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
    stream["tableIndexConfig"]["nullHandlingEnabled"] = True
    offline = {**stream, "tableType": "OFFLINE", "tableIndexConfig": {"nullHandlingEnabled": True}}
    create_topic(tmp_path / "topics" / "events", 1)
    producer = FileStreamProducer(tmp_path / "topics" / "events", SystemClock())
    numbers = range(FIRST_OF_STREAM, END)
    records = [{"id": n, "kind": f"k{n % 3}", "ts": time_of(n), "late": late(n)} for n in numbers]
    producer.append(0, [(None, json.dumps(record).encode()) for record in records])
    producer.close()
    rows = pa.RecordBatch.from_pydict(
        {
            "kind": pa.array([f"k{n % 3}" for n in range(PUSHED)]),
            "id": pa.array(range(PUSHED), pa.int64()),
            "ts": pa.array([time_of(n) for n in range(PUSHED)], pa.int64()),
            "late": pa.array([late(n) for n in range(PUSHED)], pa.int32()),
        }
    )
    cluster.add_table(WITH_NULLS, offline, [[rows]])
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
    nulls_are_nulls_in_both_halves_or_default_values(cluster)


def nulls_are_nulls_in_both_halves_or_default_values(cluster: LiveCluster) -> None:
    for text, (of_nulls, of_defaults) in NULLS.items():
        for options, expected in (("", of_nulls), ("enableNullHandling=false", of_defaults)):
            answer = cluster.query(text, "sql", query_options=options)
            assert answer["resultTable"]["rows"] == expected, (text, options, answer)
            is_told = "stored nulls count" in str(answer.get("warnings"))
            assert is_told == (expected != of_nulls), (text, options, answer)
    (sum_of_defaults,) = cluster.query("SELECT SUM(late) FROM events")["aggregationResults"]
    assert float(sum_of_defaults["value"]) == 16_000 + 40 * LOW, "PQL has default values"
