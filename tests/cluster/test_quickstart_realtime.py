"""Proves `pinotpy quickstart realtime --exit`: rows are queried while they come, segments are sealed meanwhile, all
queries answer, and neither process nor folder is left.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from quickstart_process import TIMEOUT_S, QuickstartProcess

pytestmark = [pytest.mark.cluster, pytest.mark.zookeeper]


def test_rows_of_a_stream_are_queried_while_they_come(tmp_path: Path) -> None:
    run = QuickstartProcess(tmp_path, "realtime", "--exit")
    run.process.wait(TIMEOUT_S)
    run.wait_for("all daemons stopped")
    counts = [int(text.replace(",", "")) for text in re.findall(r"^  ([\d,]+) rows", run.output, re.MULTILINE)]
    assert len(counts) == 10 and counts == sorted(counts) and counts[-1] > counts[0] > 0, run.output
    segments = set(re.findall(r"meetupRsvp__\d__\d+__\d{8}T\d{4}Z", run.output))
    assert {name.split("__")[1] for name in segments} == {"0", "1"} and len(segments) > 2, "some are sealed"
    assert run.process.returncode == 0, run.output
    assert not run.pids() and not list(tmp_path.iterdir())
