"""Proves what a daemon says of its memory: the budget by its role's share or its own, in /metrics and in the log, and a
warning when others share its control group and no share is set.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from pinotpy.config.settings import BrokerSettings, ControllerSettings, ProcessSettings, ServerSettings, load_settings
from pinotpy.service.metric_catalogue import METRICS_BY_ROLE
from pinotpy.service.metrics import Metrics
from pinotpy.service.process_memory import ProcessMemory

GIB = 1 << 30


def machine(root: Path, *others: int) -> Path:
    """A control group of 4 GiB on a machine of 8, with these daemons beside this process."""
    group = root / "sys/fs/cgroup/pod"
    for folder in (group, root / "proc/self", *(root / "proc" / str(pid) for pid in others)):
        folder.mkdir(parents=True)
    (root / "proc/meminfo").write_text(f"MemTotal: {8 * GIB // 1024} kB\n")
    (root / "proc/self/cgroup").write_text("0::/pod\n")
    (group / "memory.max").write_text(f"{4 * GIB}\n")
    (group / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in (os.getpid(), *others)))
    for pid in others:
        (root / "proc" / str(pid) / "cmdline").write_bytes(b"python\0-m\0pinotpy\0start-server\0")
    return root


def memory_of(settings: ProcessSettings, root: Path) -> tuple[ProcessMemory, Metrics]:
    metrics = Metrics(settings.role, METRICS_BY_ROLE[settings.role])
    return ProcessMemory(settings, metrics, root), metrics


@pytest.mark.parametrize(("kind", "share"), [(ControllerSettings, 0.1), (BrokerSettings, 0.2), (ServerSettings, 0.5)])
def test_the_budget_is_the_roles_share_of_the_group(kind: type[ProcessSettings], share: float, tmp_path: Path) -> None:
    memory, metrics = memory_of(load_settings(kind), machine(tmp_path))
    assert memory.budget.total_bytes == int(4 * GIB * share)
    shown = dict(line.rsplit(" ", 1) for line in metrics.render().decode().splitlines() if not line.startswith("#"))
    assert float(shown[f"pinot_{kind.role}_memoryBudget"]) == memory.budget.total_bytes
    assert float(shown[f"pinot_{kind.role}_memoryLimit"]) == 4 * GIB


@pytest.mark.parametrize(("share", "others", "warns"), [(None, (7,), True), (None, (), False), (0.4, (7,), False)])
def test_a_daemon_among_others_without_a_share_says_so(
    share: float | None, others: tuple[int, ...], warns: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    environment = {} if share is None else {"PINOTPY_MEMORY_SHARE": str(share)}
    memory, _ = memory_of(load_settings(BrokerSettings, environment=environment), machine(tmp_path, *others))
    part = memory.part()
    with caplog.at_level(logging.INFO, "pinotpy"):
        part.start()
        part.stop(part.stop_timeout_s)
    assert f"memory budget bytes={memory.budget.total_bytes} share={share or 0.2:g}" in caplog.text
    assert ("pinotpy.memory.share is not set" in caplog.text) == warns
    assert ("pids 7" in caplog.text) == warns
