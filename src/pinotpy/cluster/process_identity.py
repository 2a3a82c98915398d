"""Who this process is, and whether another one that once wrote its name into the store is gone.

A restarted daemon must not wait for the session of its killed predecessor to expire. The predecessor wrote its pid, its
pid space (boot id and pid namespace: pids of another host or container mean nothing here) and its start time (pids are
used again). Only if the space is ours and that very process no longer runs, it is gone for sure.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pinotpy.cluster.views import LiveInstance

StartOf = Callable[[int], str | None]


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """`space` and `start` are "" where the system does not tell them; then nothing is ever proved gone."""

    pid: int
    host: str
    space: str = ""
    start: str = ""

    @property
    def name(self) -> str:
        """Helix's `pid@host`."""
        return f"{self.pid}@{self.host}"


def this_process() -> ProcessIdentity:
    return ProcessIdentity(os.getpid(), socket.gethostname(), _pid_space(), start_of_process(os.getpid()) or "")


def is_gone(live: LiveInstance, here: ProcessIdentity, start_of: StartOf | None = None) -> bool:
    """Whether the process that wrote `live` has surely ended."""
    pid_text = live.process.partition("@")[0]
    if not here.space or live.process_space != here.space or not live.process_start or not pid_text.isdigit():
        return False
    return (start_of or start_of_process)(int(pid_text)) != live.process_start


def start_of_process(pid: int) -> str | None:
    """Start time of a running process in clock ticks since boot, as text; None when there is none or it is a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the command before it may hold blanks and brackets
    state, start = fields[0], fields[19]
    return None if state in ("Z", "X") else start


def _pid_space() -> str:
    try:
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot_id}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""
