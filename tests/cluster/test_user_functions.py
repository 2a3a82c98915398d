"""Proves on real processes: a function that is named in the daemons' config files and lies on their PYTHONPATH answers
queries over HTTP in both dialects, fills a column on the way in, is checked in table configs and listed by every daemon
behind its access door; a daemon whose list names a function that is not there does not start and says why; and a server
that lacks the function refuses with its name, without harm to itself. The oracle is arithmetic.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from live_cluster import LiveCluster, wait_until

from pinotpy.cli.local_cluster import PROGRAM
from pinotpy.client.http_calls import Access, HttpCalls
from pinotpy.errors import PinotError

pytestmark = pytest.mark.cluster

MODULE = """
import numpy as np
from pinotpy.functions import udf

@udf(arguments=["LONG"], result="LONG", example=((7,), 49))
def squared(x):
    "The square."
    return x * x

@udf(arguments=["LONG"], result="LONG")
def picky(x):
    raise ValueError("nothing suits me")
"""
SCHEMA: dict[str, Any] = {
    "schemaName": "numbers",
    "dimensionFieldSpecs": [
        {"name": "n", "dataType": "LONG"},
        {"name": "square", "dataType": "LONG", "transformFunction": "squared(n)"},
    ],
}
ROWS = 200


def config(function: str = "n >= 100") -> dict[str, Any]:
    return {
        "tableName": "numbers",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "tableIndexConfig": {},
        "ingestionConfig": {"filterConfig": {"filterFunction": function}},
        "metadata": {},
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the module and the config file that names its functions."""
    directory = tmp_path_factory.mktemp("functions")
    (directory / "modules").mkdir()
    (directory / "modules" / "cluster_squares.py").write_text(MODULE)
    (directory / "daemon.properties").write_text(
        "pinot.server.user.functions=cluster_squares:squared, cluster_squares:picky\n"
    )
    return directory


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[LiveCluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "PYTHONPATH", os.pathsep.join(filter(None, (str(folder / "modules"), os.environ.get("PYTHONPATH"))))
        )
        live = LiveCluster(folder, num_servers=2, daemon_options=("--config-file", str(folder / "daemon.properties")))
        try:
            live.controller.add_schema(SCHEMA)
            live.controller.add_table(config())
            numbers = pa.array(range(ROWS), pa.int64())
            whole = pa.RecordBatch.from_pydict(
                {"n": numbers, "square": pa.array([n * n for n in range(ROWS)], pa.int64())}
            )
            for part in range(4):
                live.upload(SCHEMA, config(), f"numbers_{part}", [whole.slice(part * 50, 50)])
            live.controller.wait_until_online("numbers", timeout_s=120)
            yield live
        finally:
            statuses = live.close()
    assert set(statuses.values()) <= {0}, statuses


def test_queries_use_the_function_in_both_dialects(cluster: LiveCluster) -> None:
    answer = cluster.query("SELECT MAX(squared(n)) FROM numbers WHERE SQUARED(n) < 10000")
    assert (answer["exceptions"], answer["aggregationResults"][0]["value"]) == ([], "9801.00000")
    answer = cluster.query(
        "SELECT squared(n) FROM numbers WHERE squared(n) = square AND n > 3 ORDER BY squared(n) LIMIT 3", "sql"
    )
    assert (answer["exceptions"], answer["resultTable"]["rows"]) == ([], [[16], [25], [36]])
    assert answer["numServersQueried"] == 2


def test_a_fault_of_the_function_is_an_answer_and_its_traceback_stays_in_the_servers_log(cluster: LiveCluster) -> None:
    answer = cluster.query("SELECT MAX(picky(n)) FROM numbers", "sql")
    assert {error["errorCode"] for error in answer["exceptions"]} == {200}
    assert "user function 'picky' failed: ValueError: nothing suits me" in answer["exceptions"][0]["message"]
    assert "Traceback" not in str(answer)
    logs = "".join(cluster.processes.daemons[f"server-{number}"].log.read_text() for number in (0, 1))
    assert "user function failed function=picky" in logs and 'raise ValueError("nothing suits me")' in logs


def listed(url: str) -> dict[str, dict[str, Any]]:
    return {
        entry["name"]: entry for entry in HttpCalls(Access(), 5).call("GET", f"{url}/functions").json()["functions"]
    }


def test_every_daemon_lists_its_functions(cluster: LiveCluster) -> None:
    for name in ("controller", "broker", "server-0", "server-1"):
        functions = listed(cluster.processes.daemons[name].ready["url"])
        assert functions["squared"]["userDefined"] and functions["squared"]["signature"] == "squared(x LONG) LONG"
        assert functions["squared"]["examples"] == [{"expression": "squared(7)", "value": 49}]
        assert not functions["abs"]["userDefined"] and functions["sum"]["kind"] == "AGGREGATION"


