"""Proves on real processes what hostile or hasty clients get: a heavy query out of time says 250 and leaves no thread
busy, a client that hangs up ends its query, large questions and answers of others hold nobody up, and a column added to
a table with segments reads as its default at once. The oracle is the count of rows that were uploaded.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest
from live_cluster import LiveCluster, wait_until

pytestmark = pytest.mark.cluster

ROWS, SEGMENTS = 100_000, 2
TOTAL = ROWS * SEGMENTS
HEAVY = "SELECT SUM(fare), DISTINCTCOUNT(city) FROM rides GROUP BY city, fare TOP 10"


def schema(name: str, *more: dict[str, Any]) -> dict[str, Any]:
    dimensions = [{"name": "city", "dataType": "STRING"}, *more]
    return {
        "schemaName": name,
        "dimensionFieldSpecs": dimensions,
        "metricFieldSpecs": [{"name": "fare", "dataType": "LONG"}],
    }


def config(name: str, *, keeps_nulls: bool = False) -> dict[str, Any]:
    return {
        "tableName": name,
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "2"},
        "tenants": {},
        "tableIndexConfig": {"nullHandlingEnabled": keeps_nulls},
        "metadata": {},
    }


def rows(start: int, count: int) -> list[pa.RecordBatch]:
    fares = np.arange(start, start + count)
    return [
        pa.RecordBatch.from_pydict(
            {"city": pa.array([f"c{i}" for i in fares.tolist()]), "fare": pa.array(fares, pa.int64())}
        )
    ]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    live = LiveCluster(tmp_path_factory.mktemp("hostile"))
    try:
        live.add_table(schema("rides"), config("rides"), [rows(n * ROWS, ROWS) for n in range(SEGMENTS)])
        live.add_table(schema("tiny"), config("tiny"), [rows(0, 10)])
        yield live
    finally:
        statuses = live.close()
    assert set(statuses.values()) <= {0}, statuses


def cpu_ticks(cluster: LiveCluster) -> int:
    """CPU that both servers have used, in clock ticks."""
    pids = [cluster.processes.daemons[name].pid for name in ("server-0", "server-1")]
    return sum(
        int(field) for pid in pids for field in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    )


def becomes_idle(cluster: LiveCluster) -> bool:
    """Whether the servers use less than a tenth of a core."""
    before, start = cpu_ticks(cluster), time.monotonic()
    threading.Event().wait(0.5)
    return (cpu_ticks(cluster) - before) / 100 < 0.1 * (time.monotonic() - start)


def test_a_heavy_query_out_of_time_is_told_so_and_frees_its_threads(cluster: LiveCluster) -> None:
    for timeout_ms in (1, 3, 10, 30):
        answer = cluster.query(HEAVY, query_options=f"timeoutMs={timeout_ms}")
        codes = {e["errorCode"] for e in answer["exceptions"]}
        assert codes <= {250}, answer["exceptions"]
        assert not codes or (answer["partialResult"] is True and "aggregationResults" not in answer)
    wait_until(lambda: becomes_idle(cluster), 120, "servers idle after queries out of time")
    whole = cluster.query("SELECT COUNT(*) FROM rides")
    assert whole["exceptions"] == [] and whole["aggregationResults"][0]["value"] == str(TOTAL)


def test_clients_that_hang_up_cost_no_more_than_what_had_run(cluster: LiveCluster) -> None:
    host, port = cluster.broker_url.removeprefix("http://").split(":")
    body = json.dumps({"pql": HEAVY}).encode()
    head = b"POST /query HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: %d\r\n\r\n" % len(body)
    for _ in range(20):
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(head + body)
    wait_until(lambda: becomes_idle(cluster), 120, "servers idle after clients hung up")
    assert cluster.query("SELECT COUNT(*) FROM tiny")["aggregationResults"][0]["value"] == "10"


def test_right_after_a_hundred_clients_with_heavy_queries_vanished_others_are_answered(cluster: LiveCluster) -> None:
    host, port = cluster.broker_url.removeprefix("http://").split(":")
    connections: list[socket.socket] = []
    try:
        for number in range(120):
            # Other literals each: none is answered from what another left.
            body = json.dumps({"pql": HEAVY.replace("GROUP BY", f"WHERE fare >= {number} GROUP BY")}).encode()
            head = b"POST /query HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: %d\r\n\r\n" % len(body)
            connections.append(socket.create_connection((host, int(port)), timeout=60))
            connections[-1].sendall(head + body)
        wait_until(lambda: not becomes_idle(cluster), 120, "servers at work")
    finally:
        for connection in connections:
            connection.close()
    # As large as the others: it has no place of its own, and gets one as soon as theirs are free.
    for text in (
        "SELECT COUNT(*) FROM rides WHERE fare >= 1000000",
        *(f"SELECT COUNT(*) FROM tiny WHERE fare >= {-number}" for number in range(20)),
    ):
        start = time.monotonic()
        answer = cluster.query(text)
        assert answer["exceptions"] == [], answer["exceptions"]
        print(f"{(time.monotonic() - start) * 1000:.0f} ms: {text}")
    wait_until(lambda: becomes_idle(cluster), 120, "servers idle after clients vanished")


def test_large_questions_and_answers_of_others_hold_nobody_up(cluster: LiveCluster) -> None:
    numbers = ",".join(map(str, range(40_000)))
    large = [
        f"SELECT city, fare FROM rides WHERE fare IN ({numbers}) LIMIT 40000",
        f"SELECT city, fare FROM rides LIMIT {TOTAL}",
    ]
    ended: list[int] = []

    def ask_large(text: str) -> None:
        # The bytes are taken and not parsed: this process must not be what is slow.
        ended.append(len(httpx.post(f"{cluster.broker_url}/query", json={"pql": text}, timeout=60).content))

    threads = [threading.Thread(target=ask_large, args=(text,)) for text in large]
    for thread in threads:
        thread.start()
    waits = []
    while any(thread.is_alive() for thread in threads):
        start = time.monotonic()
        assert cluster.query("SELECT COUNT(*) FROM tiny")["aggregationResults"][0]["value"] == "10"
        waits.append(time.monotonic() - start)
    for thread in threads:
        thread.join()
    assert len(ended) == 2 and min(ended) > 500_000
    print(
        f"{len(waits)} tiny queries beside 2 large ones: median {sorted(waits)[len(waits) // 2] * 1000:.0f} ms, "
        f"longest {max(waits) * 1000:.0f} ms"
    )
    assert len(waits) >= 3, "the tiny queries waited for the large ones"


def test_a_column_added_to_a_table_has_no_value_in_old_segments_or_its_default(cluster: LiveCluster) -> None:
    grown = schema("tiny", {"name": "tip", "dataType": "STRING", "defaultNullValue": "none"})
    assert httpx.put(f"{cluster.controller_url}/schemas/tiny", json=grown, timeout=60).status_code == 200
    wait_until(
        lambda: cluster.query("SELECT tip FROM tiny LIMIT 1")["exceptions"] == [], 10, "brokers know the new column"
    )
    newer = rows(10, 5)[0].append_column("tip", pa.array(["some"] * 5))
    cluster.upload(grown, config("tiny"), "tiny_1", [newer])
    cluster.controller.wait_until_online("tiny", timeout_s=120)
    groups = "SELECT tip, COUNT(*), MAX(fare) FROM tiny GROUP BY tip ORDER BY tip"
    by_segment = "SELECT $segmentName, COUNT(*) FROM tiny WHERE tip {} GROUP BY $segmentName"
    by_defaults = "SET enableNullHandling = false; "

    def rows_of(text: str) -> list[list[Any]]:
        answer = cluster.query(text, "sql")
        assert answer["exceptions"] == [], answer["exceptions"]
        found: list[list[Any]] = answer["resultTable"]["rows"]
        return found

    # The table keeps no nulls.
    for mode in ("", by_defaults):
        assert rows_of(mode + groups) == [["none", 10, 9.0], ["some", 5, 14.0]]
        assert rows_of(mode + by_segment.format("= 'none'")) == [["tiny_0", 10]]
    cluster.controller.update_table("tiny", config("tiny", keeps_nulls=True))
    wait_until(lambda: rows_of(groups) == [["some", 5, 14.0], [None, 10, 9.0]], 120, "brokers know the new config")
    assert rows_of(by_segment.format("IS NULL")) == [["tiny_0", 10]]
    assert rows_of(by_defaults + groups) == [["none", 10, 9.0], ["some", 5, 14.0]]
    assert rows_of(by_defaults + by_segment.format("= 'none'")) == [["tiny_0", 10]]
