"""Proves that every metric of the catalogue is counted somewhere: by its role's own room or by the daemon kit. A metric
that nobody counts shows a zero that operators believe.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from manual_dispatcher import ManualDispatcher

from pinotpy.cluster.memory import MemoryStore, MemoryTree
from pinotpy.service.joining import count_new_sessions
from pinotpy.service.metric_catalogue import METRICS_BY_ROLE
from pinotpy.service.metrics import Metrics

SOURCE = Path(__file__).resolve().parents[3] / "src" / "pinotpy"


@pytest.mark.parametrize("role", METRICS_BY_ROLE)
def test_every_metric_is_counted_by_its_role(role: str) -> None:
    files = [
        file
        for room in (role, "service")
        for file in (SOURCE / room).rglob("*.py")
        if file.name != "metric_catalogue.py"
    ]
    text = "\n".join(file.read_text() for file in files)
    unheard = [metric.name for metric in METRICS_BY_ROLE[role] if f'"{metric.name}"' not in text]
    assert not unheard, f"nobody counts {unheard} on the {role}"


def test_sessions_after_the_first_are_counted_and_healed_connections_are_not() -> None:
    dispatcher = ManualDispatcher()
    store = MemoryStore(MemoryTree(), dispatcher=dispatcher)
    metrics = Metrics("broker", METRICS_BY_ROLE["broker"])
    count_new_sessions(store, metrics)

    def reconnects() -> float:
        return next(
            float(line.split()[-1])
            for line in metrics.render().decode().splitlines()
            if line.startswith("pinot_broker_zookeeperReconnects_total")
        )

    assert reconnects() == 0
    store.suspend()
    store.resume()
    dispatcher.deliver()
    assert reconnects() == 0
    for number in (1, 2):
        store.expire()
        dispatcher.deliver()
        assert reconnects() == number
