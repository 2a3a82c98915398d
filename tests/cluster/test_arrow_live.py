"""Proves answers in Arrow against real daemons: by every query route, as the Accept header says; equal to JSON by value
for a long answer of two servers; a client that breaks off midway and one that reads nothing leave the broker answering
and its memory bounded.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from live_cluster import LiveCluster, wait_until

from pinotpy.cli.main import main
from pinotpy.client import Connection, connect
from pinotpy.client.arrow_answers import CONTENT_TYPE, parse_arrow
from pinotpy.errors import TableNotFoundError

pytestmark = pytest.mark.cluster

ROWS = 200_000
SCHEMA = {
    "schemaName": "trips",
    "dimensionFieldSpecs": [
        {"name": "seats", "dataType": "INT"},
        {"name": "rider", "dataType": "LONG"},
        {"name": "city", "dataType": "STRING"},
    ],
    "metricFieldSpecs": [{"name": "fare", "dataType": "DOUBLE"}],
    "dateTimeFieldSpecs": [
        {"name": "ts", "dataType": "TIMESTAMP", "format": "1:MILLISECONDS:TIMESTAMP", "granularity": "1:MILLISECONDS"}
    ],
}
CONFIG = {
    "tableName": "trips",
    "tableType": "OFFLINE",
    "segmentsConfig": {"replication": "1"},
    "tenants": {},
    "tableIndexConfig": {},
    "metadata": {},
}
SELECT_ALL = f"SELECT seats, rider, fare, city, ts FROM trips LIMIT {ROWS}"


def data() -> pa.Table:
    rng = np.random.default_rng(5)
    return pa.table(
        {
            "seats": pa.array(rng.integers(1, 9, ROWS).astype(np.int32)),
            "rider": pa.array(np.arange(ROWS, dtype=np.int64) + 2**53),
            "fare": pa.array(rng.gamma(2.0, 9.0, ROWS)),
            "city": pa.array([f"city {i}" for i in rng.integers(0, 500, ROWS)]),
            "ts": pa.array(rng.integers(0, 1 << 41, ROWS)),
        }
    )


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return data()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, table: pa.Table) -> Iterator[LiveCluster]:
    live = LiveCluster(tmp_path_factory.mktemp("cluster"), num_servers=2)
    try:
        live.add_table(
            SCHEMA,
            CONFIG,
            [table.slice(start, ROWS // 4).combine_chunks().to_batches() for start in range(0, ROWS, ROWS // 4)],
        )
        with connect(broker=live.broker_url) as ready:
            wait_until(
                lambda: ready.execute(sql="SELECT COUNT(*) FROM trips").rows == [[ROWS]],
                20.0,
                "the broker answers for the table",
            )
        yield live
    finally:
        live.close()


@pytest.fixture(scope="module")
def connection(cluster: LiveCluster) -> Iterator[Connection]:
    with connect(cluster.controller_url) as made:
        yield made


def test_a_long_answer_has_every_value(connection: Connection, table: pa.Table) -> None:
    found = connection.query_arrow(SELECT_ALL).sort_by("rider")
    assert found.schema.types == [pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.timestamp("ms", "UTC")]
    assert found.set_column(4, "ts", found.column("ts").cast(pa.int64())).equals(table.select(found.column_names))
    frame = connection.query_pandas(SELECT_ALL)
    assert len(frame) == ROWS and frame["rider"].sum() == int(np.sum(table["rider"].to_numpy()))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT city, seats, ts FROM trips ORDER BY rider LIMIT 1000",
        "SELECT city, COUNT(*), SUM(fare), MAX(ts) FROM trips GROUP BY city ORDER BY city LIMIT 1000",
        "SELECT DISTINCT seats FROM trips ORDER BY seats LIMIT 10",
        "SELECT COUNT(*), DISTINCTCOUNT(city), AVG(fare) FROM trips WHERE seats > 100",
        "SELECT city FROM trips WHERE seats > 100 LIMIT 5",
    ],
)
def test_arrow_says_what_json_says(connection: Connection, text: str) -> None:
    by_arrow, by_json = connection.execute(sql=text, format="arrow"), connection.execute(sql=text)
    assert (by_arrow.columns, by_arrow.types, repr(by_arrow.rows)) == (
        by_json.columns,
        by_json.types,
        repr(by_json.rows),
    )


def test_every_route_answers_as_the_client_accepts(cluster: LiveCluster) -> None:
    sql, pql = "SELECT rider FROM trips LIMIT 7", "SELECT rider FROM trips LIMIT 7"
    with httpx.Client(base_url=cluster.broker_url) as client:
        for accept, is_arrow in (
            (CONTENT_TYPE, True),
            (f"{CONTENT_TYPE}, */*;q=0.1", True),
            ("*/*", False),
            ("application/json", False),
            ("text/html", False),
        ):
            headers = {"accept": accept}
            for _ in range(2):  # the second time the heads are known
                answers = [
                    client.post("/query/sql", json={"sql": sql}, headers=headers),
                    client.post("/query", json={"pql": pql}, headers=headers),
                    client.post("/query", json={"sql": sql}, headers=headers),
                    client.get("/query/sql", params={"sql": sql}, headers=headers),
                    client.get("/query", params={"bql": pql}, headers=headers),
                ]
                for answer in answers:
                    assert (answer.status_code, answer.headers["content-type"] == CONTENT_TYPE) == (200, is_arrow)
                    assert (
                        (len(parse_arrow(answer.content)) == 7)
                        if is_arrow
                        else json.loads(answer.content)["exceptions"] == []
                    )
        refused = client.post("/query/sql", json={"sql": "SELECT x FROM nowhere"}, headers={"accept": CONTENT_TYPE})
        assert (refused.status_code, refused.headers["content-type"]) == (200, "application/json")
        assert refused.json()["exceptions"][0]["errorCode"] == 190


def test_faults_are_raised_as_ever(connection: Connection) -> None:
    with pytest.raises(TableNotFoundError):
        connection.query_arrow("SELECT x FROM nowhere")


def asked(cluster: LiveCluster) -> socket.socket:
    """A connection on which the long answer was asked for and its first bytes have come."""
    host, port = cluster.broker_url.removeprefix("http://").split(":")
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.settimeout(20.0)
    made.connect((host, int(port)))
    body = json.dumps({"sql": SELECT_ALL}).encode()
    made.sendall(
        b"POST /query/sql HTTP/1.1\r\nhost: localhost\r\naccept: %s\r\ncontent-length: %d\r\n\r\n%s"
        % (CONTENT_TYPE.encode(), len(body), body)
    )
    assert made.recv(100).startswith(b"HTTP/1.1 200")
    return made


def test_clients_that_stall_or_leave_do_not_hold_the_broker(cluster: LiveCluster, connection: Connection) -> None:
    broker = cluster.processes.daemons["broker"]
    connection.query_arrow(SELECT_ALL)
    answer_mib = connection.query_arrow(SELECT_ALL).nbytes / (1 << 20)
    before_mib = broker.rss_mib()
    with ExitStack() as stalled:
        for _ in range(8):
            stalled.enter_context(asked(cluster))
        # Each holds its rows, once, and a piece; other queries are answered.
        assert broker.rss_mib() - before_mib < 8 * (2 * answer_mib + 4) + 32
        assert connection.execute(sql="SELECT COUNT(*) FROM trips").rows == [[ROWS]]
    for _ in range(40):
        asked(cluster).close()
    wait_until(lambda: broker.rss_mib() - before_mib < 8 * answer_mib + 64, 120, "what the clients left is given back")
    assert connection.query_arrow(SELECT_ALL).num_rows == ROWS


def test_the_command_line_writes_files(
    cluster: LiveCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.parquet"
    call = [
        "post-query",
        "--broker-url",
        cluster.broker_url,
        "--query-type",
        "sql",
        "--query",
        SELECT_ALL,
        "--output",
        str(path),
    ]
    with pytest.raises(SystemExit) as ended:
        main(call)
    assert not ended.value.code and "200,000 rows written" in capsys.readouterr().out
    assert pq.read_table(path).num_rows == ROWS
