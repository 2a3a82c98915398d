"""Proves what happens around tables and segments: deletes and their files, retention, brokers that come late, faults of
stores, and who may see and do what. Over real HTTP and the in-memory cluster store with injected faults."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from controller_harness import PARTS_SCHEMA, PARTS_TABLE, Harness

from pinotpy.clock import ManualClock
from pinotpy.cluster.memory import Fault
from pinotpy.cluster.records import ZNRecord
from pinotpy.controller.deletion import purge_deleted_files
from pinotpy.controller.periodic.broker_resource import BrokerResourceValidation
from pinotpy.controller.periodic.retention import RetentionManager, is_expired, retention_ms
from pinotpy.controller.periodic.segment_status import SegmentStatusChecker, TableStatus, status_of
from pinotpy.controller.table_size import half_size
from pinotpy.errors import DataError
from pinotpy.fs.memory import MemoryDeepStore
from pinotpy.service.access import UsersFileAccess, add_user
from pinotpy.service.rights import Action, Rights

Builder = Callable[..., Path]
DAY_MS = 86_400_000
OWN_PAGE = {"Sec-Fetch-Site": "same-origin"}


def test_a_table_is_one_write_and_its_delete_removes_everything(harness: Harness, segment: Builder) -> None:
    assert harness.post_json("/schemas", PARTS_SCHEMA).status_code == 200
    before = harness.nodes()
    assert harness.post_json("/tables", PARTS_TABLE).status_code == 200
    assert harness.upload(segment(), tableName="parts").status_code == 200
    assert harness.http.get("/brokers/tables/parts").json() == ["Broker_localhost_8099"]
    answer = harness.http.delete("/tables/parts")
    assert answer.json() == {"status": "Tables: [parts_OFFLINE] deleted"}
    assert harness.nodes() - {harness.paths.segment_deletions} == before, "the folder of deletions under way stays"
    assert harness.http.get("/brokers/tables/parts").status_code == 404
    (file,) = harness.files()
    assert re.fullmatch(r"store/Deleted_Segments/parts/parts_0/\d+\.until-\d+\.tar\.gz", file)


def test_a_bad_parameter_of_a_delete_changes_nothing(harness: Harness, segment: Builder) -> None:
    harness.add_parts()
    assert harness.upload(segment(), tableName="parts").status_code == 200
    before = harness.tree.dump()
    for path in (
        "/tables/parts?retention=x",
        "/tables/parts?type=bad",
        "/segments/parts/parts_0?retention=1w",
        "/segments/parts?type=OFFLINE&retention=-1d",
    ):
        assert harness.http.delete(path).status_code == 400, path
    assert harness.http.get("/tables/parts?state=bad", headers=OWN_PAGE).status_code == 400
    assert harness.tree.dump() == before


def test_deleted_files_are_kept_as_long_as_asked(start: Callable[..., Harness], segment: Builder) -> None:
    clock = ManualClock()
    harness = start(clock=clock, settings={"deleted_segments_retention_days": 7})
    harness.add_parts()
    for name in ("a", "b", "c"):
        assert harness.upload(segment(name), tableName="parts").status_code == 200
    assert harness.http.delete("/segments/parts/a").json() == {"status": "Segment deleted"}
    assert harness.http.delete("/segments/parts/b?retention=1d12h").status_code == 200
    assert harness.http.delete("/segments/parts/c?retention=0d").status_code == 200

    def kept() -> list[str]:
        return [file.split("/")[3] for file in harness.files()]

    assert kept() == ["a", "b"]
    clock.advance(36 * 3_600_000 - 1)
    purge_deleted_files(harness.controller)
    assert kept() == ["a", "b"]
    clock.advance(1)
    purge_deleted_files(harness.controller)
    assert kept() == ["a"]
    clock.advance(6 * DAY_MS)
    purge_deleted_files(harness.controller)
    assert kept() == []


def test_a_table_says_how_long_its_deleted_files_are_kept(start: Callable[..., Harness], segment: Builder) -> None:
    clock = ManualClock()
    harness = start(clock=clock, settings={"deleted_segments_retention_days": 7})
    segments = {"timeColumnName": "day", "replication": "1"}
    harness.add_parts(segmentsConfig=segments | {"deletedSegmentsRetentionPeriod": "0d"})
    for name in ("a", "b", "c"):
        assert harness.upload(segment(name), tableName="parts").status_code == 200

    def kept() -> list[str]:
        return [file.split("/")[3] for file in harness.files() if "Deleted" in file]

    harness.http.delete("/segments/parts/a")
    assert kept() == []
    assert harness.http.delete("/segments/parts/b?retention=3d").status_code == 200
    assert kept() == ["b"], "a request has precedence"
    document = harness.http.get("/tables/parts").json()["OFFLINE"]
    document["segmentsConfig"]["deletedSegmentsRetentionPeriod"] = "12h"
    assert harness.http.put("/tables/parts", json=document).status_code == 200
    assert harness.http.delete("/tables/parts").status_code == 200
    assert kept() == ["b", "c"]
    clock.advance(12 * 3_600_000)
    purge_deleted_files(harness.controller)
    assert kept() == ["b"]
    document["segmentsConfig"]["deletedSegmentsRetentionPeriod"] = "soon"
    harness.settle()
    refused = harness.http.post("/tables", json=document)
    assert refused.status_code == 400 and "deletedSegmentsRetentionPeriod" in refused.text


def test_keys_that_have_no_effect_yet_are_told_to_who_gives_them(start: Callable[..., Harness]) -> None:
    harness = start()
    harness.add_parts()
    document = harness.http.get("/tables/parts").json()["OFFLINE"]
    document |= {
        "routing": {"instanceSelectorType": "replicaGroup", "useFixedReplica": True},
        "quota": {"maxQueriesPerSecond": "5"},
        "query": {"timeoutMs": 900},
    }
    told = {"/routing/useFixedReplica": True, "/quota/maxQueriesPerSecond": "5"}
    changed = harness.http.put("/tables/parts", json=document).json()
    assert changed["propertiesWithoutEffect"] == told and changed["unrecognizedProperties"] == {}
    assert harness.http.post("/tables/validate", json=document).json()["propertiesWithoutEffect"] == told
    plain = document | {"routing": {}, "quota": {}}
    assert "propertiesWithoutEffect" not in harness.http.put("/tables/parts", json=plain).json()


def test_a_pruner_that_is_not_known_is_accepted_with_a_warning(start: Callable[..., Harness]) -> None:
    harness = start()
    harness.add_parts()
    document = harness.http.get("/tables/parts").json()["OFFLINE"]
    document["routing"] = {"segmentPrunerTypes": ["time", "magic"]}
    warning = (
        "$.routing.segmentPrunerTypes[1]: expected one of partition, time, empty, found 'magic': brokers leave out no "
        "segment by it"
    )
    for answer in (
        harness.http.post("/tables/validate", json=document),
        harness.http.put("/tables/parts", json=document),
    ):
        told = answer.json()
        assert answer.status_code == 200 and told["warnings"] == [warning] and told["unrecognizedProperties"] == {}
        assert told["propertiesWithoutEffect"] == {"/routing/segmentPrunerTypes/1": "magic"}
    assert harness.http.get("/tables/parts").json()["OFFLINE"]["routing"] == document["routing"]
    document["tableName"] = "more"
    harness.http.post("/schemas", json=harness.http.get("/schemas/parts").json() | {"schemaName": "more"})
    added = harness.http.post("/tables", json=document)
    assert added.status_code == 200 and added.json()["warnings"] == [warning]
    document["routing"] = {"segmentPrunerTypes": ["time"]}
    assert "warnings" not in harness.http.put("/tables/parts", json=document | {"tableName": "parts"}).json()


def test_retention_deletes_what_is_too_old_and_nothing_else(start: Callable[..., Harness], segment: Builder) -> None:
    clock = ManualClock(20_000 * DAY_MS)
    harness = start(clock=clock)
    config = {
        "timeColumnName": "day",
        "replication": "1",
        "segmentPushType": "APPEND",
        "retentionTimeUnit": "DAYS",
        "retentionTimeValue": "30",
    }
    harness.add_parts(segmentsConfig=config)
    for name, day in (("old", 19_960), ("edge", 19_968), ("new", 19_999)):
        assert harness.upload(segment(name, first_day=day), tableName="parts").status_code == 200
    RetentionManager(harness.controller, 1).run_table("parts_OFFLINE")
    # A segment ends two days after its first: 19962 is older than 30 days, 19970 is exactly 30 days old.
    assert harness.http.get("/segments/parts").json() == [{"OFFLINE": ["edge", "new"]}]
    assert harness.http.get("/segments/parts/old").status_code == 404


@pytest.mark.parametrize(
    ("end_ms", "expired"),
    [
        (None, False),
        (-1, False),
        (0, False),
        (20_000 * DAY_MS - 31 * DAY_MS, True),
        (20_000 * DAY_MS, False),
        (10**15, False),
    ],
)
def test_times_that_say_nothing_never_delete(end_ms: int | None, expired: bool) -> None:
    assert is_expired(end_ms, 30 * DAY_MS, 20_000 * DAY_MS) is expired


def test_tables_without_retention_keep_everything(harness: Harness) -> None:
    from pinotpy.config.table import TableConfig

    keep = TableConfig.from_json(PARTS_TABLE).segments
    assert retention_ms(keep) is None
    refresh = {"replication": "1", "segmentPushType": "REFRESH", "retentionTimeUnit": "DAYS", "retentionTimeValue": "3"}
    assert retention_ms(TableConfig.from_json(PARTS_TABLE | {"segmentsConfig": refresh}).segments) is None


def test_a_broker_that_comes_late_serves_the_tables_of_its_tenant(harness: Harness) -> None:
    harness.add_parts()
    task = BrokerResourceValidation(harness.controller, 3600)
    task.run_once()
    harness.add_instance("Broker_localhost_8199", ["DefaultTenant_BROKER"])
    harness.add_instance("Broker_localhost_8299", ["other_BROKER"])
    task.run_once()
    assert harness.http.get("/brokers/tables/parts").json() == ["Broker_localhost_8099", "Broker_localhost_8199"]


def test_a_full_deep_store_leaves_nothing_and_says_so(start: Callable[..., Harness], segment: Builder) -> None:
    def full(operation: str, key: str) -> None:
        if operation == "put":
            raise DataError(f"deep store failed on '{key}': no space left on device")

    harness = start(deep_store=MemoryDeepStore(fault=full))
    harness.add_parts()
    nodes = harness.nodes()
    answer = harness.upload(segment(), tableName="parts")
    assert answer.status_code == 503
    assert "no space left" in answer.json()["error"]
    assert harness.nodes() == nodes
    assert harness.files() == []


def test_a_lost_reply_of_the_cluster_store_registers_once(harness: Harness, segment: Builder) -> None:
    harness.add_parts()
    lost = 0

    def lose(operation: str, path: str) -> Fault | None:
        nonlocal lost
        if operation == "multi" and lost < 3:
            lost += 1
            return Fault.REPLY_LOST
        return None

    harness.store.fault = lose
    assert harness.upload(segment(), tableName="parts").status_code == 200
    assert lost > 0
    assert harness.http.get("/segments/parts").json() == [{"OFFLINE": ["parts_0"]}]
    assert harness.http.get("/segments/parts/parts_0").status_code == 200


def test_an_unreachable_cluster_store_is_a_503_and_leaves_no_file(harness: Harness, segment: Builder) -> None:
    harness.add_parts()
    harness.store.fault = lambda operation, path: Fault.REQUEST_LOST if operation == "multi" else None
    assert harness.upload(segment(), tableName="parts").status_code == 503
    harness.store.fault = None
    assert harness.files() == []
    assert harness.http.get("/segments/parts").json() == [{"OFFLINE": []}]


def test_an_upload_waits_for_servers_that_still_drop_the_old_segment(
    harness: Harness, segment: Builder, eventually: Any
) -> None:
    from concurrent.futures import ThreadPoolExecutor

    harness.add_parts()
    held = {"parts_0": {"Server_localhost_8098": "ONLINE"}}
    harness.set_external_view("parts_OFFLINE", held)
    archive = segment()
    with ThreadPoolExecutor(1) as pool:
        upload = pool.submit(harness.upload, archive, tableName="parts")
        eventually(harness.files, what="the archive is stored")
        assert not upload.done()
        harness.set_external_view("parts_OFFLINE", {})
        assert upload.result(60).status_code == 200


# --- gauges ----------------------------------------------------------------------------------------------------------


def test_the_status_of_a_table_counts_serving_replicas() -> None:
    two = {"a": "ONLINE", "b": "ONLINE"}
    ideal = {"s1": two, "s2": two, "s3": {"a": "OFFLINE"}}
    assert status_of(ideal, {"s1": two, "s2": {"a": "ONLINE", "b": "ERROR"}}) == TableStatus(2, 1, 50, 1, 100)
    assert status_of(ideal, {"s1": two}) == TableStatus(2, 0, 0, 0, 50)
    assert status_of({}, {}) == TableStatus(0, 0, 100, 0, 100)


def test_the_status_checker_shows_gauges(harness: Harness, segment: Builder) -> None:
    harness.add_parts()
    assert harness.upload(segment(), tableName="parts").status_code == 200
    harness.settle()
    task = SegmentStatusChecker(harness.controller, 1)
    task.run_table("parts_OFFLINE")
    task.run_once()
    text = harness.http.get("/metrics").text
    for line in (
        'pinot_controller_numberOfReplicas{table="parts_OFFLINE"} 2.0',
        'pinot_controller_percentSegmentsAvailable{table="parts_OFFLINE"} 100.0',
        "pinot_controller_offlineTableCount 1.0",
    ):
        assert line in text


def test_sizes_of_servers_that_do_not_answer_are_estimated() -> None:
    ideal = {"s1": {"a": "ONLINE", "b": "ONLINE"}, "s2": {"b": "ONLINE"}}
    size = half_size(ideal, {"a": {"s1": 100}})
    assert (size["reportedSizeInBytes"], size["estimatedSizeInBytes"], size["missingSegments"]) == (100, 200, 1)
    assert size["segments"]["s2"]["estimatedSizeInBytes"] == -1
    assert size["segments"]["s1"]["serverInfo"]["b"] == {"segmentName": "s1", "diskSizeInBytes": -1}
    assert half_size(ideal, {})["reportedSizeInBytes"] == -1


# --- rights ----------------------------------------------------------------------------------------------------------


def test_everybody_sees_and_does_what_they_may(start: Callable[..., Harness], segment: Builder, tmp_path: Path) -> None:
    users = tmp_path / "users.json"
    everything = frozenset({Action.ADMIN})
    add_user(users, "root", "root-password", Rights((("*", everything),), everything, everything))
    add_user(users, "pusher", "pusher-password", Rights((("parts", frozenset({Action.WRITE})),)))
    add_user(users, "other", "other-password", Rights((("orders", frozenset({Action.READ})),)))
    harness = start(access=UsersFileAccess(users))
    http = harness.http
    assert http.get("/tables").status_code == 401
    assert http.get("/query").status_code == 200
    http.auth = ("root", "root-password")
    harness.add_parts()
    assert http.get("/tables").json() == {"tables": ["parts"]}
    http.auth = ("pusher", "pusher-password")
    assert harness.upload(segment(), tableName="parts").status_code == 200
    assert harness.upload(segment(), tableName="orders").status_code == 403
    assert harness.upload(segment("b", table="orders")).status_code == 403
    assert http.get("/tables/parts").status_code == 403
    assert http.delete("/tables/parts").status_code == 403
    assert harness.post_json("/tables", PARTS_TABLE | {"tableName": "mine"}).status_code == 403
    assert harness.post_json("/schemas", PARTS_SCHEMA | {"schemaName": "mine"}).status_code == 403
    http.auth = ("other", "other-password")
    assert http.get("/tables").json() == {"tables": []}
    assert http.get("/schemas").json() == []
    # Whether a forbidden table exists cannot be told from the answer.
    assert http.get("/tables/parts").json()["error"].replace("parts", "x") == http.get("/tables/none").json()[
        "error"
    ].replace("none", "x")
    assert http.get("/zk/ls?path=/").status_code == 403
    assert harness.files() == [
        next(file for file in harness.files() if file.startswith("store/segments/parts/parts_0/"))
    ]


def test_nothing_is_told_of_a_table_that_the_caller_may_not_see(
    start: Callable[..., Harness], segment: Builder, tmp_path: Path
) -> None:
    users = tmp_path / "users.json"
    everything = frozenset({Action.ADMIN})
    add_user(users, "root", "root-password", Rights((("*", everything),), everything, everything))
    add_user(users, "mine", "mine-password", Rights((("mine", everything),)))
    harness = start(access=UsersFileAccess(users))
    http = harness.http
    http.auth = ("root", "root-password")
    harness.add_parts()
    assert harness.upload(segment(), tableName="parts").status_code == 200
    (job,) = http.post("/segments/parts/reload").json()["reloadJobIds"]
    http.auth = ("mine", "mine-password")
    for section in ("indexingConfigs", "segmentConfigs", "metadataConfigs"):
        answers = [
            http.put(f"/tables/mine/{section}", json=PARTS_TABLE | {"tableName": name}) for name in ("parts", "nobody")
        ]
        assert [answer.status_code for answer in answers] == [400, 400]
        assert answers[0].text.replace("parts", "x") == answers[1].text.replace("nobody", "x")
    # What is wrong with a config would tell which columns the table's schema has.
    wrong = PARTS_TABLE | {"tableIndexConfig": {"invertedIndexColumns": ["secret_column"]}}
    answers = [harness.post_json("/tables/validate", wrong | {"tableName": name}) for name in ("parts", "nobody")]
    assert [answer.status_code for answer in answers] == [403, 403]
    assert answers[0].text.replace("parts", "x") == answers[1].text.replace("nobody", "x")
    answers = [http.get(f"/segments/segmentReloadStatus/{name}") for name in (job, "nobody")]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert answers[0].text.replace(job, "x") == answers[1].text.replace("nobody", "x")
    http.auth = ("root", "root-password")
    assert http.get(f"/segments/segmentReloadStatus/{job}").status_code == 200


def test_replicas_in_error_are_reset_and_no_others(harness: Harness, segment: Builder) -> None:
    harness.add_parts()
    for name in ("parts_0", "parts_1"):
        assert harness.upload(segment(name=name), tableName="parts").status_code == 200
    server = "Server_localhost_8098"
    harness.set_external_view("parts_OFFLINE", {"parts_0": {server: "ERROR"}, "parts_1": {server: "ONLINE"}})
    before = len(harness.messages(server))
    assert harness.http.post("/segments/parts/reset").json() == {
        "status": "Successfully reset 1 replicas of table: parts_OFFLINE"
    }
    (message,) = harness.messages(server)[before:]
    assert (message["PARTITION_NAME"], message["FROM_STATE"], message["TO_STATE"]) == ("parts_0", "ERROR", "OFFLINE")
    assert "reset 0 replicas of segment: parts_1" in harness.http.post("/segments/parts/parts_1/reset").json()["status"]
    assert harness.http.post("/segments/parts/nope/reset").status_code == 404
    assert harness.http.post("/segments/none/reset").status_code == 404


# --- queries through the controller ----------------------------------------------------------------------------------


def test_without_a_broker_a_query_says_what_to_do(start: Callable[..., Harness]) -> None:
    harness = start(broker="Broker_localhost_1")  # where nobody listens, whatever runs on this machine
    answer = harness.post_json("/pql", {"pql": "select count(*) from parts"})
    assert answer.status_code == 200
    (exception,) = answer.json()["exceptions"]
    assert exception["errorCode"] == 410
    assert "none of 1 live brokers can be reached" in exception["message"]
    assert harness.post_json("/sql", {}).json()["exceptions"][0]["errorCode"] == 100
    assert harness.http.post("/sql", content=b"{").json()["exceptions"][0]["errorCode"] == 100
    assert harness.http.get("/pql").json()["exceptions"][0]["errorCode"] == 100


# --- paths of 0.x ----------------------------------------------------------------------------------------------------


def test_paths_of_old_clients_do_what_the_newer_ones_do(harness: Harness, segment: Builder) -> None:
    harness.add_parts()
    assert harness.upload(segment(), tableName="parts").status_code == 200
    http = harness.http
    assert http.get("/tables/parts/segments/crc").json() == http.get("/segments/parts/crc").json()
    assert http.post("/tables/parts/segments/reload").json() == {"status": "Sent 2 reload messages"}
    assert http.post("/tables/parts/segments/parts_0/reload").json() == {"status": "Sent 2 reload messages"}
    assert [message["MSG_SUBTYPE"] for message in harness.messages("Server_localhost_8098")] == ["RELOAD_SEGMENT"] * 2
    ((entry,),) = http.get("/tables/parts/segments/parts_0").json()
    assert entry["state"]["segment.crc"] == http.get("/segments/parts/crc").json()["parts_0"]
    changed = PARTS_TABLE | {
        "tableIndexConfig": {"invertedIndexColumns": ["name"]},
        "segmentsConfig": {"replication": "1"},
    }
    answer = http.put("/tables/parts/indexingConfigs", json=changed)
    assert answer.json() == {"status": "Updated indexing config for table parts"}
    config = http.get("/tables/parts").json()["OFFLINE"]
    assert config["tableIndexConfig"]["invertedIndexColumns"] == ["name"]
    assert config["segmentsConfig"]["replication"] == "2"
    assert http.get("/tables/parts?state=disable", headers=OWN_PAGE).json() == [
        {"tableName": "parts_OFFLINE", "state": {"successful": True, "message": "Table disabled"}}
    ]
    assert http.get("/tables/parts/state?type=OFFLINE").json() == {"state": "disabled"}
    assert http.post("/instances/Server_localhost_8098/state", content="disable").json() == {
        "status": "Request to disable instance Server_localhost_8098 is successful"
    }


def test_a_damaged_record_is_the_clusters_fault_and_is_not_written_over(harness: Harness) -> None:
    harness.add_parts()
    paths = harness.paths
    records = {
        paths.schema("parts"): ["/schemas/parts", "/tables/parts/schema"],
        paths.table_config("parts_OFFLINE"): ["/tables/parts", "/tables/parts/size", "/debug/tables/parts"],
        paths.ideal_state("parts_OFFLINE"): ["/segments/parts", "/tables/parts/idealstate", "/debug/tables/parts"],
    }
    for path, routes in records.items():
        good, _ = harness.store.get(path)
        for garbage in (b"garbage", b"", ZNRecord("parts", {"schemaJSON": "{}", "tableName": "x"}).to_bytes()):
            if path in paths.ideal_state("parts_OFFLINE") and garbage[:1] == b"{":
                continue  # that is an ideal state
            harness.store.set(path, garbage)
            for route in routes:
                answer = harness.http.get(route)
                assert answer.status_code == 500, (route, garbage, answer.text)
                assert "damaged" in answer.json()["error"] and "parts" in answer.json()["error"], answer.text
            if "SCHEMAS" in path:
                assert harness.post_json("/schemas", PARTS_SCHEMA).status_code == 500
            assert harness.store.get(path)[0] == garbage
        harness.store.set(path, good)
        for route in routes:
            assert harness.http.get(route).status_code == 200, route


def test_a_new_table_is_not_named_as_another_but_for_letter_case(start: Callable[..., Harness], tmp_path: Path) -> None:
    users = tmp_path / "users.json"
    add_user(
        users,
        "root",
        "root-password",
        Rights(tables=(("*", frozenset({Action.ADMIN})),), cluster=frozenset({Action.ADMIN})),
    )
    add_user(users, "eve", "eve-password", Rights(tables=(("PARTS", frozenset({Action.ADMIN})),)))
    harness = start(access=UsersFileAccess(users))
    harness.http.auth = ("root", "root-password")
    assert harness.post_json("/schemas", PARTS_SCHEMA | {"schemaName": "PARTS"}).status_code == 200
    harness.add_parts()
    before = harness.tree.dump()
    twin = PARTS_TABLE | {"tableName": "PARTS"}
    refusal = harness.post_json("/tables", twin)
    assert refusal.status_code == 409 and refusal.json()["error"].endswith("the other one is 'parts'")
    assert "the other one is 'parts'" in harness.post_json("/schemas", PARTS_SCHEMA | {"schemaName": "Parts"}).text
    harness.http.auth = ("eve", "eve-password")
    refusal = harness.post_json("/tables", twin)
    assert refusal.status_code == 409 and "'PARTS' is taken" in refusal.text and "parts" not in refusal.text
    assert harness.post_json("/schemas", PARTS_SCHEMA | {"schemaName": "PARTS"}).status_code == 200, "it was there"
    assert harness.tree.dump().keys() == before.keys()
