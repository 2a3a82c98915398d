"""A whole cluster as real processes on this machine: the quickstart and the cluster tests run it.

Each daemon is `python -m pinotpy start-…`, prints one `ready key=value …` line when it serves, logs to its own file,
and is told to stop by the kernel if this process dies (so that not even SIGKILL leaves a daemon behind).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pinotpy.cli.compiled_kernels import TELL_EVERY_S, progress_text
from pinotpy.cli.daemon_process import DaemonProcess
from pinotpy.errors import RemoteError
from pinotpy.kernels import cache
from pinotpy.kernels.compiling import Stage, progress

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
COMPILE_TIMEOUT_S = 600.0
# How long a daemon that did not stop may take to write where it hangs.
ABORT_TIMEOUT_S = 5.0


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
            if not daemon.look_ready(max(0.0, deadline - time.monotonic())):
                raise RemoteError(f"{daemon.name} was not ready in time; the end of its log:\n{daemon.log_tail()}")

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

    def compile_kernels(
        self, pause: Callable[[float], None] = time.sleep, say: Callable[[str], None] = lambda text: None
    ) -> None:
        """Compile what the cache lacks of the kernels that the first queries need, in a process of its own and before
        any daemon; `say` is told every few seconds how far it is. Raises RemoteError with the end of its log.
        """
        warmup, folder = self.launch("warmup", "warmup", "--first"), cache.prepare()
        deadline, told = time.monotonic() + COMPILE_TIMEOUT_S, time.monotonic()
        while warmup.process.poll() is None:
            now = time.monotonic()
            if now > deadline:
                raise RemoteError(
                    f"the kernels were not compiled within {COMPILE_TIMEOUT_S:g} s; the end of the "
                    f"log:\n{warmup.log_tail()}"
                )
            if now - told >= TELL_EVERY_S:
                told = now
                say(progress_text(*(progress(folder, Stage.FIRST) or (0, 0))))
            pause(0.1)
        if warmup.process.returncode != 0:
            raise RemoteError(
                f"the kernels cannot be compiled (status {warmup.process.returncode}); the end of the "
                f"log:\n{warmup.log_tail()}"
            )

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
