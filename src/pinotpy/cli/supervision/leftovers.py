"""What a supervisor that was killed has left: daemons that are still ending, and ports that are not free yet."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from pinotpy.cli.supervision.cluster_layout import ClusterLayout, check_ports
from pinotpy.cli.supervision.data_folder import DataFolder
from pinotpy.cli.supervision.process_identity import end_all, wait_for_end
from pinotpy.cli.supervision.state_file import ClusterState
from pinotpy.service.ports import is_free

# Daemons whose supervisor was killed end by themselves, as after SIGTERM, mostly within this time.
ALONE_TIMEOUT_S: Final = 10.0
END_TIMEOUT_S: Final = 30.0
PORTS_TIMEOUT_S: Final = 10.0
_PAUSE_S: Final = 0.1


def make_room(
    folder: DataFolder,
    layout: ClusterLayout,
    tell: Callable[[str], None],
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Before a start: end daemons that a killed supervisor left, wait for the ports. The caller holds the folder.

    Raises UserError if others have the ports, or state.json is damaged.
    """
    before = ClusterState.load(folder)
    left = before.living() if before is not None else {}
    if before is not None and left:
        tell(
            f"process {before.supervisor.pid}, which ran this cluster, was killed; waiting for the end of its daemons: "
            + ", ".join(f"{name} (process {process.pid})" for name, process in left.items())
        )
        killed = end_leftovers(before)
        if killed:
            tell(f"they did not end within {END_TIMEOUT_S:g} s and were killed: processes {killed}")
    deadline = time.monotonic() + PORTS_TIMEOUT_S
    # A port may be free a moment after its daemon ended.
    while not all(is_free(port) for port in layout.all_ports().values()) and time.monotonic() < deadline:
        pause(_PAUSE_S)
    check_ports(layout)


def end_leftovers(state: ClusterState) -> list[int]:
    """End daemons whose supervisor is gone: ZooKeeper last, as the others say goodbye to it. Returns pids that had to
    be killed.
    """
    living = state.living()
    zookeeper = [living.pop("zookeeper")] if "zookeeper" in living else []
    left = wait_for_end(living.values(), ALONE_TIMEOUT_S)
    killed = end_all(left, END_TIMEOUT_S) + end_all(zookeeper, END_TIMEOUT_S)
    return [process.pid for process in killed]
