"""Proves `pinotpy quickstart hybrid --exit`: days that are pushed and streamed count once, each half has its own rows,
and neither process nor folder is left.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from quickstart_process import TIMEOUT_S, QuickstartProcess

pytestmark = [pytest.mark.cluster, pytest.mark.zookeeper]


def test_flights_of_both_halves_count_once(tmp_path: Path) -> None:
    run = QuickstartProcess(tmp_path, "hybrid", "--exit")
    run.process.wait(TIMEOUT_S)
    run.wait_for("all daemons stopped")
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
    assert not run.pids() and not list(tmp_path.iterdir())
