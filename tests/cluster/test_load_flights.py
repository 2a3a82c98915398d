"""Proves that `load-flights` brings the flights of 2013 into a cluster that runs, and leaves them alone when they are
there. Their average delay is what DuckDB finds in the file: flights that never arrived have none.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from live_cluster import LiveCluster

pytestmark = pytest.mark.cluster


def test_the_flights_are_loaded_once(tmp_path: Path) -> None:
    cluster = LiveCluster(tmp_path)
    try:
        said = []
        for _ in range(2):
            command = [sys.executable, "-m", "pinotpy", "load-flights", "--controller-url", cluster.controller_url]
            said.append(subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout.strip())
            answer = cluster.query("SELECT COUNT(*) FROM flights GROUP BY carrier TOP 1")
            assert answer["totalDocs"] == 336_776 and answer["numSegmentsQueried"] == 12
            assert answer["aggregationResults"][0]["groupByResult"] == [{"value": "58665", "group": ["UA"]}]
        (row,) = cluster.query("SELECT AVG(arr_delay), COUNT(arr_delay) FROM flights", "sql")["resultTable"]["rows"]
        assert row == [pytest.approx(6.895376757), 327_346]
        answer = cluster.query("SET enableNullHandling=false; SELECT AVG(arr_delay) FROM flights", "sql")
        assert answer["resultTable"]["rows"] == [[pytest.approx(-60_131_269.875)]]
        assert answer["warnings"] == [
            "stored nulls count as their column's default value: up to 9,430 of column 'arr_delay' in the segments "
            "that were read; set enableNullHandling=true, and they are nulls"
        ]
        assert said == ["336,776 rows in 12 segments of table flights are online", "table flights is loaded already"]
    finally:
        cluster.close()
