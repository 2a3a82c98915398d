"""`pip install` that is never silent, for the environment of its Python: `python deploy/install_packages.py ARGUMENTS`.

pip says nothing while it downloads a large wheel and while it unpacks all of them, which takes a minute with numba and
pyarrow. Here one line every few seconds says what it is at. Warnings are shown as they come, everything if it fails.
"""

from __future__ import annotations

import os
import queue
import re
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path

EVERY_S = 3.0
# What pip prints of each step, and what is told of it.
_STEPS = (
    (re.compile(r"\s*Collecting (\S+)"), "collecting {}"),
    (re.compile(r"\s*(?:Downloading|Using cached) ([^\s-]+-[^\s-]+)\S*(?: \((.+)\))?"), "downloading {}, {}"),
    (re.compile(r"\s*Installing (build dependencies)"), "installing {}"),
    (re.compile(r"\s*Preparing (\w+)"), "preparing {}"),
    (re.compile(r"\s*Building (?:editable|wheel) for (\S+)"), "building {}"),
)
_IN_PLACE = re.compile(r"\s*Installing collected packages: (.+)")


class Progress:
    """What pip is doing, from the lines that it prints and from what appears in the environment."""

    def __init__(self) -> None:
        self.began = time.time()
        self._step = "starting pip"
        self._packages: list[str] = []

    def read(self, line: str) -> None:
        for pattern, step in _STEPS:
            if match := pattern.match(line):
                self._step = step.format(*match.groups())
        if match := _IN_PLACE.match(line):
            self._packages = match[1].strip().split(", ")

    def __str__(self) -> str:
        return f"  {self._unpacking() if self._packages else self._step} ({time.time() - self.began:.0f} s)"

    def _unpacking(self) -> str:
        """pip puts packages in place one after the other, in the order that it told; a .dist-info folder comes last."""
        there = {
            _normal(folder.name.partition("-")[0])
            for folder in Path(sysconfig.get_path("purelib")).glob("*.dist-info")
            if folder.stat().st_mtime >= self.began
        }
        left = [name for name in self._packages if _normal(name) not in there]
        step = f"unpacking {len(self._packages)} packages"
        return f"{step}, {len(self._packages) - len(left)} done, next {left[0]}" if left else f"{step}, the last one"


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main(arguments: list[str], every_s: float = EVERY_S) -> int:
    """Run pip to its end; its exit status."""
    print(f"installing {' '.join(arguments)} into {sys.prefix}", flush=True)
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off"]
    # Of thousands of modules few are ever imported: compiling them all takes a third of pip's time.
    command.append("--no-compile")
    pip = subprocess.Popen(
        [*command, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        assert pip.stdout is not None
        for line in pip.stdout:
            lines.put(line.rstrip())
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    progress, said, due = Progress(), list[str](), time.monotonic() + every_s
    while True:
        try:
            line = lines.get(timeout=max(0.0, due - time.monotonic()))
        except queue.Empty:
            print(progress, flush=True)
            due = time.monotonic() + every_s
            continue
        if line is None:
            break
        said.append(line)
        progress.read(line)
        if line.lstrip().startswith(("WARNING", "DEPRECATION")):
            print(line, flush=True)
    status = pip.wait()
    if status != 0:
        print("\n".join(said), file=sys.stderr)
        print(f"pip ended with status {status}", file=sys.stderr)
    else:
        print(f"installed in {time.time() - progress.began:.0f} s", flush=True)
    return status


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:], float(os.environ.get("INSTALL_TELL_EVERY_S", EVERY_S))))
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on")
