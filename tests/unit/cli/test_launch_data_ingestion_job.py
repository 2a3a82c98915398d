"""Proves: `launch-data-ingestion-job` runs Pinot's specs and the manual's properties to the same segments, fills values
in by their order, prints an example that its own reader takes, and ends with 1 and a sentence where anything went
wrong.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from job_data import archives, job, write_documents, write_inputs

from pinotpy.ingest.jobs.example import EXAMPLE
from pinotpy.ingest.jobs.spec import JobType, read_job_spec
from pinotpy.ingest.jobs.templates import default_values

NAMES = {"configs": {"use.global.directory.sequence.id": "true"}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_inputs(tmp_path / "in", 2, 100)
    write_documents(tmp_path)
    return tmp_path


def test_yaml_json_and_properties_give_the_same_segments(folder: Path, pinotpy: Any) -> None:
    yaml = folder / "job.yaml"
    yaml.write_text(
        f"jobType: SegmentCreation\ninputDirURI: '{folder}/${{in}}'\noutputDirURI: '{folder}/${{out}}'\n"
        f"tableSpec: {{tableName: orders, schemaURI: {folder}/schema.json, tableConfigURI: {folder}/table.json}}\n"
        "segmentNameGeneratorSpec: {configs: {use.global.directory.sequence.id: true}}\n"
    )
    (folder / "values.properties").write_text("in=nowhere\nout=one\n")
    ended = pinotpy(
        "launch-data-ingestion-job",
        "--job-spec-file",
        yaml,
        "--property-file",
        folder / "values.properties",
        "--values",
        "in=in",
        "--json",
    )
    assert ended.status == 0, ended.err
    assert (ended.document["numSegments"], ended.document["numRowsIndexed"], ended.document["numFailures"]) == (
        2,
        201,
        0,
    )
    plain = folder / "job.json"
    plain.write_text(json.dumps(job(folder, "two", segmentNameGeneratorSpec=NAMES).to_json_dict()))
    people = pinotpy("launch-data-ingestion-job", "--job-spec-file", plain)
    assert people.status == 0 and "201 rows read, 201 indexed, 0 rejected; 2 segments" in people.out
    manual = folder / "job.properties"
    manual.write_text(
        f"path.to.input={folder}/in\npath.to.output={folder}/three\npath.to.schema={folder}/schema.json\nsegment.table.name=orders\n"
        f"tableSpec.tableConfigURI={folder}/table.json\nuse.global.directory.sequence.id=true\nmapreduce.job.queuename=batch\n"
    )
    assert pinotpy("launch-data-ingestion-job", "--job-spec-file", manual).status == 0
    assert archives(folder / "one") == archives(folder / "two") == archives(folder / "three") != {}


def test_the_example_is_a_spec_that_its_reader_takes(pinotpy: Any) -> None:
    printed = pinotpy("launch-data-ingestion-job", "--example")
    assert printed.status == 0 and printed.out == EXAMPLE
    spec = read_job_spec(EXAMPLE, default_values(1_767_225_600_000))
    assert spec.job_type is JobType.SEGMENT_CREATION_AND_TAR_PUSH and spec.input_dir_uri == "/data/flights/2025-12-31"


def test_what_went_wrong_is_said_and_the_status_is_1(folder: Path, pinotpy: Any) -> None:
    file = folder / "job.json"

    def launched(**changes: Any) -> Any:
        file.write_text(json.dumps(job(folder, segmentNameGeneratorSpec=NAMES, **changes).to_json_dict()))
        return pinotpy("launch-data-ingestion-job", "--job-spec-file", file)

    assert "--example" in pinotpy("launch-data-ingestion-job").err
    assert "nowhere.yaml" in pinotpy("launch-data-ingestion-job", "--job-spec-file", folder / "nowhere.yaml").err
    file.write_text("jobType: SegmentCreation\ninputDirUri: /x\n")
    wrong = pinotpy("launch-data-ingestion-job", "--job-spec-file", file)
    assert wrong.status == 1 and "'inputDirURI' (did you mean that?)" in wrong.err and "$.tableSpec" in wrong.err
    missing = launched(inputDirURI=str(folder / "empty"))
    assert missing.status == 1 and "no input file" in missing.err
    (folder / "in" / "bad.parquet").write_bytes(b"PAR1 and no more")
    failed = launched()
    assert failed.status == 1 and "bad.parquet" in failed.err and "onFileError SKIP" in failed.err
    skipped = launched(pinotpy={"onFileError": "SKIP"})
    assert skipped.status == 1 and "1 input files were left out" in skipped.err
    assert "not built of bad.parquet" in skipped.out and "2 segments" in skipped.out and "1 failure" in skipped.out


def test_create_segment_knows_all_names_and_a_folder_for_rejected_rows(folder: Path, pinotpy: Any) -> None:
    data = folder / "data"
    data.mkdir()
    (data / "eu north.csv").write_text("customer,city,price,pieces,day\n1,Bern,2.5,3,20454\n2,Bern,much,3,20454\n")
    common = [
        "--data-dir",
        data,
        "--schema-file",
        folder / "schema.json",
        "--table-config-file",
        folder / "table.json",
        "--out-dir",
        folder / "out",
    ]
    named = [
        "--name-generator",
        "input-file",
        "--file-path-pattern",
        r".+/(.+)\.csv",
        "--segment-name-template",
        r"orders_${filePathPattern:\1}",
    ]
    ended = pinotpy(
        "create-segment", *common, *named, "--reject-share", "0.5", "--reject-dir", folder / "rejects", "--json"
    )
    assert ended.status == 0, ended.err
    (segment,) = ended.document["segments"]
    assert (
        segment["segmentName"] == "orders_eu_north"
        and Path(segment["archive"]).name == "orders_eu_north.tar.gz"
        and Path(segment["directory"]).is_dir()
    )
    assert json.loads((folder / "rejects" / "eu north.csv.rejects.jsonl").read_text())["row"] == 2
    bare = pinotpy("create-segment", *common, "--exclude-sequence-id", "--reject-share", "0.5", "--json")
    assert [each["segmentName"] for each in bare.document["segments"]] == ["orders_20454_20454"]
    (data / "broken.csv").write_bytes(b"customer,city\n1,\xff\xfe\n")
    skipped = pinotpy("create-segment", *common, "--reject-share", "0.5", "--skip-bad-files", "--overwrite", "--json")
    assert (
        skipped.status == 1
        and skipped.document["numSegments"] == 1
        and "broken.csv" in skipped.document["errors"][0]["error"]
    )
