"""Proves that `${name}` in a job for Spark is filled in as in any other job: the command line first, then the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

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


def test_values_come_from_the_environment_unless_the_command_line_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(_JOB)
    monkeypatch.setenv("AUTHORIZATION", "Basic bG9hZGVyOng=")
    monkeypatch.setenv("DAY", "monday")
    assert read_spec(str(job), []).auth_token == "Basic bG9hZGVyOng="
    assert str(read_spec(str(job), ["DAY=tuesday"]).input_dir_uri).endswith("/data/tuesday")
