"""Removes segments from the data folder that the cluster does not assign to this server.

A table or segment that was deleted while the server was down leaves its files: no transition drops them when it is
back. Only what the ideal states do not name in two looks, with a wait between them, is removed; and nothing in a folder
that was filled as another instance or for another cluster: its segments are assigned there. What is no segment, or
lies behind a link, is somebody else's (`SegmentStore.held`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pinotpy.clock import Clock
from pinotpy.cluster.buckets import read_record
from pinotpy.cluster.membership import check_cluster_id
from pinotpy.cluster.participant import Participant
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.reconcile_loop import ReconcileLoop
from pinotpy.cluster.store import ClusterStore
from pinotpy.fs.private_folder import make_private_folder
from pinotpy.server.tables.store import SegmentStore

log = logging.getLogger(__name__)
PERIOD_S: Final = 10.0
_OWNER: Final = ".owner"


class LeftOver:
    """A thread that looks once the server has joined, and each time that `wait_ms` have passed; 0: never.

    Args:
        remove: removes a segment's files, unless it is served by now; returns whether it did.
    """

    def __init__(
        self,
        data_dir: Path,
        segments: SegmentStore,
        remove: Callable[[str, str], bool],
        participant: Participant,
        store: ClusterStore,
        paths: ClusterPaths,
        clock: Clock,
        wait_ms: int,
    ) -> None:
        self._owner_file = data_dir / _OWNER
        self._segments, self._remove, self._participant = segments, remove, participant
        self._store, self._paths, self._clock, self._wait_ms = store, paths, clock, wait_ms
        self._found: dict[str, set[str]] = {}  # by table, in the last look
        self._due_ns = 0
        self._loop = ReconcileLoop("left-over", self.step, period_s=PERIOD_S, full_period_s=PERIOD_S, clock=clock)

    def start(self) -> None:
        if self._wait_ms:
            self._loop.start()

    def stop(self, timeout_s: float) -> None:
        if self._wait_ms:
            self._loop.stop(timeout_s)

    def step(self, is_full: bool = True) -> None:
        """Look, if it is time to. Raises ClusterError, OSError: nothing was removed that was not looked up."""
        if not self._participant.is_live or self._clock.monotonic_ns() < self._due_ns:
            return
        found = self._look() if self._is_ours() else {}
        for table, names in found.items():
            before = self._found.get(table, set())
            if new := names - before:
                log.info("segments are left over, the cluster does not assign them to this server table=%s count=%d "
                         "bytes=%d removed_in_s=%d", table, len(new), self._bytes(table, new), self._wait_ms // 1000,
                         )  # fmt: skip
            if known := names & before:
                self._remove_all(table, known)
        self._found = found
        self._due_ns = self._clock.monotonic_ns() + self._wait_ms * 1_000_000

    def _look(self) -> dict[str, set[str]]:
        """What is here and nobody wants here, by table."""
        found: dict[str, set[str]] = {}
        for table, names in self._segments.held().items():
            ideal = read_record(self._store, self._paths.ideal_state(table))
            assigned = {} if ideal is None else ideal.record.map_fields
            own = self._participant.states(table)  # those that are to go are dropped by a transition
            instance = self._participant.instance
            unwanted = {name for name in names if name not in own and instance not in assigned.get(name, {})}
            if unwanted:
                found[table] = unwanted
        return found

    def _remove_all(self, table: str, names: set[str]) -> None:
        count = num_bytes = 0
        for name in sorted(names):
            try:
                size = self._segments.size_bytes(table, name)
                if self._remove(table, name):
                    count, num_bytes = count + 1, num_bytes + size
            except OSError as error:  # others can go all the same
                log.warning("a segment that is left over stays table=%s segment=%s reason=%s", table, name, error)
        log.info("segments that were left over are removed table=%s count=%d bytes=%d", table, count, num_bytes)

    def _bytes(self, table: str, names: set[str]) -> int:
        return sum(self._segments.size_bytes(table, name) for name in names)

    def _is_ours(self) -> bool:
        """Whether the data folder was filled as this instance of this cluster; one that does not say so is from now
        on.
        """
        cluster_id = check_cluster_id(self._store, self._paths, "")
        owner = f"{self._participant.instance} {cluster_id}"
        try:
            filled_as = self._owner_file.read_text("utf-8").strip()
        except FileNotFoundError:
            make_private_folder(self._owner_file.parent)
            self._owner_file.write_text(f"{owner}\n", "utf-8")
            return True
        if filled_as != owner and self._segments.held():
            log.warning(
                "no segment is removed that the cluster does not assign to this server: its data folder was filled by "
                "'%s', and this is '%s'; delete '%s' if what is left over is to go",
                filled_as, owner, self._owner_file,
            )  # fmt: skip
        return filled_as == owner
