"""Proves forced commits on the controller over HTTP: the order is in the records of the segments that were meant before
servers are told, the status says what is not committed yet, and what cannot be meant is refused.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from controller_harness import PARTS_TABLE, Harness, start_harness
from events_table import SCHEMA, table_config

from pinotpy.cluster.realtime_segments import Written
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.views import IdealState
from pinotpy.cluster.write_outcome import WriteOutcome
from pinotpy.controller.completion.thresholds import SizeFacts
from pinotpy.controller.periodic.realtime_validation import RealtimeValidation
from pinotpy.controller.realtime.force_commit import force_commit
from pinotpy.errors import ClusterError
from pinotpy.stream.file import create_topic

TABLE = "events_REALTIME"
SERVERS = ("Server_localhost_8098", "Server_localhost_8198")
PARTITIONS = 3


class Scene:
    def __init__(self, harness: Harness, folder: Path) -> None:
        self.harness = harness
        harness.post_json("/schemas", SCHEMA).raise_for_status()
        harness.post_json("/tables", table_config(folder, rows=100)).raise_for_status()
        create_topic(folder / "events", PARTITIONS)
        self.segments = harness.controller.realtime_segments
        RealtimeValidation(harness.controller, self.segments, 60.0).run_table(TABLE)
        self.names = [str(chain[-1]) for _, chain in sorted(self.segments.chains(TABLE).items())]

    def ask(self, table: str = "events", **params: str) -> httpx.Response:
        return self.harness.http.post(f"/tables/{table}/forceCommit", params=params)

    def jobs(self) -> list[str]:
        """Of each partition the job in its segment's record."""
        stored = [self.segments.read(TABLE, name) for name in self.names]
        return [each.record.force_commit_job for each in stored if each is not None]

    def status(self, job: str) -> httpx.Response:
        return self.harness.http.get(f"/tables/forceCommitStatus/{job}")


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    harness = start_harness(tmp_path / "controller")
    yield Scene(harness, tmp_path)
    harness.close()


