"""Proves that a server returns memory after heavy queries, and only then: pages of the process get fewer, many queries at once
cause one pass, and a query that ends during a pass gets one more."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.server import idle_memory
from pinotpy.server.idle_memory import GROWN_BYTES, IdleMemory, give_back_free_memory, own_memory_bytes

WAIT_S = 20.0


@pytest.mark.skipif(idle_memory._MALLOC_TRIM is None or own_memory_bytes() is None, reason="no glibc, or no /proc")
def test_pages_that_hold_nothing_are_returned() -> None:
    size_bytes, count = 2_000, 100_000
    blocks = [bytes([number % 255 + 1]) * size_bytes for number in range(count)]
    last = blocks.pop()  # the top of the heap stays in use: nothing returns by itself
    full = own_memory_bytes()
    del blocks
    gc.collect()
    give_back_free_memory()
    left = own_memory_bytes()
    assert full is not None and left is not None and full - left > size_bytes * count / 2
    assert len(last) == size_bytes


class Passes:
    """Counts passes; each waits for `go`."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self.count = 0

    def __call__(self) -> None:
        self.count += 1
        self.begun.release()
        self.go.acquire(timeout=WAIT_S)


def test_many_queries_of_a_grown_process_cause_one_pass_and_a_later_one_another() -> None:
    passes, own_bytes, busy = Passes(), [1000], [False]
    memory = IdleMemory(lambda: busy[0], lambda: own_bytes[0], passes, after_s=0.2)
    own_bytes[0] += GROWN_BYTES
    for _ in range(100):
        memory.query_done()
    assert passes.begun.acquire(timeout=WAIT_S) and passes.count == 1
    memory.query_done()  # while the pass runs: what this one freed may not be seen by it
    passes.go.release(2)
    assert passes.begun.acquire(timeout=WAIT_S) and passes.count == 2


def test_what_stays_in_use_causes_no_further_pass() -> None:
    passes, own_bytes, busy = Passes(), [1000], [False]
    memory = IdleMemory(lambda: busy[0], lambda: own_bytes[0], passes, after_s=0)
    own_bytes[0] += GROWN_BYTES
    memory.query_done()
    assert passes.begun.acquire(timeout=WAIT_S)
    pass_thread = next(thread for thread in threading.enumerate() if thread.name == "pinotpy-idle-memory")
    passes.go.release()
    pass_thread.join(WAIT_S)
    memory.query_done()
    own_bytes[0] += GROWN_BYTES - 1
    memory.query_done()
    assert not [thread for thread in threading.enumerate() if thread.name == "pinotpy-idle-memory"] and passes.count == 1


def test_what_running_queries_use_does_not_count_as_what_stays_in_use() -> None:
    passes, own_bytes, busy = Passes(), [1000], [True]
    memory = IdleMemory(lambda: busy[0], lambda: own_bytes[0], passes, after_s=0)
    own_bytes[0] += GROWN_BYTES
    memory.query_done()
    assert passes.begun.acquire(timeout=WAIT_S)
    pass_thread = next(thread for thread in threading.enumerate() if thread.name == "pinotpy-idle-memory")
    passes.go.release()
    pass_thread.join(WAIT_S)
    passes.go.release()
    memory.query_done()  # the query that ran during the pass ends and frees what it used
    assert passes.begun.acquire(timeout=WAIT_S) and passes.count == 2


def test_where_memory_cannot_be_read_nothing_happens() -> None:
    IdleMemory(lambda: False, lambda: None, after_s=0).query_done()
    assert not [thread for thread in threading.enumerate() if thread.name == "pinotpy-idle-memory"]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[InProcessCluster]:
    schema = Schema.from_json({"schemaName": "t", "metricFieldSpecs": [{"name": "n", "dataType": "LONG"}]})
    config = TableConfig.from_json(
        {"tableName": "t", "tableType": "OFFLINE", "segmentsConfig": {"replication": "1"}, "tenants": {}, "tableIndexConfig": {}, "metadata": {}}
    )
    built = InProcessCluster(tmp_path, memory_max_bytes=100_000)
    built.add_table(schema, config, [[pa.record_batch({"n": pa.array(range(100_000), pa.int64())})]])
    yield built
    built.close()


def test_a_service_looks_after_every_query_also_one_that_failed(cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[IdleMemory] = []

    def query_done(memory: IdleMemory) -> None:
        looked.append(memory)

    monkeypatch.setattr(IdleMemory, "query_done", query_done)
    assert cluster.sql("SELECT COUNT(*) FROM t WHERE n > 5")["exceptions"] == [] and len(looked) == 1
    failed = cluster.sql("SELECT n, COUNT(*) FROM t GROUP BY n LIMIT 1")
    assert "result memory" in failed["exceptions"][0]["message"] and len(looked) == 2
