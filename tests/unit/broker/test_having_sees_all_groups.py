"""Proves that HAVING, ORDER BY and OFFSET see every group: more of them than the reference's servers keep (5 x LIMIT,
at least 5,000), of which few pass, spread over segments and servers so that no server alone knows a group's sum. The
oracle is numpy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig

PLAYERS, ROWS, SEGMENTS = 20_000, 30_000, 4
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "player", "dataType": "STRING"}, {"name": "raw", "dataType": "STRING"}],
        "metricFieldSpecs": [{"name": "runs", "dataType": "INT"}],
    }
)
CONFIG = TableConfig.from_json(
    {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "tableIndexConfig": {"noDictionaryColumns": ["raw"]},
    }
)


@pytest.fixture(scope="module")
def parts() -> list[tuple[Any, Any]]:
    """(player, runs) of every segment: each player's rows are in all of them."""
    chance = np.random.default_rng(11)
    return [(chance.integers(0, PLAYERS, ROWS), chance.integers(0, 100, ROWS)) for _ in range(SEGMENTS)]


@pytest.fixture(scope="module")
def cluster(parts: list[tuple[Any, Any]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    built = InProcessCluster(tmp_path_factory.mktemp("having"), num_servers=2)
    batches = []
    for players, runs in parts:
        names = pa.array([f"p{player:05d}" for player in players.tolist()])
        batches.append(
            [pa.RecordBatch.from_pydict({"player": names, "raw": names, "runs": pa.array(runs, pa.int32())})]
        )
    built.add_table(SCHEMA, CONFIG, batches)
    yield built
    built.close()


@pytest.fixture(scope="module")
def sums(parts: list[tuple[Any, Any]]) -> Any:
    players, runs = (np.concatenate(column) for column in zip(*parts, strict=True))
    return np.bincount(players, runs, PLAYERS).astype(np.int64)


@pytest.mark.parametrize("key", ["player", "raw"])
@pytest.mark.parametrize(
    "order", ["", " ORDER BY {key}", " ORDER BY SUM(runs) DESC, {key}", " ORDER BY COUNT(*), {key}"]
)
def test_the_few_groups_that_pass_are_all_found(cluster: InProcessCluster, sums: Any, key: str, order: str) -> None:
    floor = int(np.sort(sums)[-7])
    answer = cluster.sql(
        f"SELECT {key}, SUM(runs) FROM t GROUP BY {key} HAVING SUM(runs) >= {floor}{order.format(key=key)} LIMIT 50"
    )
    assert answer["exceptions"] == [] and not answer["numGroupsLimitReached"]
    expected = sorted([f"p{player:05d}", float(sums[player])] for player in np.flatnonzero(sums >= floor).tolist())
    assert len(expected) >= 7 and sorted(answer["resultTable"]["rows"]) == expected


def test_an_offset_skips_groups_behind_all_others(cluster: InProcessCluster, sums: Any) -> None:
    seen = [f"p{player:05d}" for player in np.flatnonzero(sums > 0).tolist()]
    answer = cluster.sql(
        "SELECT player FROM t GROUP BY player HAVING SUM(runs) > 0 ORDER BY player LIMIT 5 OFFSET 17000"
    )
    assert [row[0] for row in answer["resultTable"]["rows"]] == seen[17_000:17_005]
    distinct = cluster.sql("SELECT DISTINCT player FROM t WHERE runs > 0 ORDER BY player LIMIT 5 OFFSET 17000")
    assert [row[0] for row in distinct["resultTable"]["rows"]] == seen[17_000:17_005]
