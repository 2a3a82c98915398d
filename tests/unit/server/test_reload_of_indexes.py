"""Proves what a server does with RELOAD_SEGMENT: indexes follow the table's config as it is now, queries that run keep
what they hold, one bad segment does not stop the others, and the job says how far it is and why something failed.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from built_segments import batch_of, config_of, count
from server_scene import ROWS, SCHEMA, TABLE, Properties, Scene

from pinotpy.clock import SystemClock
from pinotpy.cluster.reload_jobs import SealedEnds
from pinotpy.errors import DataError, PinotError
from pinotpy.segment import layout
from pinotpy.segment import reload as reload_room
from pinotpy.segment.build.builder import build_segment
from pinotpy.segment.build.column_indexes import form_among
from pinotpy.segment.directory.resident_directory import ResidentDirectory
from pinotpy.server.reload_jobs import JOBS_KEPT_MAX, ReloadJobs
from pinotpy.server.tables.locks import SegmentLocks


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
    assert scene.counts("job1") == (2, 2, 0) and scene.status("job1")["finishTimeMs"] > 0
    assert scene.status("job1")["changes"] == dict.fromkeys(["s0", "s1"], "built city.inverted, n.range")
    scene.properties.index = {}
    assert set(scene.upkeep.needed(TABLE, scene.registry.segments(TABLE).values())) == {"s0", "s1"}
    scene.reload("job2", "s1")
    assert form_among(scene.kinds("s0", "city"), "inverted") and not form_among(scene.kinds("s1", "city"), "inverted")


def test_a_reload_waits_for_no_segment_that_consumes_and_for_a_sealed_one_that_is_not_served_yet(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path, 1)
    sealed, consuming = "t__0__0__20260101T0000Z", "t__0__1__20260101T0000Z"
    scene.assigned += [sealed, consuming]
    scene.properties.index = {"invertedIndexColumns": ["city"]}
    scene.reload("job1", ends=SealedEnds({0: 1}))
    scene.reload("job2", consuming, ends=SealedEnds({0: 1}))
    assert scene.counts("job1") == (2, 1, 0) and scene.status("job1")["finishTimeMs"] is None
    assert scene.counts("job2") == (0, 0, 0) and scene.status("job2")["finishTimeMs"] is not None
    for name in (sealed, consuming):  # as its stream ends: built here, of the documents of before
        config = config_of({})
        metadata = build_segment(SCHEMA, config, [batch_of(SCHEMA, ROWS)], tmp_path / "built", name)
        scene.properties.crcs[name] = metadata.crc
        scene.transitions.adopt(TABLE, tmp_path / "built" / name, ("0", "9"))
    assert form_among(scene.kinds(sealed, "city"), "inverted")
    assert not form_among(scene.kinds(consuming, "city"), "inverted"), "it was not sealed when the reload was asked for"
    assert scene.counts("job1") == (2, 2, 0) and scene.status("job1")["finishTimeMs"] is not None


def test_a_reload_says_what_only_a_new_build_brings(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 2, index={"noDictionaryColumns": ["city"]})
    scene.properties.index = {"invertedIndexColumns": ["city"], "rangeIndexColumns": ["n"]}
    beyond = scene.upkeep.beyond(TABLE, scene.registry.segments(TABLE).values())
    assert set(beyond) == {"s0", "s1"} and all(
        "'city' is stored raw" in why and "inverted index" in why for why in beyond.values()
    )
    scene.reload("job1")
    assert scene.counts("job1") == (2, 2, 0)
    changes = scene.status("job1")["changes"]["s0"]
    assert changes.startswith("built n.range; 'city' is stored raw") and changes.endswith(
        "build the segment anew and upload it"
    )
    assert scene.upkeep.needed(TABLE, scene.registry.segments(TABLE).values()) == {}, (
        "a further reload would change nothing"
    )


def test_a_star_tree_that_the_columns_do_not_allow_is_told_and_keeps_nothing_else_from_being_done(
    tmp_path: Path,
) -> None:
    properties = Properties()
    properties.index = {"noDictionaryColumns": ["city"]}
    scene = Scene(tmp_path, 1, properties=properties)
    tree = {"functionColumnPairs": ["COUNT__*"], "maxLeafRecords": 1}
    trees = [tree | {"dimensionsSplitOrder": order} for order in (["n"], ["city", "n"], ["n", "later"])]
    properties.index = {
        "loadMode": "HEAP",
        "rangeIndexColumns": ["n"],
        "enableDynamicStarTreeCreation": True,
        "starTreeIndexConfigs": trees,
    }
    properties.fields["dimensionFieldSpecs"].append({"name": "later", "dataType": "INT"})
    scene.reload("job1")
    assert scene.counts("job1") == (1, 1, 0)
    changes = scene.status("job1")["changes"]["s0"]
    assert (
        changes.startswith("built n.range; built star-tree(n); 'city' is stored raw") and "read into memory" in changes
    )
    assert "star-tree(city, n) cannot be built: its dimension 'city' has no dictionary" in changes
    assert (
        "star-tree(n, later) cannot be built: the segment has no column 'later'" in changes
        and "build the segment anew" in changes
    )
    segments = scene.registry.segments(TABLE).values()
    assert scene.upkeep.needed(TABLE, segments) == {}, "a further reload would change nothing"
    assert "star-tree(n, later)" in scene.upkeep.beyond(TABLE, segments)["s0"]


def test_segments_are_in_memory_where_the_config_says_heap(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 2)

    def is_mapped(name: str) -> bool:
        return str(tmp_path / "index" / TABLE / name) in Path("/proc/self/maps").read_text()

    def is_resident(name: str) -> bool:
        return isinstance(scene.registry.segments(TABLE)[name].directory, ResidentDirectory) and not is_mapped(name)

    assert is_mapped("s0") and is_mapped("s1")
    scene.properties.index = {"loadMode": "HEAP"}
    for name in ("s0", "s1"):
        scene.transitions.on_transition(TABLE, name, "ONLINE", "OFFLINE")
        scene.transitions.on_transition(TABLE, name, "OFFLINE", "ONLINE")
    assert is_resident("s0") and is_resident("s1")
    assert scene.upkeep.needed(TABLE, scene.registry.segments(TABLE).values()) == {}
    assert count(SCHEMA, list(scene.registry.segments(TABLE).values()), "city = 'rome' AND n < 6") == 8
    scene.properties.index = {"loadMode": "HEAP", "invertedIndexColumns": ["city"]}
    scene.reload("job1")
    assert is_resident("s0") and form_among(scene.kinds("s0", "city"), "inverted")
    assert count(SCHEMA, list(scene.registry.segments(TABLE).values()), "city = 'rome' AND n < 6") == 8
    scene.properties.index = {"loadMode": "MMAP", "invertedIndexColumns": ["city"]}
    assert scene.upkeep.needed(TABLE, scene.registry.segments(TABLE).values()) == dict.fromkeys(["s0", "s1"], "mapped")
    scene.reload("job2", "s0")
    assert scene.status("job2")["changes"] == {"s0": "mapped"}
    assert is_mapped("s0") and is_resident("s1")
    scene.properties.index = {"loadMode": "HEAP"}
    scene.reload("job3")
    assert is_resident("s0") and scene.status("job3")["changes"]["s0"] == "dropped city.inverted; read into memory"
    assert count(SCHEMA, list(scene.registry.segments(TABLE).values()), "city = 'rome' AND n < 6") == 8


@pytest.mark.parametrize(("before", "after"), [("HEAP", "HEAP"), ("MMAP", "HEAP"), ("HEAP", "MMAP")])
def test_columns_of_several_pages_read_the_same_after_an_index_was_added(
    tmp_path: Path, before: str, after: str
) -> None:
    properties = Properties()
    properties.index = {"loadMode": before}
    rows = {"city": [f"city {n % 300:03d}" for n in range(6000)], "n": [n * 7 % 5000 for n in range(6000)]}
    scene = Scene(tmp_path, 1, properties=properties, splits=[[batch_of(SCHEMA, rows)]])
    properties.index = {"loadMode": after, "invertedIndexColumns": ["city"], "rangeIndexColumns": ["n"]}
    scene.reload("job1")
    segment = scene.registry.segments(TABLE)["s0"]
    assert isinstance(segment.directory, ResidentDirectory) == (after == "HEAP") and layout.RANGE_DOCS in scene.kinds(
        "s0", "n"
    )
    assert pa.Table.from_batches(segment.to_batches()).to_pydict() == rows


def test_a_load_builds_what_is_missing(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 1)
    scene.properties.index = {"bloomFilterColumns": ["city"]}
    scene.transitions.on_transition(TABLE, "s0", "ONLINE", "OFFLINE")
    scene.transitions.on_transition(TABLE, "s0", "OFFLINE", "ONLINE")
    assert layout.BLOOM in scene.kinds("s0", "city")


def test_one_segment_that_fails_is_served_as_it_was_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    failed = scene.status("job1")["failedSegments"]
    assert scene.counts("job1") == (3, 2, 1) and {name: why["errorMessage"] for name, why in failed.items()} == {
        "s1": "an index would be too large"
    }
    assert scene.failures == [TABLE] and scene.status("job1")["finishTimeMs"] > 0
    monkeypatch.setattr("pinotpy.server.index_upkeep.reload_segment", whole)
    scene.reload("job2", "s1")
    assert scene.counts("job2") == (1, 1, 0)
    assert scene.counts("job1") == (3, 3, 0), "what a later job did, the earlier one has too"
    monkeypatch.setattr("pinotpy.server.index_upkeep.reload_segment", failing)
    scene.properties.index = {}
    with pytest.raises(PinotError, match="too large"):
        scene.reload("job3", "s1")
    assert scene.counts("job3") == (1, 0, 1) and scene.counts("job1") == (3, 3, 0), "what fails later does not undo it"
    scene.transitions.on_transition(TABLE, "s1", "ONLINE", "OFFLINE")
    scene.transitions.on_transition(TABLE, "s1", "OFFLINE", "ONLINE")
    assert "s1" in scene.registry.segments(TABLE), "a load without its index is a load"


def test_a_config_that_cannot_be_leaves_segments_as_they_are(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 1)
    scene.properties.index = {"invertedIndexColumns": ["nowhere"]}
    with pytest.raises(PinotError):
        scene.reload("job1")
    assert count(SCHEMA, list(scene.registry.segments(TABLE).values()), "n < 10") == 10


def test_a_segment_that_is_still_to_be_loaded_is_done_by_its_load(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 3)
    scene.properties.index = {"invertedIndexColumns": ["city"], "bloomFilterColumns": ["city"]}
    scene.reload("job0")
    scene.transitions.on_transition(TABLE, "s1", "ONLINE", "OFFLINE")
    scene.properties.index = {"bloomFilterColumns": ["city"]}
    scene.reload("job1")
    assert scene.counts("job1") == (3, 2, 0) and scene.status("job1")["finishTimeMs"] is None
    scene.transitions.on_transition(TABLE, "s1", "OFFLINE", "ONLINE")
    assert scene.counts("job1") == (3, 3, 0) and scene.status("job1")["finishTimeMs"] > 0
    assert not form_among(scene.kinds("s1", "city"), "inverted"), "also what is not wanted any more is gone"
    scene.properties.index = {}
    scene.transitions.on_transition(TABLE, "s1", "ONLINE", "OFFLINE")
    scene.transitions.on_transition(TABLE, "s1", "OFFLINE", "ONLINE")
    assert layout.BLOOM in scene.kinds("s1", "city"), "no job waits: a load only adds"


def test_segments_that_cannot_be_loaded_or_are_not_here_are_failures_with_their_reason(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 2)
    scene.transitions.on_transition(TABLE, "s1", "ONLINE", "OFFLINE")
    scene.properties.crcs["s1"] += 1  # neither here nor to be had: the scene has no fetcher that works
    scene.deep_store.failure = DataError("no such archive")
    with pytest.raises(DataError):
        scene.transitions.on_transition(TABLE, "s1", "OFFLINE", "ONLINE")
    scene.reload("job1")
    assert scene.counts("job1") == (2, 1, 1)
    assert "no such archive" in scene.status("job1")["failedSegments"]["s1"]["errorMessage"]
    scene.reload("job2", "elsewhere")
    assert scene.status("job2")["failedSegments"]["elsewhere"]["errorMessage"] == "this server does not serve it"


def test_a_segment_that_is_deleted_while_it_reloads_is_no_failure(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 3)
    scene.properties.index = {"invertedIndexColumns": ["city"]}
    del scene.properties.crcs["s1"]
    scene.reload("job1")
    assert scene.status("job1")["failureCount"] == 0 and not scene.failures and scene.status("job1")["finishTimeMs"] > 0
    assert [form_among(scene.kinds(name, "city"), "inverted") is not None for name in ("s0", "s1", "s2")] == [
        True,
        False,
        True,
    ]


def test_a_job_that_is_told_twice_is_done_once_and_dropped_segments_are_not_waited_for(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 2)
    scene.assigned = ["s0", "s1", "s2", "s3"]
    scene.reload("job1")
    assert scene.counts("job1") == (4, 2, 0)
    held = scene.registry.segments(TABLE)
    scene.assigned = ["s0", "s1", "s2"]
    scene.reload("job1")
    assert scene.registry.segments(TABLE) == held and scene.counts("job1") == (3, 2, 0)
    scene.transitions.on_transition(TABLE, "s2", "OFFLINE", "DROPPED")
    assert scene.counts("job1") == (2, 2, 0) and scene.status("job1")["finishTimeMs"] > 0


def test_a_job_that_was_finished_before_a_restart_is_not_done_again(tmp_path: Path) -> None:
    file = tmp_path / "finished"
    first = ReloadJobs(SystemClock(), file)
    first.begin("done", TABLE, "", ["s0"])
    first.begin("half", TABLE, "", ["s0", "s1"])
    first.done(TABLE, "s0", first.mark(), "nothing to do")
    again = ReloadJobs(SystemClock(), file)
    again.done(TABLE, "s0", again.mark(), "nothing to do")  # its load
    assert again.is_finished("done", TABLE, "") and not again.is_finished("half", TABLE, "")
    status = again.status("done", TABLE, ["s0"])
    assert status is not None and status["successCount"] == 1
    again.expect("half", TABLE, "", ["s0", "s1"])
    status = again.status("half", TABLE, ["s0", "s1"])
    assert status is not None and (status["totalSegmentCount"], status["successCount"]) == (2, 0), (
        "a load before it is no proof"
    )
    for name in ("s0", "s1"):
        again.done(TABLE, name, again.mark(), "nothing to do")
    assert ReloadJobs(SystemClock(), file).is_finished("half", TABLE, "")


def test_many_jobs_are_done_at_once(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 2)
    for number in range(5):
        scene.jobs.expect(f"job{number}", TABLE, "", ["s0", "s1"])
    opened: list[str] = []
    whole = scene.transitions._open
    scene.transitions._open = lambda table, name, **how: opened.append(name) or whole(table, name, **how)  # type: ignore[method-assign,func-returns-value]
    for number in range(5):
        scene.reload(f"job{number}")
    assert sorted(opened) == ["s0", "s1"] and all(scene.counts(f"job{number}") == (2, 2, 0) for number in range(5))


def test_one_segment_is_worked_on_by_one_thread_at_a_time() -> None:
    locks, inside, most, errors = SegmentLocks(), [0], [0], []
    turns = threading.Barrier(8)

    def work(number: int) -> None:
        turns.wait(60)
        for _ in range(200):
            with locks.hold(TABLE, "s0"):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                if inside[0] != 1:
                    errors.append(number)
                inside[0] -= 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors and most[0] == 1 and not locks._held, "and nothing is kept"


def test_old_jobs_are_forgotten() -> None:
    jobs = ReloadJobs(SystemClock())
    for number in range(JOBS_KEPT_MAX + 5):
        jobs.begin(f"j{number}", TABLE, "", ["s0"])
    assert jobs.status("j4", TABLE, ["s0"]) is None and jobs.status("j5", TABLE, ["s0"]) is not None
    assert jobs.status("j5", "other_OFFLINE", ["s0"]) is None
