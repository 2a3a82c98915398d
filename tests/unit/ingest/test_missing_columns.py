"""Proves that a column which files lack is a fault, or told; and that values which are not there, cut, replaced or left
out are counted.
"""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from job_data import CONFIG, all_rows, archives, job, rows, write_documents
from matrix_files import KINDS, file_of

from pinotpy.config.ingestion import MissingColumns
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import DecodeError, UserError
from pinotpy.ingest.jobs.report import UnitReport
from pinotpy.ingest.jobs.run import run_job
from pinotpy.ingest.ledger import RowLedger
from pinotpy.ingest.pipeline import RowPipeline, read_rows
from pinotpy.ingest.readers.spec import FileFormat, InputFile

DECLARED = [kind for kind in FileFormat if kind is not FileFormat.JSON]


def schema_of(*columns: dict[str, Any], **more: Any) -> Schema:
    return Schema.from_json(
        {"schemaName": "t", "dimensionFieldSpecs": [{"name": "n", "dataType": "INT"}, *columns], **more}
    )


def read(content: bytes, kind: FileFormat, pipeline: RowPipeline) -> tuple[list[dict[str, Any]], RowLedger]:
    ledger = RowLedger("a")
    file = InputFile(Path(f"a.{kind}"), lambda: io.BytesIO(content), len(content))
    return [row for batch in read_rows(file, kind, pipeline, ledger) for row in batch.to_pylist()], ledger


def table(**batch: Any) -> TableConfig:
    return TableConfig.from_json(
        {**CONFIG, "tableName": "t", "tableIndexConfig": {}, "ingestionConfig": {"batchIngestionConfig": batch}}
    )


@pytest.mark.parametrize("kind", DECLARED)
@pytest.mark.parametrize("num_rows", [0, 3])
def test_a_file_that_lacks_a_column_is_refused_unless_told_otherwise(kind: FileFormat, num_rows: int) -> None:
    content = file_of(kind, KINDS["INT"], list(range(num_rows)), dictionary=False)
    schema = schema_of({"name": "V_", "dataType": "INT"}, {"name": "quantity", "dataType": "INT"})
    with pytest.raises(DecodeError) as raised:
        read(content, kind, RowPipeline(schema))
    text = raised.value.message
    for part in (
        f"'a.{kind}'",
        "lacks 2 of the columns",
        "'V_' (did you mean 'v'?), 'quantity'",
        "defaultNullValue",
        "--missing-columns",
    ):
        assert part in text, text
    for pipeline in (
        RowPipeline(schema, missing_columns=MissingColumns.DEFAULT),
        RowPipeline(schema, table(missingColumns="WARN")),
        RowPipeline(schema, table(missingColumns="FAIL"), missing_columns=MissingColumns.WARN),
    ):
        found, ledger = read(content, kind, pipeline)
        assert found == [{"n": n, "V_": None, "quantity": None} for n in range(num_rows)]
        assert ledger.missing_columns == ("V_", "quantity") and ledger.other_fields == ("v",)
        assert ledger.nulls == Counter({"V_": num_rows, "quantity": num_rows} if num_rows else {})


@pytest.mark.parametrize("kind", FileFormat)
def test_columns_whose_value_the_schema_tells_may_be_missing(kind: FileFormat) -> None:
    content = file_of(kind, KINDS["INT"], [1, 2], dictionary=False)
    time = {"incomingGranularitySpec": {"name": "v", "dataType": "INT", "timeType": "DAYS"}}
    schema = schema_of(
        {"name": "a", "dataType": "INT", "defaultNullValue": 7},
        {"name": "b", "dataType": "INT", "transformFunction": "PLUS(n, 1)"},
        timeFieldSpec={**time, "outgoingGranularitySpec": {"name": "hour", "dataType": "INT", "timeType": "HOURS"}},
    )
    found, ledger = read(content, kind, RowPipeline(schema))
    assert found == [{"n": n, "a": None, "b": n + 1, "hour": 24 * (n + 1)} for n in range(2)]
    assert ledger.missing_columns == ("a", "b")


def test_nested_columns_are_missing_where_their_record_is() -> None:
    config = TableConfig.from_json(
        {**CONFIG, "tableName": "t", "tableIndexConfig": {}, "ingestionConfig": {"complexTypeConfig": {}}}
    )
    sink = io.BytesIO()
    pq.write_table(pa.table({"n": pa.array([1], pa.int32()), "group": [{"name": "x"}]}), sink)
    schema = schema_of({"name": "group.name", "dataType": "STRING"}, {"name": "group.size", "dataType": "INT"})
    assert read(sink.getvalue(), FileFormat.PARQUET, RowPipeline(schema, config))[1].missing_columns == ()
    with pytest.raises(DecodeError, match=r"lacks 1 of the columns of schema 't': 'crowd\.name'"):
        read(
            sink.getvalue(),
            FileFormat.PARQUET,
            RowPipeline(schema_of({"name": "crowd.name", "dataType": "STRING"}), config),
        )


