"""`pinotpy status`: what runs in a data folder, by its files, by /proc and by what the controller says."""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import typer

from pinotpy.cli.supervision.answering_tables import TableReport, report_tables
from pinotpy.cli.supervision.banner import data_dir_option
from pinotpy.cli.supervision.data_folder import DataFolder
from pinotpy.cli.supervision.state_file import ClusterState, DaemonState, Phase
from pinotpy.client.controller import ControllerClient
from pinotpy.errors import PinotError

_TIMEOUT_S: Final = 10.0


class Standing(StrEnum):
    """Of the whole cluster."""

    NONE = "none"  # no cluster was ever here
    STARTING = "starting"
    SERVING = "serving"
    DEGRADED = "degraded"  # a daemon or replica does not serve
    STOPPING = "stopping"
    STOPPED = "stopped"
    KILLED = "killed"  # the supervisor is gone, and did not stop its daemons


@dataclass(slots=True)
class StatusReport:
    """`supervisor_pid`: of who runs it, or ran it last. `tables`: None where they could not be asked for."""

    folder: DataFolder
    standing: Standing
    supervisor_pid: int | None = None
    started_ms: int = 0
    doing: str = ""
    daemons: dict[str, DaemonState] = field(default_factory=dict)
    tables: list[TableReport] | None = None
    warnings: list[str] = field(default_factory=list)


def look(folder: DataFolder) -> StatusReport:
    """Raises PinotError for a folder that cannot be read."""
    if not folder.exists():
        return StatusReport(folder, Standing.NONE)
    holder, state = folder.holder(), ClusterState.load(folder)
    if state is None or (holder is not None and state.supervisor != holder):
        standing = Standing.STARTING if holder else Standing.STOPPED
        return StatusReport(folder, standing, holder.pid if holder else None)
    report = StatusReport(
        folder, Standing(state.phase.value) if state.phase in _SHARED else Standing.DEGRADED, state.supervisor.pid,
        state.started_ms, state.doing, state.daemons, warnings=list(state.warnings)
    )  # fmt: skip
    if holder is None:
        report.standing = Standing.STOPPED if state.phase is Phase.STOPPED else Standing.KILLED
        if report.standing is Standing.KILLED:
            left = state.living()
            report.warnings = [
                f"the supervisor (process {state.supervisor.pid}) ended without stopping its daemons; "
                + (f"still ending: {', '.join(left)}" if left else "they have ended")
                + ". The data are there: `pinotpy up` goes on with them"
            ]
        return report
    if state.phase is not Phase.SERVING:
        return report
    report.warnings += _ask_tables(report)
    is_whole = all(daemon.phase is Phase.SERVING and daemon.is_alive for daemon in state.daemons.values())
    tables = report.tables
    if not is_whole or tables is None or not all(table.is_whole or not table.is_enabled for table in tables):
        report.standing = Standing.DEGRADED
    return report


_SHARED: Final = (Phase.STARTING, Phase.SERVING, Phase.STOPPING, Phase.STOPPED)


def exit_status(report: StatusReport) -> int:
    """0: all serves; 1: something does not; 3: nothing runs (as service managers have it)."""
    if report.standing is Standing.SERVING:
        return 0
    if report.standing in (Standing.NONE, Standing.STOPPED):
        return 3
    if report.standing is Standing.KILLED and not any(daemon.is_alive for daemon in report.daemons.values()):
        return 3
    return 1


def _ask_tables(report: StatusReport) -> list[str]:
    url = report.daemons["controller"].url
    try:
        if not url:
            return ["the controller does not run: tables are not shown"]
        with ControllerClient(url, timeout_s=_TIMEOUT_S) as client:
            report.tables = report_tables(client)
    except PinotError as error:
        return [f"the controller does not tell the tables: {error.message}"]
    return []


# --- shown ---------------------------------------------------------------------------------------------------------


