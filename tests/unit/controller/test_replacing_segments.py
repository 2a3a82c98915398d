"""Proves the REST of replacing segments: shapes, refusals and waits, what an upload may not do meanwhile, and the
clean-up.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from controller_harness import Harness

from pinotpy.client.controller import ControllerClient
from pinotpy.clock import ManualClock
from pinotpy.cluster.records import ZNRecord
from pinotpy.controller.periodic.retention import RetentionManager
from pinotpy.controller.periodic.segment_status import SegmentStatusChecker
from pinotpy.errors import AlreadyExistsError, NotFoundError, OutOfCapacityError, UserError

Build = Callable[..., Path]
DAY_MS = 86_400_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_700_000_000_000)


@pytest.fixture
def at(start: Callable[..., Harness], clock: ManualClock) -> Harness:
    harness = start(clock=clock, settings={"replace_wait_ms": 300})
    harness.add_parts()
    return harness


@pytest.fixture
def client(at: Harness) -> ControllerClient:
    return ControllerClient(at.server.url)


def upload(at: Harness, build: Build, *names: str, amounts: tuple[int, ...] = (1, 2, 3)) -> list[int]:
    return [at.upload(build(name, amounts=amounts), tableName="parts").status_code for name in names]


def shown(at: Harness) -> list[str]:
    return ControllerClient(at.server.url).segments("parts", exclude_replaced=True)["OFFLINE"]


def states(client: ControllerClient) -> list[str]:
    return [entry["state"] for entry in client.list_lineage("parts")["lineageEntries"].values()]


def test_a_replacement_over_rest(at: Harness, client: ControllerClient, segment: Build) -> None:
    assert client.list_lineage("parts") == {} and at.http.get("/segments/parts/lineage?type=OFFLINE").content == b""
    assert upload(at, segment, "a", "b") == [200, 200]
    at.settle()
    started = at.post_json(
        "/segments/parts/startReplaceSegments", {"segmentsFrom": ["a", "b"], "segmentsTo": ["c"]}, type="OFFLINE"
    )
    assert started.status_code == 200 and list(started.json()) == ["segmentLineageEntryId"]
    entry_id = started.json()["segmentLineageEntryId"]
    assert upload(at, segment, "c") == [200] and shown(at) == ["a", "b"]
    waiting = at.http.post(f"/segments/parts/endReplaceSegments?type=OFFLINE&segmentLineageEntryId={entry_id}")
    assert (
        waiting.status_code == 503
        and "1 of 1 segments" in waiting.json()["error"]
        and "not served yet: 'c'" in waiting.json()["error"]
    )
    at.settle()
    ended = at.http.post(f"/segments/parts_OFFLINE/endReplaceSegments?type=OFFLINE&segmentLineageEntryId={entry_id}")
    assert ended.status_code == 200 and shown(at) == ["c"]
    lineage = at.http.get("/segments/parts/lineage?type=offline").json()
    assert lineage["tableNameWithType"] == "parts_OFFLINE"
    assert lineage["lineageEntries"] == {
        entry_id: {
            "segmentsFrom": ["a", "b"],
            "segmentsTo": ["c"],
            "state": "COMPLETED",
            "timestamp": 1_700_000_000_000,
        }
    }
    record = ZNRecord.from_bytes(at.store.get(at.paths.segment_lineage("parts_OFFLINE"))[0])
    assert record.list_fields == {entry_id: ["a,b", "c", "COMPLETED", "1700000000000"]}
    client.revert_replace_segments("parts", entry_id)
    assert shown(at) == ["a", "b"] and states(client) == ["REVERTED"]
    assert at.http.get("/segments/parts").json() == [{"OFFLINE": ["a", "b", "c"]}]


def test_the_end_waits_for_servers_within_its_time(start: Callable[..., Harness], segment: Build) -> None:
    at = start(settings={"replace_wait_ms": 10_000})
    at.add_parts()
    client = ControllerClient(at.server.url)
    entry_id = client.start_replace_segments("parts", [], ["a"])
    upload(at, segment, "a")
    loading = threading.Timer(0.5, at.settle)
    loading.start()
    client.end_replace_segments("parts", entry_id, timeout_s=60)
    assert shown(at) == ["a"]
    loading.join()


def test_a_replica_on_a_server_that_takes_no_queries_is_not_served(
    at: Harness, client: ControllerClient, segment: Build
) -> None:
    entry_id = client.start_replace_segments("parts", [], ["a"])
    upload(at, segment, "a")
    at.settle()
    for name in ("Server_localhost_8098", "Server_localhost_8198"):
        at.store.delete(at.paths.live_instance(name))
    with pytest.raises(OutOfCapacityError, match="not served yet"):
        client.end_replace_segments("parts", entry_id, timeout_s=0.5)


def test_the_same_start_twice_is_one(at: Harness, client: ControllerClient) -> None:
    first = client.start_replace_segments("parts", [], ["x"], entry_id="mine", custom_map={"job": "1"})
    assert (
        first == client.start_replace_segments("parts", [], ["x"], entry_id="mine", custom_map={"job": "1"}) == "mine"
    )
    assert states(client) == ["IN_PROGRESS"] and client.list_lineage("parts")["customMap"] == {"job": "1"}


@pytest.mark.parametrize(
    ("path", "body", "status", "text"),
    [
        ("startReplaceSegments", {"segmentsTo": ["x"]}, 400, "Table type should either be offline or realtime"),
        ("startReplaceSegments?type=NONE", {"segmentsTo": ["x"]}, 400, "Illegal table type"),
        ("startReplaceSegments?type=REALTIME", {"segmentsTo": ["x"]}, 404, "not found"),
        ("startReplaceSegments?type=OFFLINE", [], 400, "expected a JSON object, found list"),
        ("startReplaceSegments?type=OFFLINE", {}, 400, "both empty"),
        ("startReplaceSegments?type=OFFLINE", {"segmentsTo": "x"}, 400, "expected 'segmentsTo' to be a list"),
        ("startReplaceSegments?type=OFFLINE", {"segmentsTo": ["x"], "customMap": {"a": 1}}, 400, "customMap"),
        (
            "startReplaceSegments?type=OFFLINE",
            {"segmentsTo": ["x"], "customMap": {"a": "b" * 65_536}},
            400,
            "at most 65536 characters, found 65537",
        ),
        ("startReplaceSegments?type=OFFLINE", {"segmentsTo": [f"s{n}" for n in range(20_001)]}, 400, "at most 20000"),
        ("startReplaceSegments?type=OFFLINE", {"segmentsTo": ["../x"]}, 400, "cannot be a segment name"),
        (
            "startReplaceSegments?type=OFFLINE&segmentLineageEntryId=a/b",
            {"segmentsTo": ["x"]},
            400,
            "cannot be a segment name",
        ),
        ("startReplaceSegments?type=OFFLINE", {"segmentsFrom": ["none"]}, 400, "not in table"),
        ("endReplaceSegments?type=OFFLINE", {}, 400, "segmentLineageEntryId"),
        ("endReplaceSegments?type=OFFLINE&segmentLineageEntryId=none", {}, 404, "no entry 'none'"),
        ("revertReplaceSegments?type=OFFLINE&segmentLineageEntryId=none", {}, 404, "no entry 'none'"),
    ],
)
def test_bad_requests_are_told_what_is_wrong(shared: Harness, path: str, body: Any, status: int, text: str) -> None:
    found = shared.http.post(f"/segments/parts/{path}", json=body)
    assert found.status_code == status and text in found.json()["error"], found.text
    assert shared.http.get("/segments/parts/lineage").json() == {
        "code": 400,
        "error": "Table type should either be offline or realtime",
    }
    assert shared.store.exists(shared.paths.segment_lineage("parts_OFFLINE")) is None


def test_no_rows_come_in_that_nobody_would_see(at: Harness, client: ControllerClient, segment: Build) -> None:
    upload(at, segment, "a")
    at.settle()
    entry_id = client.start_replace_segments("parts", ["a"], ["b"])
    assert upload(at, segment, "b") == [200]
    assert upload(at, segment, "b", amounts=(4,)) == [200], "new content of what is coming"
    assert upload(at, segment, "a", amounts=(4,)) == [200], "queries see it still"
    at.settle()
    client.end_replace_segments("parts", entry_id)
    refused = at.upload(segment("a", amounts=(5,)), tableName="parts")
    assert (
        refused.status_code == 409
        and "has been replaced" in refused.json()["error"]
        and entry_id in refused.json()["error"]
    )
    client.delete_segment("parts", "a")
    at.settle()
    assert upload(at, segment, "a", amounts=(5,)) == [409], "also when it is deleted: the entry would hide it"
    with pytest.raises(AlreadyExistsError, match="old segments are deleted: 'a'"):
        client.revert_replace_segments("parts", entry_id)
    files = [name for name in at.files() if "/store/segments/" in f"/{name}"]
    assert files and not [name for name in files if "/a/" in name], "what was refused leaves no file"


def test_new_content_of_what_is_coming_is_loaded_before_the_end(start: Callable[..., Harness], segment: Build) -> None:
    """A refreshed segment would stay ONLINE with its old content: so it goes, and comes in again."""
    at = start(settings={"replace_wait_ms": 200})
    at.add_parts()
    client = ControllerClient(at.server.url)
    entry_id = client.start_replace_segments("parts", [], ["b"])
    upload(at, segment, "b")
    at.settle()
    old = segment("b", amounts=(7,))
    dropping = threading.Timer(0.3, at.settle)
    dropping.start()
    assert at.upload(old, tableName="parts").status_code == 200
    dropping.join()
    assert at.controller.catalog.external_view("parts_OFFLINE") == {}, (
        "the old content was dropped before the new one was assigned"
    )
    assert [
        message["MSG_SUBTYPE"] for message in at.messages("Server_localhost_8098") if "MSG_SUBTYPE" in message
    ] == [], "no refresh"
    with pytest.raises(OutOfCapacityError, match="not served yet: 'b'"):
        client.end_replace_segments("parts", entry_id, timeout_s=0.5)
    at.settle()
    client.end_replace_segments("parts", entry_id)
    record = at.controller.catalog.segment("parts_OFFLINE", "b")
    assert record is not None and record.segment.total_docs == 1
    assert len([name for name in at.files() if "/segments/parts/b/" in name]) == 1, "the old archive is gone"


def test_two_replacements_of_one_segment_and_a_forced_one(
    at: Harness, client: ControllerClient, segment: Build, clock: ManualClock
) -> None:
    upload(at, segment, "a")
    at.settle()
    first = client.start_replace_segments("parts", ["a"], ["b", "c"])
    upload(at, segment, "b")
    with pytest.raises(AlreadyExistsError, match=f"entry '{first}', in progress"):
        client.start_replace_segments("parts", ["a"], ["d"])
    clock.advance(20_000)
    second = client.start_replace_segments("parts", ["a"], ["c", "d"], force_cleanup=True)
    entries = client.list_lineage("parts")["lineageEntries"]
    assert [(entries[each]["segmentsTo"], entries[each]["state"]) for each in (first, second)] == [
        (["b"], "REVERTED"),
        (["c", "d"], "IN_PROGRESS"),
    ]
    with pytest.raises(AlreadyExistsError, match="was reverted"):
        client.end_replace_segments("parts", first)
    assert upload(at, segment, "b") == [409], "the job that was given up goes on"
    assert upload(at, segment, "c", "d") == [200, 200]
    at.settle()
    client.end_replace_segments("parts", second)
    assert shown(at) == ["c", "d"]


def test_retention_deletes_what_was_replaced_a_day_ago_and_then_the_entry(
    at: Harness, client: ControllerClient, segment: Build, clock: ManualClock
) -> None:
    task = RetentionManager(at.controller, 3600)
    upload(at, segment, "a", "b")
    at.settle()
    entry_id = client.start_replace_segments("parts", ["a"], ["c"])
    upload(at, segment, "c")
    at.settle()
    client.end_replace_segments("parts", entry_id, cleanup=True)
    clock.advance(DAY_MS - 1)
    task.run_table("parts_OFFLINE")
    assert client.segments("parts") == {"OFFLINE": ["a", "b", "c"]} and states(client) == ["COMPLETED"]
    clock.advance(1)
    task.run_table("parts_OFFLINE")
    assert client.segments("parts") == {"OFFLINE": ["b", "c"]} and states(client) == []
    assert [name for name in at.files() if "Deleted_Segments/" in name and "/a" in name], (
        "its file is kept as that of any deleted segment"
    )
    at.settle()
    assert upload(at, segment, "a") == [200], "its name is free"


def test_a_replacement_that_nobody_ends_is_given_up_and_deleted(
    at: Harness, client: ControllerClient, segment: Build, clock: ManualClock
) -> None:
    task = RetentionManager(at.controller, 3600)
    upload(at, segment, "a")
    entry_id = client.start_replace_segments("parts", ["a"], ["c"])
    upload(at, segment, "c")
    clock.advance(DAY_MS)
    task.run_table("parts_OFFLINE")
    assert states(client) == ["REVERTED"] and client.segments("parts") == {"OFFLINE": ["a", "c"]}
    with pytest.raises(AlreadyExistsError, match="was reverted"):
        client.end_replace_segments("parts", entry_id)
    clock.advance(10_000)
    task.run_table("parts_OFFLINE")
    assert client.segments("parts") == {"OFFLINE": ["a"]} and states(client) == ["REVERTED"], (
        "the entry still keeps late uploads out"
    )
    clock.advance(DAY_MS)
    task.run_table("parts_OFFLINE")
    assert states(client) == []


def test_a_refresh_table_keeps_two_snapshots(start: Callable[..., Harness], clock: ManualClock, segment: Build) -> None:
    at = start(clock=clock)
    at.add_parts(
        segmentsConfig={
            "timeColumnName": "day",
            "replication": "1",
            "segmentPushType": "REFRESH",
            "replacedSegmentsRetentionPeriod": "7d",
        }
    )
    client = ControllerClient(at.server.url)

    def push(old: list[str], new: str) -> None:
        entry_id = client.start_replace_segments("parts", old, [new], force_cleanup=True)
        upload(at, segment, new)
        at.settle()
        client.end_replace_segments("parts", entry_id)
        clock.advance(20_000)

    push([], "one")
    push(["one"], "two")
    assert client.segments("parts") == {"OFFLINE": ["one", "two"]}
    push(["two"], "three")
    assert client.segments("parts") == {"OFFLINE": ["three", "two"]} and shown(at) == ["three"]
    last = list(client.list_lineage("parts")["lineageEntries"])[-1]
    client.revert_replace_segments("parts", last)
    assert shown(at) == ["two"]


def test_periods_are_checked_with_the_table(at: Harness) -> None:
    config = {"timeColumnName": "day", "replication": "1", "replacedSegmentsRetentionPeriod": "soon"}
    answer = at.post_json(
        "/tables",
        {
            "tableName": "parts",
            "tableType": "OFFLINE",
            "segmentsConfig": config,
            "tenants": {},
            "tableIndexConfig": {},
            "metadata": {},
        },
    )
    assert answer.status_code == 400 and "replacedSegmentsRetentionPeriod" in answer.json()["error"], answer.text


def test_a_deleted_table_takes_its_lineage_with_it(at: Harness, client: ControllerClient) -> None:
    client.start_replace_segments("parts", [], ["a"])
    client.delete_table("parts")
    assert not [node for node in at.nodes() if "parts_OFFLINE" in node and "SEGMENT_LINEAGE" in node]
    with pytest.raises(NotFoundError):
        client.list_lineage("parts")
    at.settle()
    at.add_parts()
    assert client.list_lineage("parts") == {}


def test_gauges_and_quota_follow_what_queries_see(at: Harness, client: ControllerClient, segment: Build) -> None:
    upload(at, segment, "a", "b")
    at.settle()
    entry_id = client.start_replace_segments("parts", ["a", "b"], ["c", "d"])
    upload(at, segment, "c")
    SegmentStatusChecker(at.controller, 300).run_table("parts_OFFLINE")
    text = at.http.get("/metrics").text
    values = {
        name: float(value) for name, value in re.findall(r"(egmentCount\w*)\{[^}]*parts_OFFLINE[^}]*\} (\S+)", text)
    }
    assert values == {"egmentCount": 2, "egmentCountIncludingReplaced": 3}, text
    size = at.controller.catalog.segments("parts_OFFLINE")["a"].size_bytes or 0
    config = client.table("parts")["OFFLINE"] | {"quota": {"storage": f"{size * 2 + size // 2}"}}
    client.update_table("parts", config)
    assert upload(at, segment, "d") == [200], (
        "two old and two new segments, and room for two: what queries will see counts"
    )
    at.settle()
    client.end_replace_segments("parts", entry_id)
    assert upload(at, segment, "e") == [429]


def test_what_a_replacement_brings_does_not_expire_before_its_end(
    at: Harness, client: ControllerClient, segment: Build
) -> None:
    config = client.table("parts")["OFFLINE"]
    client.update_table(
        "parts",
        config
        | {"segmentsConfig": config["segmentsConfig"] | {"retentionTimeUnit": "DAYS", "retentionTimeValue": "5"}},
    )
    client.start_replace_segments("parts", [], ["b"])
    upload(at, segment, "a", "b")
    RetentionManager(at.controller, 3600).run_table("parts_OFFLINE")
    assert client.segments("parts") == {"OFFLINE": ["b"]}


def test_unknown_segments_cannot_be_replaced(client: ControllerClient, at: Harness) -> None:
    with pytest.raises(UserError, match="not in table 'parts_OFFLINE': 'none'"):
        client.start_replace_segments("parts", ["none"], ["x"])
