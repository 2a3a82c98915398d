"""Proves that what ails a table of a stream is told by layer, by the controller and by its servers: before partitions
begin and after, without passwords, and no longer once it is mended; a server that does not answer is named.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from controller_harness import Harness, start_harness
from events_table import SCHEMA, table_config
from kafka_mock import MockKafka

from pinotpy.cluster.views import ERROR
from pinotpy.controller.periodic.realtime_validation import RealtimeValidation, StreamFailure
from pinotpy.controller.server_calls import ServerAnswer
from pinotpy.controller.table_debug import debug_half, stream_partitions
from pinotpy.service.ports import free_port
from pinotpy.stream.file import create_topic

TABLE = "events_REALTIME"
SERVERS = ("Server_localhost_8098", "Server_localhost_8198")
PASSWORD = "hunter2 4ever"
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{PASSWORD}";'


class Scene:
    def __init__(self, harness: Harness, folder: Path) -> None:
        self.harness, self.folder = harness, folder
        harness.post_json("/schemas", SCHEMA).raise_for_status()
        self.forget_pauses()
        self.answers: dict[str, httpx.Response] = {}
        transport = httpx.MockTransport(self.answer)
        object.__setattr__(harness.controller, "peers", httpx.Client(transport=transport))
        for server in SERVERS:
            path = harness.paths.instance_config(server)
            record = orjson.loads(harness.store.get(path)[0])
            record["simpleFields"]["adminPort"] = server.rpartition("_")[2]
            harness.store.set(path, orjson.dumps(record))

    def forget_pauses(self) -> None:
        """As a new leader does, which looks at once."""
        self.validation = RealtimeValidation(self.harness.controller, self.harness.controller.realtime_segments, 60.0)

    def answer(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/archiveFaults":
            return httpx.Response(200, json={"archiveFaults": []})
        assert request.url.path == f"/tables/{TABLE}/consumingSegmentsInfo"
        server = f"Server_{request.url.host}_{request.url.port}"
        if server not in self.answers:
            raise httpx.ConnectError("connection refused", request=request)
        return self.answers[server]

    def add(self, **stream: str) -> httpx.Response:
        config = copy.deepcopy(table_config(self.folder, rows=100))
        if stream:
            old = config["tableIndexConfig"]["streamConfigs"]
            del old["stream.file.directory"]
            kind = stream.get("streamType", "file")
            old = {key.replace("stream.file.", f"stream.{kind}."): value for key, value in old.items()}
            config["tableIndexConfig"]["streamConfigs"] = old | stream
        return self.harness.post_json("/tables", config)

    def look(self) -> dict[str, Any]:
        self.validation.run_table(TABLE)
        return self.debug()

    def debug(self) -> dict[str, Any]:
        return debug_half(self.harness.controller, TABLE, self.validation.failure)

    def says(self, server: str, *partitions: dict[str, Any]) -> None:
        self.answers[server] = httpx.Response(200, json={"tableName": TABLE, "partitions": list(partitions)})


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    harness = start_harness(tmp_path / "controller")
    yield Scene(harness, tmp_path)
    harness.close()


def partition(number: int, failure: str = "", layer: str = "") -> dict[str, Any]:
    return {"partition": number, "currentOffset": "7", "lastFetchTimeMs": 5, "failure": failure, "layer": layer,
            "segments": [], "records": {}}  # fmt: skip


def test_a_missing_topic_is_told_and_no_longer_once_it_is_there(scene: Scene) -> None:
    scene.add().raise_for_status()
    before = scene.debug()
    assert (before["ingestionStatus"]["ingestionState"], before["failures"]) == ("UNKNOWN", [])
    told = scene.look()
    (failure,) = told["failures"]
    assert (failure["source"], failure["layer"], failure["numAttempts"]) == ("controller", "TOPIC", 1)
    assert told["ingestionStatus"] == {"ingestionState": "UNHEALTHY", "errorMessage": failure["message"]}
    assert told["leader"] == "Controller_localhost_9000" and told["partitions"] == []

    create_topic(scene.folder / "events", 1)
    scene.forget_pauses()
    scene.validation.run_table(TABLE)
    for server in SERVERS:
        scene.says(server, partition(0))
    told = scene.debug()
    assert (told["failures"], told["serversFailed"], told["numSegments"], told["idealStateCounts"]) == (
        [], {}, 1, {"CONSUMING": 2},
    )  # fmt: skip
    assert [(each["partition"], each["serverName"]) for each in told["partitions"]] == [
        (0, SERVERS[0]),
        (0, SERVERS[1]),
    ]
    assert told["ingestionStatus"] == {"ingestionState": "HEALTHY", "errorMessage": ""}


@pytest.mark.parametrize(
    ("brokers", "layer"), [("no-such-host.invalid:9092", "DNS"), ("127.0.0.1:{closed}", "TCP")], ids=["DNS", "TCP"]
)
def test_a_broker_that_is_not_there_is_told_by_layer_without_the_password(
    scene: Scene, brokers: str, layer: str
) -> None:
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": JAAS}
    address = brokers.format(closed=free_port())
    added = scene.add(streamType="kafka", **{"stream.kafka.broker.list": address}, **login)
    assert added.status_code == 200, added.text
    told = scene.look()
    assert [failure["layer"] for failure in told["failures"]] == [layer]
    assert address.split(":")[0] in told["failures"][0]["message"]
    assert PASSWORD not in str(told) and PASSWORD not in added.text


def test_a_wrong_topic_of_kafka_mends_itself_when_it_is_made(scene: Scene) -> None:
    with MockKafka() as mock:
        scene.add(streamType="kafka", **{"stream.kafka.broker.list": mock.address}).raise_for_status()
        (failure,) = scene.look()["failures"]
        assert failure["layer"] == "TOPIC" and "no topic 'events'" in failure["message"]
        mock.create_topic("events", 2)
        scene.forget_pauses()
        assert scene.look()["failures"] == []
        assert sorted(scene.harness.controller.realtime_segments.chains(TABLE)) == [0, 1]


def test_a_plug_in_whose_failure_has_the_password_shows_it_masked(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.add(streamType="kafka", **{"stream.kafka.broker.list": "localhost:1", "sasl.jaas.config": JAAS,
                                     "sasl.mechanism": "PLAIN"}).raise_for_status()  # fmt: skip

    def leaks(*_: object, **__: object) -> int:
        raise ValueError(f"login with {JAAS} failed: {PASSWORD} is wrong")

    monkeypatch.setattr("pinotpy.controller.periodic.realtime_validation.begin_partitions", leaks)
    (failure,) = scene.look()["failures"]
    assert failure["message"] == "ValueError: login with ***** failed: ***** is wrong" and failure["layer"] == ""


@pytest.mark.parametrize(
    ("stream", "found"),
    [
        ({"stream.file.decoder.class.name": "thrift"},
         r"DECODE: $.tableIndexConfig.streamConfigs[\"stream.file.decoder.class.name\"]: no decoder 'thrift': expected "
         "one of avro, csv, json"),
        ({"streamType": "kinesis", "stream.kinesis.x": "y"},
         r"$.tableIndexConfig.streamConfigs: no plug-in reads streams of type 'kinesis': expected one of "),
        ({"streamType": "kafka", "stream.kafka.broker.list": "localhost:0"},
         r"$.tableIndexConfig.streamConfigs['stream.kafka.broker.list']: found 'localhost:0', allowed: host:port"),
    ],
    ids=["decoder", "stream", "broker"],
)  # fmt: skip
def test_what_no_plug_in_takes_is_refused_before_the_table_is_made(
    scene: Scene, stream: dict[str, str], found: str
) -> None:
    nodes = scene.harness.nodes()
    refused = scene.add(**({"stream.file.directory": str(scene.folder)} | stream if "streamType" not in stream
                           else stream))  # fmt: skip
    assert refused.status_code == 400 and found.replace(r"\"", '"') in refused.json()["error"], refused.text
    assert scene.harness.nodes() == nodes


def test_servers_are_asked_and_named(scene: Scene) -> None:
    scene.add().raise_for_status()
    create_topic(scene.folder / "events", 2)
    scene.look()
    scene.says(SERVERS[0], partition(0, "SASL: wrong password", "SASL"), partition(1))
    told = scene.debug()
    assert told["serversFailed"] == {SERVERS[1]: "ConnectError: connection refused"}
    assert told["failures"] == [
        {"source": "server", "serverName": SERVERS[0], "partition": 0, "layer": "SASL",
         "message": "SASL: wrong password"}
    ]  # fmt: skip
    assert told["ingestionStatus"]["ingestionState"] == "UNHEALTHY"
    scene.says(SERVERS[0], partition(0), partition(1))
    told = scene.debug()
    assert told["ingestionStatus"] == {
        "ingestionState": "UNKNOWN",
        "errorMessage": f"server {SERVERS[1]} does not answer: ConnectError: connection refused",
    }


def test_segments_in_error_are_listed(scene: Scene) -> None:
    scene.add().raise_for_status()
    create_topic(scene.folder / "events", 1)
    scene.look()
    (segment,) = scene.harness.controller.catalog.ideal_state(TABLE) or {}
    scene.harness.set_external_view(TABLE, {segment: {SERVERS[0]: ERROR, SERVERS[1]: "CONSUMING"}})
    scene.answers[SERVERS[0]] = httpx.Response(404)
    scene.says(SERVERS[1], partition(0))
    told = scene.debug()
    assert told["externalViewCounts"] == {"CONSUMING": 1, "ERROR": 1} and told["numSegmentsInError"] == 1
    assert told["segmentDebugInfos"][0]["serverState"][SERVERS[0]] == {
        "idealState": "CONSUMING", "externalView": "ERROR",
    }  # fmt: skip
    (failure,) = told["failures"]
    assert (failure["serverName"], failure["partition"], failure["layer"]) == (SERVERS[0], 0, "")


def test_a_partition_that_a_server_has_not_begun_is_no_failure() -> None:
    consuming = {"a": ["t__0__0__20260101T0000Z", "t__1__0__20260101T0000Z"], "b": ["t__0__0__20260101T0000Z"]}
    told = {"partitions": [partition(1) | {"layer": ""}]}
    found = stream_partitions(consuming, {"a": ServerAnswer(told), "b": ServerAnswer(failure="away")}, {})
    assert [(each["partition"], each["serverName"], each["currentOffset"], each["failure"]) for each in found] == [
        (0, "a", "", ""), (1, "a", "7", ""),
    ]  # fmt: skip


def test_both_halves_are_answered_over_http(scene: Scene) -> None:
    scene.harness.add_parts()
    (parts,) = scene.harness.http.get("/debug/tables/parts").json()
    assert (parts["tableName"], parts["numSegments"], parts["numBrokers"]) == ("parts_OFFLINE", 0, 1)
    assert "partitions" not in parts
    scene.add().raise_for_status()
    (events,) = scene.harness.http.get("/debug/tables/events", params={"type": "realtime"}).json()
    assert (events["tableName"], events["failures"], events["partitions"]) == (TABLE, [], [])
    assert scene.harness.http.get("/debug/tables/events_OFFLINE").status_code == 404


def test_failures_are_forgotten_with_their_table(scene: Scene) -> None:
    scene.add().raise_for_status()
    scene.look()
    assert isinstance(scene.validation.failure(TABLE), StreamFailure)
    scene.harness.http.delete(f"/tables/{TABLE}").raise_for_status()
    scene.validation.run_once()
    assert scene.validation.failure(TABLE) is None


def _consuming(scene: Scene) -> list[str]:
    """Begins both partitions; the names of their segments."""
    create_topic(scene.folder / "events", 2)
    assert scene.add().status_code == 200
    scene.look()
    return sorted(scene.harness.controller.catalog.ideal_state(TABLE) or {})


def _stop(scene: Scene, name: str, server: str) -> None:
    """The server says that it cannot consume a segment any more."""
    params = {"name": name, "instance": server, "streamPartitionMsgOffset": "0", "reason": "FETCH: offset 0 expired"}
    reply = scene.harness.http.post("/segmentStoppedConsuming", params=params).json()
    assert reply["status"] == "PROCESSED"


def test_a_replica_that_stopped_consuming_is_told_with_its_reason_until_it_is_reset(scene: Scene) -> None:
    first, _ = _consuming(scene)
    servers = sorted((scene.harness.controller.catalog.ideal_state(TABLE) or {})[first])
    _stop(scene, first, servers[0])
    told = scene.debug()
    assert told["ingestionStatus"]["ingestionState"] == "UNHEALTHY"
    (failure,) = [each for each in told["failures"] if "stopped consuming" in each["message"]]
    assert (failure["serverName"], failure["partition"], failure["layer"]) == (servers[0], 0, "FETCH")
    assert "FETCH: offset 0 expired" in failure["message"]
    assert f"POST /segments/{TABLE}/reset" in failure["message"]
    answer = scene.harness.http.post("/segments/events/reset", params={"type": "REALTIME"})
    assert answer.status_code == 200 and "reset 1 replicas" in answer.text, answer.text
    ideal = scene.harness.controller.catalog.ideal_state(TABLE) or {}
    assert set(ideal[first].values()) == {"CONSUMING"}
    assert not [each for each in scene.debug()["failures"] if "stopped consuming" in each["message"]]


def test_a_segment_that_consumes_is_not_deleted(scene: Scene) -> None:
    first, second = _consuming(scene)
    http, before = scene.harness.http, scene.harness.tree.dump()
    for answer in (
        http.delete(f"/segments/events/{first}"),
        http.delete("/segments/events", params={"type": "REALTIME"}),
        http.post("/segments/events/delete", json=[first, second]),
    ):
        assert answer.status_code == 409 and "/tables/events/forceCommit" in answer.text, answer.text
    assert scene.harness.tree.dump() == before


def test_a_partition_without_a_segment_that_takes_rows_is_told(scene: Scene) -> None:
    """As after a deletion by an older release."""
    first, second = _consuming(scene)
    catalog = scene.harness.controller.catalog
    servers = (catalog.ideal_state(TABLE) or {})[first]
    ideal = {first: dict.fromkeys(servers, "ONLINE"), second: dict.fromkeys(servers, "CONSUMING")}
    object.__setattr__(catalog, "ideal_state", lambda _: ideal)
    (failure,) = [each for each in scene.debug()["failures"] if "takes rows" in each["message"]]
    assert failure["partition"] == 0


def test_a_disabled_table_is_not_healthy(scene: Scene) -> None:
    _consuming(scene)
    assert scene.harness.http.put("/tables/events/state", params={"state": "disable", "type": "REALTIME"}).is_success
    told = scene.debug()["ingestionStatus"]
    assert told["ingestionState"] == "UNKNOWN" and "disabled" in told["errorMessage"]


@pytest.mark.parametrize("key", ["stream.file.topic.name", "stream.file.directory"])
def test_another_stream_needs_another_table(scene: Scene, key: str) -> None:
    _consuming(scene)
    config = copy.deepcopy(table_config(scene.folder, rows=100))
    stream = config["tableIndexConfig"]["streamConfigs"]
    stream["stream.file.directory"] += "/../" + scene.folder.name  # the same folder
    assert scene.harness.http.put("/tables/events", json=config).status_code == 200
    stream[key] += "-other"
    answer = scene.harness.http.put("/tables/events", json=config)
    assert answer.status_code == 400, answer.text
    assert key in answer.json()["error"]
    assert "needs a table of its own" in answer.text
    assert scene.harness.http.put("/tables/events", json=table_config(scene.folder, rows=200)).status_code == 200


def test_passwords_of_a_table_are_shown_nowhere_and_stay_when_its_config_comes_back(scene: Scene) -> None:
    stream = {
        "streamType": "kafka",
        "stream.kafka.broker.list": "localhost:1",
        "stream.kafka.topic.name": "events",
        "sasl.jaas.config": JAAS,
        "sasl.password": PASSWORD,
    }
    harness = scene.harness
    assert scene.add(**stream).status_code == 200
    shown = [
        harness.http.get("/tables/events"),
        harness.http.post("/tables/validate", json=harness.http.get("/tables/events").json()["REALTIME"]),
        harness.http.get("/zk/get", params={"path": f"{harness.paths.table_config(TABLE)}"}),
        harness.http.get("/zk/getChildren", params={"path": harness.paths.table_config(TABLE).rpartition("/")[0]}),
    ]
    for answer in shown:
        assert answer.status_code == 200 and "sasl.password" in answer.text, answer.text
        assert PASSWORD not in answer.text, answer.request.url
    document = harness.http.get("/tables/events").json()["REALTIME"]
    document["tableIndexConfig"]["streamConfigs"]["realtime.segment.flush.threshold.time"] = "77m"
    assert harness.http.put("/tables/events", json=document).status_code == 200
    stored = harness.controller.catalog.table_config(TABLE)
    assert stored is not None and stored.config.stream_config is not None
    kept = stored.config.stream_config.properties
    assert (kept["sasl.password"], kept["sasl.jaas.config"]) == (PASSWORD, JAAS)
    assert kept["realtime.segment.flush.threshold.time"] == "77m"
    del document["tableName"]
    other = harness.post_json("/tables", {**document, "tableName": "other_REALTIME"})
    assert other.status_code == 400 and "'*****'" in other.json()["error"], "nothing is stored that it could stand for"


def test_a_stream_that_lost_partitions_is_told(scene: Scene) -> None:
    _consuming(scene)
    for file in (scene.folder / "events").glob("partition-1.*"):
        file.unlink()
    scene.forget_pauses()
    (failure,) = [each for each in scene.look()["failures"] if "partitions" in each["message"]]
    assert "has 1 partitions, the table reads partition 1: a stream must not lose partitions" in failure["message"]
