"""What everything costs before the first row is read: `python -m bench.fixed_costs`; results as JSON.

Measured on real daemons over four segments of 25,000 rows:

start       seconds from launch to the ready line of each daemon (each alone, kernels warm in the page cache), and from
            the launch of a server with loaded data to its first full answer through a running broker
memory      resident MiB of each idle daemon after its first queries
queries     by kind of trivial query, a new literal each time: answers/s, p50 and p99 at 1, 8 and 32 connections, and
            CPU µs of broker, server and load generator for each query; the generator runs on the same cores
first       answers/s of a group-by at 8 connections in the first second after the start, and in each second after it
warmup      seconds of wall and CPU of `pinotpy warmup`, with an empty kernel cache (only with --cold) and with a full
            one
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.data import SCHEMA, TABLE_CONFIG, chunk
from bench.http import Connection, load, request_bytes
from bench.machine import commit_name, machine
from pinotpy.cli.local_cluster import LocalCluster
from pinotpy.client.controller import ControllerClient
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.segment.archive.archive import pack_segment
from pinotpy.segment.build.builder import build_segment
from pinotpy.service.ports import free_port

NUM_SEGMENTS = 4
ROWS = 25_000
CONNECTIONS = (1, 8, 32)
FIRST_SECONDS = 6
QUERIES: dict[str, Callable[[int], str]] = {
    "count": lambda n: "SELECT COUNT(*) FROM ads",
    "filtered_count": lambda n: f"SELECT COUNT(*) FROM ads WHERE user_id = {n * 7919}",
    "group_by": lambda n: (
        f"SELECT COUNT(*) FROM ads WHERE user_id < {n * 7919} AND user_id >= {max(0, n - 1000) * 7919} GROUP BY "
        "carrier TOP 10"
    ),
    "selection": lambda n: f"SELECT carrier, clicks FROM ads WHERE user_id = {n * 7919} LIMIT 10",
}


def measure_fixed(repetitions: int) -> dict[str, Any]:
    """What `main` prints of queries, memory and starts; three rounds of three seconds from three repetitions on, else a
    quick look.
    """
    rounds, seconds = (3, 3.0) if repetitions >= 3 else (1, 0.5)
    with tempfile.TemporaryDirectory(prefix="pinotpy-fixed-") as scratch:
        return _measure_cluster(Path(scratch), seconds, rounds, with_start=True, with_queries=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of each latency and throughput run")
    parser.add_argument(
        "--rounds", type=int, default=3, help="runs of each kind; the best counts (other load only ever adds)"
    )
    parser.add_argument("--cold", action="store_true", help="also compile all kernels into an empty cache")
    parser.add_argument("--only", choices=("queries", "start", "warmup"), default=None, help="measure this part only")
    parser.add_argument("--out", type=Path, default=None, help="where the JSON goes (default: printed only)")
    arguments = parser.parse_args()
    result: dict[str, Any] = {"commit": commit_name(), "machine": machine(), "load_before": os.getloadavg()[0]}
    if arguments.only in (None, "warmup"):
        result["warmup"] = _measure_warmup(arguments.cold)
    if arguments.only in (None, "start", "queries"):
        with tempfile.TemporaryDirectory(prefix="pinotpy-fixed-") as scratch:
            result |= _measure_cluster(
                Path(scratch),
                arguments.seconds,
                arguments.rounds,
                with_start=arguments.only != "queries",
                with_queries=arguments.only != "start",
            )
    text = json.dumps(result, indent=1)
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(text + "\n")


def _measure_cluster(
    scratch: Path, seconds: float, rounds: int, *, with_start: bool, with_queries: bool
) -> dict[str, Any]:
    cluster = LocalCluster(scratch / "cluster")
    result: dict[str, Any] = {}
    started: dict[str, float] = {}

    def start(name: str, *args: str) -> Any:
        begin = time.perf_counter()
        daemon = cluster.start(name, *args)
        started[name] = round(time.perf_counter() - begin, 2)
        return daemon

    try:
        zookeeper = start("zookeeper", "start-zookeeper", "--zk-port", "0", "--data-dir", str(scratch / "zk"))
        common = ("--zk-address", zookeeper.ready["address"], "--cluster-name", "Fixed")
        controller = start(
            "controller",
            "start-controller",
            *common,
            "--controller-port",
            "0",
            "--data-dir",
            str(scratch / "controller"),
        )
        broker = start("broker", "start-broker", *common, "--broker-port", "0")
        # A port of its own: with 0 the server that starts again would be another instance.
        server = start(
            "server",
            "start-server",
            *common,
            "--server-port",
            str(free_port()),
            "--server-admin-port",
            "0",
            "--data-dir",
            str(scratch / "server"),
        )
        url = broker.ready["url"]
        _fill(ControllerClient(controller.ready["url"]), scratch)
        if with_queries:
            _wait_for_all_rows(url)
            result["first"] = _measure_first_seconds(url)
            result["queries"] = {
                name: _measure_query(url, text, seconds, rounds, broker.pid, server.pid)
                for name, text in QUERIES.items()
            }
        result["memory_mib"] = {name: round(daemon.rss_mib(), 1) for name, daemon in cluster.daemons.items()}
        result["memory_mib"]["sum"] = round(sum(result["memory_mib"].values()), 1)
        if with_start:
            result["start_s"] = dict(started)
            result["start_s"]["server_to_full_answer"] = _restart_server(cluster, url, rounds)
    finally:
        cluster.stop_all()
    return result


def _fill(client: ControllerClient, scratch: Path) -> None:
    schema, table = Schema.from_json(SCHEMA), TableConfig.from_json(TABLE_CONFIG)
    client.add_schema(SCHEMA)
    client.add_table(TABLE_CONFIG)
    for number in range(NUM_SEGMENTS):
        name = f"ads_{number:03d}"
        build_segment(
            schema, table, [chunk(number, NUM_SEGMENTS, ROWS)], scratch / "segments", name, raw_table_name="ads"
        )
        archive = scratch / f"{name}.tar.gz"
        pack_segment(scratch / "segments" / name, archive)
        client.upload_segment(archive, "ads")
    client.wait_until_online("ads", timeout_s=60)


def _requests(text: Callable[[int], str]) -> Iterator[bytes]:
    return (
        request_bytes("/query", {"pql": text(number)})
        for number in itertools.count(int(time.time() * 1000) % 1_000_000)
    )


def _measure_first_seconds(url: str) -> list[int]:
    """Answers in the first second that the cluster is asked anything but a count, and in the seconds after it."""
    requests = _requests(QUERIES["group_by"])
    return [len(load(url, requests, 8, 1.0)[0]) for _ in range(FIRST_SECONDS)]


def _measure_query(
    url: str, text: Callable[[int], str], seconds: float, rounds: int, broker_pid: int, server_pid: int
) -> dict[str, dict[str, float]]:
    """By number of connections, the best of `rounds` that take turns."""
    runs: dict[int, list[dict[str, float]]] = {number: [] for number in CONNECTIONS}
    requests = _requests(text)
    load(url, requests, 8, seconds / 2)
    for _, number in itertools.product(range(rounds), CONNECTIONS):
        before = cpu_s(broker_pid), cpu_s(server_pid), time.process_time()
        took_ms, passed_s = load(url, requests, number, seconds)
        after = cpu_s(broker_pid), cpu_s(server_pid), time.process_time()
        took_ms.sort()
        broker_us, server_us, own_us = ((b - a) / len(took_ms) * 1e6 for a, b in zip(before, after, strict=True))
        runs[number].append(
            {
                "queries_per_s": len(took_ms) / passed_s,
                "p50_ms": _quantile(took_ms, 0.5),
                "p99_ms": _quantile(took_ms, 0.99),
                "broker_cpu_us": broker_us,
                "server_cpu_us": server_us,
                "generator_cpu_us": own_us,
            }
        )
    return {str(number): _best(found) for number, found in runs.items()}


def _best(runs: list[dict[str, float]]) -> dict[str, float]:
    """The most answers, the least of everything else: other load only ever adds."""
    return {
        name: round(max(run[name] for run in runs) if name == "queries_per_s" else min(run[name] for run in runs), 3)
        for name in runs[0]
    }


def _restart_server(cluster: LocalCluster, url: str, rounds: int) -> float:
    """Seconds from launch to the first answer that has all rows, the least of `rounds`."""
    took = []
    for _ in range(rounds):
        cluster.stop("server")
        begin = time.perf_counter()
        server = cluster.launch("server", *cluster.daemons["server"].args)
        took.append(_wait_for_all_rows(url) - begin)
        cluster.wait_ready(server)
    return round(min(took), 2)


def _wait_for_all_rows(url: str, timeout_s: float = 60.0) -> float:
    """When (perf_counter) the broker first counted every row."""
    connection = Connection(url)
    deadline = time.perf_counter() + timeout_s
    while True:
        answer = connection.post("/query", {"pql": QUERIES["count"](0)})
        now = time.perf_counter()
        if not answer["exceptions"] and answer["aggregationResults"][0]["value"] == str(NUM_SEGMENTS * ROWS):
            connection.close()
            return now
        if now > deadline:
            raise SystemExit(f"not all rows were served within {timeout_s} s: {answer}")
        time.sleep(0.01)


def _measure_warmup(cold: bool) -> dict[str, float]:
    result = {}
    if cold:
        with tempfile.TemporaryDirectory(prefix="pinotpy-cold-") as empty:
            result["cold_wall_s"], result["cold_cpu_s"] = _run_warmup({"PINOTPY_KERNEL_CACHE": empty})
    _run_warmup({})
    runs = [_run_warmup({}) for _ in range(3)]
    result["warm_wall_s"], result["warm_cpu_s"] = min(wall for wall, _ in runs), min(cpu for _, cpu in runs)
    return result


def _run_warmup(env: dict[str, str]) -> tuple[float, float]:
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "pinotpy", "warmup"], check=True, capture_output=True, env={**os.environ, **env}
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round(time.perf_counter() - begin, 2), round(
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2
    )


def cpu_s(pid: int) -> float:
    """CPU seconds of a process since its start, in ticks of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _quantile(ascending: list[float], share: float) -> float:
    return ascending[min(len(ascending) - 1, int(share * len(ascending)))]


if __name__ == "__main__":
    main()
