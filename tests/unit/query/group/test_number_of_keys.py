"""Proves how many keys GROUP BY and DISTINCT take: as many as the kernels have registers for are answered, one more is
refused when the query is compiled, with the limit in the message, before a server hears of it. Groups are counted by
Python.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.kernels.runtime import abi
from pinotpy.query.compile.checks import GROUP_KEYS_MAX

NUMBERS = [i % 3 for i in range(100)]
SCHEMA = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": [{"name": "n", "dataType": "INT"}]})
CONFIG = TableConfig.from_json(
    {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "tableIndexConfig": {},
        "metadata": {},
    }
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    built = InProcessCluster(tmp_path_factory.mktemp("cluster"))
    built.add_table(SCHEMA, CONFIG, [[pa.record_batch({"n": pa.array(NUMBERS, pa.int32())})]])
    yield built
    built.close()


def _keys(count: int) -> list[str]:
    return [f"n + {i}" for i in range(count)]


def test_the_limit_is_what_the_registers_allow() -> None:
    assert GROUP_KEYS_MAX + 1 == abi.NUM_REGISTERS


def test_as_many_keys_as_allowed_are_answered(cluster: InProcessCluster) -> None:
    counted = Counter(tuple(n + i for i in range(GROUP_KEYS_MAX)) for n in NUMBERS)
    keys = ", ".join(_keys(GROUP_KEYS_MAX))
    grouped = cluster.sql(f"SELECT {keys}, COUNT(*) FROM t GROUP BY {keys} LIMIT 10")
    assert grouped["exceptions"] == []
    assert sorted(grouped["resultTable"]["rows"]) == sorted([*key, count] for key, count in counted.items())
    distinct = cluster.sql(f"SELECT DISTINCT {keys} FROM t LIMIT 10")
    assert sorted(distinct["resultTable"]["rows"]) == sorted(list(key) for key in counted)
    in_pql = cluster.pql("SELECT COUNT(*) FROM t GROUP BY " + ", ".join(f"ADD(n, {i})" for i in range(GROUP_KEYS_MAX)))
    found = in_pql["aggregationResults"][0]["groupByResult"]
    assert sorted(int(group["value"]) for group in found) == sorted(counted.values())


def test_a_key_that_stands_twice_counts_once(cluster: InProcessCluster) -> None:
    answer = cluster.sql("SELECT n, COUNT(*) FROM t GROUP BY " + ", ".join(["n"] * 40) + " ORDER BY n LIMIT 10")
    assert answer["resultTable"]["rows"] == [[n, count] for n, count in sorted(Counter(NUMBERS).items())]


@pytest.mark.parametrize("count", [GROUP_KEYS_MAX + 1, 500])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT COUNT(*) FROM t GROUP BY {keys}",
        "SELECT DISTINCT {keys} FROM t",
        "SELECT DISTINCT({calls}) FROM t",
        "SELECT COUNT(*) FROM t GROUP BY {calls}",
    ],
)
def test_more_keys_are_refused_before_a_server_is_asked(
    cluster: InProcessCluster, query: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    async def send(*request: object) -> None:
        asked.append(request)
        raise AssertionError("asked")

    monkeypatch.setattr(cluster.broker, "send", send)
    text = query.format(keys=", ".join(_keys(count)), calls=", ".join(f"ADD(n, {i})" for i in range(count)))
    answer = cluster.sql(text) if "{keys}" in query else cluster.pql(text)
    assert [e["errorCode"] for e in answer["exceptions"]] == [700] and not asked
    assert (
        f"at most {GROUP_KEYS_MAX} different columns and expressions, found {count}"
        in answer["exceptions"][0]["message"]
    )
