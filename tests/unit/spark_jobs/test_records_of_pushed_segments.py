"""Proves that a segment which a task of Spark built and an executor pushed has the record that the same archive has
when anybody uploads it, with every field that queries leave segments out by, in each form of a push. Executors are this
process, the controllers are real.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from controller_harness import Harness, start_harness
from job_data import CONFIG, FIRST_DAY, SCHEMA, job
from spark_executors import Executors

from pinotpy.cluster.column_ranges import read_ranges
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.ingest.jobs.context import open_context
from pinotpy.ingest.jobs.input_files import InputEntry
from pinotpy.ingest.jobs.plan import RowSlice, Unit, UnitKind
from pinotpy.ingest.jobs.report import JobReport, SegmentReport
from pinotpy.ingest.jobs.spec import read_job_spec
from pinotpy.spark_jobs.parcels import pack
from pinotpy.spark_jobs.push import push_on_spark
from pinotpy.spark_jobs.task import read_report, spark_job
from pinotpy.spark_jobs.writing import PLACED_COLUMNS, write_segments

TABLE = "orders_OFFLINE"


@pytest.fixture
def built(tmp_path: Path) -> SegmentReport:
    """A segment of three rows in two cities, sorted by customer, of one input file."""
    (tmp_path / "out").mkdir()
    (tmp_path / "a.csv").write_text("x")
    rows = pa.RecordBatch.from_pydict(
        {
            "customer": pa.array([9, 3, 5], pa.int64()),
            "city": pa.array(["Ulm", "Bern", "Ulm"]),
            "price": pa.array([1.5, 2.5, 3.5]),
            "pieces": pa.array([1, 2, 3], pa.int32()),
            "day": pa.array([FIRST_DAY, FIRST_DAY + 2, FIRST_DAY], pa.int32()),
        }
    )
    context = open_context(job(tmp_path, pinotpy={"rowsPerSegment": 1_000}))
    entry = InputEntry(f"file://{tmp_path}/a.csv", "a.csv", "CSV", 1, 1)
    unit = Unit(1, UnitKind.GROUP, 0, (entry,), slices=(RowSlice("", "", 0, 3),))
    values = [[0], [0], [0], [0], [3], [pack(rows)]]
    types = [pa.int32(), *[pa.int64()] * 4, pa.binary()]
    placed = pa.RecordBatch.from_arrays(
        [pa.array(value, kind) for value, kind in zip(values, types, strict=True)], names=list(PLACED_COLUMNS)
    )
    task = spark_job(context, [Unit(0, UnitKind.DEAL, 0, (entry,))], 1)
    (batch,) = write_segments(iter([placed]), task, (replace(unit, unit_id=0), unit))
    report = read_report(batch.to_pylist()[0]["report"])
    assert report.error is None
    return report.segments[0]


@pytest.fixture
def harnesses(tmp_path: Path) -> Iterator[list[Harness]]:
    allowed = {"segment_uris_allowed": f"file://{tmp_path}/out/"}
    started = [start_harness(tmp_path / name, settings=allowed) for name in ("spark", "other")]
    for one in started:
        one.post_json("/schemas", SCHEMA).raise_for_status()
        one.post_json("/tables", CONFIG).raise_for_status()
    yield started
    for one in started:
        one.close()


def record(harness: Harness, name: str) -> SegmentZkMetadata:
    found = harness.controller.catalog.segment(TABLE, name)
    assert found is not None
    return found.segment


@pytest.mark.parametrize("kind", ["Tar", "Uri", "Metadata"])
def test_a_pushed_segment_has_the_record_of_an_upload(
    harnesses: list[Harness], built: SegmentReport, tmp_path: Path, kind: str
) -> None:
    spark, other = harnesses
    spec = read_job_spec(
        f"jobType: Segment{kind}Push\noutputDirURI: file://{tmp_path}/out\ntableSpec: {{tableName: orders}}\n"
        f"pinotClusterSpecs: [{{controllerURI: '{spark.server.url}'}}]\n"
    )
    report = push_on_spark(Executors(), spec, JobReport(f"Segment{kind}Push", "orders", "", ()))
    assert report.error is None, report
    found = record(spark, built.segment_name)
    archive = Path(built.uri.removeprefix("file://"))
    listed = archive.with_name(archive.name.removesuffix(".tar.gz") + ".inputs.json").read_bytes()
    parts = {"file": ("s.tar.gz", archive.read_bytes()), "inputs": ("inputs.json", listed)}
    other.http.post("/v2/segments", params={"tableName": "orders"}, files=parts).raise_for_status()
    expected = record(other, built.segment_name)
    same = {"push_time_ms": 0, "download_url": ""}
    assert replace(found, **same) == replace(expected, **same)
    # Written down by hand: what queries leave this segment out by.
    ranges = read_ranges(found.column_ranges)
    assert (ranges.crc, ranges.num_docs) == (found.crc, 3) and built.crc == found.crc
    bounds = {name: (column.low, column.high) for name, column in ranges.columns.items()}
    assert bounds["day"] == (FIRST_DAY, FIRST_DAY + 2) and bounds["city"] == (b"Bern", b"Ulm")
    assert bounds["customer"] == (3, 9)
    partitions = json.loads(found.to_record().simple_fields["segment.partition.metadata"])["columnPartitionMap"]
    assert partitions["city"]["functionName"] == "Murmur" and partitions["city"]["numPartitions"] == 4
    assert tuple(partitions["city"]["partitions"]) == built.partitions["city"] != ()
    day_ms = 86_400_000
    assert (found.start_time_ms, found.end_time_ms) == (FIRST_DAY * day_ms, (FIRST_DAY + 2) * day_ms)
    assert found.inputs is not None and found.inputs.num_files == 1