def write_json(folder: Path, name: str, records: list[dict[str, Any]]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.mark.parametrize("ours", [{}, {"rowsPerSegment": 2}], ids=["files", "regrouped"])
def test_of_json_a_column_is_missing_where_no_record_of_any_file_has_it(tmp_path: Path, ours: dict[str, Any]) -> None:
    whole = {"customer": 1, "city": None, "price": 1.5, "pieces": 2, "day": 20_454}
    write_json(tmp_path / "in", "a.json", [whole, {"customer": 2, "day": 20_455}])
    write_json(tmp_path / "in", "b.json", [{"customer": 3, "Pieces": 1, "day": 20_454}])
    write_json(tmp_path / "in", "c.json", [])
    report = run_job(job(tmp_path, pinotpy=ours))
    assert report.error is None and report.to_json_dict()["missingColumns"] == {"city": 1, "price": 1, "pieces": 1}
    assert report.by_column("nulls_by_column") == {"city": 3, "price": 2, "pieces": 2}
    write_json(tmp_path / "in", "a.json", [{"customer": 1, "city": "", "price": 0, "day": 20_454}])
    failed = run_job(job(tmp_path, "failed", pinotpy=ours))
    assert (
        failed.error is not None
        and "'pieces' (did you mean 'Pieces'?)" in failed.error
        and "no record of 2 files ('" in failed.error
    )
    assert bool(archives(tmp_path / "failed")) == (ours == {}) == ("segments were built by then" in failed.error)
    warned = run_job(job(tmp_path, "warned", pinotpy={**ours, "missingColumns": "WARN"}))
    (warning,) = (each for each in warned.warnings if "'pieces'" in each)
    assert warned.error is None and warning.endswith(
        "of 3 lack column 'pieces': its rows have no value: in SQL null, or the default without null handling; in PQL "
        "the default, 0"
    ), warned.warnings
    assert "missing in files: pieces" in (warned.columns_told or "")


@pytest.mark.parametrize("keeps_nulls", ["table", "column", "neither"])
def test_what_is_said_of_a_missing_column_is_what_the_segment_has(tmp_path: Path, keeps_nulls: str) -> None:
    """A null where a null vector is kept, the default otherwise."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "less.csv").write_text("customer,city,day,price\n1,Ulm,20454,2.5\n")
    indexing = CONFIG["tableIndexConfig"] | {"nullHandlingEnabled": keeps_nulls == "table"}
    write_documents(tmp_path, CONFIG | {"tableIndexConfig": indexing})
    if keeps_nulls == "column":
        path = tmp_path / "schema.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"enableColumnBasedNullHandling": True}))
    report = run_job(job(tmp_path, pinotpy={"missingColumns": "WARN"}))
    (warning,) = report.warnings
    (row,) = all_rows(report, tmp_path / "scratch")
    if keeps_nulls == "neither":
        assert warning.endswith("its rows have the default, 0: the table keeps no null vector of it")
        assert row[3] == 0
    else:
        assert "its rows have no value: in SQL null" in warning
        assert row[3] is None


def test_a_job_leaves_out_files_that_lack_columns_or_takes_them(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(rows(50, 1), tmp_path / "in" / "whole.parquet")
    (tmp_path / "in" / "less.csv").write_text("customer,city,day,Price\n1,Ulm,20454,2.5\n")
    failed = run_job(job(tmp_path, "failed"))
    assert (
        failed.error is not None
        and "less.csv': the file lacks 2 of the columns of schema 'orders': 'price' (did you mean 'Price'?), 'pieces'"
        in failed.error
    )
    skipped = run_job(job(tmp_path, "skipped", pinotpy={"onFileError": "SKIP"}))
    assert skipped.error is None and skipped.num_failures == 1 and skipped.total("num_rows_indexed") == 50
    (left,) = (file for file in skipped.files if file.error is not None)
    assert left.missing_columns == ("price", "pieces")
    taken = run_job(job(tmp_path, "taken").with_missing_columns("default"))
    assert (
        taken.error is None
        and taken.warnings == ()
        and (1, "Ulm", None, None, 20_454) in all_rows(taken, tmp_path / "scratch")
    )
    with pytest.raises(UserError, match="--missing-columns 'maybe': expected one of FAIL, WARN, DEFAULT"):
        job(tmp_path).with_missing_columns("maybe")


@pytest.mark.parametrize("kind", [FileFormat.JSON, FileFormat.PARQUET])
def test_counts_of_values_are_those_of_the_rows(kind: FileFormat, tmp_path: Path) -> None:
    """Values of indexed rows alone: not of those that are rejected or filtered."""
    chance = random.Random(7)
    texts = [None, "short", "x" * 9, "a\x00b"]
    records = [
        {
            "n": number,
            "bad": "x" if chance.random() < 0.1 else "1",
            "text": chance.choice(texts),
            "swap": chance.choice(texts),
            "list": chance.choice([None, [], [1.5, None], [2.5]]),
            "texts": chance.choice([None, ["123456789", "x", "y" * 20], ["z"]]),
            "float": chance.choice([None, 2.5]),
            "time": chance.choice([None, 1_700_000_000_000]),
        }
        for number in range(500)
    ]
    columns = [
        {"name": "bad", "dataType": "INT"},
        {"name": "text", "dataType": "STRING", "maxLength": 5},
        {"name": "swap", "dataType": "STRING", "maxLength": 5, "maxLengthExceedStrategy": "SUBSTITUTE_DEFAULT_VALUE"},
        {"name": "list", "dataType": "DOUBLE", "singleValueField": False},
        {"name": "texts", "dataType": "STRING", "singleValueField": False, "maxLength": 5},
        {"name": "float", "dataType": "DOUBLE"},
    ]
    time = {"name": "time", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:DAYS"}
    filtered = {"ingestionConfig": {"filterConfig": {"filterFunction": "n < 50"}, "continueOnError": True}}
    config = {
        **CONFIG,
        "tableName": "t",
        "tableIndexConfig": {},
        "segmentsConfig": {"timeColumnName": "time", "replication": 1},
        **filtered,
    }
    pipeline = RowPipeline(schema_of(*columns, dateTimeFieldSpecs=[time]), TableConfig.from_json(config))
    if kind is FileFormat.JSON:
        content = "\n".join(map(json.dumps, records)).encode()
    else:
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(records), sink)
        content = sink.getvalue()
    _, ledger = read(content, kind, pipeline)
    kept = [record for record in records if record["n"] >= 50 and record["bad"] == "1"]
    assert ledger.num_rows_indexed == len(kept)
    assert dict(ledger.nulls) == {
        **{name: sum(record[name] is None for record in kept) for name in ("text", "swap", "texts", "float", "time")},
        "list": sum(not record["list"] for record in kept),
    }
    long = ("x" * 9, "a\x00b")
    assert ledger.cuts == {
        "text": sum(record["text"] in long for record in kept),
        "texts": sum(2 for record in kept if len(record["texts"] or ()) == 3),
    }
    assert ledger.replaced == {"swap": sum(record["swap"] in long for record in kept)}
    assert ledger.dropped == {"list": sum(record["list"] == [1.5, None] for record in kept)}
    assert ledger.num_null_times == ledger.nulls["time"]


def test_what_is_no_number_is_told_as_replaced() -> None:
    nan = float("nan")
    sink = io.BytesIO()
    pq.write_table(pa.table({"n": pa.array([1, 2], pa.int32()), "f": [nan, 1.0], "m": [[nan, 2.0], [3.0]]}), sink)
    schema = schema_of(
        {"name": "f", "dataType": "FLOAT"}, {"name": "m", "dataType": "DOUBLE", "singleValueField": False}
    )
    _, ledger = read(sink.getvalue(), FileFormat.PARQUET, RowPipeline(schema))
    assert (ledger.replaced, ledger.dropped, ledger.nulls) == ({"f": 1}, {"m": 1}, {})


def test_reports_travel_with_what_they_say_of_columns(tmp_path: Path) -> None:
    """Units of other processes send their reports as JSON."""
    (tmp_path / "in").mkdir()
    for index in range(3):
        (tmp_path / "in" / f"{index}.csv").write_text("customer,city,day,price\n1,,20454,2.5\n")
    report = run_job(job(tmp_path, pinotpy={"missingColumns": "WARN"}))
    assert report.error is None and [file.missing_columns for file in report.files] == [("pieces",)] * 3
    assert [UnitReport.from_json_dict(json.loads(json.dumps(unit.to_json_dict()))) for unit in report.units] == list(
        report.units
    )
    document = report.to_json_dict()
    assert document["missingColumns"] == {"pieces": 3} and document["nullsByColumn"] == {"city": 3, "pieces": 3}
    assert document["files"][0]["missingColumns"] == ["pieces"] and document["files"][0]["nullsByColumn"] == {
        "city": 1,
        "pieces": 1,
    }
    assert len(report.warnings) == 1 and "3 files (" in report.warnings[0]