def test_the_number_of_partitions_is_known_before_all_have_begun(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = scene.harness.controller

    def num_partitions() -> int:
        data, _ = controller.catalog.store.get(controller.catalog.paths.ideal_state(TABLE))
        return IdealState.from_record(ZNRecord.from_bytes(data, TABLE)).num_stream_partitions

    assert num_partitions() == PARTITIONS
    shutil.rmtree(tmp_path / "events")
    create_topic(tmp_path / "events", PARTITIONS + 2)
    monkeypatch.setattr(scene.segments, "begin", lambda *_: Written(WriteOutcome.FAILED, "no time"))
    RealtimeValidation(controller, scene.segments, 60.0).run_table(TABLE)
    assert num_partitions() == PARTITIONS + 2 and len(scene.segments.chains(TABLE)) == PARTITIONS


def test_there_is_nothing_to_commit_where_nothing_consumes(tmp_path: Path) -> None:
    harness = start_harness(tmp_path / "controller")
    try:
        harness.post_json("/schemas", SCHEMA).raise_for_status()
        harness.post_json("/tables", table_config(tmp_path, rows=100)).raise_for_status()
        answer = harness.http.post("/tables/events/forceCommit")
        assert answer.status_code == 404 and "there is nothing to commit" in answer.text
    finally:
        harness.close()


def test_all_segments_are_ordered_and_servers_are_told(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "pinotpy.audit"):
        answer = scene.ask()
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    job = told["forceCommitJobId"]
    assert (told["forceCommitStatus"], told["jobMetaZKWriteStatus"]) == ("SUCCESS", "SUCCESS")
    assert told["segmentsForceCommitted"] == scene.names and scene.jobs() == [job] * PARTITIONS
    for server in SERVERS:
        (message,) = (each for each in scene.harness.messages(server) if each["MSG_SUBTYPE"] == "FORCE_COMMIT")
        assert (message["RESOURCE_NAME"], message["forceCommitJobId"]) == (TABLE, job)
    lines = [json.loads(record.getMessage()) for record in caplog.records if record.name == "pinotpy.audit"]
    assert [(line["path"], line["resource"], line["status"]) for line in lines] == [
        ("/tables/{tableName}/forceCommit", "table 'events'", 200)
    ]
    status = scene.status(job).json()
    assert (status["jobType"], status["tableName"]) == ("FORCE_COMMIT", TABLE)
    assert status["segmentsForceCommitted"] == status["segmentsYetToBeCommitted"] == scene.names
    assert status["numberOfSegmentsYetToBeCommitted"] == PARTITIONS


def test_only_what_was_named_is_ordered(scene: Scene) -> None:
    assert scene.ask(TABLE, partitions="2, 0,2").json()["segmentsForceCommitted"] == [scene.names[2], scene.names[0]]
    first = scene.jobs()
    assert first[0] == first[2] != "" and first[1] == ""
    assert scene.ask(segments=scene.names[1]).json()["segmentsForceCommitted"] == [scene.names[1]]
    assert scene.jobs()[1] not in ("", first[0])


def test_a_forced_segment_is_sealed_where_it_was_and_is_waited_for_until_it_is_done(scene: Scene) -> None:
    job = scene.ask(partitions="1").json()["forceCommitJobId"]
    name = scene.names[1]
    for server in SERVERS:
        reply = scene.harness.http.post(
            "/segmentConsumed",
            params={
                "name": name,
                "instance": server,
                "streamPartitionMsgOffset": "40",
                "reason": "forceCommitMessageReceived",
                "rowCount": "39",
            },
        ).json()
    assert reply["status"] == "COMMIT"
    assert scene.status(job).json()["segmentsYetToBeCommitted"] == [name]
    assert scene.ask(segments=name).status_code == 404, "it does not take rows any more"
    following = str(scene.segments.chains(TABLE)[1][-1])
    again = scene.ask(partitions="1").json()
    assert again["segmentsForceCommitted"] == [following] and scene.status(job).json()["jobId"] == job
    stored = scene.segments.read(TABLE, name)
    assert stored is not None
    scene.segments.done(stored, stored.record.record)
    assert scene.status(job).json()["numberOfSegmentsYetToBeCommitted"] == 0
    assert scene.status(again["forceCommitJobId"]).json()["segmentsYetToBeCommitted"] == [following]


def test_a_forced_segment_says_nothing_of_sizes(scene: Scene) -> None:
    from pinotpy.controller.realtime.service import CompletionService

    scene.ask(partitions="0")
    service = CompletionService(scene.harness.controller, scene.segments)
    for name in scene.names[:2]:
        stored = scene.segments.read(TABLE, name)
        assert stored is not None
        service.completed(stored.record, 5, 1_000)
    facts: list[SizeFacts] = [service._completed[TABLE, partition][1] for partition in (0, 1)]
    assert [each.is_forced for each in facts] == [True, False]


@pytest.mark.parametrize(
    ("table", "params", "status", "reason"),
    [
        ("nobody", {}, 404, "Table 'nobody' not found"),
        ("parts", {}, 400, "expected a table with a REALTIME half"),
        ("events_OFFLINE", {}, 404, "not found"),
        ("events", {"partitions": "7"}, 404, "no segment of partition 7 consumes; of these it does: 0, 1, 2"),
        ("events", {"partitions": "-1"}, 400, "'-1' is no partition: expected numbers"),
        ("events", {"partitions": "0", "segments": "x"}, 400, "Cannot specify both partitions and segments"),
        ("events", {"segments": "x,y"}, 404, "Cannot force commit non-consuming segments: x, y"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_nothing_is_ordered(
    scene: Scene, table: str, params: dict[str, str], status: int, reason: str
) -> None:
    parts = {key: value for key, value in SCHEMA.items() if key != "schemaName"} | {"schemaName": "parts"}
    scene.harness.post_json("/schemas", parts).raise_for_status()
    segments = PARTS_TABLE["segmentsConfig"] | {"timeColumnName": "ts"}
    scene.harness.post_json("/tables", PARTS_TABLE | {"segmentsConfig": segments}).raise_for_status()
    answer = scene.ask(table, **params)
    assert (answer.status_code, reason in answer.json()["error"]) == (status, True), answer.text
    assert scene.jobs() == [""] * PARTITIONS


def test_a_job_is_gone_with_its_table_and_an_unknown_one_is_told(scene: Scene) -> None:
    job = scene.ask().json()["forceCommitJobId"]
    assert scene.status("nothing").status_code == 404
    scene.harness.http.delete("/tables/events").raise_for_status()
    assert scene.status(job).status_code == 404
    assert scene.ask().status_code == 404


def test_an_order_that_could_not_be_written_is_an_error(scene: Scene) -> None:
    def refused() -> Any:
        from pinotpy.errors import NotLeaderError

        raise NotLeaderError("another controller leads")

    scene.harness.controller.catalog.fences = refused  # type: ignore[method-assign]
    with pytest.raises(ClusterError, match=r"could not be ordered: another controller leads; try again"):
        force_commit(scene.harness.controller, TABLE, (), ())
    assert scene.jobs() == [""] * PARTITIONS


def test_where_servers_stand_is_told_by_segment(scene: Scene) -> None:
    harness = scene.harness
    for server in SERVERS:
        path = harness.paths.instance_config(server)
        record = json.loads(harness.store.get(path)[0])
        record["simpleFields"]["adminPort"] = server.rpartition("_")[2]
        harness.store.set(path, json.dumps(record).encode())
    partitions = [
        {"partition": number, "currentOffset": str(10 + number), "lastFetchTimeMs": 5, "failure": failure,
         "segments": [{"segmentName": scene.names[number]}]}
        for number, failure in ((0, ""), (1, "the topic is away"))
    ]  # fmt: skip

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.port == 8198:
            raise httpx.ConnectError("connection refused", request=request)
        return httpx.Response(200, json={"tableName": TABLE, "partitions": partitions})

    object.__setattr__(harness.controller, "peers", httpx.Client(transport=httpx.MockTransport(answer)))
    told = harness.http.get("/tables/events/consumingSegmentsInfo").json()
    assert told["serversFailingToRespond"] == 1 and list(told["serversFailed"]) == [SERVERS[1]]
    found = told["_segmentToConsumingInfoMap"]
    assert list(found) == sorted(scene.names)
    states = {
        name: [(each["serverName"], each["consumerState"], each["lastConsumedTimestamp"], each["partitionToOffsetMap"])
               for each in replicas]
        for name, replicas in found.items()
    }  # fmt: skip
    assert states == {
        scene.names[0]: [(SERVERS[0], "CONSUMING", 5, {"0": "10"})],
        scene.names[1]: [(SERVERS[0], "NOT_CONSUMING", 5, {"1": "11"})],
        scene.names[2]: [(SERVERS[0], "NOT_CONSUMING", 0, {})],
    }
    assert harness.http.get("/tables/parts/consumingSegmentsInfo").status_code == 404
