"""Proves that the benchmark runs: every suite over few rows, once, with real daemons and DuckDB beside them. Where CI
is short of time, one suite of each kind.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from thinning import SHARE

from bench.run import RUNNERS

ROOT = Path(__file__).parents[3]
SUITES = tuple(RUNNERS) if SHARE >= 1 else ("own", "startree", "build", "kernels", "fixed")


@pytest.mark.full
@pytest.mark.cluster
@pytest.mark.zookeeper
def test_every_suite_runs_on_few_rows(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    few = ["--rows", "50000", "--repetitions", "1", "--push-segments", "2", "--peers", "duckdb_varchar"]
    command = [
        sys.executable,
        "-m",
        "bench.run",
        "--suite",
        ",".join(SUITES),
        *few,
        "--data-dir",
        str(tmp_path),
        "--out",
        str(out),
    ]
    subprocess.run(command, check=True, cwd=ROOT, timeout=900)
    result = json.loads(out.read_text())
    assert set(result["suites"]) == set(SUITES)
    assert result["geometric_mean"]["duckdb"] > 0
    for number, queries in result["suites"]["startree"]["by_rows"].items():
        for name, query in queries.items():
            assert query["on"]["docs"] <= query["off"]["docs"], f"{name} over {number} rows"
    assert result["suites"]["build"]["csv"]["segment_bytes"] == result["suites"]["build"]["parquet"]["segment_bytes"]
    assert {line["family"] for line in result["suites"]["kernels"]["kernels"]} >= {"pattern on raw texts"}
    assert all(
        found["queries_per_s"] > 0
        for by_connections in result["suites"]["fixed"]["queries"].values()
        for found in by_connections.values()
    )
