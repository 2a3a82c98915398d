"""Proves of the commands that look after tables, against a real controller over the in-memory cluster store: what they
list is what is there; what is deleted can be brought back until its archive goes; retention shows what it would take;
and nothing is deleted without a yes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from controller_harness import PARTS_SCHEMA, PARTS_TABLE, Harness, build_parts_segment, start_harness
from events_table import SCHEMA, table_config
from terminals import open_terminal

from pinotpy.cli.commands.delete_segments import _without_consuming
from pinotpy.clock import ManualClock, SystemClock
from pinotpy.controller.periodic.realtime_validation import RealtimeValidation
from pinotpy.controller.periodic.retention import RetentionManager
from pinotpy.service.ports import free_port
from pinotpy.stream.file import create_topic

DAY_MS = 86_400_000
Build = Callable[..., Path]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    return lambda name, **options: build_parts_segment(tmp_path / "built", name, **options)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    started = start_harness(tmp_path / "c")
    yield started
    started.close()


@pytest.fixture
def call(harness: Harness, pinotpy: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("PINOTPY_CONTROLLER_URL", harness.server.url)
    return pinotpy


def with_segments(harness: Harness, build: Build, *names: str, **changes: Any) -> None:
    """Table `parts`, and servers that serve its segments; the first one's rows are the oldest."""
    harness.add_parts(**changes)
    for number, name in enumerate(names):
        assert harness.upload(build(name, first_day=18_000 + 100 * number), tableName="parts").status_code == 200
    harness.settle()


def test_tables_are_listed_with_their_replicas(call: Any, harness: Harness, build: Build) -> None:
    assert "there are no tables" in call("list-tables").out and call("list-tables", "--json").document == []
    with_segments(harness, build, "a", "b")
    assert call("list-tables", "--json").document == [
        {"table": "parts", "type": "OFFLINE", "state": "enabled", "segments": 2, "wanted": 4, "serving": 4, "error": 0}
    ]
    assert call("list-tables").out.splitlines()[-1].replace("│", " ").split() == [
        "parts",
        "OFFLINE",
        "enabled",
        "2",
        "4",
        "4",
        "0",
    ]


def test_a_table_is_shown_with_config_schema_sizes_segments_and_state(
    call: Any, harness: Harness, build: Build
) -> None:
    with_segments(harness, build, "a", "b")
    found = call("show-table", "parts", "--json").document
    assert found["schema"]["schemaName"] == "parts"
    half = found["halves"]["OFFLINE"]
    assert half["config"]["tableName"] == "parts_OFFLINE" and half["state"] == "enabled"
    assert half["replicas"] == {"segments": 2, "wanted": 4, "serving": 4, "error": 0}
    first = half["segments"][0]
    assert (first["name"], first["docs"]) == ("a", 3)
    assert (first["startMs"], first["endMs"]) == (18_000 * DAY_MS, 18_002 * DAY_MS)
    assert set(first["replicas"].values()) == {"ONLINE"}
    shown = call("show-table", "parts").out
    for words in (
        "amount",
        "LONG",
        "4 of 4 replicas serve",
        "2019-04-14",
        "loadMode",
        "unknown on servers",
    ):
        assert words in shown, (words, shown)
    assert "no server tells the size of 2 segments" in shown
    missing = call("show-table", "nope")
    assert missing.status == 1 and "nope" in missing.err and "did you mean" not in missing.err


@pytest.mark.parametrize(
    "command",
    [
        ["show-table", "part"],
        ["show-table", "Parts_OFFLINE"],
        ["annotate-segments", "prats"],
        ["show-retention", "part"],
        ["reload-segments", "--table-name", "part"],
        ["delete-table", "part", "--yes"],
        ["restore-segments", "part", "--all"],
    ],
)
def test_of_a_table_that_is_not_there_a_near_name_is_told(
    call: Any, harness: Harness, build: Build, command: list[str]
) -> None:
    with_segments(harness, build, "a")
    ended = call(*command)
    assert ended.status == 1 and ended.err.rstrip().endswith("; did you mean 'parts'?")
    assert ".;" not in ended.err
    # The table is there, and what it lacks is another thing.
    assert "did you mean" not in call("annotate-segments", "parts", "nosegment").err


def test_long_lists_of_segments_say_that_they_were_cut(call: Any, harness: Harness, build: Build) -> None:
    with_segments(harness, build, *(f"s{number:02}" for number in range(21)))
    assert "… and 1 more; --all-segments" in call("show-table", "parts").out
    assert "s20" in call("show-table", "parts", "--all-segments").out


