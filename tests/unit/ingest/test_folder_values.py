"""Proves that Hive-style folders fill the schema's columns: in jobs that keep files and in those that regroup rows, as
time and as partition column, by every reader; that a file which says otherwise, and a value that is none, are refused
with their place.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from job_data import COLUMNS, CONFIG, SCHEMA, all_rows, job, rows, sorted_rows
from matrix_files import KINDS, file_of

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import DecodeError
from pinotpy.ingest.folder_values import NULL_FOLDER, folder_texts
from pinotpy.ingest.jobs.run import run_job
from pinotpy.ingest.ledger import RowLedger
from pinotpy.ingest.pipeline import RowPipeline, read_rows
from pinotpy.ingest.readers.spec import FileFormat, InputFile

DAY = {"name": "day", "dataType": "STRING", "format": "SIMPLE_DATE_FORMAT|yyyy-MM-dd", "granularity": "1:DAYS"}

GLOBAL_NUMBERS: dict[str, Any] = {"segmentNameGeneratorSpec": {"configs": {"use.global.directory.sequence.id": "true"}}}


def write_folders(tmp_path: Path) -> str:
    """Documents and files whose days and cities stand in folders; SQL that reads the same."""
    schema = {**SCHEMA, "dateTimeFieldSpecs": [DAY]}
    tmp_path.joinpath("schema.json").write_text(json.dumps(schema))
    tmp_path.joinpath("table.json").write_text(json.dumps(CONFIG))
    for index, (day, city) in enumerate(
        [
            ("2024-01-01", "Z%C3%BCrich"),
            ("2024-01-01", "a%2Fb"),
            ("2024-02-03", NULL_FOLDER),
            ("2024-02-04", "Z%C3%BCrich"),
        ]
    ):
        folder = tmp_path / "in" / f"day={day}" / f"city={city}" / "ignored=x"
        folder.mkdir(parents=True)
        pq.write_table(rows(200 + index, seed=index).drop_columns(["day", "city"]), folder / "part-0.parquet")
    read = f"read_parquet('{tmp_path}/in/**/*.parquet', hive_partitioning = true, hive_types_autocast = false)"
    return (
        f"SELECT customer, CASE city WHEN '{NULL_FOLDER}' THEN NULL ELSE city END AS city, price, pieces, day FROM "
        f"{read}"
    )


@pytest.mark.parametrize(
    "ours",
    [{}, {"repartition": True, "timeBucket": "MONTH"}, {"rowsPerSegment": 150}],
    ids=["files", "groups", "sizes"],
)
def test_folders_fill_columns_in_every_kind_of_job(tmp_path: Path, ours: dict[str, Any]) -> None:
    query = write_folders(tmp_path)
    report = run_job(job(tmp_path, **GLOBAL_NUMBERS, pinotpy=ours))
    assert report.error is None
    with duckdb.connect() as connection:
        assert all_rows(report, tmp_path / "scratch") == sorted_rows(
            connection.sql(query).to_arrow_table().select(COLUMNS)
        )
    assert not any(file.missing_columns for file in report.files)
    assert report.by_column("nulls_by_column")["city"] == 202
    assert {segment.start_ms for segment in report.segments} >= {1_704_067_200_000} and report.total(
        "num_null_times"
    ) == 0
    if "repartition" in ours:
        assert all(len(segment.partitions["city"]) == 1 for segment in report.segments)


def read(
    content: bytes,
    kind: FileFormat,
    schema: Schema,
    folders: list[tuple[str, str | None]],
    config: TableConfig | None = None,
) -> list[dict[str, Any]]:
    file = InputFile(Path(f"a.{kind}"), lambda: io.BytesIO(content), len(content))
    batches = read_rows(file, kind, RowPipeline(schema, config), RowLedger("a"), folders=folders)
    return [row for batch in batches for row in batch.to_pylist()]


def schema_of(**kinds: str) -> Schema:
    columns = [
        {"name": name, "dataType": kind.removesuffix("[]"), "singleValueField": not kind.endswith("[]")}
        for name, kind in kinds.items()
    ]
    return Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": columns})


@pytest.mark.parametrize("kind", FileFormat)
def test_every_reader_and_type(kind: FileFormat) -> None:
    content = file_of(kind, KINDS["INT"], [5, None, 7], dictionary=False)
    texts = {"l": "-9", "f": "0.5", "b": "true", "t": "2024-01-01 00:00:00", "s": "007", "m": "3", "x": "00ff"}
    schema = schema_of(
        n="INT", v="INT", l="LONG", f="DOUBLE", b="BOOLEAN", t="TIMESTAMP", s="STRING", m="INT[]", x="BYTES", z="STRING"
    )
    found = read(content, kind, schema, [*texts.items(), ("z", None), ("other", "y")])
    same = {"l": -9, "f": 0.5, "b": True, "t": 1_704_067_200_000, "s": "007", "m": [3], "x": b"\x00\xff", "z": None}
    assert found == [{"n": row, "v": value, **same} for row, value in enumerate([5, None, 7])]


@pytest.mark.parametrize("kind", FileFormat)
def test_a_file_that_says_otherwise_is_refused_with_both_values(kind: FileFormat) -> None:
    schema = schema_of(n="INT", v="INT")
    assert [
        row["v"]
        for row in read(file_of(kind, KINDS["INT"], [5, None, 5], dictionary=False), kind, schema, [("v", "05")])
    ] == [5, 5, 5]
    for folder, place in (("6", 1), (None, 1), ("5", 3)):
        with pytest.raises(
            DecodeError,
            match=rf"'a\.{kind}' row {place} column 'v': the file has '?{5 if place == 1 else 8}'?, its folder is 'v=",
        ):
            read(file_of(kind, KINDS["INT"], [5, None, 8], dictionary=False), kind, schema, [("v", folder)])


@pytest.mark.parametrize("values", [[[3, 3], [3]], [[4]]])
def test_lists_that_say_otherwise(values: list[list[int]]) -> None:
    content = file_of(FileFormat.JSON, KINDS["INT[]"], values, dictionary=False)
    with pytest.raises(DecodeError, match="row 1 column 'v': the file has "):
        read(content, FileFormat.JSON, schema_of(n="INT", v="INT[]"), [("v", "3")])


def test_values_that_are_none_are_faults_of_the_file() -> None:
    content = b"n\n1\n"
    with pytest.raises(
        DecodeError, match=r"column 'v': its folder 'v=five' has no value of the column: 'five' is no whole number"
    ):
        read(content, FileFormat.CSV, schema_of(n="INT", v="INT"), [("v", "five")])
    with pytest.raises(DecodeError, match="column 'v': two folders of its path give values, '1' and '2'"):
        read(content, FileFormat.CSV, schema_of(n="INT", v="INT"), [("v", "1"), ("v", "2")])


def test_expressions_and_times_of_another_name_read_folders() -> None:
    time = {
        "incomingGranularitySpec": {
            "name": "dt",
            "dataType": "STRING",
            "timeType": "DAYS",
            "timeFormat": "SIMPLE_DATE_FORMAT:yyyy-MM-dd",
        }
    }
    outgoing = {"outgoingGranularitySpec": {"name": "day", "dataType": "INT", "timeType": "DAYS"}}
    town = {"name": "town", "dataType": "STRING", "transformFunction": "UPPER(place)"}
    schema = Schema.from_json(
        {
            "schemaName": "t",
            "dimensionFieldSpecs": [{"name": "n", "dataType": "INT"}, town],
            "timeFieldSpec": {**time, **outgoing},
        }
    )
    assert read(b"n\n1\n2\n", FileFormat.CSV, schema, [("dt", "2024-01-01"), ("place", "Bern")]) == [
        {"n": n, "town": "BERN", "day": 19_723} for n in (1, 2)
    ]


def test_nested_columns_beside_folders() -> None:
    config = TableConfig.from_json(
        {
            **CONFIG,
            "tableName": "t",
            "ingestionConfig": {"complexTypeConfig": {"fieldsToUnnest": ["visits"]}},
            "tableIndexConfig": {},
        }
    )
    content = b'{"visits": [{"n": 1}, {"n": 2}]}\n'
    found = read(
        content, FileFormat.JSON, schema_of(**{"visits.n": "INT", "town": "STRING"}), [("town", "Bern")], config
    )
    assert found == [{"visits.n": 1, "town": "Bern"}, {"visits.n": 2, "town": "Bern"}]


def test_names_of_folders() -> None:
    assert folder_texts(f"a/dt=2024-01-01/x%3Dy=Z%C3%BCrich%20%2F/p={NULL_FOLDER}/q=/=v/k=v=w/f=1.csv") == [
        ("dt", "2024-01-01"), ("x=y", "Zürich /"), ("p", None), ("q", None), ("k", "v=w"),
    ]  # fmt: skip


def test_a_folder_that_begins_with_an_underscore_is_a_value(tmp_path: Path) -> None:
    write_folders(tmp_path)
    (tmp_path / "in" / "_temporary").mkdir()
    (tmp_path / "in" / "_temporary" / "x.parquet").write_bytes(b"half")
    (tmp_path / "in" / "_part=1").mkdir()
    table = rows(3, seed=9).set_column(4, "day", pa.array(["2024-05-05"] * 3))
    pq.write_table(table, tmp_path / "in" / "_part=1" / "more.parquet")
    report = run_job(job(tmp_path, **GLOBAL_NUMBERS))
    assert report.error is None and report.total("num_rows_indexed") == 200 + 201 + 202 + 203 + 3
