"""Proves: `create-segment` builds of a folder of CSV, JSON, Avro or Parquet files segments that hold exactly the rows
of the files (read back and compared with the written-down rows), accounts for every rejected row, and refuses bad input
with all faults.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pinotpy.segment.immutable import load_segment
from pinotpy.segment.to_arrow import column_to_arrow

SCHEMA = {
    "schemaName": "orders",
    "dimensionFieldSpecs": [
        {"name": "city", "dataType": "STRING"},
        {"name": "tags", "dataType": "STRING", "singleValueField": False},
    ],
    "metricFieldSpecs": [{"name": "amount", "dataType": "DOUBLE"}, {"name": "pieces", "dataType": "INT"}],
    "dateTimeFieldSpecs": [{"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}],
}
CONFIG = {
    "tableName": "orders",
    "tableType": "OFFLINE",
    "segmentsConfig": {"timeColumnName": "day", "replication": "1"},
    "tenants": {},
    "tableIndexConfig": {"invertedIndexColumns": ["city"]},
    "metadata": {},
}
JANUARY = [
    {"city": "Berlin", "tags": ["new", "web"], "amount": 12.5, "pieces": 3, "day": 20458},
    {"city": "Łódź", "tags": ["web"], "amount": -0.25, "pieces": 1, "day": 20459},
]
FEBRUARY = [{"city": "Oslo, N", "tags": ["shop"], "amount": 7.0, "pieces": 2, "day": 20490}]
ROWS = {"a-january": JANUARY, "b-february": FEBRUARY}


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    lines = ["city,tags,amount,pieces,day"]
    lines += [f'"{row["city"]}",{";".join(row["tags"])},{row["amount"]},{row["pieces"]},{row["day"]}' for row in rows]
    path.write_text("\n".join(lines) + "\n")


def write_json(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_avro(path: Path, rows: list[dict[str, Any]]) -> None:
    types = {
        "city": "string",
        "tags": {"type": "array", "items": "string"},
        "amount": "double",
        "pieces": "int",
        "day": "int",
    }
    schema = {"type": "record", "name": "row", "fields": [{"name": name, "type": kind} for name, kind in types.items()]}
    with path.open("wb") as stream:
        fastavro.writer(stream, schema, rows)


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    pq.write_table(pa.Table.from_pylist(rows), path)


WRITERS: dict[str, Callable[[Path, list[dict[str, Any]]], None]] = {
    "csv": write_csv,
    "json": write_json,
    "avro": write_avro,
    "parquet": write_parquet,
}


@pytest.fixture
def documents(tmp_path: Path) -> list[str]:
    schema, config = tmp_path / "schema.json", tmp_path / "table.json"
    schema.write_text(json.dumps(SCHEMA))
    config.write_text(json.dumps(CONFIG))
    return ["--schema-file", str(schema), "--table-config-file", str(config), "--out-dir", str(tmp_path / "out")]


def rows_of(segment: Path) -> list[dict[str, Any]]:
    loaded = load_segment(segment)
    try:
        columns = {name: column_to_arrow(loaded.column(name)) for name in ("city", "tags", "amount", "pieces", "day")}
        return list(pa.table(columns).to_pylist())
    finally:
        loaded.close()


def tag(below: str) -> str:
    """What stands for a file in names (docs/batch-ingestion.md)."""
    return hashlib.sha256(below.encode()).hexdigest()[:12]


JANUARY_TAG = tag("a-january.csv")


def names_of(january: str, february: str, file_format: str = "csv") -> list[str]:
    return [f"{january}_{tag(f'a-january.{file_format}')}", f"{february}_{tag(f'deep/b-february.{file_format}')}"]


def a_folder(tmp_path: Path, file_format: str = "csv") -> Path:
    folder = tmp_path / "data"
    (folder / "deep").mkdir(parents=True)
    WRITERS[file_format](folder / f"a-january.{file_format}", JANUARY)
    WRITERS[file_format](folder / "deep" / f"b-february.{file_format}", FEBRUARY)
    (folder / "README.txt").write_text("no data")
    return folder


@pytest.mark.parametrize("file_format", sorted(WRITERS))
def test_a_folder_of_each_format_becomes_a_segment_a_file_with_the_same_rows(
    file_format: str, tmp_path: Path, documents: list[str], pinotpy: Any
) -> None:
    ended = pinotpy(
        "create-segment",
        "--data-dir",
        a_folder(tmp_path, file_format),
        "--format",
        file_format.upper(),
        *documents,
        "--json",
    )
    assert ended.status == 0, ended.err
    report = ended.document
    assert (report["numRowsRead"], report["numRowsIndexed"], report["numRowsRejected"]) == (3, 3, 0)
    assert [segment["segmentName"] for segment in report["segments"]] == names_of(
        "orders_20458_20459", "orders_20490_20490", file_format=file_format
    )
    for segment, rows in zip(report["segments"], ROWS.values(), strict=True):
        assert segment["sizeBytes"] == sum(f.stat().st_size for f in Path(segment["directory"]).iterdir())
        assert segment["archiveSizeBytes"] == Path(segment["archive"]).stat().st_size
        assert segment["numDocs"] == len(rows)
        assert rows_of(Path(segment["directory"])) == rows


def test_the_report_for_people_names_segments_rows_sizes_and_rejects(
    tmp_path: Path, documents: list[str], pinotpy: Any
) -> None:
    folder = a_folder(tmp_path)
    with (folder / "a-january.csv").open("a") as stream:
        stream.write("Bonn,,many,1,20458\n")
    ended = pinotpy("create-segment", "--data-dir", folder, *documents, "--reject-share", "0.5")
    assert ended.status == 0, ended.err
    assert f"orders_20458_20459_{JANUARY_TAG}" in ended.out and "a-january.csv" in ended.out
    assert (
        "1 row rejected of" in ended.out and "row 3 of a-january.csv: column 'amount': 'many' is no number" in ended.out
    )
    assert """; nullStringValue "many" of the reader's settings reads it as null, dataType STRING""" in ended.out
    assert "4 rows read, 3 indexed, 1 rejected; 2 segments" in ended.out


