"""Metrics: declared once by name, kind, unit and help; counted with plain calls; shown at /metrics for Prometheus.

Each daemon has its own registry, so that several fit in one process. Names are Pinot's (`documentsScanned`), shown as
`pinot_<role>_<name>` with `_total` on counters. Metrics with a table carry it as the label `table`; beyond
`TABLES_MAX` tables all further ones are counted under `allTables`, as Pinot does when table-level metrics are off.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest

TABLES_MAX = 1000
ALL_TABLES_LABEL = "allTables"
EXPOSITION_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_NAME = re.compile(r"[a-z][A-Za-z0-9]{0,79}")
# 0.5 ms to 30 s: trivial queries take about 1 ms, the default timeout is 10 s.
LATENCY_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class MetricKind(StrEnum):
    """How a metric moves."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One declaration. `unit` is for people and docs; histograms are in seconds. `labels`: at most `table` and one more."""

    name: str
    kind: MetricKind
    unit: str
    help: str
    labels: tuple[str, ...] = ()


class _Child:
    """What prometheus_client returns for one set of label values, as far as we use it."""

    def inc(self, amount: float) -> None: ...

    def set(self, value: float) -> None: ...

    def observe(self, amount: float) -> None: ...


class Metrics:
    """The metrics of one daemon. Safe to share between threads; its lock guards the creation of label sets."""

    def __init__(self, role: str, declarations: Iterable[Metric]) -> None:
        self.role = role
        self._registry = CollectorRegistry(auto_describe=False)
        self._declarations: dict[str, Metric] = {}
        self._families: dict[str, Counter | Gauge | Histogram] = {}
        self._children: dict[tuple[str, tuple[str, ...]], _Child] = {}
        self._tables: set[str] = set()
        self._lock = threading.Lock()
        for metric in declarations:
            self._declare(metric)

    @property
    def declarations(self) -> tuple[Metric, ...]:
        """All metrics of this daemon, in order."""
        return tuple(self._declarations.values())

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add to a counter."""
        self._child(name, MetricKind.COUNTER, labels).inc(amount)

    def set(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        self._child(name, MetricKind.GAUGE, labels).set(value)

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Add one observation to a histogram."""
        self._child(name, MetricKind.HISTOGRAM, labels).observe(seconds)

    def watch(self, name: str, read: Callable[[], float]) -> None:
        """Let a gauge without labels be read by calling `read` when somebody looks at /metrics."""
        family = self._families[name]
        assert isinstance(family, Gauge) and not self._declarations[name].labels, f"'{name}' is no gauge without labels"
        family.set_function(read)

    def forget_table(self, table: str) -> None:
        """Drop all series of a deleted table."""
        with self._lock:
            self._tables.discard(table)
            for name, values in [key for key in self._children if key[1]]:
                labels = self._declarations[name].labels
                if "table" in labels and values[labels.index("table")] == table:
                    del self._children[(name, values)]
                    self._families[name].remove(*values)

    def render(self) -> bytes:
        """Prometheus' text form."""
        return generate_latest(self._registry)

    def _declare(self, metric: Metric) -> None:
        assert _NAME.fullmatch(metric.name) and metric.name not in self._declarations, f"metric '{metric.name}' is misnamed or declared twice"
        full_name, help_text = f"pinot_{self.role}_{metric.name}", f"{metric.help} [{metric.unit}]"
        self._declarations[metric.name] = metric
        match metric.kind:
            case MetricKind.COUNTER:
                self._families[metric.name] = Counter(full_name, help_text, metric.labels, registry=self._registry)
            case MetricKind.GAUGE:
                self._families[metric.name] = Gauge(full_name, help_text, metric.labels, registry=self._registry)
            case MetricKind.HISTOGRAM:
                self._families[metric.name] = Histogram(full_name, help_text, metric.labels, registry=self._registry, buckets=LATENCY_BUCKETS_S)

    def _child(self, name: str, kind: MetricKind, labels: dict[str, str]) -> _Child:
        # The way of every query: one dictionary look-up.
        child = self._children.get((name, tuple(labels.values())))
        return child if child is not None else self._new_child(name, kind, labels)

    def _new_child(self, name: str, kind: MetricKind, labels: dict[str, str]) -> _Child:
        metric = self._declarations[name]
        assert metric.kind is kind and tuple(labels) == metric.labels, (
            f"'{name}' is a {metric.kind} with labels {metric.labels}, not a {kind} with {tuple(labels)}"
        )
        with self._lock:
            values = tuple(self._bounded_table(value) if label == "table" else value for label, value in labels.items())
            family = self._families[name]
            child: _Child = family.labels(*values) if values else family  # type: ignore[assignment]
            self._children[(name, values)] = child
            return child

    def _bounded_table(self, table: str) -> str:
        if table in self._tables:
            return table
        if len(self._tables) >= TABLES_MAX:
            return ALL_TABLES_LABEL
        self._tables.add(table)
        return table
