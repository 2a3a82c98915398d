"""One running daemon, as whoever started it sees it: a process that prints a line when it serves, and a log."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from pinotpy.errors import RemoteError

# For a process whose output has ended.
_LAST_LOOK_TIMEOUT_S = 20.0
_TAIL_BYTES = 1 << 16


@dataclass(slots=True)
class DaemonProcess:
    """One running daemon; `ready` has the keys of its ready line (url, instance, …)."""

    name: str
    args: tuple[str, ...]
    log: Path
    process: subprocess.Popen[str]
    ready: dict[str, str] = field(default_factory=dict)
    told_to_stop: bool = False
    _lines: queue.SimpleQueue[str] = field(default_factory=queue.SimpleQueue)

    def __post_init__(self) -> None:
        threading.Thread(target=self._pump, name=f"stdout-{self.name}", daemon=True).start()

    def _pump(self) -> None:
        # Goes on reading for the daemon's life, so that a chatty daemon never blocks on a full pipe.
        with contextlib.suppress(ValueError):  # closed by stop_all
            assert self.process.stdout is not None
            for line in self.process.stdout:
                if not self.ready:  # nobody reads on
                    self._lines.put(line)
        self._lines.put("")

    def look_ready(self, timeout_s: float = 0.0) -> bool:
        """Whether it has printed its ready line by now; waits for the next lines up to `timeout_s`.

        Raises RemoteError with its last words, or the end of its log, if it ended before.
        """
        deadline = time.monotonic() + timeout_s
        while not self.ready:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return False
            if line.startswith("ready"):
                self.ready = dict(pair.split("=", 1) for pair in line.split()[1:] if "=" in pair)
            if not line:
                self._lines.put("")  # for who looks again
                self.process.wait(_LAST_LOOK_TIMEOUT_S)
                raise RemoteError(self.ending())
        return True

    def ending(self) -> str:
        """Of one that has ended: with which status, and its last words or the end of its log."""
        status, words = self.process.returncode, self.last_words()
        if words:
            return f"{self.name} ended with status {status}: {words}"
        return f"{self.name} ended with status {status} before it was ready; the end of its log:\n{self.log_tail()}"

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

    def share_mib(self) -> float:
        """Its part of the machine's memory in MiB, with children: a page that several processes share is divided among
        them (Pss). Resident memory where the system does not tell.
        """
        return sum(_pss_kib(pid) or _rss_kib(pid) for pid in [self.pid, *_descendants(self.pid)]) / 1024

    def last_words(self) -> str:
        """What a daemon that refused to start said about it: `cannot start: …`, or '' if it crashed."""
        _, _, words = self.log_tail(1).partition(": cannot start: ")
        return f"cannot start: {words}" if words else ""

    def log_tail(self, lines: int = 15) -> str:
        return tail_of(self.log, lines)


def tail_of(log: Path, lines: int, *, since: int = 0) -> str:
    """The last lines of a file, which may be large, from byte `since` on; '' if there is none."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(since, stream.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return "\n".join(stream.read().decode(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""


def _rss_kib(pid: int) -> int:
    return _field_kib(Path(f"/proc/{pid}/status"), "VmRSS:")


def _pss_kib(pid: int) -> int:
    return _field_kib(Path(f"/proc/{pid}/smaps_rollup"), "Pss:")


def _field_kib(file: Path, field: str) -> int:
    """0 where there is no such file or field: the process is gone, or the system does not tell."""
    try:
        for line in file.read_text().splitlines():
            if line.startswith(field):
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
