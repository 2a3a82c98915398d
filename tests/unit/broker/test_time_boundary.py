"""Proves the time boundary of hybrid tables: every row of both halves is answered by one of them, and what nothing
divides is told.
"""

from __future__ import annotations

from typing import Any

import pytest

from pinotpy.broker.catalog import Target
from pinotpy.broker.cluster_catalog import ClusterCatalog
from pinotpy.broker.routing.time_boundary import side_of_offline, side_of_realtime
from pinotpy.clock import ManualClock
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.spectator import ClusterView
from pinotpy.cluster.time_boundary import DAY_MS, HOUR_MS, time_boundary
from pinotpy.cluster.views import ExternalView, IdealState, LiveInstance
from pinotpy.config.schema import Schema
from pinotpy.errors import DamagedRecordError
from pinotpy.pql.ast import Dialect
from pinotpy.query.model.context import And, Bound, Comparison, Or, Predicate, QueryContext, QueryKind

DAY = 19_700
NEWEST_MS = DAY * DAY_MS


def schema(data_type: str = "INT", form: str = "1:DAYS:EPOCH") -> dict[str, Any]:
    return {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "x", "dataType": "INT"}],
        "dateTimeFieldSpecs": [{"name": "day", "dataType": data_type, "format": form, "granularity": "1:DAYS"}],
    }


def record(name: str, end_ms: int | None) -> SegmentZkMetadata:
    return SegmentZkMetadata(name, "t_OFFLINE", 1, 1, 1, end_time_ms=end_ms)


@pytest.mark.parametrize(
    ("data_type", "form", "is_hourly", "value"),
    [
        ("INT", "1:DAYS:EPOCH", False, DAY - 1),
        ("LONG", "1:MILLISECONDS:EPOCH", False, NEWEST_MS - DAY_MS),
        ("LONG", "1:MILLISECONDS:EPOCH", True, NEWEST_MS - HOUR_MS),
        ("TIMESTAMP", "TIMESTAMP", False, NEWEST_MS - DAY_MS),
        ("STRING", "1:DAYS:SIMPLE_DATE_FORMAT:yyyy-MM-dd", False, "2023-12-08"),
        ("INT", "1:DAYS:SIMPLE_DATE_FORMAT:yyyyMMdd", False, "20231208"),
    ],
)
def test_the_boundary_is_a_day_or_an_hour_before_the_newest_segment(
    data_type: str, form: str, is_hourly: bool, value: int | str
) -> None:
    served = [record("a", NEWEST_MS), record("b", NEWEST_MS - 5 * DAY_MS), record("c", None)]
    boundary = time_boundary(served, Schema.from_json(schema(data_type, form)), "day", is_hourly=is_hourly)
    assert boundary is not None and str(boundary.value) == str(value)
    assert side_of_offline(boundary).upper == Bound(boundary.value, True)
    assert side_of_realtime(boundary).lower == Bound(boundary.value, False)


def test_without_times_or_a_time_column_there_is_none() -> None:
    read = Schema.from_json(schema())
    assert time_boundary([record("a", None)], read, "day", is_hourly=False) is None
    assert time_boundary([record("a", NEWEST_MS)], read, "x", is_hourly=False) is None
    assert time_boundary([record("a", NEWEST_MS)], read, None, is_hourly=False) is None
    texts = Schema.from_json(schema("STRING", "1:DAYS:SIMPLE_DATE_FORMAT:yyyy-MM-dd"))
    assert time_boundary([record("a", -62_135_596_800_000)], texts, "day", is_hourly=False) is None, "before the year 1"


def resolved(offline: dict[str, int | None], absent: tuple[str, ...] = (), unreadable: str = "") -> Target:
    states = {name: {"A": "ONLINE"} for name in offline}
    reached = {name: replicas for name, replicas in states.items() if name not in absent}
    config = {"segmentsConfig": {"timeColumnName": "day"}}
    view = ClusterView(
        external_views={"t_OFFLINE": ExternalView("t_OFFLINE", reached)},
        ideal_states={"t_OFFLINE": IdealState("t_OFFLINE", states), "t_REALTIME": IdealState("t_REALTIME", {})},
        live_instances={"A": LiveInstance("A", "1")},
        instance_configs={},
        table_configs={"t_OFFLINE": config, "t_REALTIME": config},
        schemas={"t": schema()},
        segments={"t_OFFLINE": {name: record(name, end_ms) for name, end_ms in offline.items() if name != unreadable}},
        unreadable={("segments", f"t_OFFLINE/{unreadable}"): "it is no JSON"} if unreadable else {},
    )
    return ClusterCatalog(lambda: view, ManualClock(NEWEST_MS)).resolve("t", Dialect.SQL)


def test_both_halves_are_asked_for_their_side_only() -> None:
    target = resolved({"a": NEWEST_MS, "b": NEWEST_MS + 9 * DAY_MS}, absent=("b",))
    assert target.boundary is not None and target.boundary.value == DAY - 1, "nobody serves b yet"
    context = QueryContext(Dialect.SQL, QueryKind.AGGREGATION, "t", ())
    offline, realtime = (half.of_half(context) for half in target.halves)
    assert (offline.table, realtime.table) == ("t_OFFLINE", "t_REALTIME")
    assert [offline.filter, realtime.filter] == [side_of_offline(target.boundary), side_of_realtime(target.boundary)]
    assert [column.name for column in offline.columns] == ["day"]


def test_rows_without_a_time_are_the_offline_half_s() -> None:
    target = resolved({"a": NEWEST_MS})
    condition = Predicate(target.halves[0].time_predicate.lhs, Comparison.EQ, (1,))  # type: ignore[union-attr]
    context = QueryContext(Dialect.SQL, QueryKind.AGGREGATION, "t", (), filter=condition, null_handling=True)
    offline, realtime = (half.of_half(context) for half in target.halves)
    assert isinstance(offline.filter, And) and isinstance(offline.filter.children[1], Or)
    assert isinstance(realtime.filter, And) and realtime.filter.children[0] == condition


def test_halves_that_nothing_divides_are_told() -> None:
    target = resolved({"a": None})
    assert target.boundary is None and "rows may count twice" in target.fault
    assert resolved({}).fault == "", "there is nothing offline"


def test_a_record_that_cannot_be_read_divides_nothing() -> None:
    with pytest.raises(DamagedRecordError, match="t_OFFLINE/b"):
        resolved({"a": NEWEST_MS, "b": NEWEST_MS + 9 * DAY_MS}, unreadable="b")
    assert resolved({"a": NEWEST_MS}, unreadable="removed").boundary is not None