def print_report(report: StatusReport, *, as_json: bool) -> None:
    """As text or JSON, on standard output."""
    if as_json:
        typer.echo(json.dumps(_document(report), indent=2))
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    where = report.folder.path
    if report.standing is Standing.NONE:
        console.print(f"no cluster lies in {escape(str(where))}; `pinotpy up` makes one", soft_wrap=True)
        return
    by = f", process {report.supervisor_pid}" if report.supervisor_pid else ""
    doing = f": {report.doing}" if report.doing else ""
    console.print(
        escape(f"{report.standing.value}{by}, since {_time(report.started_ms)}, in {where}{doing}"), soft_wrap=True
    )
    # 80 columns take all of it: failures, which are sentences, stand below.
    daemons = Table("daemon", "process", "port", "state", "since", "restarts", show_edge=False)
    for name, daemon in report.daemons.items():
        daemons.add_row(
            name,
            str(daemon.process.pid) if daemon.process and daemon.is_alive else "-",
            str(daemon.port),
            _phase(daemon),
            _time(daemon.since_ms, with_zone=False),
            str(daemon.restarts),
        )
    console.print(daemons)
    for name, daemon in report.daemons.items():
        if daemon.failure is not None:
            failed = f"last failure of {name}: {_time(daemon.failure.at_ms, with_zone=False)} {daemon.failure.reason}"
            console.print(escape(failed), soft_wrap=True)
    if report.tables:
        tables = Table("table", "segments", "replicas serving", "failed", show_edge=False)
        for table in report.tables:
            serving = f"{table.replicas_serving} of {table.replicas_wanted}"
            tables.add_row(
                table.name, str(table.segments), serving if table.is_enabled else "disabled", str(table.replicas_failed)
            )
        console.print(tables)
    elif report.tables is not None:
        console.print("no tables yet")
    for name, daemon in report.daemons.items():
        if daemon.failure is not None and daemon.phase is not Phase.SERVING and daemon.failure.log_tail:
            console.print(
                escape(f"the last lines of {name} before it ended:\n{daemon.failure.log_tail}"), soft_wrap=True
            )
    for warning in report.warnings:
        console.print(f"[yellow]{escape(warning)}[/yellow]", soft_wrap=True)
    if report.standing in (Standing.STOPPED, Standing.KILLED):
        console.print(escape(f"to go on: pinotpy up{data_dir_option(report.folder)}"), soft_wrap=True)


def _phase(daemon: DaemonState) -> str:
    """What it says and what is: its supervisor may not have seen yet that it ended."""
    if daemon.phase in (Phase.STARTING, Phase.SERVING) and not daemon.is_alive:
        return "ended"
    return daemon.phase.value


def _time(ms: int, *, with_zone: bool = True) -> str:
    """On this machine's clock."""
    if not ms:
        return "-"
    local = datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC).astimezone()
    return (local if with_zone else local.replace(tzinfo=None)).isoformat(" ", "seconds")


def _iso(ms: int) -> str | None:
    return datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC).isoformat() if ms else None


def _document(report: StatusReport) -> dict[str, Any]:
    return {
        "state": report.standing.value,
        "dataDir": str(report.folder.path),
        "supervisorPid": report.supervisor_pid,
        "since": _iso(report.started_ms),
        "doing": report.doing,
        "warnings": report.warnings,
        "daemons": {
            name: {
                "state": _phase(daemon),
                "pid": daemon.process.pid if daemon.process and daemon.is_alive else None,
                "port": daemon.port,
                "url": daemon.url or None,
                "since": _iso(daemon.since_ms),
                "restarts": daemon.restarts,
                "lastFailure": {
                    "at": _iso(daemon.failure.at_ms),
                    "reason": daemon.failure.reason,
                    "logTail": daemon.failure.log_tail.splitlines(),
                }
                if daemon.failure
                else None,
            }
            for name, daemon in report.daemons.items()
        },
        "tables": {table.name: table.to_json_dict() for table in report.tables} if report.tables is not None else None,
    }
