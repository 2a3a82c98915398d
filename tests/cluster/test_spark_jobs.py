"""Proves jobs on Spark, on the bundled Java in one shared session: files, partitions, months, sizes and sort orders
give the very archives that the job gives on one machine; tables and SQL text give DuckDB's rows, and the same bytes
however Spark cuts its input; files with faults are told, and the good ones built where the spec says so.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import google_crc32c
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from job_data import (
    COLUMNS,
    CONFIG,
    SCHEMA,
    all_rows,
    archives,
    duckdb_rows,
    job,
    rows,
    segment_rows,
    sorted_rows,
    write_inputs,
)
from processes import spark_workers

from pinotpy.errors import ClusterError, DecodeError, UserError
from pinotpy.fs.uris import file_uri, local_path
from pinotpy.ingest.archive_listing import list_archives
from pinotpy.ingest.folder_values import NULL_FOLDER
from pinotpy.ingest.jobs.context import open_context
from pinotpy.ingest.jobs.report import JobReport
from pinotpy.ingest.jobs.run import run_job
from pinotpy.ingest.jobs.spec import IngestionJobSpec
from pinotpy.segment.archive.archive import unpack_segment
from pinotpy.segment.immutable import load_segment
from pinotpy.segment.input_list import InputList
from pinotpy.segment.partition import partition_of
from pinotpy.segment.to_arrow import column_to_arrow
from pinotpy.spark_jobs.build import build_segments
from pinotpy.spark_jobs.commands import run_step
from pinotpy.spark_jobs.push import push_on_spark
from pinotpy.spark_jobs.session import SparkSettings, attempts_of, spark_session
from pinotpy.spark_jobs.steps import Step

pytestmark = [pytest.mark.cluster]


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    with spark_session(SparkSettings(master="local[2,4]"), "tests") as session:
        yield session


def build(spark: Any, spec: IngestionJobSpec) -> JobReport:
    return build_segments(spark, open_context(spec), attempts_of(spark))


ALL_CORES: dict[str, Any] = {"segmentCreationJobParallelism": 0}
REGROUPINGS: dict[str, dict[str, Any]] = {
    "files": {},
    "input order": {"keepInputOrder": True},
    "rows": {"rowsPerSegment": 1_700},
    "partitions": {"repartition": True},
    "partitions and months, cut": {
        "repartition": True,
        "timeBucket": "MONTH",
        "rowsPerSegment": 500,
        "sortColumns": ["city", "price"],
    },
    "bytes": {"bytesPerSegment": 60_000},
}


@pytest.mark.parametrize("name", REGROUPINGS)
def test_spark_gives_the_archives_of_one_machine(spark: Any, tmp_path: Path, name: str) -> None:
    write_inputs(tmp_path / "in")
    changes = {**ALL_CORES, "pinotpy": REGROUPINGS[name]}
    alone, report = run_job(job(tmp_path, "alone", **changes)), build(spark, job(tmp_path, "spark", **changes))
    assert alone.error is None and report.error is None
    assert archives(tmp_path / "spark") == archives(tmp_path / "alone")
    assert all_rows(report, tmp_path / "scratch") == duckdb_rows(f"{tmp_path}/in/**/*.parquet")
    told = [
        (segment.segment_name, segment.num_docs, segment.crc, segment.input_uris, segment.partitions)
        for segment in report.segments
    ]
    assert told == [
        (segment.segment_name, segment.num_docs, segment.crc, segment.input_uris, segment.partitions)
        for segment in alone.segments
    ]
    assert [(file.uri, file.num_rows_indexed) for file in report.files] == [
        (file.uri, file.num_rows_indexed) for file in alone.files
    ]
    if "repartition" in REGROUPINGS[name]:
        for segment in report.segments:
            cities = set(segment_rows(Path(segment.uri), tmp_path / "scratch")["city"].to_pylist())
            (partition,) = {partition_of("Murmur", 4, "null" if city is None else city) for city in cities}
            assert segment.partitions["city"] == (partition,)


def test_a_killed_python_worker_is_replaced_and_nothing_is_lost_or_doubled(spark: Any, tmp_path: Path) -> None:
    write_inputs(tmp_path / "in", num_files=12)
    for out, changes in (("files", {}), ("regrouped", {"repartition": True, "rowsPerSegment": 900})):
        expected = run_job(job(tmp_path, f"{out}-alone", **ALL_CORES, pinotpy=changes))
        done, killed = threading.Event(), []

        def kill(out: str = out, done: threading.Event = done, killed: list[int] = killed) -> None:
            while not done.wait(0.01):
                if any((tmp_path / out).rglob("*.tar.gz")):
                    for worker in spark_workers(os.getpid()):
                        os.kill(worker, signal.SIGKILL)
                        killed.append(worker)
                    return

        killer = threading.Thread(target=kill)
        killer.start()
        report = build(spark, job(tmp_path, out, **ALL_CORES, pinotpy=changes))
        done.set()
        killer.join()
        assert killed and report.error is None
        assert archives(tmp_path / out) == archives(tmp_path / f"{out}-alone")
        assert report.total("num_rows_indexed") == expected.total("num_rows_indexed")


@pytest.mark.full
def test_sql_text_gives_duckdbs_rows_and_the_same_bytes_however_spark_reads(spark: Any, tmp_path: Path) -> None:
    write_inputs(tmp_path / "in")
    spark.read.parquet(*[str(path) for path in (tmp_path / "in").rglob("*.parquet")]).createOrReplaceTempView(
        "orders_source"
    )
    query = "SELECT customer, upper(city) AS city, price * 2 AS price, pieces, day FROM orders_source WHERE pieces > 2"
    found = []
    for out, num_parts, changes in (
        ("a", 1, {}),
        ("b", 7, {}),
        ("c", 5, {"repartition": True, "rowsPerSegment": 1_000}),
        ("d", 2, {"repartition": True, "rowsPerSegment": 1_000}),
    ):
        spark.sql(query).repartition(num_parts).createOrReplaceTempView("parts")
        report = build(
            spark, job(tmp_path, out, inputDirURI=None, pinotpy={"sourceQuery": "SELECT * FROM parts", **changes})
        )
        assert report.error is None
        found.append(
            (
                archives(tmp_path / out),
                all_rows(report, tmp_path / "scratch"),
                [segment.num_docs for segment in report.segments],
            )
        )
    with duckdb.connect() as connection:
        expected = sorted_rows(
            connection.sql(
                query.replace("orders_source", f"read_parquet('{tmp_path}/in/**/*.parquet')")
            ).to_arrow_table()
        )
    assert all(stored == expected for _, stored, _ in found)
    assert found[0][0] == found[1][0] and found[2][0] == found[3][0]
    assert len(found[2][2]) > 4 and max(found[2][2]) < 1_250


def test_rows_that_differ_by_a_null_a_sign_or_a_list_have_one_order(spark: Any, tmp_path: Path) -> None:
    """Spark's own hash passes nulls over, takes 0.0 for -0.0, lists for their entries and, by collation, 'A' for
    'a'.
    """
    names = ("a", "b", "x", "flat", "deep", "moment", "word", "digits", "blob", "tags")
    types = ("INT", "INT", "DOUBLE", "STRING", "JSON", "JSON", "STRING", "BIG_DECIMAL", "BYTES", "JSON")
    fields = [{"name": name, "dataType": kind} for name, kind in zip(names, types, strict=True)]
    (tmp_path / "schema.json").write_text(json.dumps({"schemaName": "orders", "dimensionFieldSpecs": fields}))
    (tmp_path / "table.json").write_text(
        json.dumps(
            {**CONFIG, "segmentsConfig": {"replication": "1"}, "tableIndexConfig": {"nullHandlingEnabled": True}}
        )
    )
    query = """SELECT IF(id % 2 = 0, 1, NULL) AS a, IF(id % 2 = 0, NULL, 1) AS b, IF(id % 3 = 0, -0.0D, 0.0D) AS x,
               IF(id % 5 = 0, NULL, 'x') AS flat,
               IF(id % 7 < 3, array(array('p'), array('q', NULL)), array(array('p', 'q'), NULL)) AS deep,
               struct(
                   TIMESTAMP_NTZ '2026-01-05 10:00:00.000001' + make_dt_interval(0, 0, 0, (id % 2) / 1000000) AS at
               ) AS moment,
               IF(id % 11 < 4, 'a', 'A') COLLATE UTF8_LCASE AS word, CAST(id % 2 AS DECIMAL(38, 18)) AS digits,
               IF(id % 13 < 5, X'00', NULL) AS blob, map('k', IF(id % 2 = 0, id % 3, NULL)) AS tags FROM range(3000)"""
    found = []
    for out, num_parts in (("one", 1), ("seven", 7)):
        spark.sql(query).repartition(num_parts).createOrReplaceTempView("parts")
        report = build(spark, job(tmp_path, out, inputDirURI=None, pinotpy={"sourceQuery": "SELECT * FROM parts"}))
        assert report.error is None, report.error
        found.append(archives(tmp_path / out))
    assert found[0] == found[1]


def test_tables_of_the_catalog_and_readers_of_spark(spark: Any, tmp_path: Path) -> None:
    table = rows(4_000, seed=1)
    (tmp_path / "orc").mkdir()
    spark.createDataFrame(table.to_pandas().astype({"city": object}).replace({float("nan"): None})).write.mode(
        "overwrite"
    ).orc(str(tmp_path / "orc" / "orders"))
    spark.read.orc(str(tmp_path / "orc" / "orders")).createOrReplaceTempView("catalogued")
    of_table = build(spark, job(tmp_path, "table", inputDirURI=None, pinotpy={"sourceTable": "catalogued"}))
    of_reader = build(
        spark,
        job(
            tmp_path,
            "reader",
            inputDirURI=str(tmp_path / "orc" / "orders"),
            pinotpy={"sourceOptions": {"format": "orc"}},
        ),
    )
    expected = sorted_rows(table)
    assert all_rows(of_table, tmp_path / "scratch") == expected == all_rows(of_reader, tmp_path / "scratch")
    # Files are known to one of them.
    lists = {name.replace(".tar.gz", ".inputs.json") for name in archives(tmp_path / "table")}
    assert {*archives(tmp_path / "table"), *lists} == set(archives(tmp_path / "reader"))
    assert (of_table.num_unlisted, of_reader.num_unlisted) == (len(of_table.segments), 0)


@pytest.mark.full
def test_segments_of_files_that_spark_reads_list_them_and_a_rerun_marks_what_it_replaces(
    spark: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "in put"
    write_inputs(folder, num_files=3, rows_per_file=500)
    reader = {
        "sourceOptions": {"format": "parquet", "recursiveFileLookup": "true"},
        "timeBucket": "MONTH",
        "rowsPerSegment": 400,
    }
    spec = job(tmp_path, inputDirURI=str(folder), overwriteOutput=True, pinotpy=reader)

    def check(report: JobReport) -> None:
        assert report.error is None and report.num_unlisted == 0
        current = list_archives(str(tmp_path / "out"), None).current
        assert set(current) == {segment.uri for segment in report.segments}
        assert all_rows(report, tmp_path / "scratch") == duckdb_rows(f"{folder}/**/*.parquet")
        found: Counter[tuple[str, int, str]] = Counter()
        for segment in report.segments:
            listed = InputList.from_bytes(
                Path(segment.uri.replace(".tar.gz", ".inputs.json")).read_bytes(), segment.uri
            )
            assert sum(file.num_rows for file in listed.files) == segment.num_docs
            for file in listed.files:
                found[(file.uri, file.size_bytes, file.checksum)] += file.num_rows
                assert file.file_rows == pq.read_metadata(local_path(file.uri)).num_rows
        assert found == {
            (
                file_uri(path),
                path.stat().st_size,
                f"crc32c:{google_crc32c.value(path.read_bytes()):08x}",
            ): pq.read_metadata(path).num_rows
            for path in folder.rglob("*.parquet")
        }

    check(build(spark, spec))
    (folder / "part-00.parquet").rename(folder / "renamed.parquet")
    pq.write_table(rows(700, seed=9), folder / "part-01.parquet")
    pq.write_table(rows(300, seed=10), folder / "a.parquet")
    again = build(spark, spec)
    check(again)
    assert again.other_archive_uris == ()


def write_faulty_inputs(folder: Path) -> None:
    """Two good files, and a truncated Parquet file, a CSV file with ragged rows and one that is no UTF-8."""
    folder.mkdir()
    pq.write_table(rows(500, 1), folder / "good.parquet")
    pacsv.write_csv(rows(400, 2), folder / "good.csv")
    whole = folder / "good.parquet"
    (folder / "truncated.parquet").write_bytes(whole.read_bytes()[:-200])
    (folder / "ragged.csv").write_text("customer,city,price,pieces,day\n1,Bern,2.5,3,20454\n2,Ulm,1.0,3\n3,Ulm\n")
    (folder / "latin.csv").write_bytes("customer,city,price,pieces,day\n1,Zürich,2.5,3,20454\n".encode("latin-1"))


@pytest.mark.parametrize("changes", [{}, {"repartition": True}], ids=["files", "regrouped"])
def test_files_with_faults_are_told_and_the_good_ones_built_where_the_spec_says_so(
    spark: Any, tmp_path: Path, changes: dict[str, Any]
) -> None:
    write_faulty_inputs(tmp_path / "in")
    failed = build(spark, job(tmp_path, "failed", pinotpy=changes))
    assert failed.error is not None and "onFileError SKIP" in failed.error
    skipped = build(spark, job(tmp_path, "skipped", pinotpy={**changes, "onFileError": "SKIP"}))
    assert skipped.error is None
    assert {Path(file.uri).name for file in skipped.files if file.error is not None} == {
        "truncated.parquet",
        "ragged.csv",
        "latin.csv",
    }
    assert skipped.num_failures == 3
    assert all_rows(skipped, tmp_path / "scratch") == sorted_rows(
        pa.concat_tables([rows(500, 1), rows(400, 2)]).select(COLUMNS)
    )
    alone = run_job(job(tmp_path, "alone", pinotpy={**changes, "onFileError": "SKIP"}))
    assert archives(tmp_path / "skipped") == archives(tmp_path / "alone")
    assert [(file.uri, file.error) for file in skipped.files] == [(file.uri, file.error) for file in alone.files]


def test_folders_fill_columns_whoever_lists_the_files(spark: Any, tmp_path: Path) -> None:
    """A text time column whose values repeat, and a partition column that would be read as a number: both stand in
    folders alone.
    """
    day = {"name": "day", "dataType": "STRING", "format": "SIMPLE_DATE_FORMAT|yyyy-MM-dd", "granularity": "1:DAYS"}
    (tmp_path / "schema.json").write_text(json.dumps({**SCHEMA, "dateTimeFieldSpecs": [day]}))
    (tmp_path / "table.json").write_text(json.dumps(CONFIG))
    for index, (date, city) in enumerate(
        [("2024-01-01", "007"), ("2024-01-01", "Z%C3%BCrich"), ("2024-02-03", NULL_FOLDER)]
    ):
        folder = tmp_path / "in" / f"day={date}" / f"city={city}"
        folder.mkdir(parents=True)
        pq.write_table(rows(300 + index, seed=index).drop_columns(["day", "city"]), folder / "part-0.parquet")
    source = {"sourceOptions": {"format": "parquet"}}
    alone = run_job(job(tmp_path, "alone"))
    expected = all_rows(alone, tmp_path / "scratch")
    assert len(expected) == 903 and {row[1] for row in expected} == {"007", "Zürich", None}
    for out, ours in (("groups", {"repartition": True, "timeBucket": "MONTH"}), ("discovered", source)):
        report = build(spark, job(tmp_path, out, pinotpy=ours))
        assert report.error is None and all_rows(report, tmp_path / "scratch") == expected
        assert report.by_column("nulls_by_column")["city"] == 302 and report.total("num_null_times") == 0
    table = rows(5, seed=9).drop_columns(["day"]).set_column(1, "city", pa.array(["007", "007", None, "7", "007"]))
    for path in (tmp_path / "in").rglob("*.parquet"):
        pq.write_table(table, path) if "city=007" in str(path) else path.unlink()
    assert "row 4 column 'city': the file has '7', its folder is 'city=007'" in (
        build(spark, job(tmp_path, "other")).error or ""
    )
    with pytest.raises(DecodeError, match="the file has '7', its folder is 'city=007'"):
        build(spark, job(tmp_path, "other", pinotpy=source))


def test_columns_that_the_input_lacks(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        (tmp_path / "in" / f"{name}.json").write_text('{"customer": 1, "city": "Ulm", "Price": 2.5, "day": 20454}\n')
    failed = build(spark, job(tmp_path, "failed"))
    assert (
        failed.error is not None
        and "no record of 2 files (" in failed.error
        and "'price' (did you mean 'Price'?)" in failed.error
    )
    warned = build(spark, job(tmp_path, "warned", pinotpy={"missingColumns": "WARN"}))
    assert (
        warned.error is None
        and [file.missing_columns for file in warned.files] == [("price", "pieces")] * 2
        and len(warned.warnings) == 2
    )
    query = {"sourceQuery": "SELECT 1 AS customer, 'Ulm' AS city, 2.5D AS Price, 20454 AS day"}
    with pytest.raises(
        UserError, match=r"lacks 2 of the columns of schema 'orders': 'price' \(did you mean 'Price'\?\), 'pieces'"
    ):
        build(spark, job(tmp_path, "query", inputDirURI=None, pinotpy=query))
    taken = build(spark, job(tmp_path, "query", inputDirURI=None, pinotpy={**query, "missingColumns": "DEFAULT"}))
    assert taken.error is None and taken.by_column("nulls_by_column") == {"price": 1, "pieces": 1}
    assert taken.to_json_dict()["missingColumns"] == {"price": 1, "pieces": 1}


def test_bad_rows_of_a_query_are_a_fault_or_left_out_by_share(spark: Any, tmp_path: Path) -> None:
    query = (
        "SELECT id AS customer, IF(id % 10 = 0, 'no number', '1') AS pieces, 'Ulm' AS city, 1.0D AS price, 20454 "
        "AS day FROM range(1000)"
    )
    failed = build(spark, job(tmp_path, "failed", inputDirURI=None, pinotpy={"sourceQuery": query}))
    assert failed.error is not None and "100 of 1000 rows are bad" in failed.error and not failed.segments
    report = build(
        spark, job(tmp_path, "shared", inputDirURI=None, pinotpy={"sourceQuery": query, "rejectShareMax": 0.2})
    )
    assert report.error is None
    assert (report.total("num_rows_read"), report.total("num_rows_indexed"), report.total("num_rows_rejected")) == (
        1000,
        900,
        100,
    )

    # A share is the quotient of two counts, as of files: 0.29 * 100 is less than 29.
    few = (
        "SELECT id AS customer, IF(id < 29, 'no number', '1') AS pieces, 'Ulm' AS city, 1.0D AS price, 20454 AS day "
        "FROM range(100)"
    )
    report = build(spark, job(tmp_path, "edge", inputDirURI=None, pinotpy={"sourceQuery": few, "rejectShareMax": 0.29}))
    assert report.error is None and report.total("num_rows_rejected") == 29


def test_lists_of_a_query_are_unnested_as_the_table_says(spark: Any, tmp_path: Path) -> None:
    unnest = {"complexTypeConfig": {"fieldsToUnnest": ["visits"], "delimiter": "."}}
    day = {"name": "visits.day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}
    (tmp_path / "schema.json").write_text(json.dumps({**SCHEMA, "dateTimeFieldSpecs": [day]}))
    segments = {"timeColumnName": "visits.day", "replication": "1"}
    (tmp_path / "table.json").write_text(json.dumps({**CONFIG, "segmentsConfig": segments, "ingestionConfig": unnest}))
    query = """SELECT id AS customer, 'Ulm' AS city, 1.0D AS price, 1 AS pieces,
               transform(sequence(0, id % 3), n -> named_struct('day', CAST(20454 + n AS INT))) AS visits
               FROM range(10)"""
    report = build(spark, job(tmp_path, inputDirURI=None, pinotpy={"sourceQuery": query}))
    assert report.error is None
    (file,) = report.files
    assert (file.num_rows_read, file.num_rows_added, file.num_rows_indexed) == (10, 9, 19)
    with duckdb.connect() as connection:
        expected = connection.sql("SELECT i, 20454 + n FROM range(10) t(i), range(3) u(n) WHERE n <= i % 3").fetchall()
    (segment,) = report.segments
    with tempfile.TemporaryDirectory() as folder:
        loaded = load_segment(unpack_segment(Path(segment.uri), Path(folder)))
        try:
            columns = [column_to_arrow(loaded.column(name)).to_pylist() for name in ("customer", "visits.day")]
        finally:
            loaded.close()
    assert sorted(zip(*columns, strict=True)) == sorted(expected)


def test_two_archives_of_one_name_are_refused_before_the_first_is_sent(spark: Any, tmp_path: Path) -> None:
    write_inputs(tmp_path / "in", num_files=1, rows_per_file=10)
    assert run_job(job(tmp_path, "out/a")).error is None and run_job(job(tmp_path, "out/b")).error is None
    cluster = [{"controllerURI": "http://localhost:1"}]
    spec = job(tmp_path, jobType="SegmentTarPush", pinotClusterSpecs=cluster, pushJobSpec={"pushParallelism": 2})
    with pytest.raises(UserError, match="are both segment"):
        push_on_spark(spark, spec, JobReport(spec.job_type.value, "orders", str(tmp_path / "out")))


def test_a_session_that_is_there_is_used_and_stays_as_it_was(spark: Any, tmp_path: Path) -> None:
    write_inputs(tmp_path / "in")
    spec = tmp_path / "job.json"
    spec.write_text(json.dumps(job(tmp_path, "out").to_json_dict()))
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        report = run_step(Step.BUILD, str(spec), [], SparkSettings())
        assert (
            report.error is None and 2 * len(report.segments) == len(archives(tmp_path / "out")) > 0
        )  # each with its list
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
        assert spark.range(3).count() == 3
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_executors_without_our_packages_are_named_with_what_to_set(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_inputs(tmp_path / "in")
    python = tmp_path / "python"
    # A Python that sees Spark's own packages and nothing of this environment.
    python.write_text(
        '#!/bin/sh\nPYTHONPATH=$(echo "$PYTHONPATH" | tr : "\\n" | grep -v /src | tr "\\n" :) exec '
        f'{sys._base_executable} -s "$@"\n'
    )
    python.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
    spec = tmp_path / "job.json"
    spec.write_text(json.dumps(job(tmp_path, "out").to_json_dict()))
    with pytest.raises(ClusterError) as caught:
        run_step(Step.BUILD, str(spec), [], SparkSettings())
    said = caught.value.message
    assert re.match(
        r"the executors' Python has no package '\w+'.*: they run '\S+python\S*' \(3\.\S+\) on \S+, the driver '", said
    ), said
    assert sys.executable in said and "PYSPARK_PYTHON" in said and "--archives" in said
