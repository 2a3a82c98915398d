"""`pinotpy down`: stops a cluster from another process, also one whose supervisor is gone."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Final

from pinotpy.cli.supervision.data_folder import DataFolder
from pinotpy.cli.supervision.leftovers import end_leftovers
from pinotpy.cli.supervision.process_identity import ProcessIdentity, wait_for_end
from pinotpy.cli.supervision.state_file import ClusterState, Phase
from pinotpy.errors import RemoteError

_LOOK_S: Final = 0.05
# From taking the lock to writing one's name into it.
_NAME_TIMEOUT_S: Final = 10.0


def stop_cluster(folder: DataFolder, timeout_s: float, tell: Callable[[str], None]) -> bool:
    """Ask who runs the cluster to stop it and wait up to `timeout_s`; kill what is left. Whether all stopped cleanly;
    nothing to stop is clean.

    Raises RemoteError if the holder of the folder cannot be found out, UserError for a folder that is none.
    """
    if not folder.exists():
        tell(f"no cluster lies in {folder.path}: nothing to stop")
        return True
    is_clean, was_running = True, False
    holder = _holder(folder)
    if holder is not None:
        was_running = True
        tell(f"stopping the cluster in {folder.path} (process {holder.pid})")
        holder.send(signal.SIGTERM)
        if wait_for_end([holder], timeout_s):
            is_clean = False
            tell(f"process {holder.pid} did not stop within {timeout_s:g} s: it is killed, its daemons end with it")
            holder.send(signal.SIGKILL)
            wait_for_end([holder], timeout_s)
    folder.lock()
    try:
        state = ClusterState.load(folder)
        left = state.living() if state is not None else {}
        if state is not None and left:
            was_running = True
            if is_clean:
                tell(
                    f"the supervisor (process {state.supervisor.pid}) was killed; ending its daemons: {', '.join(left)}"
                )
            killed = end_leftovers(state)
            if killed:
                is_clean = False
                tell(f"these processes did not end and were killed: {killed}")
        if state is not None and state.phase is not Phase.STOPPED:
            state.phase, state.doing = Phase.STOPPED, ""
            for daemon in state.daemons.values():
                daemon.phase, daemon.process = Phase.STOPPED, None
            state.save(folder)
    finally:
        folder.unlock()
    tell(f"stopped; the data stay in {folder.path}" if was_running else f"nothing runs in {folder.path}")
    return is_clean


def _holder(folder: DataFolder) -> ProcessIdentity | None:
    deadline = time.monotonic() + _NAME_TIMEOUT_S
    while folder.is_locked():
        holder = folder.holder()
        if holder is not None:
            return holder
        if time.monotonic() > deadline:
            raise RemoteError(
                f"the folder '{folder.path}' is locked by a process that does not say who it is: `fuser "
                f"{folder.path}/lock` tells"
            )
        time.sleep(_LOOK_S)
    return None
