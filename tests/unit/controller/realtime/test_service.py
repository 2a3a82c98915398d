"""Proves the lead controller's half of segment completion over HTTP: partitions of a stream begin, a segment is sealed
once and committed with its file, whatever else replicas say, and what is no message is answered FAILED.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from completion_scene import TABLE
from completion_scene import CompletionScene as Scene
from controller_harness import start_harness

from pinotpy.cluster.realtime_records import SegmentStatus
from pinotpy.cluster.realtime_segments import RealtimeSegments
from pinotpy.controller.identity import Identity
from pinotpy.controller.periodic.realtime_validation import RealtimeValidation
from pinotpy.errors import ConnectionLostError
from pinotpy.fs.local import LocalDeepStore
from pinotpy.stream.file import create_topic


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    harness = start_harness(tmp_path / "controller")
    yield Scene(harness, tmp_path)
    harness.close()


def test_a_segment_is_sealed_committed_and_kept(scene: Scene) -> None:
    name = scene.begin()
    replicas = sorted((scene.harness.controller.catalog.ideal_state(TABLE) or {})[name])
    assert len(replicas) == 2
    assert scene.says("segmentConsumed", name, replicas[1], 90, rowCount=88, reason="timeLimit")["status"] == "HOLD"
    winner = scene.says("segmentConsumed", name, replicas[0], 100, rowCount=98, reason="timeLimit")
    behind = scene.says("segmentConsumed", name, replicas[1], 90, rowCount=88, reason="timeLimit")
    assert (winner["status"], winner["offset"]) == ("COMMIT", 100)
    assert (behind["status"], behind["offset"]) == ("CATCH_UP", 100)
    assert scene.status(name) is SegmentStatus.COMMITTING
    before, following = scene.segments.chains(TABLE)[0]
    assert str(before) == name and (before.sequence, following.sequence) == (0, 1)

    archive, metadata = scene.archive(name, 98)
    assert scene.says("segmentCommitStart", name, replicas[1], 100)["status"] != "COMMIT_CONTINUE", "it was not asked"
    assert scene.says("segmentCommitStart", name, replicas[0], 100)["status"] == "COMMIT_CONTINUE"
    files = {"file": (archive.name, archive.read_bytes())}
    uploaded = scene.says("segmentUpload", name, replicas[0], files=files)
    assert uploaded["status"] == "UPLOAD_SUCCESS"
    done = scene.says(
        "segmentCommitEndWithMetadata", name, replicas[0], 100, location=uploaded["segmentLocation"],
        files={"metadata": ("m.tar.gz", metadata)},
    )  # fmt: skip
    assert done["status"] == "COMMIT_SUCCESS" and scene.status(name) is SegmentStatus.DONE
    assert scene.says("segmentConsumed", name, replicas[1], 100)["status"] == "KEEP"
    stored = scene.segments.read(TABLE, name)
    assert stored is not None and stored.record.record.total_docs == 98
    content = httpx.get(f"{scene.harness.server.url}/segments/events/{name}", timeout=60).content
    assert content == archive.read_bytes()
    assert (scene.harness.controller.catalog.ideal_state(TABLE) or {})[name] == dict.fromkeys(replicas, "ONLINE")


def test_a_commit_in_one_step_brings_its_file(scene: Scene) -> None:
    name = scene.begin()
    replicas = sorted((scene.harness.controller.catalog.ideal_state(TABLE) or {})[name])
    for replica in replicas:
        reply = scene.says("segmentConsumed", name, replica, 50, rowCount=49)
    committer = replicas[1] if reply["status"] == "COMMIT" else replicas[0]
    archive, _ = scene.archive(name, 49)
    files = {"file": (archive.name, archive.read_bytes())}
    assert scene.says("segmentCommit", name, committer, 50, files=files)["status"] == "COMMIT_SUCCESS"
    assert scene.status(name) is SegmentStatus.DONE


def test_the_next_segment_has_the_rows_that_the_config_says_now(scene: Scene) -> None:
    name = scene.begin()
    scene.config["tableIndexConfig"]["streamConfigs"]["realtime.segment.flush.threshold.segment.rows"] = "250"
    url = f"{scene.harness.server.url}/tables/events"
    httpx.put(url, content=json.dumps(scene.config), timeout=60).raise_for_status()
    for replica in (scene.harness.controller.catalog.ideal_state(TABLE) or {})[name]:
        scene.says("segmentConsumed", name, replica, 50, rowCount=49)
    first, second = (scene.segments.read(TABLE, str(each)) for each in scene.segments.chains(TABLE)[0])
    assert first is not None and second is not None
    assert (first.record.row_threshold, second.record.row_threshold) == (100, 250)


def test_by_size_segments_grow_with_what_the_last_one_took(scene: Scene) -> None:
    stream = scene.config["tableIndexConfig"]["streamConfigs"]
    del stream["realtime.segment.flush.threshold.segment.rows"]
    stream |= {
        "realtime.segment.flush.threshold.rows": "0",
        "realtime.segment.flush.threshold.segment.size": "100M",
        "realtime.segment.flush.autotune.initialRows": "20000",
    }
    httpx.put(f"{scene.harness.server.url}/tables/events", content=json.dumps(scene.config), timeout=60)
    name, thresholds = scene.begin(), []
    for number in range(3):
        stored = scene.segments.read(TABLE, name)
        assert stored is not None
        thresholds.append(stored.record.row_threshold)
        replica, other = sorted((scene.harness.controller.catalog.ideal_state(TABLE) or {})[name])
        end = 50 * (number + 1)
        for each in (other, replica):
            scene.says("segmentConsumed", name, each, end, rowCount=20_000)
        archive, metadata = scene.archive(name, 50)
        files = {"file": (archive.name, archive.read_bytes())}
        committer = next(
            each for each in (replica, other)
            if scene.says("segmentCommitStart", name, each, end)["status"] == "COMMIT_CONTINUE"
        )  # fmt: skip
        location = scene.says("segmentUpload", name, committer, files=files)["segmentLocation"]
        done = scene.says(
            "segmentCommitEndWithMetadata", name, committer, end, location=location, segmentSizeBytes=10 << 20,
            rowCount=20_000, files={"metadata": ("m.tar.gz", metadata)},
        )  # fmt: skip
        assert done["status"] == "COMMIT_SUCCESS"
        name = str(scene.segments.chains(TABLE)[0][-1])
    assert thresholds[:2] == [20_000, 20_000], "nothing was complete when the second one began"
    assert thresholds[2] == 10_000, "50 rows took 10 MB: the least that is ever given"


def test_a_replica_that_stops_is_taken_out_and_told(scene: Scene) -> None:
    name = scene.begin()
    replica, other = sorted((scene.harness.controller.catalog.ideal_state(TABLE) or {})[name])
    assert scene.says("segmentStoppedConsuming", name, replica, reason="disk full")["status"] == "PROCESSED"
    states = (scene.harness.controller.catalog.ideal_state(TABLE) or {})[name]
    assert states == {replica: "OFFLINE", other: "CONSUMING"}


def test_what_is_no_message_is_answered_failed(scene: Scene) -> None:
    name = scene.begin()
    assert scene.says("segmentConsumed", "nothing", "A")["status"] == "FAILED"
    assert scene.says("segmentConsumed", "other__0__0__20260101T0000Z", "A")["status"] == "FAILED"
    assert "offset" in scene.says("segmentConsumed", name, "A", -5)["reason"]
    assert scene.says("segmentUpload", name, "A", files={"file": ("x", b"no archive")})["status"] == "FAILED"
    wrong, _ = scene.archive("events__0__9__20260101T0000Z", 3)
    reply = scene.says("segmentUpload", name, "A", files={"file": ("x", wrong.read_bytes())})
    assert reply["status"] == "FAILED" and "expected segment" in reply["reason"]
    assert scene.says("segmentCommitEnd", name, "A", location="/etc/passwd")["status"] == "FAILED"
    assert scene.status(name) is SegmentStatus.IN_PROGRESS


def test_a_stream_that_is_not_there_yet_is_told_and_found_later(scene: Scene) -> None:
    scene.validation.run_table(TABLE)
    failure = scene.validation.failure(TABLE)
    assert failure is not None and "events" in failure.message and failure.layer == "TOPIC"
    assert scene.segments.chains(TABLE) == {}
    changed = RealtimeValidation(scene.harness.controller, scene.segments, 60.0)
    create_topic(scene.folder / "events", 3)
    changed.run_table(TABLE)
    assert sorted(scene.segments.chains(TABLE)) == [0, 1, 2] and changed.failure(TABLE) is None
    changed.run_table(TABLE)
    assert [len(chain) for chain in scene.segments.chains(TABLE).values()] == [1, 1, 1]
    assert httpx.delete(f"{scene.harness.server.url}/tables/events", timeout=60).status_code == 200
    assert not [node for node in scene.harness.nodes() if "SEGMENT_FENCES/events" in node]


def test_a_table_made_again_under_the_same_name_begins_at_once(scene: Scene) -> None:
    """Deleted and made again between two looks, it has a config of the same version."""
    scene.begin()
    scene.validation.run_table(TABLE)
    assert httpx.delete(f"{scene.harness.server.url}/tables/events", timeout=60).status_code == 200
    scene.harness.post_json("/tables", scene.config).raise_for_status()
    assert scene.segments.chains(TABLE) == {}
    scene.validation.run_table(TABLE)
    assert sorted(scene.segments.chains(TABLE)) == [0]


def test_the_reply_says_who_is_not_the_leader(scene: Scene) -> None:
    name = scene.begin()
    object.__setattr__(scene.harness.controller, "is_leader", lambda: False)
    assert scene.says("segmentConsumed", name, "A")["status"] == "NOT_LEADER"
    assert (
        json.loads(httpx.post(f"{scene.harness.server.url}/segmentConsumed", timeout=60).text)["status"] == "NOT_LEADER"
    )


def test_a_file_comes_to_any_controller_and_the_leader_makes_it_done(tmp_path: Path) -> None:
    """The one that takes the file does not lead; its file is that of the segment."""
    store = LocalDeepStore(tmp_path / "store")
    scene = Scene(start_harness(tmp_path / "leader", deep_store=store), tmp_path)
    other = start_harness(
        tmp_path / "other", tree=scene.harness.tree, deep_store=store, servers=0, broker="Broker_localhost_8199",
        identity=Identity("Controller_localhost_9001", "http://localhost:9001"),
    )  # fmt: skip
    object.__setattr__(other.controller, "is_leader", lambda: False)
    object.__setattr__(other.controller, "leader", lambda: scene.harness.controller.instance)
    name = scene.begin()
    for replica in (scene.harness.controller.catalog.ideal_state(TABLE) or {})[name]:
        reply = scene.says("segmentConsumed", name, replica, 50, rowCount=49)
    assert reply["status"] == "COMMIT"
    archive, metadata = scene.archive(name, 49)
    assert scene.says("segmentCommitStart", name, replica, 50)["status"] == "COMMIT_CONTINUE"
    to_other = {"name": name, "instance": replica, "offset": "50", "streamPartitionMsgOffset": "50"}
    files = {"file": (archive.name, archive.read_bytes())}
    uploaded = other.http.post("/segmentUpload", params=to_other, files=files).json()
    assert uploaded["status"] == "UPLOAD_SUCCESS"
    refused = other.http.post("/segmentCommitEndWithMetadata", params=to_other, files={"file": ("m", metadata)}).json()
    assert refused["status"] == "NOT_LEADER" and scene.status(name) is SegmentStatus.COMMITTING
    done = scene.says(
        "segmentCommitEndWithMetadata", name, replica, 50, location=uploaded["segmentLocation"],
        files={"metadata": ("m.tar.gz", metadata)},
    )  # fmt: skip
    assert done["status"] == "COMMIT_SUCCESS" and scene.status(name) is SegmentStatus.DONE
    content = httpx.get(f"{scene.harness.server.url}/segments/events/{name}", timeout=60).content
    assert content == archive.read_bytes()
    for harness in (other, scene.harness):
        harness.close()


@pytest.mark.parametrize("is_split", [True, False])
def test_the_controller_says_whether_commits_are_split(tmp_path: Path, is_split: bool) -> None:
    harness = start_harness(tmp_path / "controller", settings={"split_commit": is_split})
    scene = Scene(harness, tmp_path)
    name = scene.begin()
    for replica in sorted((harness.controller.catalog.ideal_state(TABLE) or {})[name]):
        reply = scene.says("segmentConsumed", name, replica, 50, rowCount=49)
    assert (reply["status"], reply["isSplitCommitType"]) == ("COMMIT", is_split)
    harness.close()


@pytest.mark.parametrize("time_ms", [-1, 2**62, None], ids=str)
def test_no_time_of_a_record_keeps_a_segment_from_being_stored(scene: Scene, time_ms: int | None) -> None:
    """Its partition would wait for it for ever. None: no record has one."""
    name = scene.begin()
    replicas = sorted((scene.harness.controller.catalog.ideal_state(TABLE) or {})[name])
    for replica in replicas:
        reply = scene.says("segmentConsumed", name, replica, 50, rowCount=49)
    committer = replicas[1] if reply["status"] == "COMMIT" else replicas[0]
    archive, _ = scene.archive(name, 49, time_ms)
    files = {"file": (archive.name, archive.read_bytes())}
    assert scene.says("segmentCommit", name, committer, 50, files=files)["status"] == "COMMIT_SUCCESS"
    assert scene.status(name) is SegmentStatus.DONE


@pytest.mark.parametrize(("method", "call"), [("instances", 1), ("read", 2), ("seal", 1)])
def test_a_reply_of_zookeeper_that_is_lost_while_a_segment_is_sealed_stops_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, method: str, call: int
) -> None:
    name = scene.begin()
    replicas = sorted((scene.harness.controller.catalog.ideal_state(TABLE) or {})[name])
    assert scene.says("segmentConsumed", name, replicas[0], 50, rowCount=49)["status"] == "HOLD"
    real, calls = getattr(RealtimeSegments, method), [0]

    def lost(*arguments: Any) -> Any:
        result = real(*arguments)
        calls[0] += threading.current_thread().name.startswith("completion")
        if calls[0] == call:
            raise ConnectionLostError(f"the reply to {method} is lost", path="/")
        return result

    monkeypatch.setattr(RealtimeSegments, method, lost)
    url = f"{scene.harness.server.url}/segmentConsumed"
    params = {"name": name, "instance": replicas[1], "offset": "50", "streamPartitionMsgOffset": "50", "rowCount": "49"}
    refused = httpx.post(url, params=params, timeout=60)
    assert "is lost" in refused.text
    monkeypatch.undo()
    said = {
        replica: scene.says("segmentConsumed", name, replica, 50, rowCount=49)["status"]
        for _ in range(2)
        for replica in replicas
    }
    assert "COMMIT" in said.values() and scene.status(name) is SegmentStatus.COMMITTING
    committer = next(replica for replica, status in said.items() if status == "COMMIT")
    archive, _ = scene.archive(name, 49)
    files = {"file": (archive.name, archive.read_bytes())}
    assert scene.says("segmentCommit", name, committer, 50, files=files)["status"] == "COMMIT_SUCCESS"
    assert scene.status(name) is SegmentStatus.DONE


def test_segments_record_the_partition_of_the_stream(scene: Scene) -> None:
    columns = {"id": {"functionName": "Modulo", "numPartitions": 2}}
    scene.config["tableIndexConfig"]["segmentPartitionConfig"] = {"columnPartitionMap": columns}
    url = f"{scene.harness.server.url}/tables/events"
    httpx.put(url, content=json.dumps(scene.config), timeout=60).raise_for_status()
    scene.begin(3)
    found = {}
    for partition, (name,) in scene.segments.chains(TABLE).items():
        stored = scene.segments.read(TABLE, str(name))
        assert stored is not None
        found[partition] = stored.record.record.partition_metadata
    told = {"functionName": "Modulo", "numPartitions": 2, "functionConfig": None}
    assert found == {
        0: {"columnPartitionMap": {"id": {**told, "partitions": [0]}}},
        1: {"columnPartitionMap": {"id": {**told, "partitions": [1]}}},
        2: None,
    }


@pytest.mark.parametrize(
    ("column", "sealed", "count"),
    [("id", {"functionName": "Modulo", "numPartitions": 2, "partitions": [0, 1], "functionConfig": None}, None),
     ("kind", None, 1.0)],
)  # fmt: skip
def test_a_sealed_segment_records_what_its_rows_have_and_not_what_the_stream_promised(
    scene: Scene, column: str, sealed: dict[str, Any] | None, count: float | None, caplog: pytest.LogCaptureFixture
) -> None:
    # Both partitions of the ids lie in the stream's one; kinds are texts that Modulo does not take.
    columns = {column: {"functionName": "Modulo", "numPartitions": 2}}
    scene.config["tableIndexConfig"]["segmentPartitionConfig"] = {"columnPartitionMap": columns}
    url = f"{scene.harness.server.url}/tables/events"
    httpx.put(url, content=json.dumps(scene.config), timeout=60).raise_for_status()
    name = scene.begin()
    began = scene.segments.read(TABLE, name)
    assert began is not None and began.record.record.partition_metadata is not None
    assert began.record.record.partition_metadata["columnPartitionMap"][column]["partitions"] == [0]
    for replica in (scene.harness.controller.catalog.ideal_state(TABLE) or {})[name]:
        reply = scene.says("segmentConsumed", name, replica, 50, rowCount=49)
        if reply["status"] == "COMMIT":
            committer = replica
    archive, _ = scene.archive(name, 49)
    files = {"file": (archive.name, archive.read_bytes())}
    assert scene.says("segmentCommit", name, committer, 50, files=files)["status"] == "COMMIT_SUCCESS"
    done = scene.segments.read(TABLE, name)
    assert done is not None
    expected = None if sealed is None else {"columnPartitionMap": {column: sealed}}
    assert done.record.record.partition_metadata == expected
    counted = [
        float(line.split()[-1])
        for line in scene.harness.http.get("/metrics").text.splitlines()
        if line.startswith('pinot_controller_controllerSegmentsWithoutPartitions_total{table="events_REALTIME"}')
    ]
    assert counted == ([] if count is None else [count])
    told = [record.getMessage() for record in caplog.records if "without partitions table=" in record.getMessage()]
    assert len(told) == (sealed is None) and all(name in text and f"columns={column}" in text for text in told)


@pytest.mark.parametrize(
    ("counts", "is_kept"),
    [
        ("60,2,0,49,4,5", True),
        ("60,2,0,48,5,5", False),  # other rows than the file has
        ("61,2,0,49,4,5", False),  # a record of which nobody knows
        ("1,2", False),
        ("", False),
    ],
)
def test_the_record_of_a_segment_says_what_became_of_its_records_if_they_add_up(
    scene: Scene, counts: str, is_kept: bool
) -> None:
    name = scene.begin()
    for replica in (scene.harness.controller.catalog.ideal_state(TABLE) or {})[name]:
        reply = scene.says("segmentConsumed", name, replica, 50, rowCount=49)
        if reply["status"] == "COMMIT":
            committer = replica
    archive, _ = scene.archive(name, 49)
    files = {"file": (archive.name, archive.read_bytes())}
    reply = scene.says("segmentCommit", name, committer, 50, files=files, recordCounts=counts)
    assert reply["status"] == "COMMIT_SUCCESS"
    done = scene.segments.read(TABLE, name)
    assert done is not None and done.record.status is SegmentStatus.DONE
    expected = {"records": 60, "tombstones": 2, "added": 0, "indexed": 49, "filtered": 4, "rejected": 5}
    found = done.record.record.extra.get("segment.realtime.records")
    assert (found and json.loads(found)) == (expected if is_kept else None)
    alarms = 'controllerCompletionAlarms_total{table="events_REALTIME"} 1.0'
    assert (alarms in scene.harness.http.get("/metrics").text) is (not is_kept and counts.count(",") == 5)
