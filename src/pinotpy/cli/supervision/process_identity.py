"""Which process it was: pids are given again, so a process is told by pid, start time and boot of the machine."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pinotpy.clock import Clock, SystemClock

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_LOOK_S: Final = 0.05
# Of a process whose parent has not read its exit status: nothing of it runs any more.
_ENDED_STATES: Final = "ZX"


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """`start_ticks`: clock ticks from boot to the start of the process, as /proc tells; `boot`: id of that boot."""

    pid: int
    start_ticks: int
    boot: str

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity | None:
        """Of a living process; None if there is none (a zombie counts as none)."""
        ticks = _start_ticks(pid)
        return None if ticks is None else cls(pid, ticks, _boot())

    def is_alive(self) -> bool:
        """Whether this very process lives."""
        return ProcessIdentity.of(self.pid) == self

    def send(self, number: int) -> bool:
        """Signal it; False if it is gone. Whoever has its pid now is not signalled."""
        # A pid file descriptor names a process, not a number: between the look and the signal nobody takes its place.
        try:
            descriptor = os.pidfd_open(self.pid)
        except OSError:
            return False
        try:
            if not self.is_alive():
                return False
            signal.pidfd_send_signal(descriptor, number)
            return True
        except ProcessLookupError:
            return False
        finally:
            os.close(descriptor)

    def to_json_dict(self) -> dict[str, Any]:
        return {"pid": self.pid, "startTicks": self.start_ticks, "boot": self.boot}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> ProcessIdentity:
        """Raises KeyError, TypeError, ValueError for what is none."""
        return cls(int(document["pid"]), int(document["startTicks"]), str(document["boot"]))


def end_all(
    processes: Iterable[ProcessIdentity],
    timeout_s: float,
    *,
    clock: Clock | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> list[ProcessIdentity]:
    """SIGTERM to those that live, wait; SIGKILL to those that are left after `timeout_s`. Returns these."""
    clock = clock or SystemClock()
    left = [process for process in processes if process.send(signal.SIGTERM)]
    left = wait_for_end(left, timeout_s, clock=clock, pause=pause)
    killed = [process for process in left if process.send(signal.SIGKILL)]
    wait_for_end(killed, timeout_s, clock=clock, pause=pause)
    return killed


def wait_for_end(
    processes: Iterable[ProcessIdentity],
    timeout_s: float,
    *,
    clock: Clock | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> list[ProcessIdentity]:
    """Returns those that still live after `timeout_s`."""
    clock = clock or SystemClock()
    deadline_ns = clock.monotonic_ns() + int(timeout_s * 1e9)
    left = [process for process in processes if process.is_alive()]
    while left and clock.monotonic_ns() < deadline_ns:
        pause(_LOOK_S)
        left = [process for process in left if process.is_alive()]
    return left


def _start_ticks(pid: int) -> int | None:
    try:
        # Behind the last parenthesis: a program's name may hold blanks and parentheses.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return None if fields[0] in _ENDED_STATES else int(fields[19])
    except (OSError, IndexError, ValueError):
        return None


def _boot() -> str:
    with contextlib.suppress(OSError):
        return _BOOT_ID.read_text().strip()
    return ""
