"""Proves that a fault of a server reaches the client with its code and without paths of the server's machine: a segment
is damaged on disk after it was loaded (so that only a query can find out), and the answer is read as a client reads it.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.clock import SystemClock
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.server.scheduler import QueryScheduler

SCHEMA = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": [{"name": "s", "dataType": "STRING"}]})
CONFIG = TableConfig.from_json(
    {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "tableIndexConfig": {},
        "fieldConfigList": [{"name": "s", "encodingType": "RAW", "compressionCodec": "ZSTANDARD"}],
        "metadata": {},
    }
)


@pytest.mark.parametrize("dialect", ["pql", "sql"])
def test_a_damaged_segment_is_named_without_its_folder(
    tmp_path: Path, dialect: str, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = InProcessCluster(tmp_path)
    batch = pa.RecordBatch.from_pydict({"s": pa.array([f"a value that compresses {i % 7}" for i in range(5000)])})
    cluster.add_table(SCHEMA, CONFIG, [[batch]])
    columns = tmp_path / "t" / "t_0000" / "columns"
    columns.chmod(0o600)
    frame = columns.read_bytes().index(b"\x28\xb5\x2f\xfd")  # the magic of a zstd frame: the first chunk
    with columns.open("r+b") as file:
        file.seek(frame)
        file.write(b"\xff" * 16)

    answer = getattr(cluster, dialect)("SELECT s FROM t WHERE s = 'a value that compresses 3' LIMIT 1")
    cluster.close()
    # No other replica can be asked.
    assert [error["errorCode"] for error in answer["exceptions"]] == [305]
    assert "t_0000" in answer["exceptions"][0]["message"]
    assert str(tmp_path) not in str(answer) and str(tmp_path.parent) not in str(answer)
    # The operator finds the whole path in the log.
    assert str(columns) in caplog.text


def test_an_answer_over_the_servers_limit_is_refused_with_the_setting(tmp_path: Path) -> None:
    cluster = InProcessCluster(tmp_path)
    cluster.add_table(
        SCHEMA, CONFIG, [[pa.RecordBatch.from_pydict({"s": pa.array([f"value {i}" for i in range(5000)])})]]
    )
    (service,) = cluster.services.values()
    service._limits = dataclasses.replace(service._limits, response_bytes_max=20_000)
    refused = cluster.sql("SELECT s FROM t LIMIT 5000")["exceptions"]
    fits = cluster.sql("SELECT s FROM t LIMIT 500")
    cluster.close()
    assert [error["errorCode"] for error in refused] == [200]
    assert "pinot.server.grpc.maxResponseBytes" in refused[0]["message"]
    assert len(fits["resultTable"]["rows"]) == 500


def test_what_a_server_refuses_or_lacks_is_counted(tmp_path: Path) -> None:
    cluster = InProcessCluster(tmp_path)
    cluster.add_table(SCHEMA, CONFIG, [[pa.RecordBatch.from_pydict({"s": pa.array(["a"])})]])
    (service,) = cluster.services.values()
    (registry,) = cluster.registries.values()
    clock = SystemClock()
    text = "SELECT s FROM t"

    def counted(name: str) -> float:
        lines = service._metrics._metrics.render().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(f"pinot_server_{name}_total"))

    usual = service._scheduler
    service._scheduler = QueryScheduler(clock, concurrent_max=0, queue_max=0)
    assert [error["errorCode"] for error in cluster.sql(text)["exceptions"]] == [211]
    service._scheduler = QueryScheduler(clock, concurrent_max=0, queue_max=1)
    assert [error["errorCode"] for error in cluster.sql(text, query_options="timeoutMs=30")["exceptions"]] == [250]
    service._scheduler = usual
    registry.remove("t_OFFLINE", "t_0000")
    assert [error["errorCode"] for error in cluster.sql(text)["exceptions"]] == [305]
    cluster.close()
    assert (counted("queriesRefused"), counted("schedulingTimeoutExceptions"), counted("numMissingSegments")) == (
        1,
        1,
        1,
    )
