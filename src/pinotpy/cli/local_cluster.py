"""A whole cluster as real processes on this machine: the quickstart and the cluster tests run it.

Each daemon is `python -m pinotpy start-…`, prints one `ready key=value …` line when it serves, logs to its own file,
and is told to stop by the kernel if this process dies (so that not even SIGKILL leaves a daemon behind).
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from pinotpy.errors import RemoteError

# prctl(PR_SET_PDEATHSIG, SIGTERM), then become the daemon: safe where preexec_fn is not (threads), and survives exec. A
# parent that died before the call sends nothing any more, so its pid is compared afterwards. The kernel means the
# *thread* that launched: launch from one that lives as long as the cluster.
_SHIM = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 15); os.getppid() == int(sys.argv[1]) or sys.exit(1); "
    "os.execv(sys.argv[2], sys.argv[2:])"
)
PROGRAM = (sys.executable, "-m", "pinotpy")
START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 20.0
# How long a daemon that did not stop may take to write where it hangs.
ABORT_TIMEOUT_S = 5.0


@dataclass(slots=True)
class DaemonProcess:
    """One running daemon; `ready` has the keys of its ready line (url, instance, …)."""

    name: str
    args: tuple[str, ...]
    log: Path
    process: subprocess.Popen[str]
    ready: dict[str, str] = field(default_factory=dict)
    told_to_stop: bool = False

    def ask_to_stop(self) -> None:
        """SIGTERM, once: daemons take a second one as "at once"."""
        if not self.told_to_stop and self.process.poll() is None:
            self.told_to_stop = True
            self.process.send_signal(signal.SIGTERM)

    @property
    def pid(self) -> int:
        return self.process.pid

    def rss_mib(self) -> float:
        """Resident memory in MiB, with children (ZooKeeper's JVM runs below its launcher)."""
        return sum(_rss_kib(pid) for pid in [self.pid, *_descendants(self.pid)]) / 1024

    def last_words(self) -> str:
        """What a daemon that refused to start said about it: `cannot start: …`, or '' if it crashed."""
        _, _, words = self.log_tail(1).partition(": cannot start: ")
        return f"cannot start: {words}" if words else ""

    def log_tail(self, lines: int = 15) -> str:
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return ""


class LocalCluster:
    """Starts, kills, restarts and stops daemons under one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.daemons: dict[str, DaemonProcess] = {}

    def launch(self, name: str, *args: str, env: dict[str, str] | None = None) -> DaemonProcess:
        """Start `pinotpy <args>` without waiting; see wait_ready."""
        self.directory.mkdir(parents=True, exist_ok=True)
        log = self.directory / f"{name}.log"
        command = [sys.executable, "-c", _SHIM, str(os.getpid()), *PROGRAM, *args]
        with log.open("a") as sink:
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=sink,
                stdin=subprocess.DEVNULL,
                text=True,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )
        daemon = DaemonProcess(name, args, log, process)
        self.daemons[name] = daemon
        return daemon

    def wait_ready(self, *daemons: DaemonProcess, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until all have printed their ready line; raises RemoteError with the end of the log otherwise."""
        deadline = time.monotonic() + timeout_s
        for daemon in daemons:
            daemon.ready = _read_ready_line(daemon, deadline)

    def start(self, name: str, *args: str, env: dict[str, str] | None = None) -> DaemonProcess:
        """Launch and wait."""
        daemon = self.launch(name, *args, env=env)
        self.wait_ready(daemon)
        return daemon

    def restart(self, name: str) -> DaemonProcess:
        """Start a stopped or killed daemon again with the same arguments."""
        return self.start(name, *self.daemons[name].args)

    def kill(self, name: str) -> None:
        """Send SIGKILL."""
        daemon = self.daemons[name]
        daemon.process.kill()
        daemon.process.wait(STOP_TIMEOUT_S)

    def stop(self, name: str, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """SIGTERM and wait; returns the exit status, negative if it had to be ended: -6, its log says where it hung, or
        -9.
        """
        self.daemons[name].ask_to_stop()
        process = self.daemons[name].process
        try:
            return process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            # Daemons write the stacks of all threads then, also when no Python runs in them any more.
            process.send_signal(signal.SIGABRT)
        try:
            return process.wait(ABORT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait(STOP_TIMEOUT_S)

    def stop_all(self) -> dict[str, int]:
        """Stop all daemons: everything but ZooKeeper at once, then ZooKeeper. Returns exit statuses by name."""
        names = list(self.daemons)
        first = [name for name in names if not name.startswith("zookeeper")]
        for name in first:
            self.daemons[name].ask_to_stop()
        statuses = {name: self.stop(name) for name in first}
        statuses |= {name: self.stop(name) for name in names if name not in first}
        for daemon in self.daemons.values():
            if daemon.process.stdout:
                daemon.process.stdout.close()
        return statuses


def _read_ready_line(daemon: DaemonProcess, deadline: float) -> dict[str, str]:
    lines: queue.Queue[str] = queue.Queue()

    def pump() -> None:
        # Goes on reading for the daemon's life, so that a chatty daemon never blocks on a full pipe.
        assert daemon.process.stdout is not None
        try:
            for line in daemon.process.stdout:
                lines.put(line)
        except ValueError:
            pass  # closed by stop_all
        lines.put("")

    threading.Thread(target=pump, name=f"stdout-{daemon.name}", daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise RemoteError(
                f"{daemon.name} was not ready in time; the end of its log:\n{daemon.log_tail()}"
            ) from None
        if line.startswith("ready"):
            return dict(pair.split("=", 1) for pair in line.split()[1:] if "=" in pair)
        if not line:
            daemon.process.wait(STOP_TIMEOUT_S)
            status, words = daemon.process.returncode, daemon.last_words()
            if words:
                raise RemoteError(f"{daemon.name} ended with status {status}: {words}")
            raise RemoteError(
                f"{daemon.name} ended with status {status} before it was ready; the end of its "
                f"log:\n{daemon.log_tail()}"
            )


def _rss_kib(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0


def _descendants(pid: int) -> list[int]:
    descendants = []
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    for child in children:
        descendants += [int(child), *_descendants(int(child))]
    return descendants
