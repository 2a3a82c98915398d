"""Proves what a broker's query reserves, and what happens when it gets none: answers of servers, merges and answers
count, each before it is allocated; one query's budget and the process' are told apart; and nothing stays reserved.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.broker import large_queries
from pinotpy.broker.handler import Question, answer_query
from pinotpy.broker.large_queries import LargeQueries
from pinotpy.broker.parts import EVERY_TABLE
from pinotpy.broker.query_memory import QueryMemory
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import PinotError
from pinotpy.memory.budget import Claim, ProcessBudget, process_memory_error
from pinotpy.pql.ast import Dialect
from pinotpy.query.result import merge_memory

MIB = 1 << 20
NUM_ROWS = 40_000
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "name", "dataType": "STRING"}, {"name": "id", "dataType": "LONG"}],
    }
)
CONFIG = TableConfig.from_json(
    {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "tableIndexConfig": {"noDictionaryColumns": ["id"]},
        "metadata": {},
    }
)
DISTINCT = "SELECT DISTINCTCOUNT(id), DISTINCTCOUNT(name) FROM t"


def rows(first: int) -> pa.RecordBatch:
    ids = np.arange(first, first + NUM_ROWS)
    return pa.record_batch({"name": pa.array([f"name {i:08d}" for i in ids]), "id": pa.array(ids)})


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    cluster = InProcessCluster(tmp_path_factory.mktemp("cluster"), num_servers=2)
    cluster.add_table(SCHEMA, CONFIG, [[rows(0)], [rows(NUM_ROWS // 2)]])
    yield cluster
    cluster.close()


@pytest.fixture
def cluster(built: InProcessCluster) -> Iterator[InProcessCluster]:
    limits = built.broker.limits
    yield built
    built.broker.limits, built.broker.memory = limits, ProcessBudget(0)


def test_a_merge_counts_in_the_memory_of_its_query(cluster: InProcessCluster) -> None:
    """The servers' answers are 1.7 MB: alone they fit."""
    cluster.broker.limits = dataclasses.replace(cluster.broker.limits, memory_max_bytes=4 * MIB)
    [fault] = cluster.sql(DISTINCT)["exceptions"]
    assert fault["errorCode"] == 200 and "merge" in fault["message"], fault
    assert "more than 4194304" in fault["message"] and "pinot.broker.query.memory.maxBytes" in fault["message"]
    cluster.broker.limits = dataclasses.replace(cluster.broker.limits, memory_max_bytes=64 * MIB)
    assert cluster.sql(DISTINCT)["resultTable"]["rows"] == [[NUM_ROWS * 3 // 2, NUM_ROWS * 3 // 2]]


def test_sets_that_do_not_fit_at_once_are_counted_by_parts(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once the merge takes 15 MB beside the servers' answers of 1.7 MB."""
    cluster.broker.limits = dataclasses.replace(cluster.broker.limits, memory_max_bytes=8 * MIB)
    assert [fault["errorCode"] for fault in cluster.sql(DISTINCT)["exceptions"]] == [200]
    monkeypatch.setattr(merge_memory, "PARTITIONED_MIN_BYTES", MIB)
    monkeypatch.setattr(merge_memory, "PARTITION_BYTES", MIB // 2)
    monkeypatch.setattr(merge_memory, "HASHED_BLOCK_BYTES", MIB)
    answer = cluster.sql(DISTINCT)
    assert answer["exceptions"] == [] and answer["resultTable"]["rows"] == [[NUM_ROWS * 3 // 2] * 2]
    parity = "SELECT id % 2 AS odd, DISTINCTCOUNT(id) FROM t GROUP BY odd ORDER BY odd"
    assert cluster.sql(parity)["resultTable"]["rows"] == [[odd, NUM_ROWS * 3 // 4] for odd in (0, 1)]
    rows = cluster.sql("SELECT DISTINCT id, name FROM t ORDER BY id DESC LIMIT 3")["resultTable"]["rows"]
    last = NUM_ROWS * 3 // 2 - 1
    assert rows == [[last - i, f"name {last - i:08d}"] for i in range(3)]


def test_the_text_of_an_answer_counts(cluster: InProcessCluster) -> None:
    cluster.broker.limits = dataclasses.replace(cluster.broker.limits, memory_max_bytes=24 * MIB)
    [fault] = cluster.sql(f"SELECT id, name, id + 1, name, id, name FROM t LIMIT {NUM_ROWS}")["exceptions"]
    assert fault["errorCode"] == 200 and "the text of its answer" in fault["message"], fault


def test_a_query_takes_what_the_process_has_and_gives_it_back(cluster: InProcessCluster) -> None:
    budget = cluster.broker.memory = ProcessBudget(64 * MIB)
    assert cluster.sql(DISTINCT)["exceptions"] == []
    assert (budget.used_by_queries_bytes, budget.running, budget.num_refused) == (0, {}, 0)


def test_a_query_for_which_the_process_has_nothing_is_refused_with_its_name(cluster: InProcessCluster) -> None:
    budget = cluster.broker.memory = ProcessBudget(64 * MIB)
    budget.ask(Claim("another"), 50 * MIB)
    answer = cluster.sql("SET timeoutMs = 5000; " + DISTINCT)
    [fault] = answer["exceptions"]
    assert fault["errorCode"] == 245 and f"query {answer['requestId']} waited" in fault["message"], fault
    assert budget.used_by_queries_bytes == 50 * MIB and budget.running == {}
    # Small ones are not asked.
    assert cluster.sql("SELECT COUNT(*) FROM t")["resultTable"]["rows"] == [[2 * NUM_ROWS]]


def test_queries_that_do_not_fit_together_run_one_after_the_other(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight of them, each of which takes more than half of what there is: all are answered. The servers' answers are
    1.7 MB, their merge takes 15 MB beside them.
    """
    monkeypatch.setattr(large_queries, "LARGE_MIN_BYTES", MIB)
    budget = cluster.broker.memory = ProcessBudget(24 * MIB)
    question = Question(f"SET timeoutMs = 120000; {DISTINCT}", Dialect.SQL)

    async def ask_all() -> list[dict[str, Any]]:
        return [
            orjson.loads(answer)
            for answer in await asyncio.gather(*(answer_query(cluster.broker, question, EVERY_TABLE) for _ in range(8)))
        ]

    answers = asyncio.run(ask_all())
    assert [answer["exceptions"] for answer in answers] == [[]] * 8
    assert all(answer["resultTable"]["rows"] == [[NUM_ROWS * 3 // 2] * 2] for answer in answers)
    assert all(answer["totalDocs"] == 2 * NUM_ROWS for answer in answers)  # counted once, however often it was asked
    assert (budget.used_by_queries_bytes, budget.running, cluster.broker.large.running_bytes) == (0, {}, 0)


def test_a_query_that_is_too_large_for_the_process_is_refused_without_asking_again(cluster: InProcessCluster) -> None:
    cluster.broker.memory = ProcessBudget(4 * MIB)
    numbers = cluster.broker.numbers
    before = next(numbers)
    [fault] = cluster.sql(DISTINCT)["exceptions"]
    assert fault["errorCode"] == 245, fault
    assert next(numbers) == before + 2


def test_a_query_that_is_ended_fails_with_the_reason_and_others_go_on() -> None:
    async def run() -> tuple[PinotError, int]:
        budget = ProcessBudget(64 * MIB)
        memory = QueryMemory(budget, "b_1", 64 * MIB, LargeQueries(lambda: 0))
        await memory.take(MIB, "answers", 1.0)
        name, holder = budget.heaviest() or ("", None)
        assert name == "b_1" and holder is memory and memory.held_bytes == MIB
        memory.end(process_memory_error("query b_1 was ended", budget))
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError as problem:
            fault = memory.fault(problem)
        memory.close()
        await asyncio.sleep(0)  # not cancelled any more
        return fault, budget.used_by_queries_bytes

    fault, used_bytes = asyncio.run(run())
    assert fault.code == 245 and "query b_1 was ended" in fault.message and used_bytes == 0


def test_what_a_thread_has_is_given_back_when_it_ends() -> None:
    async def run() -> None:
        budget = ProcessBudget(64 * MIB)
        memory = QueryMemory(budget, "b_1", 64 * MIB, LargeQueries(lambda: 0))
        await memory.take(8 * MIB, "a merge", 1.0)
        work = memory.lent(6 * MIB, lambda: budget.used_by_queries_bytes)
        memory.close()  # nobody waits for it any more
        assert work() == 6 * MIB
        assert budget.used_by_queries_bytes == 0

    asyncio.run(run())
