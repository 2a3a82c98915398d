"""Proves `pinotpy quickstart hybrid`: days that are pushed and streamed count once, each half has its own rows, no
process is left, and a second start with the same folder goes on: it pushes nothing again, nor does it write the old
days to the stream again.
"""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from live_cluster import wait_until
from quickstart_process import TIMEOUT_S, QuickstartProcess

from pinotpy.cli.asking import ask

pytestmark = [pytest.mark.cluster, pytest.mark.zookeeper]


def test_flights_of_both_halves_count_once_also_at_a_second_start(tmp_path: Path) -> None:
    folder = ("--directory", str(tmp_path / "data"))
    run = QuickstartProcess(tmp_path, "hybrid", "--exit", *folder)
    try:
        run.process.wait(TIMEOUT_S)
        run.wait_for("all daemons stopped")
    finally:
        run.close()
    assert run.process.returncode == 0, run.output
    halves = {
        name: int(count.replace(",", ""))
        for count, name in re.findall(r"^  ([\d,]+) flights in (\w+)", run.output, re.MULTILINE)
    }
    # 30 days of 300 flights; two of these days are in the stream, too.
    offline, realtime, both = (halves[f"airlineStats{half}"] for half in ("_OFFLINE", "_REALTIME", ""))
    assert offline == 9_000 and realtime >= 600, run.output
    assert 9_000 <= both < offline + realtime, "the rows of the two days do not count twice"
    boundary = re.search(r"time boundary: DaysSinceEpoch (\d+)", run.output)
    assert boundary is not None, run.output
    assert not run.pids() and [path.name for path in tmp_path.iterdir()] == ["data"]

    second = QuickstartProcess(tmp_path, "hybrid", *folder)
    try:
        second.wait_for("✓ checking that no flight counts twice")
        assert "✓ there is already: airlineStats, OFFLINE and REALTIME" in second.output
        last_day = its_flights_go_on(second, offline, realtime)
        second.process.send_signal(signal.SIGINT)
        second.wait()
        second.assert_nothing_is_left()
    finally:
        second.close()
    topic = tmp_path / "data" / "streams" / "flights-realtime"
    streamed = [
        int(day)
        for log in topic.glob("partition-*.log")
        for day in re.findall(rb'"DaysSinceEpoch": (\d+)', log.read_bytes())
    ]
    assert len(streamed) > realtime and sum(day <= last_day for day in streamed) == 600, "written once"


def its_flights_go_on(run: QuickstartProcess, num_offline: int, num_before: int) -> int:
    """The pushed days and those of the stream are there once, and flights of today go on coming; the last pushed
    day.
    """

    def count(what: str) -> int:
        answer = ask(f"http://localhost:{run.ports['broker']}", f"SELECT {what}")
        assert not answer["exceptions"], answer
        return int(answer["resultTable"]["rows"][0][0])

    assert count("COUNT(*) FROM airlineStats_OFFLINE") == num_offline
    last_day = count("MAX(DaysSinceEpoch) FROM airlineStats_OFFLINE")
    old = f"COUNT(*) FROM airlineStats_REALTIME WHERE DaysSinceEpoch <= {last_day}"
    wait_until(lambda: count("COUNT(*) FROM airlineStats_REALTIME") > num_before, 120, "its flights, and more")
    wait_until(lambda: count(old) >= 600, 120, "the old days of both partitions of the stream")
    assert count(old) == 600, "read once"
    return last_day
