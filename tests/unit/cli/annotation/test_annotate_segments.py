"""Proves that annotating a table gives its segments the records that a push of segments built by today's config would
give them, by the least that does it, and changes nothing else. The controller is real, behind HTTP; older records are
what is left when the fields of this release are taken out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from controller_harness import PARTS_SCHEMA, PARTS_TABLE, Harness, start_harness
from input_lists import list_of

from pinotpy.cli.annotation.annotate import AnnotateSettings, annotate_segments
from pinotpy.cli.annotation.report import AnnotationReport, Outcome
from pinotpy.client.controller import ControllerClient
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import NotFoundError, ServerUnreachableError
from pinotpy.segment.archive.archive import pack_segment, unpack_segment
from pinotpy.segment.build.builder import build_segment
from pinotpy.segment.immutable import load_segment
from pinotpy.segment.to_arrow import column_to_arrow

TABLE = "parts_OFFLINE"
NAMES = ("parts_0", "parts_1", "parts_2")
# Ids of parts_0 are even, of parts_1 odd, of parts_2 both.
IDS = {"parts_0": [2, 4, 6], "parts_1": [1, 3, 5], "parts_2": [1, 2, 3]}
PARTITIONS = {"parts_0": [0], "parts_1": [1], "parts_2": [0, 1]}


def scheme(column: str = "id", function: str = "Modulo", count: int = 2, **more: Any) -> dict[str, Any]:
    columns = {column: {"functionName": function, "numPartitions": count}}
    return {"segmentPartitionConfig": {"columnPartitionMap": columns}, **more}


def config(index: dict[str, Any]) -> dict[str, Any]:
    return PARTS_TABLE | {"tableIndexConfig": index}


def archive(
    folder: Path, name: str, index: dict[str, Any] | None = None, names: Sequence[str] = ("7", "8", "x")
) -> Path:
    ids = IDS[name]
    batch = pa.RecordBatch.from_pydict(
        {
            "id": pa.array(ids, pa.int32()),
            "name": pa.array(list(names)),
            "amount": pa.array([10, 20, 30], pa.int64()),
            "day": pa.array([18_000, 18_001, 18_000], pa.int32()),
        }
    )
    target = folder / f"build-{len(list(folder.glob('build-*')))}"
    target.mkdir(parents=True)
    schema, table = Schema.from_json(PARTS_SCHEMA), TableConfig.from_json(config(index or {}))
    build_segment(schema, table, [batch], target, name, raw_table_name="parts", creation_time_ms=1_700_000_000_000)
    return pack_segment(target / name, target / f"{name}.tar.gz")


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    started = start_harness(tmp_path / "controller")
    started.add_parts()
    yield started
    started.close()


@pytest.fixture
def client(harness: Harness) -> Iterator[ControllerClient]:
    with ControllerClient(harness.server.url) as one:
        yield one


@pytest.fixture
def pushed(harness: Harness, tmp_path: Path) -> None:
    """Three segments that were built without partitions."""
    for name in NAMES:
        harness.upload(archive(tmp_path, name), tableName="parts").raise_for_status()


def record(harness: Harness, name: str) -> SegmentZkMetadata:
    found = harness.controller.catalog.segment(TABLE, name)
    assert found is not None
    return found.segment


def make_old(harness: Harness, *names: str) -> None:
    """As a release before this one left the records."""
    for name in names:
        found = harness.controller.catalog.segment(TABLE, name)
        assert found is not None
        old = replace(found.segment, column_ranges="", partition_metadata=None)
        harness.controller.catalog.replace_segment(old, found.version)


def set_config(client: ControllerClient, index: dict[str, Any]) -> None:
    client.update_table("parts", config(index))


def annotate(client: ControllerClient, *segments: str, table: str = "parts", **changes: Any) -> AnnotationReport:
    return annotate_segments(client, AnnotateSettings(table, segments, **changes))


def outcomes(report: AnnotationReport) -> dict[str, Outcome]:
    return {found.name: found.outcome for found in report.segments}


def partitions(harness: Harness, name: str, column: str = "id") -> Any:
    columns = (record(harness, name).partition_metadata or {}).get("columnPartitionMap", {})
    return (columns.get(column) or {}).get("partitions")


def rows(client: ControllerClient, name: str, folder: Path) -> list[dict[str, Any]]:
    folder.mkdir()
    packed = folder / "look.tar.gz"
    packed.write_bytes(client.download_segment("parts", name))
    loaded = load_segment(unpack_segment(packed, folder / "look"))
    found = pa.table({column: column_to_arrow(loaded.column(column)) for column in ("id", "name", "amount", "day")})
    loaded.close()
    return found.to_pylist()


def test_records_of_older_releases_are_completed_and_nothing_else_moves(
    harness: Harness, client: ControllerClient, pushed: None
) -> None:
    whole = {name: record(harness, name) for name in NAMES}
    make_old(harness, "parts_0", "parts_2")
    files, sent = harness.files(), harness.messages("Server_localhost_8098")
    report = annotate(client)
    assert outcomes(report) == {
        "parts_0": Outcome.COMPLETED, "parts_1": Outcome.COMPLETE, "parts_2": Outcome.COMPLETED,
    }  # fmt: skip
    assert [found.lacked for found in report.segments] == [("no ranges of columns",), (), ("no ranges of columns",)]
    assert {name: record(harness, name) for name in NAMES} == whole
    assert (harness.files(), harness.messages("Server_localhost_8098")) == (files, sent)
    assert set(outcomes(annotate(client)).values()) == {Outcome.COMPLETE}


def test_ranges_of_other_content_are_lacking_ranges(harness: Harness, client: ControllerClient, pushed: None) -> None:
    whole, other = record(harness, "parts_0"), record(harness, "parts_1").column_ranges
    for text, lacked in ((other, "ranges of other content"), ("{", "ranges that cannot be read")):
        found = harness.controller.catalog.segment(TABLE, "parts_0")
        assert found is not None
        harness.controller.catalog.replace_segment(replace(found.segment, column_ranges=text), found.version)
        (one,) = annotate(client, "parts_0").segments
        assert one.outcome is Outcome.COMPLETED and one.lacked[0].startswith(lacked)
        assert record(harness, "parts_0") == whole


def test_partitions_are_written_into_segments_that_were_built_without(
    harness: Harness, client: ControllerClient, pushed: None, tmp_path: Path
) -> None:
    set_config(client, scheme())
    before = {name: (record(harness, name), rows(client, name, tmp_path / f"old-{name}")) for name in NAMES}
    report = annotate(client)
    assert set(outcomes(report).values()) == {Outcome.REFRESHED}
    for found in report.segments:
        old, old_rows = before[found.name]
        new = record(harness, found.name)
        assert found.partitions == {"id": tuple(PARTITIONS[found.name])}
        assert partitions(harness, found.name) == PARTITIONS[found.name]
        # The record and the archive are those of a segment that is built by the config of today.
        fresh = archive(tmp_path, found.name, scheme())
        assert client.download_segment("parts", found.name) == fresh.read_bytes()
        assert new.crc != old.crc
        for field in ("push_time_ms", "creation_time_ms", "total_docs", "start_time_ms", "end_time_ms"):
            assert getattr(new, field) == getattr(old, field), field
        assert rows(client, found.name, tmp_path / f"new-{found.name}") == old_rows
    counts = report.of_column("OFFLINE", "id")
    assert (counts.scheme, counts.had, counts.written, counts.without, counts.of_one, counts.of_several) == (
        "Modulo of 2", 0, 3, 0, 2, 1,
    )  # fmt: skip
    # Servers are told; the ideal state is what it was, so no replica leaves.
    assert {message["MSG_SUBTYPE"] for message in harness.messages("Server_localhost_8098")} == {"REFRESH_SEGMENT"}
    again = annotate(client)
    assert set(outcomes(again).values()) == {Outcome.COMPLETE} and again.of_column("OFFLINE", "id").had == 3


def test_a_dry_run_says_the_same_and_changes_nothing(harness: Harness, client: ControllerClient, pushed: None) -> None:
    make_old(harness, *NAMES)
    set_config(client, scheme())
    nodes, files = harness.tree.dump(), harness.files()
    tried = annotate(client, is_dry_run=True)
    assert (harness.tree.dump(), harness.files()) == (nodes, files)
    done = annotate(client)
    assert [(one.name, one.outcome, one.partitions) for one in tried.segments] == [
        (one.name, one.outcome, one.partitions) for one in done.segments
    ]


def test_lists_of_input_files_and_custom_maps_stay_with_their_segments(
    harness: Harness, client: ControllerClient, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("x")
    inputs = list_of(tmp_path / "a.csv", rows=3).to_bytes()
    header = {"Pinot-SegmentZKMetadataCustomMapModifier": json.dumps({"mapModifyMode": "UPDATE", "map": {"by": "me"}})}
    client.upload_segment(archive(tmp_path, "parts_0"), "parts", headers=header, inputs=inputs)
    set_config(client, scheme())
    assert outcomes(annotate(client)) == {"parts_0": Outcome.REFRESHED}
    assert client.segment_inputs("parts", "parts_0") == inputs and record(harness, "parts_0").custom_map == {"by": "me"}


def test_values_that_break_the_scheme_are_told_and_the_others_are_done(
    harness: Harness, client: ControllerClient, tmp_path: Path
) -> None:
    client.upload_segment(archive(tmp_path, "parts_0", names=("7", "8", "9")), "parts")
    client.upload_segment(archive(tmp_path, "parts_1"), "parts")
    make_old(harness, "parts_0", "parts_1")
    set_config(client, scheme("name"))
    good, bad = annotate(client).segments
    assert (good.outcome, good.partitions, good.gaps) == (Outcome.REFRESHED, {"name": (0, 1)}, {})
    # Its record is completed all the same: its ranges hold.
    assert (bad.outcome, bad.partitions) == (Outcome.COMPLETED, {})
    assert bad.gaps == {"name": "Modulo does not take all of its values, such as 'x'"}
    assert record(harness, "parts_1").column_ranges and record(harness, "parts_1").partition_metadata is None
    set_config(client, scheme("name", "Murmur3"))
    for one in annotate(client).segments:
        assert one.outcome in (Outcome.COMPLETE, Outcome.REFRESHED)
        assert one.gaps == {"name": "the partition function Murmur3 is not built here"}


def test_another_scheme_takes_the_place_of_the_one_before(
    harness: Harness, client: ControllerClient, tmp_path: Path
) -> None:
    client.upload_segment(archive(tmp_path, "parts_0", scheme()), "parts")
    set_config(client, scheme(count=3))
    (one,) = annotate(client).segments
    assert (one.outcome, one.lacked, one.partitions) == (
        Outcome.REFRESHED, ("partitions by Modulo of 2 of 'id'",), {"id": (0, 1, 2)},
    )  # fmt: skip
    # With partitions of two columns brokers would prune by neither.
    set_config(client, scheme("name", "Murmur", 4))
    (one,) = annotate(client).segments
    assert one.outcome is Outcome.REFRESHED and list(one.partitions) == ["name"]
    assert partitions(harness, "parts_0") is None and partitions(harness, "parts_0", "name")
    # A table without a scheme asks for nothing, and what is recorded stays true.
    set_config(client, {})
    (one,) = annotate(client).segments
    assert one.outcome is Outcome.COMPLETE and partitions(harness, "parts_0", "name")


def test_sorted_segments_are_counted(harness: Harness, client: ControllerClient, tmp_path: Path) -> None:
    for name, names in (("parts_0", ("a", "b", "c")), ("parts_1", ("b", "a", "c"))):
        client.upload_segment(archive(tmp_path, name, names=names), "parts")
    set_config(client, {"sortedColumn": ["name"]})
    assert annotate(client).sorted_counts("OFFLINE") == {"numSorted": 1, "numNotSorted": 0, "numNotLookedAt": 1}
    make_old(harness, "parts_0", "parts_1")
    assert annotate(client).sorted_counts("OFFLINE") == {"numSorted": 1, "numNotSorted": 1, "numNotLookedAt": 0}


def test_one_that_fails_keeps_no_other_back_and_the_next_run_goes_on(
    harness: Harness, client: ControllerClient, pushed: None
) -> None:
    set_config(client, scheme())
    (file,) = (path for path in harness.files() if "parts_1/" in path and path.endswith(".tar.gz"))
    stored = harness.data_dir / file
    good = stored.read_bytes()
    stored.chmod(0o644)
    stored.write_bytes(good[:-400])
    report = annotate(client)
    assert outcomes(report) == {
        "parts_0": Outcome.REFRESHED, "parts_1": Outcome.FAILED, "parts_2": Outcome.REFRESHED,
    }  # fmt: skip
    assert [one.name for one in report.failed] == ["parts_1"] and "archive" in report.failed[0].cause
    stored.write_bytes(good)
    assert outcomes(annotate(client)) == {
        "parts_0": Outcome.COMPLETE, "parts_1": Outcome.REFRESHED, "parts_2": Outcome.COMPLETE,
    }  # fmt: skip


class Interfering(ControllerClient):
    """Does `before` ahead of each upload, and loses the answers to the first `lost` of them."""

    before: Callable[[], object] = staticmethod(lambda: None)
    lost = 0
    uploads = 0

    def upload_segment(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        self.before()
        self.uploads += 1
        answer = super().upload_segment(*args, **kwargs)
        if self.uploads <= self.lost:
            raise ServerUnreachableError("the connection broke")
        return answer


def test_content_that_was_replaced_meanwhile_is_not_put_back(
    harness: Harness, client: ControllerClient, pushed: None, tmp_path: Path
) -> None:
    set_config(client, scheme())
    newer = archive(tmp_path, "parts_0", names=("new", "new", "new"))
    with Interfering(harness.server.url) as other:
        other.before = lambda: client.upload_segment(newer, "parts")
        (one,) = annotate(other, "parts_0").segments
    assert one.outcome is Outcome.FAILED and "CRC" in one.cause
    assert client.download_segment("parts", "parts_0") == newer.read_bytes()


def test_a_lost_answer_to_a_push_is_no_failure(harness: Harness, client: ControllerClient, pushed: None) -> None:
    set_config(client, scheme())
    with Interfering(harness.server.url) as other:
        other.lost = 1
        (one,) = annotate(other, "parts_0").segments
        assert (one.outcome, other.uploads) == (Outcome.REFRESHED, 2)
    assert partitions(harness, "parts_0") == [0]


def test_segments_that_no_query_sees_are_left_out(harness: Harness, client: ControllerClient, tmp_path: Path) -> None:
    for name in ("parts_0", "parts_1"):
        client.upload_segment(archive(tmp_path, name), "parts")
    client.start_replace_segments("parts", segments_from=["parts_0"], segments_to=["parts_2"])
    client.upload_segment(archive(tmp_path, "parts_2"), "parts")
    make_old(harness, *NAMES)
    report = annotate(client)
    assert outcomes(report) == {"parts_0": Outcome.COMPLETED, "parts_1": Outcome.COMPLETED} and report.num_hidden == 1
    assert not record(harness, "parts_2").column_ranges
    with pytest.raises(NotFoundError, match="parts_2"):
        annotate(client, "parts_2")


def test_what_is_not_there_is_told(client: ControllerClient, pushed: None) -> None:
    with pytest.raises(NotFoundError, match="nothing"):
        annotate(client, table="nothing")
    with pytest.raises(NotFoundError, match="parts_7"):
        annotate(client, "parts_0", "parts_7")
    with pytest.raises(NotFoundError, match="parts_REALTIME"):
        annotate(client, table="parts_REALTIME")


def test_encrypted_archives_are_left_and_told(harness: Harness, client: ControllerClient, pushed: None) -> None:
    found = harness.controller.catalog.segment(TABLE, "parts_0")
    assert found is not None
    harness.controller.catalog.replace_segment(replace(found.segment, column_ranges="", crypter="aes"), found.version)
    (one,) = annotate(client, "parts_0").segments
    assert one.outcome is Outcome.LEFT and "encrypted by 'aes'" in one.cause
