"""Proves that every way to build segments from files tells of segments whose values break the table's partition scheme:
jobs, by which `create-segment` and `load` build as well, and the tasks of Spark warn and count, write no partitions of
the column, and lose no row. Executors of Spark are this process.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from job_data import CONFIG, FIRST_DAY, job, segment_rows, write_documents

from pinotpy.cli.build_report import print_report
from pinotpy.ingest.jobs.context import open_context
from pinotpy.ingest.jobs.input_files import InputEntry
from pinotpy.ingest.jobs.plan import RowSlice, Unit, UnitKind
from pinotpy.ingest.jobs.report import JobReport
from pinotpy.ingest.jobs.run import run_job
from pinotpy.segment.archive.archive import read_archive_metadata
from pinotpy.segment.metadata import SegmentMetadata
from pinotpy.spark_jobs.commands import summary
from pinotpy.spark_jobs.parcels import pack
from pinotpy.spark_jobs.task import SparkJob, read_report, spark_job
from pinotpy.spark_jobs.writing import PLACED_COLUMNS, write_segments

# Numbers as text in one file, a text that is none in the other.
FILES = {"a": ["7", "12", "9"], "b": ["3", "north", "5"]}
REASON = "Modulo does not take all of its values, such as 'north'"
WARNING = f"1 of 2 segments have no partitions of column 'city', and every query asks them: {REASON}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    partitions = {"columnPartitionMap": {"city": {"functionName": "Modulo", "numPartitions": 4}}}
    write_documents(tmp_path, CONFIG | {"tableIndexConfig": {"segmentPartitionConfig": partitions}})
    (tmp_path / "in").mkdir()
    for name, cities in FILES.items():
        lines = [f"{number},{city},1.5,2,{FIRST_DAY}" for number, city in enumerate(cities)]
        (tmp_path / "in" / f"{name}.csv").write_text("\n".join(["customer,city,price,pieces,day", *lines]) + "\n")
    return tmp_path


def metadata_of(uri: str) -> SegmentMetadata:
    with Path(uri).open("rb") as archive:
        return read_archive_metadata(archive)[0]


def check(report: JobReport, folder: Path) -> None:
    assert report.error is None and report.warnings == (WARNING,)
    good, bad = report.segments
    assert (good.partitions, good.partition_gaps) == ({"city": (0, 1, 3)}, {})  # 12, 9, 7
    assert (bad.partitions, bad.partition_gaps) == ({}, {"city": REASON})
    for segment, cities in zip(report.segments, FILES.values(), strict=True):
        city = metadata_of(segment.uri).column("city")
        assert city is not None and (city.partition is None) == (segment is bad)
        assert sorted(segment_rows(Path(segment.uri), folder)["city"].to_pylist()) == sorted(cities)


def test_a_job_warns_counts_and_writes_no_partitions(folder: Path) -> None:
    names = {"configs": {"use.global.directory.sequence.id": "true"}}
    report = run_job(job(folder, segmentNameGeneratorSpec=names))
    check(report, folder)
    document = report.to_json_dict()
    assert document["numSegmentsWithoutPartitions"] == 1 and document["warnings"] == [WARNING]
    assert [segment["partitionGaps"] for segment in document["segments"]] == [{}, {"city": REASON}]


def test_people_see_it_in_the_report_of_both_kinds_of_jobs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = {"configs": {"use.global.directory.sequence.id": "true"}}
    report = run_job(job(folder, segmentNameGeneratorSpec=names))
    print_report(report)
    assert WARNING in capsys.readouterr().out
    assert f"warning: {WARNING}" in summary(report)


def test_rows_that_are_to_be_split_by_a_partition_that_they_lack_are_refused(folder: Path) -> None:
    report = run_job(job(folder, pinotpy={"repartition": True}))
    assert report.error is not None and "Modulo" in report.error and not report.segments


def spark_rows(cities: list[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "customer": pa.array(range(len(cities)), pa.int64()),
            "city": pa.array(cities),
            "price": pa.array([1.5] * len(cities)),
            "pieces": pa.array([2] * len(cities), pa.int32()),
            "day": pa.array([FIRST_DAY] * len(cities), pa.int32()),
        }
    )


def test_a_task_of_spark_reports_the_same(folder: Path) -> None:
    context = open_context(job(folder, "spark", pinotpy={"rowsPerSegment": 1_000}))
    entries = [InputEntry(f"{folder}/in/{name}.csv", f"{name}.csv", "CSV", 1, 1) for name in FILES]
    dealt = [Unit(number, UnitKind.DEAL, number, (entry,)) for number, entry in enumerate(entries)]
    sparks: SparkJob = spark_job(context, dealt, 1)
    units = tuple(
        Unit(2 + number, UnitKind.GROUP, number, (entry,), slices=(RowSlice("", "", 0, len(FILES[name])),))
        for number, (name, entry) in enumerate(zip(FILES, entries, strict=True))
    )
    placed = pa.RecordBatch.from_arrays(
        [
            pa.array([0, 1], pa.int32()),
            pa.array([number << 32 for number in range(2)], pa.int64()),
            pa.array([0, 0], pa.int64()),
            pa.array([0, 0], pa.int64()),
            pa.array([3, 3], pa.int64()),
            pa.array([pack(spark_rows(cities)) for cities in FILES.values()], pa.binary()),
        ],
        names=list(PLACED_COLUMNS),
    )
    batches = list(write_segments(iter([placed]), sparks, units))
    reports = [read_report(row["report"]) for batch in batches for row in batch.to_pylist()]
    assert [report.error for report in reports] == [None, None]
    gaps = [segment.partition_gaps for report in reports for segment in report.segments]
    assert gaps == [{}, {"city": REASON}]
