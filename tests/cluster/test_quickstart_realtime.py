"""Proves `pinotpy quickstart realtime`: rows are queried while they come, segments are sealed meanwhile, all queries
answer, also the one that it names for users, no process is left, and a second start with the same folder goes on: no
row is lost or read twice, and new ones come.
"""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

import pytest
from live_cluster import wait_until
from quickstart_process import TIMEOUT_S, QuickstartProcess

from pinotpy.cli.asking import ask

pytestmark = [pytest.mark.cluster, pytest.mark.zookeeper]

NAMED = "SELECT * FROM meetupRsvp ORDER BY mtime DESC LIMIT 50"


def test_rows_of_a_stream_are_queried_while_they_come_and_a_second_start_goes_on(tmp_path: Path) -> None:
    folder = ("--directory", str(tmp_path / "data"))
    run = QuickstartProcess(tmp_path, "realtime", "--exit", *folder)
    try:
        run.process.wait(TIMEOUT_S)
        run.wait_for("all daemons stopped")
    finally:
        run.close()
    counts = [int(text.replace(",", "")) for text in re.findall(r"^  ([\d,]+) rows", run.output, re.MULTILINE)]
    assert len(counts) == 10 and counts == sorted(counts) and counts[-1] > counts[0] > 0, run.output
    segments = set(re.findall(r"meetupRsvp__\d__\d+__\d{8}T\d{4}Z", run.output))
    assert {name.split("__")[1] for name in segments} == {"0", "1"} and len(segments) > 2, "some are sealed"
    assert run.process.returncode == 0, run.output
    assert not run.pids() and [path.name for path in tmp_path.iterdir()] == ["data"]

    second = QuickstartProcess(tmp_path, "realtime", *folder)
    try:
        second.wait_for("✓ waiting for the first rows")
        assert "going on with the data in" in second.output
        assert "✓ table meetupRsvp is there, with its rows" in second.output
        its_rows_go_on(second, counts[-1], segments)
        second.wait_for(f'"{NAMED}"')
        times = [newest_of_the_named_query(second.ports["broker"]) for _ in range(2)]
        assert times == sorted(times)
        second.process.send_signal(signal.SIGINT)
        second.wait()
        second.assert_nothing_is_left()
    finally:
        second.close()


def its_rows_go_on(run: QuickstartProcess, num_before: int, segments: set[str]) -> None:
    """Records are numbered from 0 on: those that were seen before are there once each, and more come."""

    def rows(query: str) -> list[list[Any]]:
        answer = ask(f"http://localhost:{run.ports['broker']}", query)
        assert not answer["exceptions"], answer
        found: list[list[Any]] = answer["resultTable"]["rows"]
        return found

    seen = f"SELECT COUNT(*), DISTINCTCOUNT(rsvp_id) FROM meetupRsvp WHERE rsvp_id < {num_before}"
    wait_until(lambda: rows(seen)[0][0] >= num_before, 120, f"the {num_before} rows of the first run")
    assert rows(seen) == [[num_before, num_before]]
    every = "SELECT COUNT(*), DISTINCTCOUNT(rsvp_id), MAX(rsvp_id) FROM meetupRsvp"
    newest = rows(every)[0][2]
    wait_until(lambda: rows(every)[0][2] > newest, 120, "new rows")
    num_rows, num_distinct, _ = rows(every)[0]
    assert num_rows == num_distinct >= num_before
    assert segments <= {name for (name,) in rows("SELECT DISTINCT $segmentName FROM meetupRsvp LIMIT 1000")}


def newest_of_the_named_query(broker_port: int) -> str:
    """The time of its first row; its 50 rows are the newest ones first, and whole."""
    answer = ask(f"http://localhost:{broker_port}", NAMED)
    assert not answer["exceptions"], answer
    table = answer["resultTable"]
    names, rows = table["dataSchema"]["columnNames"], table["rows"]
    times = [row[names.index("mtime")] for row in rows]
    assert len(rows) == 50 and times == sorted(times, reverse=True)
    assert len({row[names.index("rsvp_id")] for row in rows}) == 50 and "event_name" in names
    return str(times[0])
