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

from pinotpy.cluster.segment_metadata import SERVED_END
from pinotpy.controller.periodic.refreshed_segments import RefreshedSegments
from pinotpy.controller.server_calls import ServerAnswer

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


def test_a_segment_that_comes_again_moves_it_when_all_its_replicas_serve_the_new_version(
    harness: Harness, segment: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record is rewritten before any server has the rows: until then the REALTIME half has to answer for them."""
    harness.add_parts()
    assert harness.post_json("/tables", realtime(tmp_path)).status_code == 200
    assert harness.upload(segment("a"), tableName="parts").status_code == 200
    harness.settle()
    before = {"timeColumn": "day", "timeValue": str(FIRST_DAY + 1)}
    assert boundary(harness) == before
    catalog = harness.controller.catalog
    old = catalog.segments("parts_OFFLINE")["a"].crc
    served = {"Server_localhost_8098": old, "Server_localhost_8198": old}
    silent: set[str] = set()

    def ask(_: Any, servers: list[str], path: str, *, deadline_s: float) -> dict[str, ServerAnswer]:
        assert path == "/tables/parts_OFFLINE/segments/crc"
        return {
            server: ServerAnswer(failure="no answer")
            if server in silent
            else ServerAnswer({"a": str(served[server]), "other": "1"})
            for server in servers
        }

    monkeypatch.setattr("pinotpy.controller.periodic.refreshed_segments.ask_servers", ask)
    task = RefreshedSegments(harness.controller)

    def look() -> Any:
        for table in task.tables():
            task.run_table(table)
        task.run_once()
        return boundary(harness)

    assert harness.upload(segment("a", first_day=FIRST_DAY + 10), tableName="parts").status_code == 200
    new = catalog.segments("parts_OFFLINE")["a"].crc
    assert new != old and boundary(harness) == before == look()
    assert harness.upload(segment("a", first_day=FIRST_DAY + 20), tableName="parts").status_code == 200
    newest = catalog.segments("parts_OFFLINE")["a"].crc
    served["Server_localhost_8098"] = newest
    assert look() == before, "one replica serves the first version"
    served["Server_localhost_8198"] = new
    assert look() == before, "and then the second"
    served["Server_localhost_8198"] = newest
    silent.add("Server_localhost_8098")
    assert look() == before, "nobody knows what it serves"
    silent.clear()
    # A new leader finds it as well.
    harness.controller.refreshed.clear()
    task = RefreshedSegments(harness.controller)
    assert look() == {"timeColumn": "day", "timeValue": str(FIRST_DAY + 21)}
    assert SERVED_END not in catalog.segments("parts_OFFLINE")["a"].extra
    # Rows of an earlier time move it back at once: the REALTIME half has what lies behind.
    assert harness.upload(segment("a", first_day=FIRST_DAY + 5), tableName="parts").status_code == 200
    assert boundary(harness) == {"timeColumn": "day", "timeValue": str(FIRST_DAY + 6)}
    assert not harness.controller.refreshed
    assert harness.http.delete("/segments/parts/a").status_code == 200
    assert boundary(harness) is None
