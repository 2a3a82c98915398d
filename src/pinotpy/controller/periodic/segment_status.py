"""Gauges of how well each table is served: what should be against what is (SegmentStatusChecker)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pinotpy.controller.context import Controller
from pinotpy.names import TableType, split_table_name

SERVING = ("ONLINE", "CONSUMING")


@dataclass(frozen=True, slots=True)
class TableStatus:
    """One table at one moment. Segments without a wanted replica do not count."""

    num_segments: int
    least_replicas: int
    least_replicas_percent: int
    segments_in_error: int
    segments_available_percent: int


def status_of(ideal: Mapping[str, Mapping[str, str]], actual: Mapping[str, Mapping[str, str]]) -> TableStatus:
    """Compare ideal state and external view of one table."""
    expected = {
        segment: states
        for segment, replicas in ideal.items()
        if (states := [s for s in replicas.values() if s in SERVING])
    }
    if not expected:
        return TableStatus(0, 0, 100, 0, 100)
    serving = {segment: sum(state in SERVING for state in actual.get(segment, {}).values()) for segment in expected}
    in_error = sum("ERROR" in actual.get(segment, {}).values() for segment in expected)
    available = sum(count > 0 for count in serving.values())
    return TableStatus(
        num_segments=len(expected),
        least_replicas=min(serving.values()),
        least_replicas_percent=min(100 * serving[segment] // len(states) for segment, states in expected.items()),
        segments_in_error=in_error,
        segments_available_percent=100 * available // len(expected),
    )


class SegmentStatusChecker:
    """The task."""

    name = "SegmentStatusChecker"

    def __init__(self, controller: Controller, interval_s: float) -> None:
        self._controller, self.interval_s = controller, interval_s

    def tables(self) -> Sequence[str]:
        return self._controller.catalog.table_names()

    def run_table(self, table_name_with_type: str) -> None:
        catalog, metrics = self._controller.catalog, self._controller.metrics
        if not catalog.is_enabled(table_name_with_type):
            return
        ideal, hidden = catalog.ideal_state(table_name_with_type) or {}, catalog.hidden_segments(table_name_with_type)
        seen = {name: replicas for name, replicas in ideal.items() if name not in hidden}
        status = status_of(seen, catalog.external_view(table_name_with_type) or {})
        metrics.set("segmentCountIncludingReplaced", len(ideal), table=table_name_with_type)
        metrics.set("segmentCount", status.num_segments, table=table_name_with_type)
        metrics.set("numberOfReplicas", status.least_replicas, table=table_name_with_type)
        metrics.set("percentOfReplicas", status.least_replicas_percent, table=table_name_with_type)
        metrics.set("segmentsInErrorState", status.segments_in_error, table=table_name_with_type)
        metrics.set("percentSegmentsAvailable", status.segments_available_percent, table=table_name_with_type)
        metrics.set("idealstateZnodeSize", catalog.ideal_state_bytes(table_name_with_type), table=table_name_with_type)

    def run_once(self) -> None:
        catalog, metrics = self._controller.catalog, self._controller.metrics
        names = catalog.table_names()
        for table_type, gauge in ((TableType.OFFLINE, "offlineTableCount"), (TableType.REALTIME, "realtimeTableCount")):
            metrics.set(gauge, sum(split_table_name(name)[1] is table_type for name in names))
        metrics.set("disabledTableCount", sum(not catalog.is_enabled(name) for name in names))