def test_the_controller_refuses_expressions_with_functions_that_it_lacks(cluster: LiveCluster) -> None:
    other = {**SCHEMA, "schemaName": "others", "dimensionFieldSpecs": SCHEMA["dimensionFieldSpecs"]}
    cluster.controller.add_schema(other)
    with pytest.raises(PinotError, match="filterFunction: found function 'cubed', which there is not"):
        cluster.controller.add_table({**config("cubed(n) > 3"), "tableName": "others"})


def environment_with(*folders: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }


def test_files_are_ingested_with_functions_that_a_package_announces(
    cluster: LiveCluster, folder: Path, tmp_path: Path
) -> None:
    info = tmp_path / "site" / "squares-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: squares\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[pinotpy.functions]\nsquared = cluster_squares:squared\n")
    schema, table = {**SCHEMA, "schemaName": "ingested"}, {**config(), "tableName": "ingested"}
    documents = {"schema": schema, "table": table}
    for name, document in documents.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    (tmp_path / "rows.csv").write_text("n\n" + "".join(f"{n}\n" for n in range(ROWS)))
    files = [
        "--schema-file",
        tmp_path / "schema.json",
        "--table-config-file",
        tmp_path / "table.json",
        "--data-dir",
        tmp_path / "rows.csv",
    ]
    ended = subprocess.run(
        [*PROGRAM, "create-segment", *files, "--out-dir", tmp_path / "out", "--json"],
        check=False, capture_output=True, text=True, timeout=120,
            env=environment_with(tmp_path / "site", folder / "modules"),
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert (report["numRowsRead"], report["numRowsIndexed"], report["numRowsFiltered"], report["numRowsRejected"]) == (
        ROWS,
        100,
        100,
        0,
    )
    cluster.controller.add_schema(schema)
    cluster.controller.add_table(table)
    cluster.controller.upload_segment(Path(report["segments"][0]["archive"]), "ingested")
    cluster.controller.wait_until_online("ingested", timeout_s=120)
    answer = cluster.query("SELECT COUNT(*), MAX(square), SUM(square) FROM ingested", "sql")
    assert answer["resultTable"]["rows"] == [[100, 99 * 99, sum(n * n for n in range(100))]]


@pytest.mark.parametrize(
    ("role", "listed_functions", "message"),
    [
        (
            "controller",
            "cluster_squares:cubed",
            "'cluster_squares:cubed': found AttributeError: module 'cluster_squares' has no attribute 'cubed', "
            "allowed: a function decorated",
        ),
        (
            "broker",
            "no_such_module:f",
            "'no_such_module:f': found ModuleNotFoundError: No module named 'no_such_module'",
        ),
        ("server", "squared", "'squared': found no installed package that announces it"),
    ],
)
def test_a_daemon_does_not_start_without_a_function_of_its_list(
    folder: Path, tmp_path: Path, role: str, listed_functions: str, message: str
) -> None:
    (tmp_path / "daemon.properties").write_text(f"pinotpy.user.functions={listed_functions}\n")
    ended = subprocess.run(
        [*PROGRAM, f"start-{role}", "--config-file", tmp_path / "daemon.properties", "--zk-address", "localhost:1"],
        check=False, capture_output=True, text=True, timeout=120, env=environment_with(folder / "modules"),
            cwd=tmp_path,
    )  # fmt: skip
    assert ended.returncode == 1
    assert (
        "user functions cannot be loaded:" in ended.stderr
        and message in ended.stderr
        and "Traceback" not in ended.stderr
    )


def test_a_server_that_lacks_the_function_refuses_and_answers_other_queries(
    cluster: LiveCluster, tmp_path: Path
) -> None:
    """Last: it leaves a server without functions."""
    without = cluster.processes.daemons["server-1"]
    cluster.processes.stop("server-1")
    arguments = list(without.args)
    place = arguments.index("--config-file")
    cluster.processes.start("server-1", *arguments[:place], *arguments[place + 2 :])
    wait_until(
        lambda: cluster.query("SELECT COUNT(*) FROM numbers", "sql")["resultTable"]["rows"] == [[ROWS]],
        120,
        "the server came back",
    )
    answer = cluster.query("SELECT MAX(squared(n)) FROM numbers", "sql")
    assert [error["errorCode"] for error in answer["exceptions"]] == [200], answer
    message = answer["exceptions"][0]["message"]
    assert (
        "this server has no function 'squared', expected squared(x LONG) LONG" in message
        and without.ready["instance"] in message
    )
    assert "resultTable" not in answer
    assert cluster.query("SELECT MAX(square) FROM numbers", "sql")["resultTable"]["rows"] == [[199 * 199]]
