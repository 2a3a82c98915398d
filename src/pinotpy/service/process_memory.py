"""The memory of a daemon: its budget at start, its watch, its metrics."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from pinotpy.config.settings import ProcessSettings
from pinotpy.memory.allocators import give_back_free_memory
from pinotpy.memory.budget import SHARE_SETTING, ProcessBudget
from pinotpy.memory.limit import memory_limit, other_daemons
from pinotpy.memory.watch import MemoryWatch
from pinotpy.service.daemon import Part
from pinotpy.service.metrics import Metrics

# One of each on a machine: the rest is for the system, and for the pages of segments' files.
SHARES: Final = {"controller": 0.1, "broker": 0.2, "server": 0.5}

# One look takes some milliseconds.
STOP_S: Final = 1.0

log = logging.getLogger(__name__)


class ProcessMemory:
    """The budget of this process and what watches over it. `root`: where proc and sys are mounted."""

    def __init__(self, settings: ProcessSettings, metrics: Metrics, root: Path = Path("/")) -> None:
        self.limit = memory_limit(root)
        self.share = SHARES[settings.role] if settings.memory_share is None else settings.memory_share
        self.budget = ProcessBudget(int(self.limit.size_bytes * self.share))
        self._watch = MemoryWatch(self.budget, give_back_free_memory)
        self._root = root
        self._has_own_share = settings.memory_share is not None
        metrics.watch("memoryLimit", lambda: float(self.limit.size_bytes))
        metrics.watch("memoryBudget", lambda: float(self.budget.total_bytes))
        metrics.watch("memoryStanding", lambda: float(self.budget.standing_bytes))
        metrics.watch("memoryOfQueries", lambda: float(self.budget.used_by_queries_bytes))
        metrics.watch("memoryResident", lambda: float(self._watch.resident_bytes))
        metrics.watch("memoryResidentPeak", lambda: float(self._watch.peak_bytes))
        metrics.watch("queriesWaitedForMemory", lambda: float(self.budget.num_waited))
        metrics.watch("queriesRefusedMemory", lambda: float(self.budget.num_refused))
        metrics.watch("queriesEndedForMemory", lambda: float(self.budget.num_ended))

    def part(self) -> Part:
        return Part("memory", self._start, self._watch.stop, STOP_S)

    def _start(self) -> None:
        log.info(
            "memory budget bytes=%d share=%g limit_bytes=%d limit_source=%s",
            self.budget.total_bytes, self.share, self.limit.size_bytes, self.limit.source,
        )  # fmt: skip
        others = [] if self._has_own_share else other_daemons(self._root)
        if others:
            log.warning(
                "other daemons of pinotpy share this process' memory (pids %s) and %s is not set: each takes the share "
                "of its role, here %g; set it for each so that all together are at most 0.85",
                ", ".join(map(str, others[:10])), SHARE_SETTING, self.share,
            )  # fmt: skip
        self._watch.start()
