"""Proves that queries of one server together take no more than its process has: kernels and Python charge one word, who
is refused runs again with its memory reserved, whoever gets none is told so, small queries go on, and nothing stays
charged. Answers are compared with counts.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import MemoryLimitError, ProcessMemoryError
from pinotpy.kernels.runtime import abi, growable
from pinotpy.memory import watch
from pinotpy.memory.budget import Claim, ProcessBudget, process_memory_error
from pinotpy.memory.standing import PERIOD_S
from pinotpy.memory.watch import MemoryWatch
from pinotpy.query.runtime.control import QueryControl

MIB = 1 << 20
NUM_ROWS = 120_000
BUDGET = 40 * MIB
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "name", "dataType": "STRING"}, {"name": "id", "dataType": "LONG"}],
        "metricFieldSpecs": [{"name": "d", "dataType": "DOUBLE"}],
    }
)
CONFIG = TableConfig.from_json(
    {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "tableIndexConfig": {"noDictionaryColumns": ["id", "d"]},
        "metadata": {},
    }
)
GROUPS = "SELECT id, name, SUM(d), COUNT(*) FROM t GROUP BY id, name ORDER BY id LIMIT 5"
EXPECTED = [[i, f"name {i:06d}", float(i), 1] for i in range(5)]


@pytest.fixture(scope="module")
def budget() -> ProcessBudget:
    return ProcessBudget(BUDGET)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, budget: ProcessBudget) -> Iterator[InProcessCluster]:
    built = InProcessCluster(tmp_path_factory.mktemp("cluster"), server_memory=budget)
    ids = np.arange(NUM_ROWS)
    batch = pa.record_batch(
        {
            "name": pa.array([f"name {i:06d}" for i in ids]),
            "id": pa.array(ids),
            "d": pa.array(ids.astype(np.float64)),
        }
    )
    built.add_table(SCHEMA, CONFIG, [[batch]])
    yield built
    built.close()


class Charged:
    """Looks again and again at how much is charged and reserved."""

    def __init__(self, budget: ProcessBudget) -> None:
        self._budget, self.most, self._stop = budget, 0, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._stop.wait(0.0005):
            self.most = max(self.most, self._budget.used_by_queries_bytes)

    def __enter__(self) -> Charged:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()


def test_many_large_queries_at_once_are_right_or_refused_and_never_over_the_budget(
    cluster: InProcessCluster, budget: ProcessBudget
) -> None:
    with Charged(budget) as alone:
        assert cluster.sql(GROUPS)["resultTable"]["rows"] == EXPECTED
    # The test is about several that do not fit together.
    assert BUDGET / 8 < alone.most <= BUDGET
    with Charged(budget) as charged, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: cluster.sql(GROUPS), range(16)))
    right = [answer for answer in answers if not answer["exceptions"]]
    assert all(answer["resultTable"]["rows"] == EXPECTED for answer in right)
    assert {fault["errorCode"] for answer in answers for fault in answer["exceptions"]} <= {245}
    assert len(right) == 16, "each has the time to wait for its turn"
    # Who is refused is charged for a moment with what it does not take: kernels charge before they compare.
    assert charged.most <= BUDGET + alone.most and budget.used_by_queries_bytes == 0 and budget.running == {}


def test_a_large_query_waits_until_its_time_is_up_and_small_ones_go_on(
    cluster: InProcessCluster, budget: ProcessBudget
) -> None:
    claim = Claim("another")
    assert budget.ask(claim, budget.for_queries_bytes - MIB)
    try:
        [fault] = cluster.sql("SET timeoutMs = 5000; " + GROUPS)["exceptions"]
        assert fault["errorCode"] == 245 and "pinotpy.memory.share" in fault["message"], fault
        assert "query Broker_test_1_" in fault["message"] and "t_OFFLINE" in fault["message"]
        assert cluster.sql("SELECT COUNT(*) FROM t")["resultTable"]["rows"] == [[NUM_ROWS]]
    finally:
        budget.release(claim)
    assert budget.used_by_queries_bytes == 0
    assert cluster.sql(GROUPS)["resultTable"]["rows"] == EXPECTED


def test_a_query_that_needs_more_than_the_process_has_is_refused_for_good(
    cluster: InProcessCluster, budget: ProcessBudget
) -> None:
    for second in range(3):  # what stands grew, and stays
        budget.measured(34 * MIB, second * PERIOD_S)
    try:
        [fault] = cluster.sql("SET timeoutMs = 60000; " + GROUPS)["exceptions"]
        # It did not wait for what never comes.
        assert fault["errorCode"] == 245 and "needs more than there is" in fault["message"], fault
    finally:
        budget.measured(0, 3 * PERIOD_S)


def test_a_kernel_is_refused_by_the_process_and_takes_nothing_then() -> None:
    budget = ProcessBudget(1600)
    one, other, small = (
        QueryControl(memory_max_bytes=1 << 30, process=budget, is_small=is_small, name="b_1")
        for is_small in (False, False, True)
    )
    assert growable.charge(one.words.ctypes.data, 1000) == abi.E_OK
    assert growable.charge(other.words.ctypes.data, 300) == abi.E_OK
    assert growable.charge(other.words.ctypes.data, 14) == abi.E_MEMORY
    assert (other.held_bytes, other.refused_bytes, budget.used_by_queries_bytes) == (300, 14, 1300)
    assert isinstance(other.memory_error(), ProcessMemoryError)
    # A sixteenth of what is given away, seven eighths, is kept for small queries.
    assert growable.charge(small.words.ctypes.data, 100) == abi.E_OK
    with pytest.raises(ProcessMemoryError, match="query b_1 holds 101 bytes"):
        small.reserve(1)
    for control in (small, other, one, one):
        control.close()
    assert budget.used_by_queries_bytes == 0
    growable.charge(one.words.ctypes.data, -1000)  # freed late
    assert budget.used_by_queries_bytes == 0


def test_a_query_over_its_own_budget_is_told_of_its_own_setting() -> None:
    control = QueryControl(memory_max_bytes=100, process=ProcessBudget(MIB), name="b_1")
    with pytest.raises(MemoryLimitError, match=r"pinot\.server\.query\.memory\.maxBytes") as caught:
        control.reserve(101)
    assert not isinstance(caught.value, ProcessMemoryError)


def test_a_query_that_is_ended_says_why() -> None:
    budget = ProcessBudget(MIB)
    control = QueryControl(process=budget, name="b_1")
    control.end(process_memory_error("query b_1 was ended: it held most", budget))
    with pytest.raises(ProcessMemoryError, match="b_1 was ended: it held most"):
        control.check()


def test_when_the_process_is_over_its_budget_the_query_that_holds_most_is_ended_by_name(
    cluster: InProcessCluster, budget: ProcessBudget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's numbers are the test's: the process is over its budget as soon as a query holds a mebibyte."""
    monkeypatch.setattr(watch, "HELD_MIN_BYTES", MIB)
    done = threading.Event()

    def used() -> int:
        heaviest = budget.heaviest()
        return BUDGET + 1 if heaviest is not None and heaviest[1].held_bytes >= MIB else 0

    looks = MemoryWatch(budget, lambda: None, used)

    def look() -> None:
        now_s = 1.0
        while not done.wait(0.0005):
            now_s += 1.0
            looks.look(now_s)

    thread = threading.Thread(target=look)
    before = budget.num_ended
    thread.start()
    try:
        for _ in range(50):  # one may come to its end, or be refused what it asks for next, before it looks
            faults = cluster.sql("SET timeoutMs = 20000; " + GROUPS)["exceptions"]
            assert {fault["errorCode"] for fault in faults} <= {245}
            if any("was ended: it held most" in fault["message"] for fault in faults):
                break
            assert cluster.sql("SELECT COUNT(*) FROM t")["resultTable"]["rows"] == [[NUM_ROWS]]
        else:
            pytest.fail("no query was told that it was ended")
    finally:
        done.set()
        thread.join()
        budget.measured(0, 10_000.0)
    assert "query Broker_test_1_" in faults[0]["message"] and budget.num_ended > before
    assert cluster.sql(GROUPS)["resultTable"]["rows"] == EXPECTED
    assert budget.used_by_queries_bytes == 0 and budget.running == {}