def test_instances_say_since_when_they_live(call: Any, harness: Harness, build: Build) -> None:
    with_segments(harness, build, "a")
    harness.add_instance("Server_localhost_9999", ["DefaultTenant_OFFLINE"], live=False)
    found = {each["instance"]: each for each in call("show-instances", "--json").document}
    server, away = found["Server_localhost_8098"], found["Server_localhost_9999"]
    now_ms = SystemClock().now_ms()
    assert server["role"] == "server" and now_ms - 600_000 < server["aliveSinceMs"] <= now_ms
    # No server runs here, so that nobody tells a size.
    assert (server["segments"], server["bytes"], server["segmentsOfUnknownSize"]) == (1, 0, 1)
    assert away["aliveSinceMs"] is None and away["segments"] == 0
    shown = call("show-instances").out
    assert "not alive" in shown and "UTC" in shown and "1 of unknown size" in shown and "broker" in shown


# --- deletions -----------------------------------------------------------------------------------------------------


def test_nothing_is_deleted_without_a_terminal_to_ask_on_or_yes(call: Any, harness: Harness, build: Build) -> None:
    with_segments(harness, build, "a")
    for deletion in (
        ["delete-table", "--table-name", "parts"],
        ["delete-schema", "--schema-name", "parts"],
        ["delete-segments", "parts", "a"],
        ["delete-segments", "parts", "--all"],
    ):
        ended = call(*deletion)
        assert ended.status == 1 and ended.err.endswith("There is no terminal to ask on: add --yes to do it\n"), ended
    assert harness.controller.catalog.segment_names("parts_OFFLINE") == ["a"]
    assert "Delete table 'parts' with its 1 segment?" in call("delete-table", "--table-name", "parts").err
    assert call("delete-table", "--table-name", "parts", "--yes").status == 0
    assert call("delete-schema", "--schema-name", "parts", "--yes").status == 0
    assert harness.controller.catalog.table_names() == []


