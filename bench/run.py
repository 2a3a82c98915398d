"""`make bench`: the suite through broker and server, and in DuckDB, in one interleaved run; results as JSON.

Both get 2 threads, warm caches and new literals in every repetition. The time of pinotpy is the whole path: HTTP request
to parsed JSON answer over a kept connection. Answers are compared on every repetition; a difference ends the run.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from bench.data import SCHEMA, TABLE_CONFIG, chunk
from bench.http import Connection
from bench.machine import commit_name, machine
from bench.queries import SUITE
from pinotpy.cli.local_cluster import LocalCluster
from pinotpy.client.controller import ControllerClient
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.segment.archive import pack_segment
from pinotpy.segment.builder import build_segment

THREADS = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the table")
    parser.add_argument("--repetitions", type=int, default=7, help="timed repetitions of every query")
    parser.add_argument("--out", type=Path, default=None, help="where the JSON goes (default bench/results/<commit>.json)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pinotpy-bench-") as scratch:
        result = run(Path(scratch), arguments.rows, arguments.repetitions)
    out = arguments.out or Path(__file__).parent / "results" / f"{result['commit']}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"geometric mean of DuckDB's time over ours: {result['geometric_mean']:.2f}; written to {out}")


def run(scratch: Path, rows: int, repetitions: int) -> dict[str, Any]:
    """Load both, run all, return the result document."""
    cluster = LocalCluster(scratch / "cluster")
    try:
        broker_url, build_s = _load_pinotpy(cluster, scratch, rows)
        peer = _load_duckdb(scratch, rows)
        lines = _measure(broker_url, peer, repetitions)
    finally:
        cluster.stop_all()
    ratios = [line["ratio"] for line in lines if line["name"] != "q01_count"]
    return {
        "commit": commit_name(),
        "machine": machine(),
        "versions": {name: version(name) for name in ("duckdb", "numba", "numpy", "pyarrow")},
        "rows": rows,
        "repetitions": repetitions,
        "threads": THREADS,
        "build_s": round(build_s, 2),
        "geometric_mean": math.exp(statistics.fmean(map(math.log, ratios))),
        "note": "ratio = DuckDB's median / ours (HTTP to answer); the mean leaves q01 (metadata) out",
        "queries": lines,
    }


def _load_pinotpy(cluster: LocalCluster, scratch: Path, rows: int) -> tuple[str, float]:
    zookeeper = cluster.start("zookeeper", "start-zookeeper", "--zk-port", "0", "--data-dir", str(scratch / "zk"))
    address = zookeeper.ready["address"]
    common = ("--zk-address", address, "--cluster-name", "Bench")
    controller = cluster.start("controller", "start-controller", *common, "--controller-port", "0", "--data-dir", str(scratch / "controller"))
    broker = cluster.launch("broker", "start-broker", *common, "--broker-port", "0")
    server = cluster.launch("server", "start-server", *common, "--server-port", "0", "--server-admin-port", "0", "--data-dir", str(scratch / "server"))
    cluster.wait_ready(broker, server)
    client = ControllerClient(controller.ready["url"])
    schema, table = Schema.from_json(SCHEMA), TableConfig.from_json(TABLE_CONFIG)
    client.add_schema(SCHEMA)
    client.add_table(TABLE_CONFIG)
    num_chunks = max(1, rows // 1_000_000)
    build_s = 0.0
    for number in range(num_chunks):
        batch = chunk(number, num_chunks, rows // num_chunks)
        start = time.perf_counter()
        name = f"ads_{number:03d}"
        build_segment(schema, table, [batch], scratch / "segments", name, raw_table_name="ads")
        build_s += time.perf_counter() - start
        archive = scratch / f"{name}.tar.gz"
        pack_segment(scratch / "segments" / name, archive)
        client.upload_segment(archive, "ads")
        archive.unlink()
        print(f"\rsegment {number + 1} of {num_chunks}", end="", file=sys.stderr)
    print(file=sys.stderr)
    client.wait_until_online("ads", timeout_s=300)
    return broker.ready["url"], build_s


def _load_duckdb(scratch: Path, rows: int) -> duckdb.DuckDBPyConnection:
    peer = duckdb.connect(str(scratch / "peer.duckdb"))
    peer.execute(f"SET threads = {THREADS}")
    num_chunks = max(1, rows // 1_000_000)
    for number in range(num_chunks):
        batch = pa.Table.from_batches([chunk(number, num_chunks, rows // num_chunks)])
        peer.register("batch", batch)
        peer.execute("CREATE TABLE ads AS SELECT * FROM batch" if number == 0 else "INSERT INTO ads SELECT * FROM batch")
        peer.unregister("batch")
    peer.execute("CHECKPOINT")
    return peer


def _measure(broker_url: str, peer: duckdb.DuckDBPyConnection, repetitions: int) -> list[dict[str, Any]]:
    http = Connection(broker_url)
    times: dict[str, tuple[list[float], list[float]]] = {query.name: ([], []) for query in SUITE}
    for repetition in range(repetitions + 2):  # two rounds to warm both up
        for query in SUITE:
            pql, sql = query.texts(random.Random(f"{query.name} {repetition}"))
            start = time.perf_counter()
            answer = http.post("/query", {"pql": pql, "queryOptions": "preserveType=true;timeoutMs=60000"})
            ours = time.perf_counter() - start
            start = time.perf_counter()
            expected = peer.execute(sql).fetchall()
            theirs = time.perf_counter() - start
            _compare(query.name, answer, expected)
            if repetition >= 2:
                times[query.name][0].append(ours * 1000)
                times[query.name][1].append(theirs * 1000)
    lines = []
    for name, (ours_ms, theirs_ms) in times.items():
        mine, peers = statistics.median(ours_ms), statistics.median(theirs_ms)
        lines.append(
            {
                "name": name,
                "pinotpy_ms": round(mine, 2),
                "duckdb_ms": round(peers, 2),
                "pinotpy_min_ms": round(min(ours_ms), 2),
                "ratio": round(peers / mine, 3),
            }
        )
        print(f"{name:18s} {mine:9.2f} ms   duckdb {peers:9.2f} ms   ratio {peers / mine:6.2f}")
    return lines


def _compare(name: str, answer: dict[str, Any], expected: list[tuple[Any, ...]]) -> None:
    if answer.get("exceptions"):
        raise SystemExit(f"{name}: {answer['exceptions']}")
    if "selectionResults" in answer:
        got = [tuple(row) for row in answer["selectionResults"]["results"]]
    elif "groupByResult" in answer["aggregationResults"][0]:
        rows: dict[tuple[str, ...], list[Any]] = {}
        for aggregation in answer["aggregationResults"]:
            for group in aggregation["groupByResult"]:
                rows.setdefault(tuple(group["group"]), []).append(group["value"])
        got = [(*group, *values) for group, values in rows.items()]
    else:
        got = [tuple(a["value"] for a in answer["aggregationResults"])]
    ours, theirs = _sorted(got), _sorted(expected)
    if len(ours) != len(theirs) or not all(_same(a, b) for x, y in zip(ours, theirs, strict=True) for a, b in zip(x, y, strict=True)):
        raise SystemExit(f"{name}: answers differ\n ours   {ours[:3]}\n duckdb {theirs[:3]}")


def _sorted(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows with numbers as numbers, in one order; sums of doubles count with 6 digits in it."""

    def cell(value: Any) -> Any:
        if value is None:
            return 0.0  # PQL has no null: a sum of nothing is 0
        try:
            return float(value)
        except ValueError:
            return str(value)

    typed = [tuple(cell(value) for value in row) for row in rows]
    return sorted(typed, key=lambda row: tuple(f"{v:.6g}" if isinstance(v, float) else v for v in row))


def _same(a: Any, b: Any) -> bool:
    return math.isclose(a, b, rel_tol=1e-9) if isinstance(a, float) and isinstance(b, float) else a == b


if __name__ == "__main__":
    main()
