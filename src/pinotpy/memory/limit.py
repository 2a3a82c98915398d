"""What memory there is for this process: the least limit of its control groups (v1, v2), else that of the machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path("/")
_DAEMONS = (b"start-controller", b"start-broker", b"start-server")


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """size_bytes: what this process and all others under the limit may use together. source: the file that says so."""

    size_bytes: int
    source: str


def memory_limit(root: Path = _ROOT) -> MemoryLimit:
    """The least of all limits that hold for this process. `root`: where proc and sys are mounted.

    A group's limit that is larger than the machine (v1 writes 2^63 for none) is none.
    """
    limits = [_of_machine(root)]
    for folder, name in _groups(root):
        size_bytes = _number(folder / name)
        if size_bytes is not None:
            limits.append(MemoryLimit(size_bytes, str(folder / name)))
    return min(limits, key=lambda limit: limit.size_bytes)


def other_daemons(root: Path = _ROOT, pid: int | None = None) -> list[int]:
    """Process ids of other daemons of pinotpy in the control group of this process; [] where that is not known."""
    own = os.getpid() if pid is None else pid
    for folder, _ in _groups(root):
        try:
            members = [int(word) for word in (folder / "cgroup.procs").read_text().split()]
        except (OSError, ValueError):
            continue
        return [member for member in members if member != own and _is_daemon(root, member)]
    return []


def _is_daemon(root: Path, pid: int) -> bool:
    try:
        words = (root / "proc" / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(word in _DAEMONS for word in words) and any(b"pinotpy" in word for word in words)


def _groups(root: Path) -> Iterator[tuple[Path, str]]:
    """The folder of this process' group and those above it, with the name of the file that has the limit.

    In a container without a namespace of groups, the path is the host's and is not mounted: what is mounted at the top
    is its own group then.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            top, name = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            top, name = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        folder = top / path.lstrip("/")
        while folder != top and top in folder.parents:
            yield folder, name
            folder = folder.parent
        yield top, name


def _of_machine(root: Path) -> MemoryLimit:
    file = root / "proc/meminfo"
    for line in file.read_text().splitlines():
        if line.startswith("MemTotal:"):
            return MemoryLimit(int(line.split()[1]) * 1024, str(file))
    raise ValueError(f"'{file}' has no line MemTotal")


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):  # not there; "max"
        return None
