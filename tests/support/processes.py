"""Processes below one, read from /proc: who runs, with which command line, in how much memory."""

from __future__ import annotations

from pathlib import Path


def command_line(pid: int) -> str:
    """Arguments joined by blanks; '' for a process that is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def parent_of(pid: int) -> int:
    """0 for a process that is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def descendants(pid: int) -> list[int]:
    """All processes below one, in no order."""
    parents = {int(path.name): parent_of(int(path.name)) for path in Path("/proc").iterdir() if path.name.isdigit()}
    found, waiting = [], [pid]
    while waiting:
        above = waiting.pop()
        children = [child for child, parent in parents.items() if parent == above]
        found += children
        waiting += children
    return found


def peak_bytes(pid: int) -> int:
    """The most memory that a process had (VmHWM); 0 for one that is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM")), 0)


def spark_workers(pid: int) -> list[int]:
    """Python workers of Spark below a process: the children of its daemon."""
    below = descendants(pid)
    daemons = {child for child in below if "pyspark.daemon" in command_line(child)}
    return [child for child in below if parent_of(child) in daemons]
