"""Who runs the cluster of a data folder now, for `pinotpy status`, `pinotpy down` and the next `pinotpy up`.

Written whole at each change. It outlives its writer: who was running when the supervisor was killed is found by it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from pinotpy.cli.daemon_process import DaemonProcess
from pinotpy.cli.supervision.cluster_layout import ClusterLayout
from pinotpy.cli.supervision.data_folder import DataFolder, write_atomically
from pinotpy.cli.supervision.process_identity import ProcessIdentity
from pinotpy.clock import SystemClock
from pinotpy.errors import UserError

_FILE: Final = "state.json"


class Phase(StrEnum):
    """Of a daemon, and of the cluster."""

    STARTING = "starting"
    SERVING = "serving"
    WAITING = "waiting to start again"
    FAILED = "failed"  # has ended too often, or cannot start
    STOPPING = "stopping"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a daemon ended. `log_tail`: the last lines that it wrote."""

    at_ms: int
    reason: str
    log_tail: str


@dataclass(slots=True)
class DaemonState:
    """One daemon. `since_ms`: since when it is in its phase, for SERVING since when it serves. `url`: if it has one."""

    phase: Phase = Phase.STOPPED
    port: int = 0
    since_ms: int = 0
    process: ProcessIdentity | None = None
    url: str = ""
    restarts: int = 0
    failure: Failure | None = None

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.is_alive()


@dataclass(slots=True)
class ClusterState:
    """The cluster. `doing`: what its start is at; `warnings`: what its users should know, such as tables that do not
    answer.
    """

    supervisor: ProcessIdentity
    started_ms: int
    phase: Phase = Phase.STARTING
    doing: str = ""
    warnings: list[str] = field(default_factory=list)
    daemons: dict[str, DaemonState] = field(default_factory=dict)

    def living(self) -> dict[str, ProcessIdentity]:
        """Daemons that live, whoever watches them, in the order in which they started."""
        return {
            name: daemon.process
            for name, daemon in self.daemons.items()
            if daemon.process is not None and daemon.process.is_alive()
        }

    def save(self, folder: DataFolder) -> None:
        write_atomically(folder.path / _FILE, json.dumps(self.to_json_dict(), indent=1) + "\n")

    @classmethod
    def load(cls, folder: DataFolder) -> ClusterState | None:
        """None where no cluster was ever started. Raises UserError for a damaged file."""
        file = folder.path / _FILE
        try:
            text = file.read_text()
        except FileNotFoundError:
            return None
        try:
            return cls.from_json(json.loads(text))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(
                f"'{file}' cannot be read ({type(error).__name__}: {error}): it tells which processes run here. If "
                "none does (`ps -ef` shows `pinotpy start-…`), delete it and try again"
            ) from error

    def to_json_dict(self) -> dict[str, Any]:
        return {
            "supervisor": self.supervisor.to_json_dict(),
            "startedMs": self.started_ms,
            "phase": self.phase.value,
            "doing": self.doing,
            "warnings": self.warnings,
            "daemons": {name: _daemon_document(daemon) for name, daemon in self.daemons.items()},
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> ClusterState:
        """Raises KeyError, TypeError, ValueError, AttributeError for what is none."""
        return cls(
            ProcessIdentity.from_json(document["supervisor"]),
            int(document["startedMs"]),
            Phase(document["phase"]),
            str(document["doing"]),
            [str(warning) for warning in document["warnings"]],
            {name: _daemon(daemon) for name, daemon in document["daemons"].items()},
        )


def record_state(
    folder: DataFolder, layout: ClusterLayout, me: ProcessIdentity, phase: Phase, daemons: list[DaemonProcess]
) -> None:
    """What a process that runs a cluster without watching it knows of it: its daemons, all in the same phase."""
    now_ms, ports = SystemClock().now_ms(), layout.ports()
    state = ClusterState(me, now_ms, phase)
    for daemon in daemons:
        if daemon.name in ports:
            process = ProcessIdentity.of(daemon.pid) if phase is not Phase.STOPPED else None
            state.daemons[daemon.name] = DaemonState(
                phase, ports[daemon.name], now_ms, process, daemon.ready.get("url", "")
            )
    state.save(folder)


def _daemon_document(daemon: DaemonState) -> dict[str, Any]:
    failure = daemon.failure
    return {
        "phase": daemon.phase.value,
        "port": daemon.port,
        "sinceMs": daemon.since_ms,
        "process": daemon.process.to_json_dict() if daemon.process else None,
        "url": daemon.url,
        "restarts": daemon.restarts,
        "failure": {"atMs": failure.at_ms, "reason": failure.reason, "logTail": failure.log_tail} if failure else None,
    }


def _daemon(document: dict[str, Any]) -> DaemonState:
    failure, process = document["failure"], document["process"]
    return DaemonState(
        Phase(document["phase"]),
        int(document["port"]),
        int(document["sinceMs"]),
        ProcessIdentity.from_json(process) if process else None,
        str(document["url"]),
        int(document["restarts"]),
        Failure(int(failure["atMs"]), str(failure["reason"]), str(failure["logTail"])) if failure else None,
    )
