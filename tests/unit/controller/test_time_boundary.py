"""Proves GET /tables/{table}/timeBoundary: the boundary is that of the offline segments that a living server has, and a
table that nothing divides has none; the configs of the reference's own hybrid table are accepted.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from controller_harness import PARTS_TABLE, Harness
from events_table import table_config
from job_data import DATA, needs_data

Builder = Callable[..., Path]
FIRST_DAY = 18_000  # the builder's segments have three days from here on


def realtime(folder: Path) -> dict[str, Any]:
    stream = table_config(folder, rows=100)["tableIndexConfig"]["streamConfigs"]
    return PARTS_TABLE | {"tableType": "REALTIME", "tableIndexConfig": {"streamConfigs": stream}}


def boundary(harness: Harness, table: str = "parts") -> Any:
    answer = harness.http.get(f"/tables/{table}/timeBoundary")
    if answer.status_code == 404:
        assert answer.json()["error"] == f"Cannot find time boundary for table: {table}"
        return None
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_boundary_is_a_day_before_the_newest_segment_that_a_server_has(
    harness: Harness, segment: Builder, tmp_path: Path
) -> None:
    assert boundary(harness) is None, "no such table"
    harness.add_parts()
    assert harness.upload(segment("a"), tableName="parts").status_code == 200
    harness.settle()
    assert boundary(harness) is None, "it has one half"
    assert harness.post_json("/tables", realtime(tmp_path)).status_code == 200
    assert harness.upload(segment("b", first_day=FIRST_DAY + 10), tableName="parts").status_code == 200
    expected = {"timeColumn": "day", "timeValue": str(FIRST_DAY + 1)}
    assert boundary(harness) == expected, "nobody serves b yet"
    harness.settle()
    expected["timeValue"] = str(FIRST_DAY + 11)
    assert boundary(harness) == boundary(harness, "parts_REALTIME") == expected
    for name in harness.store.children(harness.paths.live_instances):
        if name.startswith("Server_"):
            harness.store.delete(harness.paths.live_instance(name))
    assert boundary(harness) is None, "no server lives"


def test_where_segments_are_pushed_hourly_it_is_an_hour(harness: Harness, segment: Builder, tmp_path: Path) -> None:
    harness.add_parts(segmentsConfig=PARTS_TABLE["segmentsConfig"] | {"segmentPushFrequency": "HOURLY"})
    assert harness.post_json("/tables", realtime(tmp_path)).status_code == 200
    assert boundary(harness) is None, "it has no segment"
    # An hour before midnight is the day before, in whole days.
    assert harness.upload(segment(amounts=(1,)), tableName="parts").status_code == 200
    harness.settle()
    assert boundary(harness) == {"timeColumn": "day", "timeValue": str(FIRST_DAY - 1)}


def test_a_segment_that_queries_do_not_see_moves_nothing(harness: Harness, segment: Builder, tmp_path: Path) -> None:
    harness.add_parts()
    assert harness.post_json("/tables", realtime(tmp_path)).status_code == 200
    assert harness.upload(segment("a"), tableName="parts").status_code == 200
    started = harness.post_json(
        "/segments/parts/startReplaceSegments", {"segmentsFrom": ["a"], "segmentsTo": ["b"]}, type="OFFLINE"
    )
    assert started.status_code == 200, started.text
    assert harness.upload(segment("b", first_day=FIRST_DAY + 10), tableName="parts").status_code == 200
    harness.settle()
    assert boundary(harness) == {"timeColumn": "day", "timeValue": str(FIRST_DAY + 1)}
    entry = started.json()["segmentLineageEntryId"]
    ended = harness.post_json("/segments/parts/endReplaceSegments", {}, type="OFFLINE", segmentLineageEntryId=entry)
    assert ended.status_code == 200, ended.text
    assert boundary(harness) == {"timeColumn": "day", "timeValue": str(FIRST_DAY + 11)}


@needs_data
@pytest.mark.parametrize("halves", [("offline", "realtime"), ("realtime", "offline")])
def test_the_reference_s_own_hybrid_table_is_accepted(harness: Harness, halves: tuple[str, str]) -> None:
    folder = DATA / "airlineStats"
    schema = json.loads((folder / "airlineStats_schema.json").read_text())
    assert harness.post_json("/schemas", schema).status_code == 200
    for half in halves:
        document = json.loads((folder / f"airlineStats_{half}_table_config.json").read_text())
        for path in ("/tables/validate", "/tables"):
            answer = harness.post_json(path, document)
            assert answer.status_code == 200, answer.text
    assert set(harness.http.get("/tables/airlineStats").json()) == {"OFFLINE", "REALTIME"}