def test_a_bad_row_fails_the_build_unless_a_share_is_allowed(
    tmp_path: Path, documents: list[str], pinotpy: Any
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "x.csv").write_text(
        "city,tags,amount,pieces,day\nBerlin,,1,one,20458\nBonn,,2,2,20458\nKiel,,x,3,20458\n"
    )
    for share, status in (((), 1), (("--reject-share", "0.5"), 1), (("--reject-share", "0.7"), 0)):
        ended = pinotpy("create-segment", "--data-dir", folder, *documents, *share)
        assert ended.status == status, share
        if status:
            assert (
                "2 of 3 rows are bad" in ended.err
                and "row 1 column 'pieces'" in ended.err
                and "row 3 column 'amount'" in ended.err
            )
            assert ended.out == "" and not list((tmp_path / "out").glob("orders*"))
    assert [row["city"] for row in rows_of(tmp_path / "out" / f"orders_20458_20458_{tag('x.csv')}")] == ["Bonn"]


def test_faults_of_both_documents_are_listed_at_once(tmp_path: Path, documents: list[str], pinotpy: Any) -> None:
    (tmp_path / "schema.json").write_text(
        json.dumps({"schemaName": "a b", "dimensionFieldSpecs": [{"name": "x", "dataType": "TEXT"}]})
    )
    (tmp_path / "table.json").write_text(
        json.dumps({**CONFIG, "tableType": "ONLINE", "segmentsConfig": {"replication": "0"}})
    )
    ended = pinotpy("create-segment", "--data-dir", a_folder(tmp_path), *documents)
    assert ended.status == 1 and ended.out == ""
    for words in (
        "schema.json'",
        "$.schemaName",
        "$.dimensionFieldSpecs[0].dataType",
        "table.json'",
        "$.tableType",
        "$.segmentsConfig.replication",
    ):
        assert words in ended.err, ended.err


