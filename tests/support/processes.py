"""Processes below one, read from /proc: who runs, with which command line, in how much memory."""

from __future__ import annotations

import re
from collections import Counter
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


def memory_together(pids: list[int]) -> Counter[str]:
    """Bytes that processes have in memory, by what they are: `anonymous`, and the name of each mapped file. Pages of a
    file count once, in the process that has most of them: other processes on the machine make no difference.
    """
    found: Counter[str] = Counter()
    of_files: Counter[tuple[str, str]] = Counter()
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps").read_text().splitlines()
        except OSError:
            continue  # gone
        path, place, resident = "", "", 0
        for line in lines:
            if match := _MAPPING.match(line):
                place, path = match.groups()
            elif line.startswith("Rss:"):
                resident = int(line.split()[1]) << 10
            elif line.startswith("Anonymous:"):
                own = int(line.split()[1]) << 10
                found["anonymous"] += own
                if path.startswith("/"):
                    of_files[path, place] = max(of_files[path, place], resident - own)
    for (path, _), size in of_files.items():
        found[path.rpartition("/")[2]] += size
    return found


# Of /proc/…/smaps: addresses, permissions, offset in the file, device, inode, path.
_MAPPING = re.compile(r"[0-9a-f]+-[0-9a-f]+ \S+ ([0-9a-f]+) \S+ \d+ *(.*)")


def spark_workers(pid: int) -> list[int]:
    """Python workers of Spark below a process: the children of its daemon."""
    below = descendants(pid)
    daemons = {child for child in below if "pyspark.daemon" in command_line(child)}
    return [child for child in below if parent_of(child) in daemons]
