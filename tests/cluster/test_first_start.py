"""Proves on real daemons what the first day of an installation is like: a server is ready when the kernels of the first
queries are there; one that a query needs and that is not there yet is waited for within the query's time, by that query
alone, and the answer says so; meanwhile health tells how far the others are, and in the end all are compiled. The cache
is a copy that lacks the kernels of one file; locks of kernels/ keep them from being compiled until the test has looked.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from live_cluster import LiveCluster, wait_until

from pinotpy.kernels import cache
from pinotpy.kernels.compiling import Stage, StageRun, is_compiled, marker
from pinotpy.kernels.demand import locked

pytestmark = pytest.mark.cluster

PATIENCE_S = 180.0
KERNEL = "aggregate.moments.long_squares"
FARES = list(range(100))
TEXT = "SELECT VARPOP(fare) FROM rides"
SCHEMA = {"schemaName": "rides", "metricFieldSpecs": [{"name": "fare", "dataType": "LONG"}]}
CONFIG: dict[str, Any] = {
    "tableName": "rides",
    "tableType": "OFFLINE",
    "segmentsConfig": {"replication": "1"},
    "tenants": {},
    "tableIndexConfig": {},
    "metadata": {},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that has all kernels but those of one file."""
    full = Path(os.environ["NUMBA_CACHE_DIR"])
    folder = tmp_path / "kernels" / full.name
    for file in cache.KERNELS.rglob("*.py"):
        name = f"{cache.module_name(file)}-{cache.source_hash(file)}"
        if (full / name).is_dir() and cache.module_name(file) != KERNEL.rpartition(".")[0]:
            shutil.copytree(full / name, folder / name)
    marker(folder, Stage.FIRST).touch()
    monkeypatch.setenv("PINOTPY_KERNEL_CACHE", str(tmp_path / "kernels"))
    return folder


@contextmanager
def nobody_compiles_the_others(folder: Path) -> Iterator[None]:
    with (folder / ".all-idle.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def test_a_query_waits_for_its_own_kernel_and_says_so(folder: Path, tmp_path: Path) -> None:
    cluster = None
    others, one = ExitStack(), ExitStack()
    settings, patience_ms = tmp_path / "daemons.properties", int(PATIENCE_S * 1000)
    settings.write_text(f"pinot.broker.timeoutMs={patience_ms}\npinot.server.query.executor.timeout={patience_ms}\n")
    try:
        with ThreadPoolExecutor(1) as asking, others, one:
            others.enter_context(nobody_compiles_the_others(folder))
            one.enter_context(locked(folder / ".compiling", KERNEL))
            cluster = LiveCluster(tmp_path, num_servers=1, daemon_options=("--config-file", str(settings)))
            cluster.add_table(SCHEMA, CONFIG, [[pa.RecordBatch.from_pydict({"fare": pa.array(FARES, pa.int64())})]])
            server = cluster.processes.daemons["server-0"].ready["url"]

            def is_told() -> bool:
                # On a machine that is too slow for the query itself the broker gives up first: asked again.
                late = cluster.query(f"SET timeoutMs=5000; {TEXT}", "sql")
                return f"kernel {KERNEL} is still being compiled" in str(late["exceptions"]) and KERNEL in str(
                    late["warnings"]
                )

            wait_until(is_told, PATIENCE_S, "a query whose time is up names its kernel")
            before = _waits(server)
            waiting = asking.submit(cluster.query, TEXT, "sql", timeout_s=PATIENCE_S)
            wait_until(lambda: _waits(server) > before, PATIENCE_S, "the second query waits for its kernel")
            # Others are answered meanwhile, and say nothing of it.
            quick = cluster.query("SELECT COUNT(*), SUM(fare) FROM rides", "sql")
            assert quick["resultTable"]["rows"] == [[100, sum(FARES)]] and "warnings" not in quick
            assert not waiting.done()
            assert "the other kernels are being compiled" in httpx.get(f"{server}/health/readiness").text

            one.close()
            answer = waiting.result(PATIENCE_S)
            assert not answer["exceptions"], answer
            assert answer["resultTable"]["rows"] == [[833.25]]
            assert "waited until kernels were compiled" in answer["warnings"][0] and KERNEL in answer["warnings"][0]
            assert "warnings" not in cluster.query(TEXT, "sql")

            others.close()
            # The server compiles them on time that nobody else wants: on a busy machine that is never.
            assert StageRun(folder, Stage.ALL).run() and is_compiled(folder, Stage.ALL)
            wait_until(lambda: httpx.get(f"{server}/health/readiness").text == "OK", PATIENCE_S, "health is silent")
            assert not any(cluster.close().values())
            cluster = None
    finally:
        if cluster is not None:
            cluster.close()


def _waits(server: str) -> int:
    lines = httpx.get(f"{server}/metrics").text.splitlines()
    return int(
        sum(float(line.split()[-1]) for line in lines if line.startswith("pinot_server_queriesWaitedForKernels_total"))
    )
