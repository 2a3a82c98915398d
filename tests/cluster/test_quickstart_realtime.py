"""Proves `pinotpy quickstart realtime`: rows are queried while they come, segments are sealed meanwhile, all queries
answer, also the one that it names for users, and neither process nor folder is left.
"""

from __future__ import annotations

import re
import signal
from pathlib import Path

import httpx
import pytest
from quickstart_process import TIMEOUT_S, QuickstartProcess

pytestmark = [pytest.mark.cluster, pytest.mark.zookeeper]

NAMED = "SELECT * FROM meetupRsvp ORDER BY mtime DESC LIMIT 50"


def test_rows_of_a_stream_are_queried_while_they_come(tmp_path: Path) -> None:
    run = QuickstartProcess(tmp_path, "realtime")
    try:
        run.wait_for("Ctrl-C stops everything")
        assert f'"{NAMED}"' in run.output
        newest = [newest_of_the_named_query(run.ports["broker"]) for _ in range(2)]
        assert newest == sorted(newest)
        run.process.send_signal(signal.SIGINT)
        assert run.wait(TIMEOUT_S) == 0, run.output
        assert "all daemons stopped" in run.output and not run.pids() and not list(tmp_path.iterdir())
    finally:
        run.close()
    counts = [int(text.replace(",", "")) for text in re.findall(r"^  ([\d,]+) rows", run.output, re.MULTILINE)]
    assert len(counts) == 10 and counts == sorted(counts) and counts[-1] > counts[0] > 0, run.output
    segments = set(re.findall(r"meetupRsvp__\d__\d+__\d{8}T\d{4}Z", run.output))
    assert {name.split("__")[1] for name in segments} == {"0", "1"} and len(segments) > 2, "some are sealed"


def newest_of_the_named_query(broker_port: int) -> str:
    """The time of its first row; its 50 rows are the newest ones first, and whole."""
    url = f"http://127.0.0.1:{broker_port}/query/sql"
    answer = httpx.post(url, json={"sql": NAMED}, timeout=60).json()
    assert not answer["exceptions"], answer
    table = answer["resultTable"]
    names, rows = table["dataSchema"]["columnNames"], table["rows"]
    times = [row[names.index("mtime")] for row in rows]
    assert len(rows) == 50 and times == sorted(times, reverse=True)
    assert len({row[names.index("rsvp_id")] for row in rows}) == 50 and "event_name" in names
    return str(times[0])
