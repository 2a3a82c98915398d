"""Proves what a broker's settings do to a query: length of the text, LIMIT and TOP (refused or cut), letter case of
names, memory of the servers' answers, and how many run at once. The answers come from real segments.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.broker.admission import Admission
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "Word", "dataType": "STRING"}, {"name": "n", "dataType": "INT"}],
    }
)
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
ROWS = pa.record_batch(
    {"Word": pa.array([f"word {i:06d}" for i in range(1000)]), "n": pa.array(range(1000), pa.int32())}
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    built = InProcessCluster(tmp_path_factory.mktemp("cluster"), num_servers=2)
    built.add_table(SCHEMA, CONFIG, [[ROWS], [ROWS]])
    yield built
    built.close()


@pytest.fixture
def limited(cluster: InProcessCluster) -> Iterator[InProcessCluster]:
    """The cluster; its broker's limits are put back afterwards."""
    limits = cluster.broker.limits
    yield cluster
    cluster.broker.limits = limits
    cluster.broker.plans = type(cluster.broker.plans)()


def _limit(cluster: InProcessCluster, **values: object) -> None:
    cluster.broker.limits = dataclasses.replace(cluster.broker.limits, **values)


def _error(answer: dict[str, object]) -> tuple[int, str]:
    exceptions = answer["exceptions"]
    assert isinstance(exceptions, list) and len(exceptions) == 1, exceptions
    return exceptions[0]["errorCode"], exceptions[0]["message"]


def test_a_text_over_the_limit_is_refused_by_its_bytes(limited: InProcessCluster) -> None:
    text = "SELECT COUNT(*) FROM t WHERE Word = 'ääää'"  # 42 characters, 46 bytes
    _limit(limited, query_text_bytes_max=45)
    code, message = _error(limited.sql(text))
    assert code == 150 and "more than 45 bytes" in message and "pinot.broker.query.maxTextBytes" in message
    assert "IDSET(x, 'expectedInsertions=…')" in message, "what makes texts long is an id set of the default size"
    _limit(limited, query_text_bytes_max=46)
    assert limited.sql(text)["resultTable"]["rows"] == [[0]]


def test_a_limit_over_the_ceiling_is_refused_or_cut(limited: InProcessCluster) -> None:
    _limit(limited, response_rows_max=3)
    assert _error(limited.sql("SELECT n FROM t LIMIT 5"))[0] == 700
    _limit(limited, response_rows_max=3, limit_override=True)
    assert len(limited.sql("SELECT n FROM t LIMIT 5")["resultTable"]["rows"]) == 3
    assert len(limited.sql("SELECT n FROM t LIMIT 2")["resultTable"]["rows"]) == 2
    assert len(limited.pql("SELECT SUM(n) FROM t GROUP BY Word TOP 5")["aggregationResults"][0]["groupByResult"]) == 3


def test_letter_case_counts_in_sql_only_when_asked_for(limited: InProcessCluster) -> None:
    assert limited.sql("SELECT WORD FROM t LIMIT 1")["exceptions"] == []
    _limit(limited, case_insensitive=False)
    limited.broker.plans = type(limited.broker.plans)()
    assert _error(limited.sql("SELECT WORD FROM t LIMIT 1"))[0] == 710
    assert limited.sql("SELECT Word FROM t LIMIT 1")["exceptions"] == []


def test_answers_of_all_servers_together_are_bounded(limited: InProcessCluster) -> None:
    text = "SELECT Word, n FROM t LIMIT 2000"
    assert len(limited.sql(text)["resultTable"]["rows"]) == 2000
    _limit(limited, memory_max_bytes=30_000)  # each server's answer has some 20 kB
    code, message = _error(limited.sql(text))
    assert code == 200 and "pinot.broker.query.memory.maxBytes" in message


def test_a_query_finds_no_place_when_others_have_them(limited: InProcessCluster) -> None:
    usual = limited.broker.admission
    limited.broker.admission = Admission(running_max=0, waiting_max=0)
    assert _error(limited.sql("SELECT COUNT(*) FROM t"))[0] == 211
    limited.broker.admission = usual
    assert limited.sql("SELECT COUNT(*) FROM t")["resultTable"]["rows"] == [[2000]]
    assert usual.running == 0, "every query gave its place back"