@pytest.mark.parametrize(("answer", "is_deleted"), [(b"n\n", False), (b"\n", False), (b"y\n", True)])
def test_on_a_terminal_the_answer_decides(harness: Harness, build: Build, answer: bytes, is_deleted: bool) -> None:
    with_segments(harness, build, "a")
    ours, theirs = open_terminal()
    import os

    process = subprocess.Popen(
        [sys.executable, "-m", "pinotpy", "delete-segments", "parts", "a", "--controller-url", harness.server.url],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    os.write(ours, answer)
    # What a terminal shows has to be read, or the process waits.
    said: list[bytes] = []

    def read() -> None:
        with pytest.raises(OSError):
            while True:
                said.append(os.read(ours, 1000))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    process.communicate(timeout=120)
    reader.join(60)
    os.close(ours)
    assert b"Delete 1 segment of table 'parts' (a)? [y/N]" in b"".join(said)
    assert process.returncode == (0 if is_deleted else 1)
    assert harness.controller.catalog.segment_names("parts_OFFLINE") == ([] if is_deleted else ["a"])


def test_segments_go_by_name_by_age_or_all(call: Any, harness: Harness, build: Build) -> None:
    today = SystemClock().now_ms() // DAY_MS
    with_segments(harness, build, "a", "b", "c")
    assert harness.upload(build("new", first_day=today - 1), tableName="parts").status_code == 200

    def names() -> list[str]:
        return harness.controller.catalog.segment_names("parts_OFFLINE")

    for wrong in ([], ["a", "--all"], ["--all", "--older-than", "1d"]):
        assert "one of them" in call("delete-segments", "parts", *wrong, "--yes").err
    unknown = call("delete-segments", "parts", "a", "zz", "--yes")
    assert unknown.status == 1 and "no segment zz; nothing was deleted" in unknown.err and "a" in names()
    assert "Invalid time spec" in call("delete-segments", "parts", "--older-than", "soon", "--yes").err
    done = call("delete-segments", "parts", "a", "--yes")
    assert done.status == 0 and "1 segment of parts_OFFLINE deleted" in done.out
    assert "restore-segments brings them back" in done.out and names() == ["b", "c", "new"]
    done = call("delete-segments", "parts", "--older-than", "30d", "--retention", "0d", "--yes", "--json")
    assert done.document == {"deleted": {"OFFLINE": ["b", "c"]}} and names() == ["new"]
    assert "all older than 30d: nothing to delete" in call("delete-segments", "parts", "--older-than", "30d").out
    assert call("delete-segments", "parts", "--all", "--yes").status == 0 and names() == []
    kept = call("restore-segments", "parts", "--json").document
    assert [entry["segmentName"] for entry in kept] == ["a", "new"], "b and c were deleted with retention 0d"


def test_a_table_without_times_says_why_no_segment_is_old(call: Any, harness: Harness, build: Build) -> None:
    with_segments(harness, build, segmentsConfig={"schemaName": "parts", "replication": "2"})
    said = call("delete-segments", "parts", "--older-than", "30d").out
    assert "has times, as the table config names no timeColumnName" in said and "nothing to delete" in said


def test_deleted_segments_come_back_with_their_rows(call: Any, harness: Harness, build: Build) -> None:
    with_segments(harness, build, "a", "b")
    crc = harness.controller.catalog.segments("parts_OFFLINE")["a"].crc
    assert call("restore-segments", "parts").out == "no deleted segments of table 'parts' are kept\n"
    assert call("delete-segments", "parts", "--all", "--yes").status == 0
    harness.settle()
    listed = call("restore-segments", "parts").out
    assert str(crc) in listed and "kept until" in listed
    done = call("restore-segments", "parts", "a", "--no-wait")
    assert done.status == 0 and "1 segment of table 'parts' restored" in done.out, done
    record = harness.controller.catalog.segments("parts_OFFLINE")["a"]
    assert (record.crc, record.total_docs) == (crc, 3)
    assert harness.http.get("/segments/parts/a").status_code == 200, "servers find the archive"
    harness.settle()
    again = call("restore-segments", "parts", "a", "b", "gone", "--no-wait", "--json")
    assert again.status == 1 and again.document["restored"] == ["b"]
    assert "delete it first" in again.document["failed"]["a"] and "is kept" in again.document["failed"]["gone"]
    assert call("restore-segments", "parts", "--all").out.startswith("0 segments")
    assert harness.controller.files.deleted_archives("parts") == []


def test_of_several_contents_the_one_deleted_last_comes_back_or_the_one_named(
    call: Any, harness: Harness, build: Build
) -> None:
    with_segments(harness, build, "a")
    first = harness.controller.catalog.segments("parts_OFFLINE")["a"].crc
    assert call("delete-segments", "parts", "a", "--retention", "1d", "--yes").status == 0
    harness.settle()
    assert harness.upload(build("a", amounts=(4, 5)), tableName="parts").status_code == 200
    second = harness.controller.catalog.segments("parts_OFFLINE")["a"].crc
    assert call("delete-segments", "parts", "a", "--retention", "9d", "--yes").status == 0
    harness.settle()
    kept = call("restore-segments", "parts", "--json").document
    assert {entry["crc"] for entry in kept} == {str(first), str(second)}
    wrong = call("restore-segments", "parts", "a", "--crc", "7")
    assert wrong.status == 1 and str(first) in wrong.err
    assert call("restore-segments", "parts", "a", "--crc", first, "--no-wait").status == 0
    assert harness.controller.catalog.segments("parts_OFFLINE")["a"].crc == first
    assert call("delete-segments", "parts", "a", "--retention", "1d", "--yes").status == 0
    harness.settle()
    assert call("restore-segments", "parts", "a", "--no-wait").status == 0
    assert harness.controller.catalog.segments("parts_OFFLINE")["a"].crc == second


# --- retention -----------------------------------------------------------------------------------------------------


def test_retention_shows_exactly_what_the_task_then_deletes(pinotpy: Any, tmp_path: Path, build: Build) -> None:
    clock = ManualClock(now_ms=18_200 * DAY_MS)
    harness = start_harness(tmp_path / "c", clock=clock)
    try:
        url = ("--controller-url", harness.server.url)
        config = dict(PARTS_TABLE["segmentsConfig"], retentionTimeUnit="DAYS", retentionTimeValue="150")
        with_segments(harness, build, "a", "b", segmentsConfig=config)
        shown = pinotpy("show-retention", "parts", *url)
        assert "rows are kept for 150 days; 1 segment would go now" in shown.out and "2019-04-16" in shown.out, shown
        plan = pinotpy("show-retention", "parts", "--json", *url).document["OFFLINE"]
        assert list(plan["expiredSegments"]) == ["a"]
        assert harness.controller.catalog.segment_names("parts_OFFLINE") == ["a", "b"], "a look deletes nothing"
        RetentionManager(harness.controller, 1).run_table("parts_OFFLINE")
        assert harness.controller.catalog.segment_names("parts_OFFLINE") == ["b"]
        assert not pinotpy("show-retention", "parts", "--json", *url).document["OFFLINE"]["expiredSegments"]
    finally:
        harness.close()


def test_retention_says_why_nothing_goes(call: Any, harness: Harness, build: Build) -> None:
    with_segments(harness, build, "a")
    assert (
        "kept for ever: the table config has no segmentsConfig.retentionTimeUnit" in call("show-retention", "parts").out
    )


# --- changes -------------------------------------------------------------------------------------------------------


def test_a_table_and_its_schema_are_replaced(call: Any, harness: Harness, tmp_path: Path) -> None:
    harness.add_parts()
    config, schema, broken = tmp_path / "t.json", tmp_path / "s.json", tmp_path / "b.json"
    indexing = {"loadMode": "MMAP", "invertedIndexColumns": ["name"]}
    config.write_text(json.dumps(PARTS_TABLE | {"tableIndexConfig": indexing}))
    more = [*PARTS_SCHEMA["dimensionFieldSpecs"], {"name": "colour", "dataType": "STRING"}]
    schema.write_text(json.dumps(PARTS_SCHEMA | {"dimensionFieldSpecs": more}))
    broken.write_text(json.dumps(PARTS_TABLE | {"tableType": "SIDEWAYS"}))
    assert "what shall be replaced?" in call("update-table").err
    refused = call("update-table", "--schema-file", schema, "--table-config-file", broken)
    assert refused.status == 1 and "SIDEWAYS" in refused.err
    assert "colour" not in harness.http.get("/schemas/parts").text, "nothing is sent if one is wrong"
    done = call("update-table", "--schema-file", schema, "--table-config-file", config, "--reload")
    assert done.status == 0, done
    stored = harness.http.get("/tables/parts").json()["OFFLINE"]["tableIndexConfig"]
    assert stored["invertedIndexColumns"] == ["name"]
    assert "colour" in harness.http.get("/schemas/parts").text
    assert "until they are reloaded" in call("update-table", "--table-config-file", config).err


def test_a_controller_that_is_not_there_is_one_sentence(pinotpy: Any, tmp_path: Path) -> None:
    url = ("--controller-url", f"http://127.0.0.1:{free_port()}")
    config = tmp_path / "t.json"
    config.write_text(json.dumps(PARTS_TABLE))
    for arguments in (
        ["list-tables"],
        ["show-table", "t"],
        ["show-instances"],
        ["show-retention", "t"],
        ["restore-segments", "t"],
        ["delete-segments", "t", "a", "--yes"],
        ["update-table", "--table-config-file", str(config)],
    ):
        ended = pinotpy(*arguments, *url)
        assert ended.status == 1 and ended.out == "" and ended.err.count("\n") == 1, ended


def test_a_table_that_is_refused_leaves_no_schema(call: Any, harness: Harness, tmp_path: Path) -> None:
    schema, config = tmp_path / "s.json", tmp_path / "t.json"
    schema.write_text(json.dumps(PARTS_SCHEMA))
    segments = {**PARTS_TABLE["segmentsConfig"], "replication": "9"}  # more than there are servers
    config.write_text(json.dumps({**PARTS_TABLE, "segmentsConfig": segments}))
    ended = call("add-table", "--table-config-file", config, "--schema-file", schema)
    assert ended.status == 1 and "replication" in ended.err
    assert harness.http.get("/schemas").json() == []
    config.write_text(json.dumps(PARTS_TABLE))
    assert call("add-table", "--table-config-file", config, "--schema-file", schema).status == 0
    assert (harness.http.get("/schemas").json(), harness.http.get("/tables").json()["tables"]) == (["parts"], ["parts"])
    for beside in ({}, {"schema": None}, {"schema": {"schemaName": "other"}}):
        assert harness.http.post("/tables/validate", json={"tableConfig": PARTS_TABLE, **beside}).status_code == 400


def test_what_consumes_is_named_and_not_deleted(call: Any, harness: Harness, tmp_path: Path) -> None:
    create_topic(tmp_path / "events", 2)
    assert harness.post_json("/schemas", SCHEMA).status_code == 200
    assert harness.post_json("/tables", table_config(tmp_path, rows=100)).status_code == 200
    RealtimeValidation(harness.controller, harness.controller.realtime_segments, 60.0).run_table("events_REALTIME")
    ideal = harness.controller.catalog.ideal_state("events_REALTIME") or {}
    assert len(ideal) == 2
    ended = call("delete-segments", "events", "--all", "--yes")
    assert ended.status == 0 and "nothing to delete" in ended.out
    assert all(name in ended.err for name in ideal) and "forceCommit" in ended.err
    harness.settle()
    shown = call("show-table", "events").out
    assert "2 segments of the stream being read" in shown and "no server tells" not in shown

    states = {"s0": {"a": "ONLINE"}, "s1": {"a": "CONSUMING"}}
    client = cast(Any, SimpleNamespace(ideal_state=lambda table: {"OFFLINE": None, "REALTIME": states}))
    chosen = {"OFFLINE": ["o0"], "REALTIME": ["s0", "s1"]}
    assert _without_consuming(client, "t", chosen) == ({"OFFLINE": ["o0"], "REALTIME": ["s0"]}, ["s1"])
