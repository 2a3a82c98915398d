"""Proves the whole way on a real cluster: `pinotpy spark run` builds and pushes the airline's flights, baseball's
statistics and generated rows, and the cluster answers as DuckDB does over the same files; what was dealt by partition
is pruned by it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from golden_recordings import DATA
from job_data import needs_data
from live_cluster import LiveCluster

from pinotpy.segment.partition import partition_of

pytestmark = [pytest.mark.cluster, pytest.mark.zookeeper]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    started = LiveCluster(tmp_path_factory.mktemp("spark-live"), num_servers=1)
    try:
        yield started
    finally:
        started.close()


def run_job(
    cluster: LiveCluster,
    folder: Path,
    name: str,
    schema: dict[str, Any],
    config: dict[str, Any],
    source: dict[str, Any],
    ours: dict[str, Any],
) -> dict[str, Any]:
    """Create the table, then build and push it by the command; the report."""
    cluster.controller.add_schema(schema)
    cluster.controller.add_table(config)
    spec = {
        "executionFrameworkSpec": {"name": "spark"},
        "jobType": "SegmentCreationAndTarPush",
        "outputDirURI": str(folder / "out"),
        "tableSpec": {"tableName": name},
        "pinotClusterSpecs": [{"controllerURI": cluster.controller_url}],
        "pushJobSpec": {"pushParallelism": 2, "pushAttempts": 3},
        "pinotpy": ours,
        **source,
    }
    job = folder / "job.yaml"
    job.write_text(json.dumps(spec))
    command = [sys.executable, "-m", "pinotpy", "spark", "run", str(job), "--master", "local[2,4]", "--json"]
    done = subprocess.run(command, capture_output=True, timeout=560, check=False)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    cluster.controller.wait_until_online(name, timeout_s=60)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def compare(cluster: LiveCluster, connection: duckdb.DuckDBPyConnection, queries: list[str]) -> None:
    for query in queries:
        answer = cluster.query(f"{query} LIMIT 100000", "sql")
        assert not answer.get("exceptions"), answer
        expected = [list(row) for row in connection.sql(query).fetchall()]
        found = answer["resultTable"]["rows"]
        assert sorted(map(repr, rounded(found))) == sorted(map(repr, rounded(expected))), query


def rounded(rows: list[list[Any]]) -> list[list[Any]]:
    return [[round(float(value), 6) if isinstance(value, int | float) else value for value in row] for row in rows]


@needs_data
def test_airline_flights_of_avro_files_by_month(cluster: LiveCluster, tmp_path: Path) -> None:
    folder = DATA / "airlineStats"
    schema = json.loads((folder / "airlineStats_schema.json").read_text())
    config = json.loads((folder / "airlineStats_offline_table_config.json").read_text())
    source = {
        "inputDirURI": str(folder / "rawdata"),
        "includeFileNamePattern": "glob:**/*.avro",
        "recordReaderSpec": {"dataFormat": "avro"},
    }
    report = run_job(
        cluster,
        tmp_path,
        "airlineStats",
        schema,
        config,
        source,
        {"timeBucket": "MONTH", "sortColumns": ["Carrier"], "rowsPerSegment": 3_000},
    )
    assert (report["numFiles"], report["numRowsIndexed"], report["push"]["state"]) == (31, 9746, "DONE")
    rows = []
    for file in (folder / "rawdata").rglob("*.avro"):
        with file.open("rb") as stream:
            rows += [
                {name: row[name] for name in ("Carrier", "DaysSinceEpoch", "Distance", "Origin")}
                for row in fastavro.reader(stream)
            ]
    with duckdb.connect() as connection:
        connection.register("airlineStats", pa.Table.from_pylist(rows))
        compare(
            cluster,
            connection,
            [
                "SELECT Carrier, COUNT(*), SUM(Distance) FROM airlineStats GROUP BY Carrier",
                "SELECT DaysSinceEpoch, COUNT(*) FROM airlineStats WHERE Origin = 'SFO' GROUP BY DaysSinceEpoch",
            ],
        )


@pytest.mark.full
def test_generated_rows_by_partition_are_pruned_by_it(cluster: LiveCluster, tmp_path: Path) -> None:
    check_generated(cluster, tmp_path, "small_orders", num_files=3, rows_per_file=20_000)


@pytest.mark.full
@needs_data
def test_baseball_statistics_of_csv(cluster: LiveCluster, tmp_path: Path) -> None:
    folder = DATA / "baseballStats"
    schema = json.loads((folder / "baseballStats_schema.json").read_text())
    config = json.loads((folder / "baseballStats_offline_table_config.json").read_text())
    source = {"inputDirURI": str(folder), "includeFileNamePattern": "glob:*.csv"}
    report = run_job(cluster, tmp_path, "baseballStats", schema, config, source, {"rowsPerSegment": 30_000})
    assert report["numRowsIndexed"] == 97_889 and report["numSegments"] == 4
    with duckdb.connect() as connection:
        connection.execute(
            f"CREATE VIEW baseballStats AS SELECT * FROM read_csv('{folder}/baseballStats.csv', header = true, "
            "sample_size = -1)"
        )
        compare(
            cluster,
            connection,
            [
                "SELECT league, COUNT(*), SUM(runs), MAX(homeRuns) FROM baseballStats WHERE yearID > 1990 GROUP BY "
                "league",
                "SELECT yearID, SUM(hits) FROM baseballStats GROUP BY yearID",
            ],
        )


@pytest.mark.full
def test_five_million_generated_rows(cluster: LiveCluster, tmp_path: Path) -> None:
    check_generated(cluster, tmp_path, "large_orders", num_files=5, rows_per_file=1_000_000)


def check_generated(cluster: LiveCluster, tmp_path: Path, name: str, *, num_files: int, rows_per_file: int) -> None:
    (tmp_path / "in").mkdir()
    cities = [f"city-{number}" for number in range(50)]
    for number in range(num_files):
        random = np.random.default_rng(number)
        table = pa.table(
            {
                "city": pa.array(cities).take(pa.array(random.integers(0, 50, rows_per_file))),
                "customer": pa.array(random.integers(0, 100_000, rows_per_file)),
                "amount": pa.array(random.integers(-1000, 1000, rows_per_file)),
                "day": pa.array(random.integers(20_000, 20_060, rows_per_file), pa.int32()),
            }
        )
        pq.write_table(table, tmp_path / "in" / f"part-{number}.parquet")
    schema = {
        "schemaName": name,
        "dimensionFieldSpecs": [{"name": "city", "dataType": "STRING"}, {"name": "customer", "dataType": "LONG"}],
        "metricFieldSpecs": [{"name": "amount", "dataType": "LONG"}],
        "dateTimeFieldSpecs": [{"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}],
    }
    config = {
        "tableName": name,
        "tableType": "OFFLINE",
        "segmentsConfig": {"timeColumnName": "day", "replication": "1", "segmentPushType": "APPEND"},
        "tenants": {},
        "routing": {"segmentPrunerTypes": ["partition"]},
        "tableIndexConfig": {
            "sortedColumn": ["customer"],
            "segmentPartitionConfig": {"columnPartitionMap": {"city": {"functionName": "Murmur", "numPartitions": 4}}},
        },
        "metadata": {},
    }
    report = run_job(
        cluster,
        tmp_path,
        name,
        schema,
        config,
        {"inputDirURI": str(tmp_path / "in")},
        {"repartition": True, "rowsPerSegment": num_files * rows_per_file // 8},
    )
    assert report["numRowsIndexed"] == num_files * rows_per_file and report["push"]["state"] == "DONE"
    used = {partition_of("Murmur", 4, city) for city in cities}
    assert {tuple(segment["partitions"]["city"]) for segment in report["segments"]} == {
        (partition,) for partition in used
    }
    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{tmp_path}/in/*.parquet')")
        compare(
            cluster,
            connection,
            [
                f"SELECT city, COUNT(*), SUM(amount) FROM {name} GROUP BY city",
                f"SELECT day, MIN(amount), MAX(amount) FROM {name} WHERE customer < 1000 GROUP BY day",
                f"SELECT COUNT(*) FROM {name} WHERE city = 'city-7'",
            ],
        )
    answer = cluster.query(f"SELECT COUNT(*) FROM {name} WHERE city = 'city-7'", "sql")
    wanted = sum(
        segment["partitions"]["city"] == [partition_of("Murmur", 4, "city-7")] for segment in report["segments"]
    )
    assert answer["numSegmentsProcessed"] == wanted < len(report["segments"]), answer
    assert answer["numSegmentsPrunedByBroker"] == len(report["segments"]) - wanted, answer
    whole = cluster.query(f"SELECT COUNT(*) FROM {name} WHERE city = 'city-7' OPTION(skipBrokerPruning=true)", "sql")
    assert whole["numSegmentsPrunedByPartition"] > 0, whole
    assert whole["resultTable"] == answer["resultTable"]
