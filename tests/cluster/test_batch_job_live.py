"""Proves the pipeline end to end without Spark: a job spec as Pinot's documents have it builds and pushes the real
flights of January 2014 from Avro, and the table answers what DuckDB answers over the same files; run again it changes
nothing; push-only jobs push what lies at the output; the schema comes from the controller.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import pyarrow as pa
import pytest
from golden_recordings import DATA
from job_data import needs_data
from live_cluster import LiveCluster

pytestmark = [pytest.mark.cluster, pytest.mark.zookeeper]

REPOSITORY = Path(__file__).resolve().parents[2]
AIRLINE = DATA / "airlineStats"
COLUMNS = ("DaysSinceEpoch", "Carrier", "Origin", "DestStateName", "ArrDelay", "DepDelay", "Distance", "FlightNum")

SPEC = """
executionFrameworkSpec:
  name: 'standalone'
  segmentGenerationJobRunnerClassName: 'org.apache.pinot.plugin.ingestion.batch.standalone.SegmentGenerationJobRunner'
  segmentTarPushJobRunnerClassName: 'org.apache.pinot.plugin.ingestion.batch.standalone.SegmentTarPushJobRunner'
jobType: ${jobType}
inputDirURI: '${data}/rawdata/${year}'
includeFileNamePattern: 'glob:**/*.avro'
outputDirURI: '${output}'
pinotFSSpecs:
  - scheme: file
    className: org.apache.pinot.spi.filesystem.LocalPinotFS
recordReaderSpec:
  dataFormat: 'avro'
  className: 'org.apache.pinot.plugin.inputformat.avro.AvroRecordReader'
tableSpec:
  tableName: 'airlineStats'
  schemaURI: '${controller}/tables/airlineStats/schema'
  tableConfigURI: '${controller}/tables/airlineStats'
segmentNameGeneratorSpec:
  type: normalizedDate
  configs:
    segment.name.prefix: 'airlineStats_batch'
    exclude.sequence.id: true
pinotClusterSpecs:
  - controllerURI: '${controller}'
pushJobSpec:
  pushParallelism: 2
  pushAttempts: 2
  pushRetryIntervalMillis: 1000
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    started = LiveCluster(tmp_path_factory.mktemp("job"), num_servers=1)
    started.controller.add_schema(json.loads((AIRLINE / "airlineStats_schema.json").read_text()))
    started.controller.add_table(json.loads((AIRLINE / "airlineStats_offline_table_config.json").read_text()))
    try:
        yield started
    finally:
        started.close()


@pytest.fixture(scope="module")
def flights() -> duckdb.DuckDBPyConnection:
    """The same files, read by fastavro, asked by DuckDB."""
    rows = []
    for file in sorted((AIRLINE / "rawdata").rglob("*.avro")):
        with file.open("rb") as stream:
            rows += [{name: row[name] for name in COLUMNS} for row in fastavro.reader(stream)]
    connection = duckdb.connect()
    connection.register("files", pa.Table.from_pylist(rows))
    # Without null handling a dimension that has no value is the lowest INT, as the schema's default has it.
    delays = ", ".join(f"COALESCE({name}, -2147483648) AS {name}" for name in ("ArrDelay", "DepDelay"))
    connection.execute(f"CREATE VIEW airlineStats AS SELECT * REPLACE ({delays}) FROM files")
    return connection


def launch(cluster: LiveCluster, folder: Path, job_type: str, *more: str) -> dict[str, Any]:
    file = folder / "job.yaml"
    file.write_text(SPEC)
    (folder / "values.properties").write_text(f"year=1999\ncontroller={cluster.controller_url}\n")
    values = {"jobType": job_type, "data": str(AIRLINE), "output": str(folder / "segments")}
    pairs = [part for key, value in values.items() for part in ("--values", f"{key}={value}")]
    command = [
        sys.executable,
        "-m",
        "pinotpy",
        "launch-data-ingestion-job",
        "--job-spec-file",
        str(file),
        "--json",
        "--property-file",
    ]
    ended = subprocess.run(
        [*command, str(folder / "values.properties"), *pairs, *more],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "year": "2014"},  # the environment wins over the properties
    )
    assert ended.returncode == 0, ended.stderr
    report: dict[str, Any] = json.loads(ended.stdout)
    return report


def numbers(answer: dict[str, Any]) -> list[list[Any]]:
    assert not answer.get("exceptions"), answer
    rows: list[list[Any]] = answer["resultTable"]["rows"]
    return rows


@needs_data
def test_a_job_of_pinots_documents_builds_and_pushes_what_duckdb_reads(
    cluster: LiveCluster, flights: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    built = launch(cluster, tmp_path, "SegmentCreation")
    (total,) = flights.sql("SELECT count(*) FROM airlineStats").fetchall()[0]
    assert (built["numSegments"], built["numRowsIndexed"], built["numRowsRejected"]) == (31, total, 0)
    assert {segment["segmentName"] for segment in built["segments"]} == {
        f"airlineStats_batch_2014-01-{day:02d}_2014-01-{day:02d}" for day in range(1, 32)
    }
    # Archives lie as the input does: 01/05/<segment>.tar.gz.
    assert (tmp_path / "segments" / "01" / "05" / "airlineStats_batch_2014-01-05_2014-01-05.tar.gz").exists()
    pushed = launch(cluster, tmp_path, "SegmentTarPush")
    assert pushed["push"]["state"] == "DONE" and len(pushed["push"]["clusters"][0]["segments"]) == 31
    cluster.controller.wait_until_online("airlineStats", timeout_s=120)
    for text in (
        "SELECT COUNT(*), SUM(ArrDelay), MAX(Distance), MIN(DaysSinceEpoch) FROM airlineStats",
        "SELECT Carrier, COUNT(*), SUM(DepDelay) FROM airlineStats GROUP BY Carrier ORDER BY Carrier LIMIT 100",
        "SELECT DaysSinceEpoch, Origin, COUNT(*), AVG(Distance) FROM airlineStats WHERE DestStateName = 'California' "
        "GROUP BY DaysSinceEpoch, Origin ORDER BY DaysSinceEpoch, Origin LIMIT 20000",
    ):
        expected = [
            [float(cell) if isinstance(cell, int | float) else cell for cell in row]
            for row in flights.sql(text).fetchall()
        ]
        found = [
            [float(cell) if isinstance(cell, int | float) else cell for cell in row]
            for row in numbers(cluster.query(text, "sql"))
        ]
        assert found == [[pytest.approx(cell) if isinstance(cell, float) else cell for cell in row] for row in expected]
    # All at once, and over what is there: nothing is built or sent twice.
    before = (
        (tmp_path / "segments" / "01" / "05" / "airlineStats_batch_2014-01-05_2014-01-05.tar.gz").stat().st_mtime_ns
    )
    again = launch(cluster, tmp_path, "SegmentCreationAndTarPush")
    assert again["numSegments"] == 31 and {
        segment["outcome"] for segment in again["push"]["clusters"][0]["segments"]
    } == {"present"}
    assert (
        tmp_path / "segments" / "01" / "05" / "airlineStats_batch_2014-01-05_2014-01-05.tar.gz"
    ).stat().st_mtime_ns == before
    assert numbers(cluster.query("SELECT COUNT(*) FROM airlineStats", "sql")) == [[total]]