def test_existing_segments_are_kept_unless_overwriting_is_asked_for(
    tmp_path: Path, documents: list[str], pinotpy: Any
) -> None:
    folder = a_folder(tmp_path)
    assert pinotpy("create-segment", "--data-dir", folder, *documents).status == 0
    write_csv(folder / "a-january.csv", [{**JANUARY[0], "city": "Ulm"}, JANUARY[1]])
    again = pinotpy("create-segment", "--data-dir", folder, *documents)
    assert again.status == 1 and f"orders_20458_20459_{JANUARY_TAG}" in again.err
    assert rows_of(tmp_path / "out" / f"orders_20458_20459_{JANUARY_TAG}")[0]["city"] == "Berlin"
    assert pinotpy("create-segment", "--data-dir", folder, *documents, "--overwrite").status == 0
    assert rows_of(tmp_path / "out" / f"orders_20458_20459_{JANUARY_TAG}")[0]["city"] == "Ulm"


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["--segment-name-postfix", "eu"], names_of("orders_20458_20459_eu", "orders_20490_20490_eu")),
        (
            ["--name-generator", "normalized-date"],
            names_of("orders_2026-01-05_2026-01-06", "orders_2026-02-06_2026-02-06"),
        ),
        (
            ["--name-generator", "normalized-date", "--segment-name", "sales"],
            names_of("sales_2026-01-05_2026-01-06", "sales_2026-02-06_2026-02-06"),
        ),
    ],
)
def test_segments_are_named_as_asked(
    arguments: list[str], names: list[str], tmp_path: Path, documents: list[str], pinotpy: Any
) -> None:
    ended = pinotpy("create-segment", "--data-dir", a_folder(tmp_path), *documents, *arguments, "--json")
    assert [segment["segmentName"] for segment in ended.document["segments"]] == names


def test_one_file_can_have_a_fixed_name_and_several_cannot(tmp_path: Path, documents: list[str], pinotpy: Any) -> None:
    folder = a_folder(tmp_path)
    one = pinotpy(
        "create-segment", "--data-dir", folder / "a-january.csv", *documents, "--segment-name", "first", "--json"
    )
    assert [segment["segmentName"] for segment in one.document["segments"]] == ["first"]
    several = pinotpy("create-segment", "--data-dir", folder, *documents, "--segment-name", "second")
    assert several.status == 1 and "second" in several.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--name-generator", "fixed"], "--segment-name"),
        (["--name-generator", "simple", "--segment-name", "x"], "--segment-name"),
        (["--name-generator", "normalized-date", "--segment-name-postfix", "x"], "--segment-name-postfix"),
        (["--format", "xlsx"], "xlsx"),
        (["--format", "avro"], ".avro"),
        (["--table-name", "others"], "others"),
        (["--reader-config-file", "nowhere.json"], "nowhere.json"),
    ],
)
def test_options_that_cannot_be_are_refused_in_one_sentence(
    arguments: list[str], words: str, tmp_path: Path, documents: list[str], pinotpy: Any
) -> None:
    ended = pinotpy("create-segment", "--data-dir", a_folder(tmp_path), *documents, *arguments)
    assert ended.status == 1 and words in ended.err and ended.err.count("\n") == 1, ended.err
    assert not (tmp_path / "out").exists()


def test_the_reader_config_reaches_the_reader_and_its_faults_are_told(
    tmp_path: Path, documents: list[str], pinotpy: Any
) -> None:
    folder, config = tmp_path / "data", tmp_path / "reader.json"
    folder.mkdir()
    (folder / "x.csv").write_text("Berlin|3|20458\nBonn|-|20458\n")
    config.write_text(json.dumps({"header": "city|pieces|day", "delimiter": "|", "nullStringValue": "-"}))
    ended = pinotpy(
        "create-segment",
        "--data-dir",
        folder,
        *documents,
        "--reader-config-file",
        config,
        "--missing-columns",
        "warn",
        "--json",
    )
    assert ended.status == 0, ended.err
    assert [(row["city"], row["pieces"]) for row in rows_of(Path(ended.document["segments"][0]["directory"]))] == [
        ("Berlin", 3),
        ("Bonn", 0),
    ]
    config.write_text(json.dumps({"delimiter": "||"}))
    wrong = pinotpy("create-segment", "--data-dir", folder, *documents, "--reader-config-file", config, "--overwrite")
    assert wrong.status == 1 and "delimiter" in wrong.err
    config.write_text("[1]")
    assert (
        "reader.json" in pinotpy("create-segment", "--data-dir", folder, *documents, "--reader-config-file", config).err
    )


