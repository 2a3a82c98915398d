"""`pinotpy quickstart` as a process: its lines as they come, and every process that descends from it, also orphaned
ones.

Descendants are told by a mark in their environment, which survives the death of the parent.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

from live_cluster import wait_until

from pinotpy.service.ports import free_port, is_free

_MARK = "QUICKSTART_TEST_MARK"
TIMEOUT_S = 240.0


class QuickstartProcess:
    """Started at once, with free ports. `output` grows; `pids()` are the living processes of this run."""

    def __init__(self, scratch: Path, *arguments: str) -> None:
        self.scratch = scratch
        scratch.mkdir(parents=True, exist_ok=True)
        self.mark = uuid.uuid4().hex
        self.ports = {"zk": free_port(), "controller": free_port(), "broker": free_port()}
        options = [part for name, port in self.ports.items() for part in (f"--{name}-port", str(port))]
        self.lines: list[str] = []
        # As from a terminal, also where the tests run under nohup: it would rightly survive a hang-up there.
        ours = signal.signal(signal.SIGHUP, signal.SIG_DFL)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pinotpy", "quickstart", *options, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            # Wide enough that no table cell is cut; folders of the run are made in `scratch`.
            env={**os.environ, _MARK: self.mark, "COLUMNS": "200", "TMPDIR": str(scratch)},
        )
        signal.signal(signal.SIGHUP, ours)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def output(self) -> str:
        return "".join(self.lines)

    def wait_for(self, text: str, timeout_s: float = TIMEOUT_S) -> None:
        """Until `text` was printed; fails at once if the process ends before."""

        def seen() -> bool:
            ended = self.process.poll() is not None
            if ended:
                self._reader.join(60)
            assert text in self.output or not ended, (
                f"ended with {self.process.returncode} before '{text}':\n{self.output}"
            )
            return text in self.output

        wait_until(seen, timeout_s, f"'{text}' in the quickstart's output")

    def wait(self, timeout_s: float = TIMEOUT_S) -> int:
        """Exit status; the output is complete afterwards."""
        status = self.process.wait(timeout_s)
        self._reader.join(60)
        return status

    def pids(self) -> list[int]:
        """Living processes with this run's mark, the quickstart among them; zombies do not count."""
        wanted = f"{_MARK}={self.mark}".encode()
        return [
            int(entry.name)
            for entry in Path("/proc").iterdir()
            if entry.name.isdigit() and wanted in _environment(entry)
        ]

    def assert_nothing_is_left(self, within_s: float = 0.0) -> None:
        """No process, and every port of the run free."""
        deadline = time.monotonic() + within_s
        wait_until(lambda: not self.pids() or time.monotonic() > deadline, within_s + 1, "no process left")
        assert not [_command(pid) for pid in self.pids()]
        assert all(is_free(port) for port in self.ports.values()), self.ports

    def close(self) -> None:
        """End whatever a failed test has left: these processes are ours by their mark."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(60)
        for pid in self.pids():
            os.kill(pid, signal.SIGKILL)

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(iter(self.process.stdout.readline, ""))
        self.process.stdout.close()


def _environment(entry: Path) -> bytes:
    try:
        return (entry / "environ").read_bytes()
    except OSError:
        return b""


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""
