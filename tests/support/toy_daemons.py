"""Daemons that only say that they are ready, end when they are told to, and write down when: for tests of who watches
them. Their commands are the real ones' (`start-broker --broker-port 1 …`).
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pinotpy.cli import local_cluster

# A file `<command>.end` in the toys' folder makes the next one end at its start; `<command>.silent` makes it never say
# that it is ready. `ends` gets a line a daemon that was told to end.
_TOY = """
import os, pathlib, signal, sys, time
here, command = pathlib.Path(__file__).parent, sys.argv[1]
stopped = []
signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
print("log of", command, file=sys.stderr, flush=True)
if (here / f"{command}.end").exists():
    print(f"pinotpy toy: cannot start: {command} is told not to", file=sys.stderr, flush=True)
    raise SystemExit(1)
if not (here / f"{command}.silent").exists():
    print(f"ready role=toy url=http://127.0.0.1:1/{command}", flush=True)
while not stopped:
    time.sleep(0.01)
with (here / "ends").open("a") as ends:
    ends.write(command + "\\n")
"""


class ToyDaemons:
    """Stand in for every daemon that a LocalCluster starts, as long as `monkeypatch` lasts."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        (folder / "toy.py").write_text(_TOY)
        self.program = (sys.executable, str(folder / "toy.py"))
        monkeypatch.setattr(local_cluster, "PROGRAM", self.program)

    def make(self, command: str, habit: str) -> None:
        """From its next start on: `end` or `silent`."""
        (self.folder / f"{command}.{habit}").touch()

    def heal(self, command: str) -> None:
        for habit in ("end", "silent"):
            (self.folder / f"{command}.{habit}").unlink(missing_ok=True)

    @property
    def ends(self) -> list[str]:
        """Commands of those that were told to end, in order."""
        file = self.folder / "ends"
        return file.read_text().splitlines() if file.exists() else []
