"""Proves what a cluster takes that does nothing: ZooKeeper, controller, broker and a server, after the quickstart has
loaded its flights and asked its queries, are together within IDLE_MIB; pages that they share count once.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from live_cluster import wait_until
from processes import command_line, descendants, memory_together
from quickstart_process import QuickstartProcess

pytestmark = [pytest.mark.cluster, pytest.mark.full]

IDLE_MIB = 600
MIB = 1 << 20


def test_an_idle_cluster_is_small(tmp_path: Path) -> None:
    run = QuickstartProcess(tmp_path / "scratch")
    try:
        run.wait_for("Ctrl-C stops everything", 480.0)
        daemons = {name: daemon_of(run, name) for name in ("zookeeper", "controller", "broker", "server")}
        sizes: Counter[str] = Counter()

        def is_small() -> bool:
            nonlocal sizes
            sizes = memory_together([pid for pids in daemons.values() for pid in pids])
            return sizes.total() <= IDLE_MIB * MIB

        try:
            wait_until(is_small, 180.0, f"at most {IDLE_MIB} MiB")
        finally:
            each = {name: memory_together(pids)["anonymous"] // MIB for name, pids in daemons.items()}
            print(f"together {sizes.total() / MIB:.0f} MiB; anonymous of each {each}; of all, in MiB:")
            print({name: round(size / MIB, 1) for name, size in sizes.most_common(25)})
    finally:
        run.close()


def daemon_of(run: QuickstartProcess, name: str) -> list[int]:
    """Processes of one daemon of that role, its children among them."""
    found = [pid for pid in run.pids() if f" start-{name} " in command_line(pid)]
    assert found, f"no {name}: {[command_line(pid) for pid in run.pids()]}"
    return [found[0], *descendants(found[0])]
