"""Metrics: declared once by name, kind, unit and help; counted with plain calls; shown at /metrics for Prometheus.

Each daemon has its own registry, so that several fit in one process. Names are Pinot's (`documentsScanned`), shown as
`pinot_<role>_<name>` with `_total` on counters. Metrics with a table carry it as the label `table`; beyond
`TABLES_MAX` tables all further ones are counted under `allTables`, as Pinot does when table-level metrics are off.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest

TABLES_MAX = 1000
# Observations of a histogram that may wait.
WAITING_MAX = 256
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
    """One declaration. `unit` is for people and docs; histograms are in seconds. `labels`: at most `table` and one
    more.
    """

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


class Tally:
    """A counter of one set of label values that one thread counts with every request: a number here, shown at the next
    look.
    """

    __slots__ = ("_child", "_counted", "_shown")

    def __init__(self, child: _Child) -> None:
        self._child = child
        self._counted: float = 0
        self._shown: float = 0

    def add(self, amount: float = 1) -> None:
        """Add to the counter. Called by one thread only."""
        self._counted += amount

    def show(self) -> None:
        """Hand on what was counted. Called under a lock."""
        counted = self._counted
        self._child.inc(counted - self._shown)
        self._shown = counted


class Timings:
    """The observations of a histogram of one set of label values, handed on many at once."""

    __slots__ = ("_child", "_waiting")

    def __init__(self, child: _Child) -> None:
        self._child = child
        self._waiting: deque[float] = deque()

    def add(self, seconds: float) -> None:
        """Add one observation."""
        self._waiting.append(seconds)
        if len(self._waiting) >= WAITING_MAX:
            self.show()

    def show(self) -> None:
        """Hand on what waits; several threads may."""
        waiting, observe = self._waiting, self._child.observe
        try:
            while True:
                observe(waiting.popleft())
        except IndexError:
            return


class Metrics:
    """The metrics of one daemon. Safe to share between threads; its lock guards the creation of label sets."""

    def __init__(self, role: str, declarations: Iterable[Metric]) -> None:
        self.role = role
        self._registry = CollectorRegistry(auto_describe=False)
        self._declarations: dict[str, Metric] = {}
        self._families: dict[str, Counter | Gauge | Histogram] = {}
        self._children: dict[tuple[str, tuple[str, ...]], _Child] = {}
        self._kept: dict[int, Tally | Timings] = {}  # by identity of their child
        self._watched_each: list[tuple[Gauge, Callable[[], Mapping[str, float]]]] = []
        self._tables: set[str] = set()
        # Grows when tables are forgotten: who keeps tallies of tables asks for them anew then.
        self.generation = 0
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

    def tally(self, name: str, **labels: str) -> Tally:
        """A counter for a thread that counts with every request; kept by the caller until `generation` changes."""
        child = self._child(name, MetricKind.COUNTER, labels)
        tally = self._kept.setdefault(id(child), Tally(child))
        assert isinstance(tally, Tally)
        return tally

    def timings(self, name: str, **labels: str) -> Timings:
        """A histogram in the same way."""
        child = self._child(name, MetricKind.HISTOGRAM, labels)
        timings = self._kept.setdefault(id(child), Timings(child))
        assert isinstance(timings, Timings)
        return timings

    def watch(self, name: str, read: Callable[[], float]) -> None:
        """Let a gauge without labels be read by calling `read` when somebody looks at /metrics."""
        family = self._families[name]
        assert isinstance(family, Gauge) and not self._declarations[name].labels, f"'{name}' is no gauge without labels"
        family.set_function(read)

    def watch_each(self, name: str, read: Callable[[], Mapping[str, float]]) -> None:
        """Let a gauge with one label be read when somebody looks at /metrics, on any thread: the values by label."""
        family = self._families[name]
        assert isinstance(family, Gauge) and len(self._declarations[name].labels) == 1, f"'{name}' has not one label"
        self._watched_each.append((family, read))

    def forget_table(self, table: str) -> None:
        """Drop all series of a deleted table."""
        with self._lock:
            self._tables.discard(table)
            for name, values in [key for key in self._children if key[1]]:
                labels = self._declarations[name].labels
                if "table" in labels and values[labels.index("table")] == table:
                    self._kept.pop(id(self._children.pop((name, values))), None)
                    self._families[name].remove(*values)
            self.generation += 1

    def render(self) -> bytes:
        """Prometheus' text form."""
        with self._lock:
            for series in list(self._kept.values()):
                series.show()
            for family, read in self._watched_each:
                family.clear()
                for label, value in read().items():
                    family.labels(label).set(value)
        return generate_latest(self._registry)

    def _declare(self, metric: Metric) -> None:
        assert _NAME.fullmatch(metric.name) and metric.name not in self._declarations, (
            f"metric '{metric.name}' is misnamed or declared twice"
        )
        full_name, help_text = f"pinot_{self.role}_{metric.name}", f"{metric.help} [{metric.unit}]"
        self._declarations[metric.name] = metric
        match metric.kind:
            case MetricKind.COUNTER:
                self._families[metric.name] = Counter(full_name, help_text, metric.labels, registry=self._registry)
            case MetricKind.GAUGE:
                self._families[metric.name] = Gauge(full_name, help_text, metric.labels, registry=self._registry)
            case MetricKind.HISTOGRAM:
                self._families[metric.name] = Histogram(
                    full_name, help_text, metric.labels, registry=self._registry, buckets=LATENCY_BUCKETS_S
                )

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
