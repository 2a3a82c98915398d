"""Proves that daemons of two revisions answer one query together, as they do while a fleet is being updated: one server
of each has half of the rows, and brokers of both ask them. The older revision is taken from the repository's history.
The oracle is DuckDB.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pytest
from live_cluster import LiveCluster

from pinotpy.cli.asking import ask
from pinotpy.cli.local_cluster import PROGRAM
from pinotpy.service.ports import free_port

pytestmark = [pytest.mark.cluster, pytest.mark.full]

ROOT: Final = Path(__file__).resolve().parents[2]
OLDER: Final = "a8c63c2"  # the last revision before modules of kernels/ and query/ were moved and renamed
COMPILE_TIMEOUT_S: Final = 1_800.0
START_TIMEOUT_S: Final = 300.0
ROWS: Final = 4_000
SCHEMA: Final[dict[str, Any]] = {
    "schemaName": "trips",
    "dimensionFieldSpecs": [
        {"name": "town", "dataType": "STRING"},
        {"name": "note", "dataType": "STRING"},
        {"name": "tags", "dataType": "STRING", "singleValueField": False},
    ],
    "metricFieldSpecs": [{"name": "fare", "dataType": "DOUBLE"}, {"name": "seats", "dataType": "LONG"}],
}
CONFIG: Final[dict[str, Any]] = {
    "tableName": "trips",
    "tableType": "OFFLINE",
    "segmentsConfig": {"replication": "1"},
    "tenants": {},
    "tableIndexConfig": {"noDictionaryColumns": ["note", "fare"], "invertedIndexColumns": ["town"]},
    "metadata": {},
}
# Each travels in another form: words, exact sums, sets, sketches, rows, many groups, compact rows.
QUERIES: Final = (
    "SELECT COUNT(*), SUM(seats), SUM(fare), MIN(fare), MAX(seats), AVG(fare) FROM trips",
    "SELECT town, COUNT(*), SUM(fare) FROM trips WHERE seats > 2 GROUP BY town ORDER BY town LIMIT 100",
    "SELECT note, SUM(seats) FROM trips GROUP BY note ORDER BY SUM(seats) DESC, note LIMIT 20",
    "SELECT town, COUNT(DISTINCT note), SUM(fare) FROM trips GROUP BY town ORDER BY town LIMIT 100",
    "SELECT DISTINCT town, seats FROM trips ORDER BY town, seats LIMIT 500",
    "SELECT note, fare, town FROM trips WHERE note LIKE '%7%' ORDER BY fare DESC, note LIMIT 15",
    "SELECT seats % 3, town, COUNT(*) FROM trips WHERE NOT (town = 'Oslo' OR fare < 20) GROUP BY seats % 3, town "
    "HAVING COUNT(*) > 5 ORDER BY COUNT(*) DESC, town, seats % 3 LIMIT 30",
)


def _columns() -> dict[str, list[Any]]:
    return {
        "town": [("Oslo", "Rome", "Lima", "Kyiv")[row * 7 % 11 % 4] for row in range(ROWS)],
        "note": [f"note {row * 31 % 700}" for row in range(ROWS)],
        "tags": [[f"t{row % 5}", f"t{row % 3}"] for row in range(ROWS)],
        "fare": [row * 37 % 1_000 / 8 for row in range(ROWS)],
        "seats": [row % 9 for row in range(ROWS)],
    }


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source of the older revision, with its kernels compiled."""
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed: it reads the older revision from this checkout's history")
    packed = subprocess.run([git, "archive", OLDER, "src"], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode != 0:
        pytest.skip(f"revision {OLDER} is not in this checkout's history: fetch it whole (git fetch --unshallow)")
    folder = tmp_path_factory.mktemp("older")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
    subprocess.run([*PROGRAM, "warmup"], env=environment, check=True, timeout=COMPILE_TIMEOUT_S, capture_output=True)
    return folder / "src"


@pytest.fixture(scope="module")
def cluster(older: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    folder = tmp_path_factory.mktemp("together")
    live = LiveCluster(folder, num_servers=1)
    try:
        common = ("--zk-address", live.zk_address, "--cluster-name", "TestCluster")
        ports = ("--server-port", str(free_port()), "--server-admin-port", str(free_port()))
        places = ("--data-dir", str(folder / "older" / "index"), "--segment-dir", str(folder / "older" / "segments"))
        path = {"PYTHONPATH": str(older)}
        server = live.processes.launch("older-server", "start-server", *common, *ports, *places, env=path)
        port = ("--broker-port", str(free_port()))
        broker = live.processes.launch("older-broker", "start-broker", *common, *port, env=path)
        live.processes.wait_ready(server, broker, timeout_s=START_TIMEOUT_S)
        rows = pa.RecordBatch.from_pydict(_columns())
        live.add_table(SCHEMA, CONFIG, [[rows.slice(0, ROWS // 2)], [rows.slice(ROWS // 2)]])
        yield live
    finally:
        live.close()


@pytest.mark.parametrize("broker", ["broker", "older-broker"])
def test_servers_of_two_revisions_answer_together(cluster: LiveCluster, broker: str) -> None:
    url = cluster.processes.daemons[broker].ready["url"]
    with duckdb.connect() as oracle:
        oracle.register("trips", pa.table(_columns()))
        for text in QUERIES:
            answer = ask(url, text, "sql")
            assert not answer["exceptions"] and answer["numServersQueried"] == answer["numServersResponded"] == 2, text
            expected = [list(row) for row in oracle.execute(text).fetchall()]
            assert answer["resultTable"]["rows"] == expected, text