def test_without_a_table_config_the_table_is_the_schemas(tmp_path: Path, documents: list[str], pinotpy: Any) -> None:
    folder = a_folder(tmp_path)
    schema, out = documents[:2], documents[4:]
    for arguments in ([], ["--table-name", "orders_OFFLINE", "--overwrite"]):
        ended = pinotpy("create-segment", "--data-dir", folder, *schema, *out, *arguments, "--json")
        assert ended.status == 0, ended.err
        directory = Path(ended.document["segments"][0]["directory"])
        assert directory.name == f"orders_{JANUARY_TAG}"
        loaded = load_segment(directory)
        assert loaded.metadata.table_name == "orders"
        loaded.close()


def test_files_without_rows_are_told_and_no_segment_at_all_is_a_failure(
    tmp_path: Path, documents: list[str], pinotpy: Any
) -> None:
    folder = a_folder(tmp_path)
    write_csv(folder / "c-empty.csv", [])
    ended = pinotpy("create-segment", "--data-dir", folder, *documents, "--json")
    assert ended.status == 0 and [Path(file).name for file in ended.document["emptyFiles"]] == ["c-empty.csv"]
    none = pinotpy("create-segment", "--data-dir", folder / "c-empty.csv", *documents)
    assert none.status == 1 and "no segment was built" in none.err


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path, documents: list[str], pinotpy: Any) -> None:
    (tmp_path / "out").write_text("a file")
    ended = pinotpy("create-segment", "--data-dir", a_folder(tmp_path), *documents)
    assert ended.status == 1 and str(tmp_path / "out") in ended.err and ended.err.count("\n") == 1


def test_marks_of_other_systems_are_no_data_and_no_file_is_read_twice(
    tmp_path: Path, documents: list[str], pinotpy: Any
) -> None:
    folder = a_folder(tmp_path)
    for name in ("_temporary/0/a.csv", ".hidden/a.csv", "_b.csv"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_csv(folder / name, JANUARY)
    ended = pinotpy("create-segment", "--data-dir", folder, *documents, "--json")
    assert ended.status == 0 and ended.document["numRowsRead"] == 3, ended.err
    (tmp_path / "out" / "old.tar.gz").write_bytes(b"of an earlier run")
    told = pinotpy("create-segment", "--data-dir", folder, *documents)
    assert told.status == 0 and "old.tar.gz'. A push of the whole folder takes them" in told.out
    (folder / "latest.csv").symlink_to(folder / "a-january.csv")
    refused = pinotpy("create-segment", "--data-dir", folder, *documents)
    assert refused.status == 1 and "read twice" in refused.err


def test_values_that_the_tables_partition_function_does_not_take_are_told(pinotpy: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_csv(tmp_path / "in" / "a.csv", JANUARY)
    partitions = {"columnPartitionMap": {"city": {"functionName": "Modulo", "numPartitions": 4}}}
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    (tmp_path / "table.json").write_text(
        json.dumps(CONFIG | {"tableIndexConfig": {"segmentPartitionConfig": partitions}})
    )
    ended = pinotpy(
        "create-segment", "--data-dir", str(tmp_path / "in"), "--schema-file", str(tmp_path / "schema.json"),
        "--table-config-file", str(tmp_path / "table.json"), "--out-dir", str(tmp_path / "out"),
    )  # fmt: skip
    assert ended.status == 0, ended.err
    assert (
        "warning: 1 of 1 segments have no partitions of column 'city', and every query asks them: Modulo does not take "
        "all of its values, such as 'Berlin'"
    ) in ended.out
