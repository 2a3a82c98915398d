"""Proves that a server returns memory after heavy queries, and only then: pages of the process get fewer, many queries
at once cause one pass, and a query that ends during a pass gets one more.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.memory.c_library import MALLOC_TRIM
from pinotpy.server.idle_memory import (
    GROWN_BYTES,
    LOOK_INTERVAL_S,
    PASSES,
    IdleMemory,
    give_back_free_memory,
    own_memory_bytes,
)

WAIT_S = 60.0


@pytest.mark.skipif(MALLOC_TRIM is None or own_memory_bytes() is None, reason="no glibc, or no /proc")
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


class Process:
    """Own memory as told by the test; passes free what is free then. `at_pass` runs inside each pass."""

    def __init__(self) -> None:
        self.used, self.free, self.passes = 1000, 0, 0
        self.others = set(threading.enumerate())  # servers of other tests may plan passes, too
        self.at_pass: Callable[[int], None] = lambda number: None

    def own_bytes(self) -> int:
        return self.used + self.free

    def give_back(self) -> None:
        self.passes += 1
        self.free = 0
        self.at_pass(self.passes)

    def ended(self) -> None:
        """Wait until no pass is planned."""
        for thread in set(threading.enumerate()) - self.others:
            if thread.name == "pinotpy-idle-memory":
                thread.join(WAIT_S)
                assert not thread.is_alive()


def test_many_queries_of_a_grown_process_cause_one_pass() -> None:
    process = Process()
    memory = IdleMemory(process.own_bytes, process.give_back, after_s=0.3)
    process.free = GROWN_BYTES
    for _ in range(100):
        memory.query_done()
    process.ended()
    assert (process.passes, process.own_bytes()) == (1, 1000)
    process.free = GROWN_BYTES - 1
    memory.query_done()
    process.ended()
    assert process.passes == 1, "little is left for the next query"
    process.free = GROWN_BYTES
    memory.query_done()
    process.ended()
    assert process.passes == 2


def test_what_queries_free_during_a_pass_is_returned_by_the_next() -> None:
    process = Process()
    memory = IdleMemory(process.own_bytes, process.give_back, after_s=0)

    def at_pass(number: int) -> None:
        if number <= 8:
            process.free = GROWN_BYTES
            memory.query_done()

    process.at_pass = at_pass
    process.free = GROWN_BYTES
    memory.query_done()
    process.ended()
    assert (process.passes, process.own_bytes()) == (9, 1000)


def test_memory_that_comes_free_late_is_returned_all_the_same() -> None:
    process = Process()
    memory = IdleMemory(process.own_bytes, process.give_back, after_s=0)
    process.used += GROWN_BYTES  # an answer that a slow broker still reads

    def at_pass(number: int) -> None:
        if number == 2:
            process.used, process.free = 1000, GROWN_BYTES

    process.at_pass = at_pass
    memory.query_done()
    process.ended()
    assert (process.passes, process.own_bytes()) == (3, 1000)


def test_what_stays_in_use_causes_no_passes_for_ever() -> None:
    process = Process()
    memory = IdleMemory(process.own_bytes, process.give_back, after_s=0)
    process.used += GROWN_BYTES
    memory.query_done()
    process.ended()
    assert process.passes == PASSES
    memory.query_done()
    process.ended()
    assert process.passes == PASSES


def test_where_memory_cannot_be_read_nothing_happens() -> None:
    process = Process()
    IdleMemory(lambda: None, process.give_back, after_s=0).query_done()
    process.ended()
    assert process.passes == 0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[InProcessCluster]:
    schema = Schema.from_json({"schemaName": "t", "metricFieldSpecs": [{"name": "n", "dataType": "LONG"}]})
    config = TableConfig.from_json(
        {
            "tableName": "t",
            "tableType": "OFFLINE",
            "segmentsConfig": {"replication": "1"},
            "tenants": {},
            "tableIndexConfig": {},
            "metadata": {},
        }
    )
    built = InProcessCluster(tmp_path, memory_max_bytes=100_000)
    built.add_table(schema, config, [[pa.record_batch({"n": pa.array(range(100_000), pa.int64())})]])
    yield built
    built.close()


def test_a_service_looks_after_every_query_also_one_that_failed(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[IdleMemory] = []

    def query_done(memory: IdleMemory, took_s: float) -> None:
        assert 0 <= took_s < 600, "in seconds, by a clock that may be coarse"
        looked.append(memory)

    monkeypatch.setattr(IdleMemory, "query_done", query_done)
    assert cluster.sql("SELECT COUNT(*) FROM t WHERE n > 5")["exceptions"] == [] and len(looked) == 1
    failed = cluster.sql("SELECT n, COUNT(*) FROM t GROUP BY n LIMIT 1")
    assert "result memory" in failed["exceptions"][0]["message"] and len(looked) == 2


def test_short_queries_look_once_a_second_and_long_ones_always() -> None:
    looks: list[int] = []

    def own_bytes() -> int:
        looks.append(1)
        return 0

    memory = IdleMemory(own_bytes, lambda: None)
    looks.clear()
    start_s = time.monotonic()
    for _ in range(100):
        memory.query_done(0.001)
    assert len(looks) <= 1 + (time.monotonic() - start_s) / LOOK_INTERVAL_S
    looks.clear()
    for _ in range(10):
        memory.query_done(1.0)
    assert len(looks) == 10
