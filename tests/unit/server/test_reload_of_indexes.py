"""Proves what a server does with RELOAD_SEGMENT: indexes follow the table's config as it is now, queries that run keep what they hold, one
bad segment does not stop the others, and the job says how far it is and why something failed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from built_segments import batch_of, config_of, count, schema_of

from pinotpy.clock import SystemClock
from pinotpy.cluster.views import Message
from pinotpy.errors import DataError, PinotError
from pinotpy.segment import layout
from pinotpy.segment import reload as reload_room
from pinotpy.segment.builder import build_segment
from pinotpy.segment.column_indexes import form_among
from pinotpy.server.index_upkeep import JOBS_KEPT_MAX, IndexUpkeep, ReloadJobs
from pinotpy.server.tables.registry import SegmentRegistry
from pinotpy.server.tables.store import SegmentStore
from pinotpy.server.transitions import SegmentTransitions

TABLE = "t_OFFLINE"
SCHEMA = schema_of({"city": "STRING", "n": "INT"})
ROWS = {"city": ["rome", "oslo", "rome"] * 50, "n": list(range(149, -1, -1))}


class Properties:
    """Records of segments, and documents that a test changes."""

    def __init__(self) -> None:
        self.crcs: dict[str, int] = {}
        self.index: dict[str, Any] = {}

    def segment(self, table: str, name: str) -> Any:
        return SimpleNamespace(value=SimpleNamespace(crc=self.crcs[name], download_url=f"http://c/{name}"))

    def table_config(self, table: str) -> Any:
        document = {"tableName": table, "tableType": "OFFLINE", "segmentsConfig": {"replication": "1"}, "tenants": {}, "metadata": {}}
        return SimpleNamespace(value=document | {"tableIndexConfig": self.index})

    def schema(self, name: str) -> Any:
        dimensions = [{"name": name, "dataType": spec.data_type.value} for name, spec in SCHEMA.field_specs.items()]
        return SimpleNamespace(value={"schemaName": "t", "dimensionFieldSpecs": dimensions})


class Scene:
    def __init__(self, directory: Path, num_segments: int) -> None:
        self.properties = Properties()
        self.registry = SegmentRegistry()
        self.jobs = ReloadJobs(SystemClock())
        self.failures: list[str] = []
        for number in range(num_segments):
            metadata = build_segment(SCHEMA, config_of(), [batch_of(SCHEMA, ROWS)], directory / TABLE, f"s{number}")
            self.properties.crcs[f"s{number}"] = metadata.crc
        metrics = SimpleNamespace(reload_failed=self.failures.append, table_holds=lambda *_: None, load_failed=self.failures.append)
        store = SegmentStore(directory, cast(Any, None))
        properties = cast(Any, self.properties)
        self.transitions = SegmentTransitions(self.registry, store, properties, cast(Any, metrics), IndexUpkeep(properties), self.jobs)
        for name in self.properties.crcs:
            self.transitions.on_transition(TABLE, name, "OFFLINE", "ONLINE")

    def reload(self, job: str, segment: str = "") -> None:
        fields = {"MSG_SUBTYPE": "RELOAD_SEGMENT", "RESOURCE_NAME": TABLE, "PARTITION_NAME": segment, "reloadJobId": job}
        self.transitions.on_message(Message("m1", fields))

    def kinds(self, name: str, column: str) -> set[str]:
        return {entry.kind for entry in self.registry.segments(TABLE)[name].column(column).metadata.buffers}


def test_a_reload_follows_the_config_and_running_queries_keep_their_segments(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 2)
    with scene.registry.acquire(TABLE, ["s0", "s1"]) as held:
        scene.properties.index = {"invertedIndexColumns": ["city"], "rangeIndexColumns": ["n"]}
        scene.reload("job1")
        assert count(SCHEMA, held.segments, "city = 'rome' AND n < 6") == 8, "on the old ones"
        with scene.registry.acquire(TABLE, ["s0", "s1"]) as fresh:
            assert count(SCHEMA, fresh.segments, "city = 'rome' AND n < 6") == 8
            assert fresh.segments[0] is not held.segments[0]
    for name in ("s0", "s1"):
        assert form_among(scene.kinds(name, "city"), "inverted") and layout.RANGE_DOCS in scene.kinds(name, "n")
    job = scene.jobs.find("job1")
    assert job is not None and (job.num_segments, job.num_done, job.num_failed) == (2, 2, 0) and job.finished_ms > 0
    assert job.as_json()["changes"] == dict.fromkeys(["s0", "s1"], "built city.inverted, n.range")
    scene.properties.index = {}
    scene.reload("job2", "s1")
    assert form_among(scene.kinds("s0", "city"), "inverted") and not form_among(scene.kinds("s1", "city"), "inverted")


def test_a_load_builds_what_is_missing(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 1)
    scene.properties.index = {"bloomFilterColumns": ["city"]}
    scene.transitions.on_transition(TABLE, "s0", "ONLINE", "OFFLINE")
    scene.transitions.on_transition(TABLE, "s0", "OFFLINE", "ONLINE")
    assert layout.BLOOM in scene.kinds("s0", "city")


def test_one_segment_that_fails_is_served_as_it_was_and_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(tmp_path, 3)
    scene.properties.index = {"invertedIndexColumns": ["city"]}
    whole = reload_room.reload_segment

    def failing(segment: Any, *rest: Any) -> None:
        if segment.name == "s1":
            raise DataError("an index would be too large")
        whole(segment, *rest)

    monkeypatch.setattr("pinotpy.server.index_upkeep.reload_segment", failing)
    with pytest.raises(PinotError, match="too large"):
        scene.reload("job1")
    assert [form_among(scene.kinds(f"s{n}", "city"), "inverted") is not None for n in range(3)] == [True, False, True]
    with scene.registry.acquire(TABLE, ["s0", "s1", "s2"]) as held:
        assert not held.missing and count(SCHEMA, held.segments, "city = 'oslo'") == 150
    job = scene.jobs.find("job1")
    assert job is not None and job.as_json()["failedSegments"] == {"s1": "an index would be too large"} and job.num_done == 2
    assert scene.failures == [TABLE]
    scene.transitions.on_transition(TABLE, "s1", "ONLINE", "OFFLINE")
    scene.transitions.on_transition(TABLE, "s1", "OFFLINE", "ONLINE")
    assert "s1" in scene.registry.segments(TABLE), "a load without its index is a load"


def test_a_config_that_cannot_be_leaves_segments_as_they_are(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 1)
    scene.properties.index = {"invertedIndexColumns": ["nowhere"]}
    with pytest.raises(PinotError):
        scene.reload("job1")
    assert count(SCHEMA, list(scene.registry.segments(TABLE).values()), "n < 10") == 10


def test_old_jobs_are_forgotten() -> None:
    jobs = ReloadJobs(SystemClock())
    for number in range(JOBS_KEPT_MAX + 5):
        jobs.begin(f"j{number}", TABLE, 1)
    assert jobs.find("j4") is None and jobs.find("j5") is not None
