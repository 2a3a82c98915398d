"""The processes beside servers that read streams and build segments, found by their names."""

from __future__ import annotations

import contextlib
from pathlib import Path

from live_cluster import LiveCluster

from pinotpy.memory.resident import children_of

READS, BUILDS = "pinotpy-ingest", "pinotpy-build"


def processes_of(cluster: LiveCluster, server: str, name: str) -> list[int]:
    """Ids of a server's processes of that name: they are forked from a child of it."""
    return [pid for pid in children_of(cluster.processes.daemons[server].pid) if _name_of(pid) == name]


def _name_of(pid: int) -> str:
    with contextlib.suppress(OSError):  # it may end meanwhile
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""
