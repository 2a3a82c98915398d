"""Queries on two real servers of which one is slow, with and without adaptive selection of replicas, as JSON.

    python -m bench.adaptive_replicas

Both servers have all segments. One of them is stopped for most of every tenth of a second (SIGSTOP and SIGCONT), as by
long pauses of a machine that others use. A broker for each type of `pinot.broker.adaptive.server.selector.type` answers
the same queries, one broker after the other in several turns: median and 99th percentile, queries a second, and the
share of queries that each server was asked for. Before that, the same with both servers at full speed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np
import pyarrow as pa

from bench.daemons import start_daemons
from bench.http import load, request_bytes
from bench.machine import commit_name, machine
from bench.tables.table import say
from pinotpy.cli.local_cluster import LocalCluster
from pinotpy.client.controller import ControllerClient
from pinotpy.config.adaptive_selection import AdaptiveType
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.segment.archive.archive import pack_segment
from pinotpy.segment.build.builder import build_segment

SCHEMA: Final[dict[str, Any]] = {
    "schemaName": "t",
    "dimensionFieldSpecs": [{"name": "country", "dataType": "STRING"}, {"name": "campaign", "dataType": "INT"}],
    "metricFieldSpecs": [{"name": "cost", "dataType": "DOUBLE"}, {"name": "clicks", "dataType": "INT"}],
}
CONFIG: Final[dict[str, Any]] = {
    "tableName": "t",
    "tableType": "OFFLINE",
    "segmentsConfig": {"replication": "2"},
    "tableIndexConfig": {},
}
QUERIES: Final = (
    "SELECT COUNT(*), SUM(clicks) FROM t WHERE campaign = {}",
    "SELECT country, SUM(cost) FROM t WHERE campaign > {} GROUP BY country ORDER BY country LIMIT 10",
)
SLOW: Final = "server-1"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--segments", type=int, default=8)
    arguments.add_argument("--segment-rows", type=int, default=100_000)
    arguments.add_argument("--clients", type=int, default=4)
    arguments.add_argument("--seconds", type=float, default=5.0, help="of one turn of a broker")
    arguments.add_argument("--turns", type=int, default=3)
    arguments.add_argument("--stopped-ms", type=float, default=80.0, help="of every 100 ms")
    arguments.add_argument("--types", default=",".join(AdaptiveType), help="one broker each (default: %(default)s)")
    arguments.add_argument("--zk-address", default="", help="of a ZooKeeper that runs; else one is started")
    arguments.add_argument("--out", type=Path, default=None, help="where the JSON goes too")
    asked = arguments.parse_args()
    result = {
        "commit": commit_name(),
        "machine": machine(),
        "load_before": os.getloadavg()[0],
        **{key: value for key, value in vars(asked).items() if key not in ("out", "zk_address")},
        **measured(asked),
        "load_after": os.getloadavg()[0],
    }
    text = json.dumps(result, indent=1)
    print(text)
    if asked.out is not None:
        asked.out.write_text(text + "\n")


def measured(asked: Any) -> dict[str, Any]:
    """By speed of the servers and type: see the module."""
    kinds = asked.types.split(",")
    folder = Path(tempfile.mkdtemp(prefix="pinotpy-bench-"))
    cluster = LocalCluster(folder / "daemons")
    try:
        controller_url, brokers = start_daemons(
            cluster, folder, _options(kinds, folder), num_servers=2, zk_address=asked.zk_address
        )
        _add_table(controller_url, folder, asked.segments, asked.segment_rows)
        requests = cycle(_requests())
        for url in brokers.values():
            load(url, requests, asked.clients, asked.seconds)  # compiles, and warms up
        found: dict[str, Any] = {"fast": _all_types(cluster, brokers, requests, asked)}
        with stopped_mostly(cluster.daemons[SLOW].pid, asked.stopped_ms / 1000, 0.1 - asked.stopped_ms / 1000):
            found["one_slow"] = _all_types(cluster, brokers, requests, asked)
        return found
    finally:
        cluster.stop_all()
        shutil.rmtree(folder, ignore_errors=True)


def _all_types(
    cluster: LocalCluster, brokers: dict[str, str], requests: Iterator[bytes], asked: Any
) -> dict[str, dict[str, Any]]:
    took_ms: dict[str, list[float]] = {kind: [] for kind in brokers}
    seconds, num_slow = dict.fromkeys(brokers, 0.0), dict.fromkeys(brokers, 0.0)
    num_all = dict.fromkeys(brokers, 0.0)
    for _ in range(asked.turns):
        for kind, url in brokers.items():
            before = _queries_by_server(cluster)
            latencies, passed_s = load(url, requests, asked.clients, asked.seconds)
            after = _queries_by_server(cluster)
            took_ms[kind] += latencies
            seconds[kind] += passed_s
            num_slow[kind] += after[SLOW] - before[SLOW]
            num_all[kind] += sum(after.values()) - sum(before.values())
    found = {
        kind: {
            "p50_ms": round(float(np.percentile(took_ms[kind], 50)), 2),
            "p99_ms": round(float(np.percentile(took_ms[kind], 99)), 2),
            "queries_per_s": round(len(took_ms[kind]) / seconds[kind], 1),
            "requests_to_second_server": round(num_slow[kind] / max(num_all[kind], 1), 3),
        }
        for kind in brokers
    }
    for kind, numbers in found.items():
        say(f"adaptive replicas: {kind}: {numbers}")
    return found


def _options(kinds: list[str], folder: Path) -> dict[str, tuple[str, ...]]:
    """Arguments of a broker by its type."""
    options = {}
    for kind in kinds:
        file = folder / f"{kind}.properties"
        file.write_text(f"pinot.broker.adaptive.server.selector.type={kind}\n")
        options[kind] = ("--config-file", str(file))
    return options


def _add_table(controller_url: str, folder: Path, num_segments: int, num_rows: int) -> None:
    client, schema, config = ControllerClient(controller_url), Schema.from_json(SCHEMA), TableConfig.from_json(CONFIG)
    client.add_schema(SCHEMA)
    client.add_table(CONFIG)
    dice = np.random.default_rng(7)
    for number in range(num_segments):
        batch = pa.RecordBatch.from_pydict(
            {
                "country": pa.array([f"c{value}" for value in dice.integers(0, 50, num_rows).tolist()]),
                "campaign": pa.array(dice.integers(0, 1_000, num_rows), pa.int32()),
                "cost": pa.array(dice.random(num_rows)),
                "clicks": pa.array(dice.integers(0, 100, num_rows), pa.int32()),
            }
        )
        built = folder / "built" / f"t_{number}"
        build_segment(schema, config, [batch], built.parent, built.name, raw_table_name="t")
        client.upload_segment(pack_segment(built, folder / f"t_{number}.tar.gz"), "t")
    client.wait_until_online("t", timeout_s=600)
    client.close()


def _requests() -> list[bytes]:
    return [
        request_bytes("/query/sql", {"sql": QUERIES[number % len(QUERIES)].format(number)}) for number in range(1_000)
    ]


def _queries_by_server(cluster: LocalCluster) -> dict[str, float]:
    """How many queries each server has answered so far."""
    counts = {}
    for name in ("server-0", "server-1"):
        shown = httpx.get(f"{cluster.daemons[name].ready['url']}/metrics", trust_env=False, timeout=60).text
        lines = [
            line for line in shown.splitlines() if line.startswith('pinot_server_queries_total{table="t_OFFLINE"}')
        ]
        counts[name] = sum(float(line.split()[-1]) for line in lines)
    return counts


@contextmanager
def stopped_mostly(pid: int, stopped_s: float, running_s: float) -> Iterator[None]:
    """A process that runs for `running_s`, then stands still for `stopped_s`, and so on."""
    ended = threading.Event()

    def run() -> None:
        while not ended.is_set():
            os.kill(pid, signal.SIGSTOP)
            ended.wait(stopped_s)
            os.kill(pid, signal.SIGCONT)
            ended.wait(running_s)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


if __name__ == "__main__":
    main()
