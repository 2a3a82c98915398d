"""Proves that `pinotpy status` fits a terminal of 80 columns: a line a daemon, and failures as sentences below."""

from __future__ import annotations

from pathlib import Path

import pytest

from pinotpy.cli.supervision.answering_tables import TableReport
from pinotpy.cli.supervision.data_folder import DataFolder
from pinotpy.cli.supervision.state_file import DaemonState, Failure, Phase
from pinotpy.cli.supervision.status_report import Standing, StatusReport, print_report


def test_eighty_columns_take_a_line_a_daemon(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    since_ms = 1_764_413_877_000
    reason = "server-11 (process 1234567) was ended by SIGKILL"
    daemons = {
        name: DaemonState(Phase.SERVING, 65535, since_ms, restarts=3)
        for name in ("zookeeper", "controller", "broker", "server-11")
    }
    daemons["server-11"].failure = Failure(since_ms, reason, "")
    tables = [TableReport("orders_OFFLINE", 12, 12, 12, 0)]
    report = StatusReport(DataFolder(tmp_path), Standing.SERVING, 1, since_ms, "", daemons, tables)
    print_report(report, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split(" ┃ ")[-1].strip() == "restarts"
    for name, line in zip(daemons, lines[3:7], strict=True):
        cells = [cell.strip() for cell in line.split("│")]
        assert (cells[0], cells[-1]) == (name, "3") and len(cells[4]) == len("2025-11-29 10:57:57") and len(line) <= 80
    assert lines[7].startswith("last failure of server-11: 2025-11-") and lines[7].endswith(reason)
