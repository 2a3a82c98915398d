"""Proves that uploads without the partitions that their table asks for come in, without partitions in their record, and
are counted, whatever form the push has. Over HTTP, with segments that the real builder made.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from controller_harness import PARTS_TABLE, Harness

from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.config.table import TableConfig
from pinotpy.controller.partition_gaps import unpartitioned_columns
from pinotpy.segment.archive.archive import pack_metadata, read_archive_metadata

PARTITIONED = {
    "tableIndexConfig": {
        "segmentPartitionConfig": {"columnPartitionMap": {"id": {"functionName": "Modulo", "numPartitions": 2}}}
    }
}


def counted(harness: Harness) -> float:
    name = 'pinot_controller_controllerSegmentsWithoutPartitions_total{table="parts_OFFLINE"}'
    lines = harness.http.get("/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


def test_uploads_without_partitions_are_counted_and_told(
    start: Callable[..., Harness], segment: Callable[..., Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "shared").mkdir()
    harness = start(settings={"segment_uris_allowed": f"file://{tmp_path}/shared/"})
    harness.add_parts(**PARTITIONED)
    # Segments of this helper are built by a config without partitions, as those of an older config.
    assert harness.upload(segment("parts_0"), tableName="parts").status_code == 200
    there = segment("parts_1").rename(tmp_path / "shared" / "parts_1.tar.gz")
    with there.open("rb") as archive:
        metadata, plain = read_archive_metadata(archive)
    headers = {"UPLOAD_TYPE": "METADATA", "DOWNLOAD_URI": f"file://{there}"}
    answer = harness.upload(pack_metadata(plain, metadata.segment_name), tableName="parts", headers=headers)
    assert answer.status_code == 200, answer.text
    assert counted(harness) == 2
    records = harness.controller.catalog.segments("parts_OFFLINE", ["parts_0", "parts_1"])
    assert [record.partition_metadata for record in records.values()] == [None, None]
    told = [record for record in caplog.records if record.name == "pinotpy.controller.partition_gaps"]
    assert [record.levelno for record in told] == [logging.WARNING] * 2
    assert all("columns=id" in record.getMessage() for record in told)


def test_a_table_without_partitions_counts_nothing(harness: Harness, segment: Callable[..., Path]) -> None:
    harness.add_parts()
    assert harness.upload(segment("parts_0"), tableName="parts").status_code == 200
    assert counted(harness) == 0


@pytest.mark.parametrize(
    ("recorded", "lacking"), [(None, ("id",)), ({}, ("id",)), ({"name": {}}, ("id",)), ({"id": {}, "name": {}}, ())]
)
def test_what_a_record_lacks(recorded: dict[str, Any] | None, lacking: tuple[str, ...]) -> None:
    record = SegmentZkMetadata(
        "s", "parts_OFFLINE", 1, 1, 1,
        partition_metadata=None if recorded is None else {"columnPartitionMap": recorded},
    )  # fmt: skip
    assert unpartitioned_columns(TableConfig.from_json(PARTS_TABLE | PARTITIONED), record) == lacking
    assert unpartitioned_columns(TableConfig.from_json(PARTS_TABLE), record) == ()
