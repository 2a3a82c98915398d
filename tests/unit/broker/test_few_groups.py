"""Proves that a GROUP BY that shows any few of many groups is asked for few of them where all take much: whatever it
shows is what all rows of these groups give, for every type of key and both modes of nulls, and one that its servers had
no memory for is answered.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.broker import execution
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.memory.budget import Claim, ProcessBudget

TYPES = {"i": "INT", "l": "LONG", "s": "STRING", "f": "FLOAT", "d": "DOUBLE", "ts": "TIMESTAMP", "b": "BYTES"}
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            *({"name": name, "dataType": kind} for name, kind in TYPES.items()),
            {"name": "mv", "dataType": "INT", "singleValueField": False},
        ],
        "metricFieldSpecs": [{"name": "m", "dataType": "LONG"}],
    }
)
CONFIG = TableConfig.from_json(
    {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "tableIndexConfig": {"nullHandlingEnabled": True, "noDictionaryColumns": ["l", "d"]},
        "metadata": {},
    }
)
NUM_ROWS, NUM_KEYS = 4_000, 1_500


def batch(seed: int) -> pa.RecordBatch:
    draw = np.random.default_rng(seed)
    keys = draw.integers(0, NUM_KEYS, NUM_ROWS).tolist()

    def column(value: Any, kind: pa.DataType) -> pa.Array:
        return pa.array([None if key % 17 == 0 else value(key) for key in keys], kind)

    return pa.record_batch(
        {
            "i": column(lambda key: key, pa.int32()),
            "l": column(lambda key: key * 10**15 - 7, pa.int64()),
            "s": column(lambda key: f"it's {key} é", pa.string()),
            "f": column(lambda key: np.float32(key / 7), pa.float32()),
            "d": column(lambda key: float("nan") if key % 5 == 0 else key / 3, pa.float64()),
            "ts": column(lambda key: 1_700_000_000_000 + key, pa.int64()),
            "b": column(lambda key: key.to_bytes(2, "big"), pa.binary()),
            "mv": pa.array([[key, key + 1] for key in keys], pa.list_(pa.int32())),
            "m": pa.array(draw.integers(0, 1000, NUM_ROWS)),
        }
    )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    built = InProcessCluster(tmp_path_factory.mktemp("groups"), num_servers=2)
    built.add_table(SCHEMA, CONFIG, [[batch(seed)] for seed in range(4)])
    yield built
    built.close()


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "MANY_GROUPS_MIN", 1_000)


def rows_of(cluster: InProcessCluster, text: str, nulls: str) -> tuple[dict[tuple[str, ...], list[Any]], int]:
    """What follows the keys, by keys, and how many docs were scanned."""
    answer = cluster.sql(text, query_options=f"enableNullHandling={nulls}")
    assert not answer["exceptions"], answer["exceptions"]
    rows = answer["resultTable"]["rows"]
    found = {tuple(map(repr, row[:-2])): row[-2:] for row in rows}
    assert len(found) == len(rows), "a group twice"
    return found, answer["numDocsScanned"]


@pytest.mark.parametrize("nulls", ["true", "false"])
@pytest.mark.parametrize("where", ["", "WHERE m < 700", "WHERE i > 3 AND s <> 'x'"])
@pytest.mark.parametrize("keys", ["i", "l", "s", "f", "d", "ts", "i, s", "l, f, ts"])
def test_few_groups_are_whole(cluster: InProcessCluster, keys: str, where: str, nulls: str) -> None:
    text = f"SELECT {keys}, COUNT(*), SUM(m) FROM t {where} GROUP BY {keys} LIMIT"
    expected, num_docs = rows_of(cluster, f"{text} 100000", nulls)
    assert len(expected) > 1_000
    first, num_first = rows_of(cluster, f"{text} 7", nulls)
    again, num_again = rows_of(cluster, f"{text} 7", nulls)
    assert num_first == num_docs and num_again < num_docs / 2, "the second time few groups are asked for"
    for found in (first, again):
        assert len(found) == 7 and found.items() <= expected.items()


def test_queries_of_one_template_have_their_own_literals(cluster: InProcessCluster) -> None:
    for highest in (900, 800, 700, 600, 500):
        text = f"SELECT s, COUNT(*), SUM(m) FROM t WHERE m < {highest} GROUP BY s LIMIT"
        expected, _ = rows_of(cluster, f"{text} 100000", "true")
        found, _ = rows_of(cluster, f"{text} 7", "true")
        assert len(found) == 7 and found.items() <= expected.items(), highest


@pytest.mark.parametrize(
    "text",
    [
        "SELECT mv, COUNT(*), SUM(m) FROM t GROUP BY mv LIMIT 7",  # a list has other groups beside those chosen
        "SELECT b, COUNT(*), SUM(m) FROM t GROUP BY b LIMIT 7",
        "SELECT $docId, COUNT(*), SUM(m) FROM t GROUP BY $docId LIMIT 7",
        "SELECT i + 1, COUNT(*), SUM(m) FROM t GROUP BY i + 1 LIMIT 7",
        "SELECT i, COUNT(*), SUM(m) FROM t GROUP BY i ORDER BY i LIMIT 7",
        "SELECT i, COUNT(*), SUM(m) FROM t GROUP BY i HAVING COUNT(*) > 3 LIMIT 7",
        "SELECT i, COUNT(*), SUM(m) FROM t GROUP BY i LIMIT 5000",
    ],
)
def test_other_queries_read_everything(cluster: InProcessCluster, text: str) -> None:
    for _ in range(3):
        assert rows_of(cluster, text, "true")[1] == 4 * NUM_ROWS


def test_where_rows_have_too_few_groups_all_are_asked_for(cluster: InProcessCluster) -> None:
    # The rows that are looked at have two groups, all rows many.
    text = "SELECT i, COUNT(*), SUM(m) FROM t GROUP BY i LIMIT 900"
    first, _ = rows_of(cluster, text, "true")
    again, num_docs = rows_of(cluster, text, "true")
    assert len(first) == len(again) == 900 and num_docs <= 4 * NUM_ROWS


def test_one_that_servers_had_no_memory_for_is_answered_the_next_time(tmp_path: Path) -> None:
    budget = ProcessBudget(8 << 20)
    cluster = InProcessCluster(tmp_path, num_servers=2, server_memory=budget)
    try:
        cluster.add_table(SCHEMA, CONFIG, [[batch(seed)] for seed in range(4)])
        # Somebody else has nearly all of it, and servers wait for it until the time is up.
        assert budget.take(Claim("another query"), budget.for_queries_bytes - (300 << 10))
        text = "SELECT l, s, COUNT(*), SUM(m) FROM t GROUP BY l, s LIMIT 5"
        answers = [cluster.sql(text, query_options="timeoutMs=6000")]
        assert answers[0]["exceptions"], answers
        # A slow machine may be out of time before it is told of the memory.
        while answers[-1]["exceptions"] and len(answers) < 10:
            answers.append(cluster.sql(text, query_options="timeoutMs=6000"))
        answer = answers[-1]
        assert not answer["exceptions"] and len(answer["resultTable"]["rows"]) == 5, answers
        assert answer["numDocsScanned"] < 4 * NUM_ROWS
    finally:
        cluster.close()
