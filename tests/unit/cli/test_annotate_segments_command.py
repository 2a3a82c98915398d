"""Proves what `annotate-segments` prints and how it ends: every segment is accounted for, a dry run says what the run
then does, what breaks the scheme is named with its reason and is no failure, a failure is status 1, and
progress is shown to who watches.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from controller_harness import PARTS_TABLE, Harness, build_parts_segment, start_harness
from rich.progress import Progress

from pinotpy.cli import options

TABLE = "parts_OFFLINE"


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    """Segments with ids 0 to 2, and names n1 to n3: of the last ones Modulo takes none."""
    started = start_harness(tmp_path / "c")
    started.add_parts()
    for name in ("a", "b", "c"):
        started.upload(build_parts_segment(tmp_path / "built", name), tableName="parts").raise_for_status()
    found = started.controller.catalog.segment(TABLE, "a")
    assert found is not None
    started.controller.catalog.replace_segment(replace(found.segment, column_ranges=""), found.version)
    yield started
    started.close()


@pytest.fixture
def call(harness: Harness, pinotpy: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("PINOTPY_CONTROLLER_URL", harness.server.url)
    return pinotpy


def partition(harness: Harness, column: str, function: str = "Modulo") -> None:
    columns = {column: {"functionName": function, "numPartitions": 2}}
    index = {"segmentPartitionConfig": {"columnPartitionMap": columns}, "sortedColumn": ["amount"]}
    harness.http.put("/tables/parts", json=PARTS_TABLE | {"tableIndexConfig": index}).raise_for_status()


def test_people_read_counts_and_what_was_done(call: Any, harness: Harness) -> None:
    done = call("annotate-segments", "parts")
    assert done.status == 0 and done.out.splitlines() == [
        "3 segments of table 'parts': 2 had everything, 1 records completed",
        "  ranges of columns: 2 had them before",
    ]
    partition(harness, "id")
    tried = call("annotate-segments", "parts", "a", "b", "--dry-run")
    assert tried.status == 0 and tried.out.splitlines() == [
        "2 segments of table 'parts': 2 would be pushed with partitions",
        "  ranges of columns: 2 had them before",
        "  partitions of 'id' (Modulo of 2): 0 had them before, 2 would be written; 0 of one partition, 2 of several",
        "  sorted by 'amount': 2, not sorted 0",
    ]
    lines = call("annotate-segments", "parts", "--parallelism", "3").out.splitlines()
    assert lines[0].startswith("3 segments of table 'parts': 3 pushed with partitions (")
    assert "0 had them before, 3 written" in lines[2]


def test_a_push_that_only_takes_partitions_away_is_told_as_such(call: Any, harness: Harness) -> None:
    partition(harness, "name", "HashCode")
    assert "3 pushed with partitions (" in call("annotate-segments", "parts").out
    partition(harness, "name")
    for how in ("would be pushed", "pushed"):
        lines = call("annotate-segments", "parts", *(["--dry-run"] if "would" in how else [])).out.splitlines()
        assert lines[0].startswith(f"3 segments of table 'parts': 3 {how} without, as told below")
        assert sum(line.startswith("without partitions: ") for line in lines) == 3


def test_programs_read_every_segment(call: Any, harness: Harness) -> None:
    partition(harness, "id")
    document = call("annotate-segments", "parts", "--json").document
    assert document["outcomes"] == {"complete": 0, "recordCompleted": 0, "refreshed": 3, "left": 0, "failed": 0}
    assert document["partitions"]["OFFLINE"]["id"] == {
        "scheme": "Modulo of 2", "numHad": 0, "numWritten": 3, "numWithout": 0, "numOfOnePartition": 0,
        "numOfSeveralPartitions": 3,
    }  # fmt: skip
    assert [one["segmentName"] for one in document["segments"]] == ["a", "b", "c"]
    assert document["segments"][0]["lacked"] == ["no ranges of columns", "no partitions of 'id'"]
    assert document["pushedBytes"] > 0 and document["numWithRangesBefore"] == 2


def test_what_breaks_the_scheme_is_named_and_no_failure(call: Any, harness: Harness) -> None:
    partition(harness, "name")
    done = call("annotate-segments", "parts")
    assert done.status == 0 and "3 cannot have them" in done.out
    reason = "column 'name': Modulo does not take all of its values, such as 'n1'"
    assert [line for line in done.out.splitlines() if line.startswith("without partitions")] == [
        f"without partitions: {name}: {reason}" for name in ("a", "b", "c")
    ]


def test_a_failure_is_status_1_and_says_how_to_go_on(call: Any, harness: Harness) -> None:
    (archive,) = (path for path in harness.files() if "/a/" in path and path.endswith(".tar.gz"))
    (harness.data_dir / archive).unlink()
    ended = call("annotate-segments", "parts", "--attempts", "1")
    assert ended.status == 1 and "2 had everything, 1 failed" in ended.out
    assert "1 segment of table 'parts' could not be annotated, first 'a'" in ended.err
    assert "run the command again to go on" in ended.err
    failed = call("annotate-segments", "parts", "--json", "--attempts", "1")
    assert failed.status == 1 and json.loads(failed.out)["outcomes"]["failed"] == 1
    assert call("annotate-segments", "nothing").status == 1


def test_progress_counts_segments_on_a_terminal_alone(
    call: Any, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition(harness, "id")
    bars: list[Progress] = []

    def watched(as_json: bool) -> Progress:
        bars.append(progress(as_json))
        return bars[-1]

    progress = options.progress
    monkeypatch.setattr(options, "progress", watched)
    assert call("annotate-segments", "parts", "--dry-run").err == "", "nobody watches"
    monkeypatch.setenv("FORCE_COLOR", "1")  # as if standard error were a terminal
    assert call("annotate-segments", "parts", "--dry-run", "--json").err == ""
    (harness.data_dir / next(path for path in harness.files() if "/a/" in path and path.endswith(".tar.gz"))).unlink()
    ended = call("annotate-segments", "parts", "--attempts", "1")
    assert "2 pushed with partitions" in ended.out and "annotating" not in ended.out
    (task,) = bars[-1].tasks
    assert (task.total, task.completed) == (3, 3), "one that fails is done, too"
    assert "annotating" in ended.err and "100%" in ended.err
