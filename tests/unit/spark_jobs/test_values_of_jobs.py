"""Proves that `${name}` in a job for Spark is filled in as in any other job: the command line first, then the
environment.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pinotpy.errors import UserError
from pinotpy.ingest.jobs.yaml_text import TEXT_BYTES_MAX
from pinotpy.spark_jobs.commands import read_spec

_JOB = """
jobType: SegmentCreationAndTarPush
inputDirURI: /data/${DAY}
outputDirURI: /segments
recordReaderSpec: {dataFormat: csv}
tableSpec: {tableName: orders}
pinotClusterSpecs: [{controllerURI: 'http://controller:9000'}]
authToken: ${AUTHORIZATION}
"""


def test_values_come_from_the_environment_unless_the_command_line_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(_JOB)
    monkeypatch.setenv("AUTHORIZATION", "Basic bG9hZGVyOng=")
    monkeypatch.setenv("DAY", "monday")
    assert read_spec(str(job), []).auth_token == "Basic bG9hZGVyOng="
    assert str(read_spec(str(job), ["DAY=tuesday"]).input_dir_uri).endswith("/data/tuesday")


def test_properties_of_a_job_for_spark_are_read_as_by_the_other_command(tmp_path: Path) -> None:
    job = tmp_path / "job.properties"
    properties = "path.to.input=/in\npath.to.output=/out\npath.to.schema=/schema.json\nsegment.table.name=orders\n"
    job.write_text("\ufeff" + properties)  # as editors of other systems begin a file
    assert read_spec(str(job), []).input_dir_uri == "/in"
    job.write_bytes(properties.encode() + b"segment.name.prefix=\xff\n")
    with pytest.raises(UserError, match="no UTF-8 text"):
        read_spec(str(job), [])
    job.write_text(properties + "#" * TEXT_BYTES_MAX)
    with pytest.raises(UserError, match="expected a job spec or properties"):
        read_spec(str(job), [])
