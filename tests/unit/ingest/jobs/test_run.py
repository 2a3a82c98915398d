"""Proves that a job's segments hold exactly the rows of its files (DuckDB reads the same files), that running again and
running with more processes gives the same names and the same bytes, and that bad input is reported and, where asked
for, left out.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from job_data import (
    CONFIG,
    FIRST_DAY,
    all_rows,
    archives,
    duckdb_rows,
    job,
    segment_rows,
    write_documents,
    write_inputs,
)

from pinotpy.errors import InvalidConfigError, NotFoundError, OutOfCapacityError, PinotError
from pinotpy.fs.file_systems import file_system_for
from pinotpy.fs.uris import file_uri
from pinotpy.ingest.jobs.pushing import find_archives
from pinotpy.ingest.jobs.run import JobProgress, run_job
from pinotpy.ingest.jobs.work_folder import work_folder
from pinotpy.segment.partition import partition_of

REGROUPED: dict[str, Any] = {"repartition": True, "timeBucket": "MONTH", "rowsPerSegment": 900}
# Numbers that run through all folders: these files are of the same days.
THROUGH: dict[str, Any] = {"configs": {"use.global.directory.sequence.id": "true"}}


@pytest.fixture
def inputs(tmp_path: Path) -> str:
    write_inputs(tmp_path / "in")
    return f"{tmp_path}/in/**/*.parquet"


def test_a_segment_a_file_with_the_rows_that_duckdb_reads(tmp_path: Path, inputs: str) -> None:
    report = run_job(job(tmp_path, segmentNameGeneratorSpec=THROUGH))
    assert report.error is None
    # The archives lie below the output as the files below the input.
    assert [Path(segment.uri).relative_to(tmp_path / "out").as_posix() for segment in report.segments] == [
        f"deep/orders_{FIRST_DAY}_{FIRST_DAY + 58}_0.tar.gz",
        *(f"orders_{FIRST_DAY}_{FIRST_DAY + 58}_{number}.tar.gz" for number in (1, 2, 3)),
    ]
    assert all_rows(report, tmp_path / "scratch") == duckdb_rows(inputs)
    assert (
        report.total("num_rows_read")
        == report.total("num_rows_indexed")
        == sum(segment.num_docs for segment in report.segments)
    )


@pytest.mark.parametrize("ours", [{}, REGROUPED], ids=["files", "regrouped"])
def test_the_same_bytes_again_and_with_more_processes(ours: dict[str, Any], tmp_path: Path, inputs: str) -> None:
    first = run_job(job(tmp_path, "one", pinotpy=ours, segmentNameGeneratorSpec=THROUGH))
    assert first.error is None
    again = run_job(job(tmp_path, "one", pinotpy=ours, segmentNameGeneratorSpec=THROUGH))
    assert again.error is None, "what is there with the same bytes is no fault"
    several = run_job(
        job(tmp_path, "three", pinotpy=ours, segmentNameGeneratorSpec=THROUGH, segmentCreationJobParallelism=3)
    )
    assert several.error is None
    assert archives(tmp_path / "one") == archives(tmp_path / "three")
    assert [segment.crc for segment in first.segments] == [segment.crc for segment in several.segments]
    assert not list((tmp_path / "work").iterdir())


def test_regrouped_segments_have_one_partition_one_bucket_and_their_size(tmp_path: Path, inputs: str) -> None:
    report = run_job(job(tmp_path, pinotpy=REGROUPED))
    assert report.error is None
    assert all_rows(report, tmp_path / "scratch") == duckdb_rows(inputs)
    with duckdb.connect() as connection:
        # Days and cities from DuckDB, the partition of a city by the function for one value.
        month = "CAST(date_trunc('month', DATE '1970-01-01' + day) AS DATE)"
        cities = connection.sql(f"SELECT city, {month}, count(*) FROM read_parquet('{inputs}') GROUP BY ALL").fetchall()
    expected: Counter[tuple[int, str]] = Counter()
    for city, month, count in cities:
        expected[partition_of("Murmur", 4, "null" if city is None else city), str(month)[:7]] += count
    found: dict[tuple[int, str], list[int]] = {}
    for segment in report.segments:
        rows = segment_rows(Path(segment.uri), tmp_path / "scratch")
        (partition,) = segment.partitions["city"]
        assert {
            partition_of("Murmur", 4, "null" if city is None else city) for city in rows["city"].unique().to_pylist()
        } == {partition}
        (month,) = {str(np.datetime64(day, "D").astype("datetime64[M]")) for day in rows["day"].unique().to_pylist()}
        customers = rows["customer"].to_pylist()
        assert customers == sorted(customers), "sorted by the table's sortedColumn"
        found.setdefault((partition, month), []).append(segment.num_docs)
    assert {key: sum(sizes) for key, sizes in found.items()} == expected
    for sizes in found.values():
        assert max(sizes) <= 900 and max(sizes) - min(sizes) <= 1


def test_rows_of_equal_keys_stay_by_file_and_position(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name, first in (("a", 0), ("b", 100)):
        table = {
            "customer": [1, 0] * 50,
            "city": ["x"] * 100,
            "price": [0.0] * 100,
            "pieces": list(range(first, first + 100)),
            "day": [FIRST_DAY] * 100,
        }
        pq.write_table(pa.table(table), tmp_path / "in" / f"{name}.parquet")
    report = run_job(job(tmp_path, pinotpy={"rowsPerSegment": 1_000}))
    (segment,) = report.segments
    rows = segment_rows(Path(segment.uri), tmp_path)
    assert rows["pieces"].to_pylist() == [n for n in range(200) if n % 2] + [n for n in range(200) if not n % 2]
    kept = run_job(job(tmp_path, "kept", pinotpy={"rowsPerSegment": 1_000, "keepInputOrder": True}))
    assert segment_rows(Path(kept.segments[0].uri), tmp_path / "work")["pieces"].to_pylist() == list(range(200))


def test_segments_come_near_the_bytes_that_were_asked_for(tmp_path: Path) -> None:
    write_inputs(tmp_path / "in", 3, 40_000)
    report = run_job(job(tmp_path, pinotpy={"bytesPerSegment": 200_000}))
    assert report.error is None and len(report.segments) > 2
    assert sum(segment.num_docs for segment in report.segments) == 120_003
    assert all(120_000 < segment.size_bytes < 260_000 for segment in report.segments), [
        segment.size_bytes for segment in report.segments
    ]


def test_dealt_rows_go_to_disk_when_memory_is_full(tmp_path: Path) -> None:
    write_inputs(tmp_path / "in", 2, 60_000)
    roomy = run_job(job(tmp_path, "roomy", pinotpy=REGROUPED | {"rowsPerSegment": 20_000}))
    tight = run_job(job(tmp_path, "tight", pinotpy=REGROUPED | {"rowsPerSegment": 20_000, "memoryBytesMax": 1 << 20}))
    assert roomy.error is None and tight.error is None and archives(tmp_path / "roomy") == archives(tmp_path / "tight")


def test_other_content_of_the_same_name_is_refused_unless_overwriting_is_asked_for(tmp_path: Path, inputs: str) -> None:
    fixed = {"type": "normalizedDate", **THROUGH}
    assert run_job(job(tmp_path, segmentNameGeneratorSpec=fixed)).error is None
    before = archives(tmp_path / "out")
    table = pq.read_table(tmp_path / "in" / "part-00.parquet")
    pq.write_table(
        table.set_column(0, "customer", pa.array([7] * table.num_rows, pa.int64())), tmp_path / "in" / "part-00.parquet"
    )
    refused = run_job(job(tmp_path, segmentNameGeneratorSpec=fixed))
    assert refused.error is not None and "overwriteOutput" in refused.error
    assert archives(tmp_path / "out") == before
    replaced = run_job(job(tmp_path, segmentNameGeneratorSpec=fixed, overwriteOutput=True))
    assert replaced.error is None
    name = "orders_2026-01-01_2026-02-28_1"
    assert {name for name, content in archives(tmp_path / "out").items() if content != before[name]} == {
        f"{name}.tar.gz",
        f"{name}.inputs.json",
    }


def test_a_copy_of_the_input_gives_the_same_rows_and_replaces_what_is_there(tmp_path: Path, inputs: str) -> None:
    first = run_job(job(tmp_path, segmentNameGeneratorSpec=THROUGH))
    before = archives(tmp_path / "out")
    for path in (tmp_path / "in").rglob("*.parquet"):
        os.utime(path, (1_800_000_000, 1_800_000_000))
    again = run_job(job(tmp_path, segmentNameGeneratorSpec=THROUGH))
    assert again.error is None and [segment.crc for segment in again.segments] == [
        segment.crc for segment in first.segments
    ]
    assert archives(tmp_path / "out").keys() == before.keys() and archives(tmp_path / "out") != before
    assert all_rows(again, tmp_path / "scratch") == duckdb_rows(inputs)
    # What is no segment is not written over.
    next((tmp_path / "out").glob("*.tar.gz")).write_bytes(b"precious")
    assert "overwriteOutput" in str(run_job(job(tmp_path, segmentNameGeneratorSpec=THROUGH)).error)


def test_two_segments_of_one_name_are_a_fault_and_never_pushed(tmp_path: Path, inputs: str) -> None:
    for key, value in (("use.global.directory.sequence.id", "false"), ("exclude.sequence.id", "true")):
        report = run_job(job(tmp_path, overwriteOutput=True, segmentNameGeneratorSpec={"configs": {key: value}}))
        assert report.error is not None and "given more than once" in report.error and f"{key} {value}" in report.error


def test_numbers_that_are_asked_for_by_folder_begin_anew_in_each(tmp_path: Path) -> None:
    numbered = {"configs": {"use.global.directory.sequence.id": "false"}}
    for day in (0, 1):
        for part in "ab":
            path = tmp_path / "in" / f"{day:02d}" / f"{part}.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"customer,city,price,pieces,day\n1,Bern,2.5,3,{FIRST_DAY + day}\n")
    every = {segment.segment_name for segment in run_job(job(tmp_path, segmentNameGeneratorSpec=numbered)).segments}
    assert every == {f"orders_{FIRST_DAY + day}_{FIRST_DAY + day}_{part}" for day in (0, 1) for part in (0, 1)}
    # A day by itself has the names that it has among all days: pushed again, it takes its own place.
    one = run_job(job(tmp_path, "one", inputDirURI=str(tmp_path / "in" / "01"), segmentNameGeneratorSpec=numbered))
    assert {segment.segment_name for segment in one.segments} == {name for name in every if str(FIRST_DAY + 1) in name}


def a_truncated_parquet(folder: Path) -> None:
    whole = (folder / "part-01.parquet").read_bytes()
    (folder / "part-01.parquet").write_bytes(whole[: len(whole) // 2])


def a_damaged_page(folder: Path) -> None:
    whole = bytearray((folder / "part-01.parquet").read_bytes())
    whole[200:1200] = bytes(1000)
    (folder / "part-01.parquet").write_bytes(whole)


def an_empty_file(folder: Path) -> None:
    (folder / "part-01.parquet").write_bytes(b"")


def a_ragged_csv(folder: Path) -> None:
    (folder / "part-01.parquet").unlink()
    (folder / "part-01.csv").write_text(
        "customer,city,price,pieces,day\n1,Bern,2.5,3,20454\n2,Bern\n3,Ulm,1.0,2,20454,9,9\n"
    )


def a_csv_with_bytes_that_are_no_text(folder: Path) -> None:
    (folder / "part-01.parquet").unlink()
    (folder / "part-01.csv").write_bytes(b"customer,city,price,pieces,day\n1,B\xfcrn,2.5,3,20454\n")


@pytest.mark.parametrize("ours", [{}, REGROUPED], ids=["files", "regrouped"])
@pytest.mark.parametrize(
    "damage", [a_truncated_parquet, a_damaged_page, an_empty_file, a_ragged_csv, a_csv_with_bytes_that_are_no_text]
)
def test_a_file_that_cannot_be_read_fails_the_job_or_is_left_out_whole(
    damage: Any, ours: dict[str, Any], tmp_path: Path, inputs: str
) -> None:
    damage(tmp_path / "in")
    failed = run_job(job(tmp_path, "failed", pinotpy=ours, segmentNameGeneratorSpec=THROUGH))
    assert failed.error is not None and "part-01" in failed.error and "onFileError SKIP" in failed.error
    skipped = run_job(job(tmp_path, pinotpy=ours | {"onFileError": "SKIP"}, segmentNameGeneratorSpec=THROUGH))
    assert skipped.error is None and skipped.num_failures == 1
    (bad,) = [file for file in skipped.files if file.error is not None]
    assert "part-01" in bad.uri and bad.num_rows_indexed == 0
    good = [f"{tmp_path}/in/part-00.parquet", f"{tmp_path}/in/part-02.parquet", f"{tmp_path}/in/deep/part-03.parquet"]
    expected = sorted([row for file in good for row in duckdb_rows(file)], key=repr)
    assert all_rows(skipped, tmp_path / "scratch") == expected


@pytest.mark.parametrize("ours", [{}, REGROUPED], ids=["files", "regrouped"])
def test_bad_rows_within_the_share_go_to_the_reject_file(ours: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "in" / "x").mkdir(parents=True)
    (tmp_path / "in" / "x" / "a.csv").write_text(
        "customer,city,price,pieces,day\n1,Bern,2.5,3,20454\n2,Bern,much,3,20454\n3,Ulm,1.0,2,20454\n"
    )
    spec = job(tmp_path, pinotpy=ours | {"rejectShareMax": "0.5", "rejectFileURI": str(tmp_path / "rejects")})
    report = run_job(spec)
    assert report.error is None
    (file,) = report.files
    assert (file.num_rows_read, file.num_rows_indexed, file.num_rows_rejected, dict(file.rejects_by_column)) == (
        3,
        2,
        1,
        {"price": 1},
    )
    rejected = [
        json.loads(line) for line in (tmp_path / "rejects" / "x" / "a.csv.rejects.jsonl").read_text().splitlines()
    ]
    assert [(line["row"], line["column"]) for line in rejected] == [(2, "price")] and "much" in rejected[0]["cause"]
    assert report.units[0].reject_file_uri == str(tmp_path / "rejects" / "x" / "a.csv.rejects.jsonl")
    strict = run_job(job(tmp_path, "strict", pinotpy=ours | {"rejectFileURI": str(tmp_path / "others")}))
    assert strict.error is not None and "1 of 3 rows are bad" in strict.error
    assert (tmp_path / "others" / "x" / "a.csv.rejects.jsonl").exists(), "also where the job fails"
    (tmp_path / "in" / "x" / "a.csv").write_text("customer,city,price,pieces,day\n1,Bern,2.5,3,20454\n")
    assert run_job(job(tmp_path, "clean", pinotpy=ours | {"rejectFileURI": str(tmp_path / "rejects")})).error is None
    assert not archives(tmp_path / "rejects"), "what an earlier run rejected is gone"


def test_files_are_chosen_by_patterns_and_marks_of_other_systems_are_no_data(tmp_path: Path, inputs: str) -> None:
    for name in ("_SUCCESS", ".part-00.parquet.crc", "_temporary/0/part-09.parquet", "notes.txt"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(b"no data")

    def read(**keys: Any) -> list[str]:
        return sorted(
            Path(file.uri).name[5:7]
            for file in run_job(job(tmp_path, overwriteOutput=True, segmentNameGeneratorSpec=THROUGH, **keys)).files
        )

    assert read() == ["00", "01", "02", "03"]
    assert read(searchRecursively=False) == ["00", "01", "02"]
    assert read(includeFileNamePattern="glob:**/*.parquet") == ["00", "01", "02", "03"]
    assert read(includeFileNamePattern="glob:*.parquet") == ["00", "01", "02"]
    assert read(includeFileNamePattern="glob:deep/*.{parquet,orc}") == ["03"]
    assert read(includeFileNamePattern=r"regex:.*/part-0[12]\.parquet") == ["01", "02"]
    assert read(excludeFileNamePattern="glob:**/part-0[!0].parquet") == ["00"]
    with pytest.raises(NotFoundError, match="5 files"):
        run_job(job(tmp_path, includeFileNamePattern="glob:*.avro"))
    with pytest.raises(PinotError, match="tells no format"):
        run_job(job(tmp_path, includeFileNamePattern="glob:*.txt"))
    with pytest.raises(PinotError, match="includeFileNamePattern"):
        run_job(job(tmp_path, includeFileNamePattern="*.parquet"))


def test_what_table_and_schema_do_not_allow_is_refused_before_a_file_is_read(tmp_path: Path, inputs: str) -> None:
    for ours in ({"sortColumns": ["nothing"]}, {"repartition": True, "timeBucket": "DAY"}):
        write_documents(tmp_path, {**CONFIG, "tableIndexConfig": {}})
        with pytest.raises(PinotError, match=r"nothing|segmentPartitionConfig"):
            run_job(job(tmp_path, pinotpy=ours))
    with pytest.raises(InvalidConfigError, match="regrouping"):
        run_job(
            job(tmp_path, pinotpy={"rowsPerSegment": 10}, segmentNameGeneratorSpec={"configs": {"segment.name": "one"}})
        )
    with pytest.raises(PinotError, match="one name"):
        run_job(job(tmp_path, tableSpec={"tableName": "others", "schemaURI": str(tmp_path / "schema.json")}))
    with pytest.raises(PinotError, match="pinotpy spark"):
        run_job(job(tmp_path, inputDirURI=None, pinotpy={"sourceTable": "orders"}))
    assert not (tmp_path / "out").exists()


def test_two_jobs_cannot_build_into_one_output_and_what_a_dead_one_left_is_removed(tmp_path: Path, inputs: str) -> None:
    spec = job(tmp_path, segmentNameGeneratorSpec=THROUGH)
    with work_folder(spec) as folder:
        with pytest.raises(OutOfCapacityError, match="another job"):
            run_job(spec)
        (folder / "dealt").mkdir()
        (folder / "dealt" / "half").write_text("x")
    # As after a kill: the lock is gone, the files are there.
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".unfinished-1").write_text("x")
    folder.mkdir(parents=True)
    (folder / "unit-7").mkdir()
    assert run_job(spec).error is None
    assert not folder.exists() and not [name for name in archives(tmp_path / "out") if "unfinished" in name]


def test_progress_reaches_the_end_and_empty_files_make_no_segment(tmp_path: Path, inputs: str) -> None:
    (tmp_path / "in" / "zero.csv").write_text("customer,city,price,pieces,day\n")
    seen: list[JobProgress] = []
    report = run_job(
        job(tmp_path, segmentCreationJobParallelism=2, segmentNameGeneratorSpec=THROUGH), progress=seen.append
    )
    assert report.error is None and len(report.segments) == 4 and len(report.files) == 5
    assert (seen[-1].units_done, seen[-1].num_units, seen[-1].bytes_done) == (5, 5, seen[-1].bytes_total)
    assert run_job(job(tmp_path, "strict", failOnEmptySegment=True)).error is not None


def test_input_and_output_may_lie_on_any_file_system(tmp_path: Path, inputs: str) -> None:
    root = f"memory://{tmp_path.name}"
    files = file_system_for(root)
    for path in (tmp_path / "in").rglob("*.parquet"):
        files.put(f"{root}/in/{path.relative_to(tmp_path / 'in').as_posix()}", path)
    report = run_job(
        job(tmp_path, inputDirURI=f"{root}/in", outputDirURI=f"{root}/out", segmentNameGeneratorSpec=THROUGH)
    )
    assert report.error is None
    assert [segment.uri for segment in report.segments] == [
        entry.uri for entry in files.list(f"{root}/out") if entry.uri.endswith(".tar.gz")
    ]
    (tmp_path / "fetched").mkdir()
    fetched = []
    for segment in report.segments:
        target = tmp_path / "fetched" / segment.uri.rpartition("/")[2]
        files.fetch(segment.uri, target)
        fetched.append(replace(segment, uri=str(target)))
    local = replace(report, units=(replace(report.units[0], segments=tuple(fetched)),))
    assert all_rows(local, tmp_path / "scratch") == duckdb_rows(inputs)
    files.put(f"{root}/in/bad.csv", Path(__file__))
    refused = run_job(
        job(tmp_path, inputDirURI=f"{root}/in", outputDirURI=f"{root}/out", segmentNameGeneratorSpec=THROUGH)
    )
    assert refused.error is not None and f"{root}/in/bad.csv" in refused.error, (
        "errors name the file, not its local copy"
    )


def test_names_with_blanks_and_signs_are_read_by_path_and_by_uri(tmp_path: Path) -> None:
    names = {
        "type": "inputFile",
        "configs": {"file.path.pattern": r".*/in put/(.*)\.csv", "segment.name.template": r"${filePathPattern:\1}"},
    }
    folder = tmp_path / "in put"
    for name in ("a b", "c=1/d@e"):
        path = folder / f"{name}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"customer,city,price,pieces,day\n1,{name},2.5,3,20454\n")
    assert "cannot be a segment name" in str(
        run_job(job(tmp_path, inputDirURI=str(folder), segmentNameGeneratorSpec=names)).error
    )
    names["configs"]["file.path.pattern"] = r".*/in put/(?:.*/)?([^/]*)\.csv"  # type: ignore[index]
    for out, uri in (("one", str(folder)), ("two", file_uri(folder))):
        report = run_job(
            job(tmp_path, out, inputDirURI=uri, outputDirURI=file_uri(tmp_path / out), segmentNameGeneratorSpec=names)
        )
        assert report.error is None
    assert set(archives(tmp_path / "one")) == {"a_b.tar.gz", "a_b.inputs.json", "c=1/d@e.tar.gz", "c=1/d@e.inputs.json"}
    assert archives(tmp_path / "one") == archives(tmp_path / "two")


def test_push_jobs_find_the_archives_that_a_pattern_takes(tmp_path: Path, inputs: str) -> None:
    assert run_job(job(tmp_path, segmentNameGeneratorSpec=THROUGH)).error is None
    (tmp_path / "out" / "notes.txt").write_text("no archive")

    def found(pattern: str | None) -> list[str]:
        spec = job(
            tmp_path,
            jobType="SegmentTarPush",
            pinotClusterSpecs=[{"controllerURI": "http://localhost:1"}],
            pushJobSpec={"pushFileNamePattern": pattern},
        )
        return [uri.removesuffix(".tar.gz")[-1] for uri in find_archives(spec).current]

    assert found(None) == ["0", "1", "2", "3"]
    assert found("glob:deep/*.tar.gz") == ["0"]
    assert found("glob:*.tar.gz") == ["1", "2", "3"]
    with pytest.raises(NotFoundError, match="glob:x"):
        found("glob:x*")
