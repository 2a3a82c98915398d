"""Proves on real processes: a reload's job tells what servers did; it outlives the controller; a server that is killed
with SIGKILL while it reloads is counted as silent, and finishes the job by itself when it is started again; the table's
new index is then on every replica. The oracle is the metadata that each server has on disk.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from live_cluster import LiveCluster, wait_until

from pinotpy.cli.main import main
from pinotpy.errors import NotFoundError
from pinotpy.segment.build.column_indexes import form_among
from pinotpy.segment.immutable import load_segment

pytestmark = pytest.mark.cluster

ROWS, SEGMENTS, SERVERS = 60_000, 16, 2
SCHEMA = {
    "schemaName": "rides",
    "dimensionFieldSpecs": [{"name": name, "dataType": "STRING"} for name in ("city", "street", "driver")],
    "metricFieldSpecs": [{"name": "fare", "dataType": "LONG"}],
}


def config(index: dict[str, Any]) -> dict[str, Any]:
    return {
        "tableName": "rides",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": str(SERVERS)},
        "tenants": {},
        "tableIndexConfig": index,
        "metadata": {},
    }


def rows(number: int) -> list[pa.RecordBatch]:
    chance = np.random.default_rng(number)
    texts = {
        name: pa.array(chance.integers(0, distinct, ROWS).astype(str))
        for name, distinct in (("city", 7), ("street", 5000), ("driver", 40_000))
    }
    return [pa.RecordBatch.from_pydict({**texts, "fare": pa.array(chance.integers(0, 100, ROWS), pa.int64())})]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    live = LiveCluster(tmp_path_factory.mktemp("cluster"))
    try:
        live.add_table(SCHEMA, config({}), [rows(n) for n in range(SEGMENTS)])
        yield live
    finally:
        live.close()


def with_index(cluster: LiveCluster, column: str) -> int:
    """Replicas on disk whose column has an inverted index."""
    found = 0
    for folder in Path(cluster.directory).glob("server-*/index/rides_OFFLINE/rides_*"):
        segment = load_segment(folder, verify=False)
        found += form_among({entry.kind for entry in segment.column(column).metadata.buffers}, "inverted") is not None
        segment.close()
    return found


def reload(cluster: LiveCluster) -> str:
    (job,) = cluster.controller.reload_segments("rides")["reloadJobIds"]
    return str(job)


def test_a_job_is_followed_to_its_end_through_the_command_line_and_a_restart_of_the_controller(
    cluster: LiveCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.controller.update_table("rides", config({"invertedIndexColumns": ["city"]}))
    assert cluster.controller.need_reload("rides")["needReload"] is True
    with pytest.raises(SystemExit) as ended:
        main(["reload-segments", "--table-name", "rides", "--controller-url", cluster.controller_url, "--json"])
    printed = capsys.readouterr()
    assert not ended.value.code, printed.err
    (status,) = json.loads(printed.out)
    replicas = SEGMENTS * SERVERS
    assert (status["status"], status["totalSegmentCount"], status["successCount"], status["failureCount"]) == (
        "COMPLETED",
        replicas,
        replicas,
        0,
    )
    assert with_index(cluster, "city") == replicas
    assert cluster.controller.need_reload("rides")["needReload"] is False
    cluster.processes.kill("controller")
    cluster.processes.restart("controller")
    job = status["metadata"]["jobId"]
    wait_until(lambda: cluster.controller.reload_status(job) == status, 120, "the same answer of the new controller")


def test_a_server_that_is_killed_while_it_reloads_is_told_and_finishes_when_it_is_back(cluster: LiveCluster) -> None:
    replicas = SEGMENTS * SERVERS
    cluster.controller.update_table("rides", config({"invertedIndexColumns": ["city", "street", "driver"]}))
    before = with_index(cluster, "driver")
    job = reload(cluster)
    cluster.processes.kill("server-0")
    assert before == 0 and with_index(cluster, "driver") < replicas, "the kill came in time"
    wait_until(lambda: cluster.controller.reload_status(job)["successCount"] == SEGMENTS, 60, "the living server done")
    status = cluster.controller.reload_status(job)
    assert (status["status"], status["totalServersQueried"], status["totalServerCallsFailed"]) == (
        "IN_PROGRESS",
        SERVERS,
        1,
    )
    assert len(status["serversFailed"]) == 1
    cluster.processes.restart("server-0")
    status = cluster.controller.wait_until_reloaded(job, timeout_s=60)
    assert (status["status"], status["successCount"]) == ("COMPLETED", replicas)
    assert with_index(cluster, "driver") == replicas
    assert cluster.query("SELECT COUNT(*) FROM rides WHERE driver = '17'")["exceptions"] == []


def test_a_deleted_table_takes_its_jobs_with_it(cluster: LiveCluster) -> None:
    (job, *_) = cluster.controller.reload_jobs("rides")
    cluster.controller.delete_table("rides")
    with pytest.raises(NotFoundError, match="was deleted"):
        cluster.controller.reload_status(job)
    with pytest.raises(NotFoundError, match="none"):
        cluster.controller.reload_status("none")
