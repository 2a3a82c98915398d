"""Proves on the real thing that a cluster stays: `pinotpy up --detach`, a table by the command line, and the same
answer after a server was killed (it is started again, and status says why), after `down` and `up`, and after its
supervisor was killed; that a second `up` names who holds the folder, that Ctrl-C keeps the data, and that `quickstart
--directory` goes on with them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from quickstart_process import QuickstartProcess

from pinotpy.cli.asking import ask
from pinotpy.cli.supervision.data_folder import DataFolder
from pinotpy.cli.supervision.state_file import ClusterState
from pinotpy.service.ports import is_free

pytestmark = pytest.mark.cluster

Eventually = Callable[..., float]
TIMEOUT_S = 400.0
QUERY = "SELECT city, SUM(amount) FROM orders GROUP BY city ORDER BY city"
ROWS = [["Berlin", 43.5], ["Oslo", 7.25]]
CSV = "day,city,amount\n2026-01-05,Berlin,12.5\n2026-01-06,Berlin,31.0\n2026-02-01,Oslo,7.25\n"
SCHEMA = {
    "schemaName": "orders",
    "dimensionFieldSpecs": [{"name": "city", "dataType": "STRING"}],
    "metricFieldSpecs": [{"name": "amount", "dataType": "DOUBLE"}],
    "dateTimeFieldSpecs": [
        {
            "name": "day",
            "dataType": "STRING",
            "format": "1:DAYS:SIMPLE_DATE_FORMAT:yyyy-MM-dd",
            "granularity": "1:DAYS",
        }
    ],
}
TABLE = {
    "tableName": "orders",
    "tableType": "OFFLINE",
    "tenants": {},
    "metadata": {},
    "segmentsConfig": {"timeColumnName": "day", "replication": "1"},
    "tableIndexConfig": {"invertedIndexColumns": ["city"]},
}


class Standing:
    """The commands on one data folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = DataFolder(folder)

    def call(self, command: str, *arguments: object, status: int = 0) -> str:
        """What a command printed, both streams."""
        ended = subprocess.run(
            [sys.executable, "-m", "pinotpy", command, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=TIMEOUT_S,
            env={**os.environ, "COLUMNS": "200"},
            check=False,
        )
        assert ended.returncode == status, f"{command} ended with {ended.returncode}:\n{ended.stdout}"
        return ended.stdout

    def on_folder(self, command: str, *arguments: object, status: int = 0) -> str:
        return self.call(command, "--data-dir", self.folder.path, *arguments, status=status)

    @property
    def state(self) -> ClusterState:
        state = ClusterState.load(self.folder)
        assert state is not None
        return state

    def url(self, daemon: str) -> str:
        return self.state.daemons[daemon].url

    def rows(self) -> Any:
        answer = ask(self.url("broker"), QUERY, "sql")
        return answer.get("resultTable", answer).get("rows", answer)


@pytest.fixture
def standing(tmp_path: Path) -> Iterator[Standing]:
    standing = Standing(tmp_path / "data")
    yield standing
    if standing.folder.path.exists():
        standing.on_folder("down")


def add_orders(standing: Standing, scratch: Path) -> None:
    (scratch / "input").mkdir()
    (scratch / "input" / "orders.csv").write_text(CSV)
    schema, table = scratch / "schema.json", scratch / "table.json"
    schema.write_text(json.dumps(SCHEMA))
    table.write_text(json.dumps(TABLE))
    documents = ("--schema-file", schema, "--table-config-file", table)
    controller = ("--controller-url", standing.url("controller"))
    built = scratch / "built"
    standing.call("create-segment", "--data-dir", scratch / "input", "--format", "csv", *documents, "--out-dir", built)
    standing.call("add-table", *controller, *documents)
    standing.call("upload-segment", *controller, "--segment-dir", built, "--table-name", "orders")


def test_a_cluster_stays_whatever_ends(standing: Standing, tmp_path: Path, eventually: Eventually) -> None:
    told = standing.on_folder("up", "--detach", "--zk-port", 0, "--controller-port", 0, "--broker-port", 0)
    assert f"making a cluster in {standing.folder.path}" in told
    assert "the cluster is up" in told and "It has no tables yet" in told and "pinotpy load --controller-url" in told
    assert f"rm -r {standing.folder.path}" in told and "pinotpy down --data-dir" in told
    pid = standing.state.supervisor.pid
    assert f"is held by process {pid}" in standing.on_folder("up", "--detach", status=1)
    add_orders(standing, tmp_path)
    assert standing.rows() == ROWS

    # A server that is killed is started again.
    server = standing.state.daemons["server-0"].process
    assert server is not None and server.send(signal.SIGKILL)
    eventually(
        lambda: standing.state.daemons["server-0"].restarts == 1 and standing.rows() == ROWS, timeout_s=TIMEOUT_S
    )
    status = json.loads(standing.on_folder("status", "--json"))
    failure = status["daemons"]["server-0"]["lastFailure"]
    assert status["state"] == "serving" and status["daemons"]["server-0"]["restarts"] == 1
    assert failure["reason"] == f"server-0 (process {server.pid}) was ended by SIGKILL" and failure["logTail"]
    assert status["tables"]["orders_OFFLINE"]["replicasServing"] == 1
    assert "it is started again in 1 s" in standing.folder.supervisor_log.read_text()

    # Down and up.
    before, ports = standing.state, {name: daemon.port for name, daemon in standing.state.daemons.items()}
    assert "stopped; the data stay" in standing.on_folder("down")
    assert before.living() == {} and all(is_free(port) for port in ports.values())
    assert "did not stop cleanly" not in standing.folder.supervisor_log.read_text()
    assert "Its tables: orders" in standing.on_folder("up", "--detach")
    assert standing.rows() == ROWS, "at once: it says that it is up when queries work"
    assert {name: daemon.port for name, daemon in standing.state.daemons.items()} == ports

    # The supervisor is killed.
    before = standing.state
    assert before.supervisor.send(signal.SIGKILL)
    eventually(lambda: not standing.folder.is_locked(), what="the lock dies with its holder")
    ended = subprocess.run(
        [sys.executable, "-m", "pinotpy", "status", "--data-dir", str(standing.folder.path), "--json"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ended.returncode in (1, 3), "daemons may still be ending"
    told = json.loads(ended.stdout)
    assert told["state"] == "killed"
    assert f"the supervisor (process {before.supervisor.pid}) ended without stopping" in told["warnings"][0]
    standing.on_folder("up", "--detach")
    assert before.living() == {} and standing.rows() == ROWS


def test_an_interrupt_stops_a_cluster_in_a_terminal_and_keeps_its_data(
    standing: Standing, eventually: Eventually
) -> None:
    standing.folder.make()
    log = standing.folder.path / "logs" / "terminal.log"
    ports = ("--zk-port", "0", "--controller-port", "0", "--broker-port", "0")
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "pinotpy", "up", "--data-dir", str(standing.folder.path), *ports],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
    try:
        eventually(
            lambda: "Ctrl-C stops the daemons. The data stay" in log.read_text() or process.poll() is not None,
            timeout_s=TIMEOUT_S,
        )
        state = standing.state
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 0, log.read_text()
        assert state.living() == {} and "all daemons stopped; the data stay in" in log.read_text()
        assert "did not stop cleanly" not in log.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def test_a_quickstart_with_a_folder_goes_on_with_its_data(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    counts = []
    for number in range(2):
        run = QuickstartProcess(scratch, "--exit", "--directory", str(scratch / "data"))
        try:
            assert run.wait(TIMEOUT_S) == 0, run.output
            run.assert_nothing_is_left()
        finally:
            run.close()
        counts.append([line for line in run.lines if line.strip() == "336776"])
        assert ("going on with the data in" in run.output) == (number == 1)
        assert ("✓ creating schema and table flights" in run.output) == (number == 0)
        assert ("table flights is there" in run.output) == (number == 1)
    assert counts[0] and counts[0] == counts[1], "loaded once"
