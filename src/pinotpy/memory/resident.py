"""What the kernel says that processes use: RssAnon + RssShmem. Pages of mapped files are not in it: the kernel takes
them back when it needs memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_PROC = Path("/proc")


def resident_bytes(pid: int, children: Iterable[int] = (), memfds: int = 0, proc: Path = _PROC) -> int:
    """Memory of a process and its children that is no file's. A process that is gone counts nothing.

    Shared pages (rows of streams) count once: `memfds` bytes, or as many as one process has touched if that is more.
    """
    anonymous, shared = 0, memfds
    for one in (pid, *children):
        own, common = _of_process(proc / str(one) / "status")
        anonymous += own
        shared = max(shared, common)
    return anonymous + shared


def memfd_bytes() -> int:
    """Memory of the anonymous files that this process has open: pages that anybody wrote to, each file once."""
    blocks: dict[int, int] = {}
    for entry in os.scandir("/proc/self/fd"):
        try:
            if os.readlink(entry.path).startswith("/memfd:"):
                found = os.stat(entry.path)
                blocks[found.st_ino] = found.st_blocks * 512
        except OSError:
            continue  # closed meanwhile
    return sum(blocks.values())


def children_of(pid: int, proc: Path = _PROC) -> list[int]:
    """Ids of all processes below this one."""
    found: list[int] = []
    try:
        threads = list((proc / str(pid) / "task").iterdir())
    except OSError:
        return found
    for thread in threads:
        try:
            children = [int(word) for word in (thread / "children").read_text().split()]
        except (OSError, ValueError):
            continue
        for child in children:
            found += [child, *children_of(child, proc)]
    return found


def _of_process(file: Path) -> tuple[int, int]:
    anonymous, shared = 0, 0
    try:
        with file.open("rb", buffering=0) as stream:
            text = stream.read(4096)
    except OSError:
        return 0, 0
    for line in text.splitlines():
        if line.startswith(b"RssAnon:"):
            anonymous = int(line.split()[1]) * 1024
        elif line.startswith(b"RssShmem:"):
            shared = int(line.split()[1]) * 1024
    return anonymous, shared
