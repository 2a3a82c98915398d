"""Proves that merging groups, different rows and sets of values by partitions gives the answer of merging all at once,
for keys and values of all types, in both dialects, with nulls, HAVING, ORDER BY and OFFSET; and that a merge can be
ended.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.broker import reducing
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.decimals import encode_decimal
from pinotpy.errors import QueryTimeoutError
from pinotpy.pql.ast import Dialect, Identifier
from pinotpy.query.model.context import OutputColumn, QueryContext, QueryKind, QueryOptions
from pinotpy.query.result import partitioned_merge
from pinotpy.query.result.merge_memory import MergePlan, exceeds_groups_limit
from pinotpy.query.result.partial import PartialResult
from pinotpy.query.result.partitioned_merge import merge_by_partitions

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "enableColumnBasedNullHandling": True,
        "dimensionFieldSpecs": [
            {"name": "i", "dataType": "INT"},
            {"name": "l", "dataType": "LONG"},
            {"name": "f", "dataType": "FLOAT"},
            {"name": "d", "dataType": "DOUBLE"},
            {"name": "s", "dataType": "STRING"},
            {"name": "y", "dataType": "BYTES"},
            {"name": "o", "dataType": "BOOLEAN"},
            {"name": "b", "dataType": "BIG_DECIMAL"},
            {"name": "m", "dataType": "STRING", "singleValueField": False},
        ],
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
POOLS: dict[str, list[Any]] = {
    "i": [*range(-20, 20), 2**31 - 1],
    "l": [*range(0, 10**15, 10**13), -(2**63) + 1],
    "f": [0.0, -0.0, 1.5, float("nan"), float("inf")],
    "d": [k / 7 for k in range(60)] + [0.0, -0.0, float("nan"), 1e300],
    "s": ["", "a", *(f"a long common beginning {k:04d} and a common end" for k in range(90)), "ß€😀"],
    "y": [b"", b"\0", b"\0\0", *(bytes([k, 255]) for k in range(40))],
    "o": [True, False],
    "b": [encode_decimal(Decimal(text)) for text in ("0", "-1.5", "123456789012345678901234567890", "1e-9")],
    "m": [[], ["x"], ["x", "y"], ["z", "z", "w"]],
}
KEYS = ["i", "l", "f", "d", "s", "y", "o", "b", "m", "i, s", "s, l", "o, b, y", "d, f", "m, i"]
SETS = [*(f"DISTINCTCOUNT({name})" for name in POOLS), "DISTINCTCOUNTBITMAP(l)", "DISTINCTCOUNTBITMAP(s)"]
VALUES = ["COUNT(*)", "SUM(i)", "MIN(d)", "MAX(l)", "AVG(i)", "DISTINCTCOUNT(s)", "COUNT(s)"]


def rows(rng: random.Random, count: int) -> pa.RecordBatch:
    columns = {}
    for name, pool in POOLS.items():
        known = rng.sample(pool, max(1, len(pool) * 2 // 3))
        kind = SCHEMA.field_specs[name].data_type.arrow
        values = [None if rng.random() < 0.08 else rng.choice(known) for _ in range(count)]
        columns[name] = pa.array(values, pa.list_(kind) if name == "m" else kind)
    return pa.record_batch(columns)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    rng = random.Random(20261128)
    cluster = InProcessCluster(tmp_path_factory.mktemp("cluster"), num_servers=3)
    cluster.add_table(SCHEMA, CONFIG, [[rows(rng, 700)] for _ in range(5)])
    yield cluster
    cluster.close()


@pytest.fixture
def by_partitions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Everything but selections is merged in eight partitions; the list has one entry a merge."""
    merges: list[int] = []

    def merged(context: QueryContext, partials: list[PartialResult], *rest: Any) -> PartialResult:
        merges.append(len(partials))
        return merge_by_partitions(context, partials, *rest)

    def planned(context: QueryContext, partials: list[PartialResult]) -> MergePlan:
        is_limited = exceeds_groups_limit(context, partials)
        return MergePlan(0, context.kind is not QueryKind.SELECTION, 1 if is_limited else 8)

    monkeypatch.setattr(reducing, "INLINE_REDUCE_BYTES_MAX", -1)
    monkeypatch.setattr(reducing, "plan_merge", planned)
    monkeypatch.setattr(reducing, "merge_by_partitions", merged)
    monkeypatch.setattr(partitioned_merge, "num_parts", lambda size_bytes: 8)
    return merges


def questions() -> list[tuple[Dialect, str]]:
    found = []
    for key in KEYS:
        order = ", ".join(f"{part} DESC" for part in key.split(", "))
        before = f"SET enableNullHandling = {'true' if len(found) % 4 else 'false'}; "
        shown = f"SELECT {key}, {', '.join(VALUES)} FROM t GROUP BY {key}"
        found += [
            (Dialect.SQL, f"{before}{shown} ORDER BY {order} LIMIT 100000"),
            (Dialect.SQL, f"{before}{shown} ORDER BY COUNT(*) DESC, {order} LIMIT 7 OFFSET 3"),
            (Dialect.SQL, f"{before}{shown} HAVING COUNT(*) > 4 ORDER BY SUM(i), {order} LIMIT 9"),
        ]
        found += [
            (Dialect.PQL, f"SELECT {', '.join(VALUES[:4])} FROM t GROUP BY {key} TOP 6"),
            (Dialect.PQL, f"SELECT COUNT(*), SUM(i) FROM t GROUP BY {key} HAVING COUNT(*) > 5 TOP 20"),
            (Dialect.SQL, f"SELECT {key}, COUNT(*) FROM t WHERE i = 12345 GROUP BY {key} LIMIT 5"),
        ]
        found += [
            (Dialect.SQL, f"{before}SELECT DISTINCT {key} FROM t ORDER BY {order} LIMIT 1000"),
            (Dialect.SQL, f"{before}SELECT DISTINCT {key} FROM t ORDER BY {order} LIMIT 5 OFFSET 2"),
            (Dialect.SQL, f"{before}SELECT DISTINCT {key} FROM t WHERE i = 12345 ORDER BY {order} LIMIT 5"),
        ]
        if "m" not in key:  # PQL has no DISTINCT of multi-values
            found.append((Dialect.PQL, f"SELECT DISTINCT({key}) FROM t ORDER BY {order} LIMIT 9"))
    for dialect in (Dialect.SQL, Dialect.PQL):
        for where in ("", " WHERE i < 3", " WHERE i = 12345"):
            found.append((dialect, f"SELECT {', '.join([*SETS, *VALUES])} FROM t{where}"))
    # Few groups of many values, and one group that has most of them.
    sets = ", ".join([*SETS, "COUNT(DISTINCT i, s)"])
    found += [
        (Dialect.SQL, f"SET enableNullHandling = true; SELECT o, {sets} FROM t GROUP BY o ORDER BY o LIMIT 5"),
        (Dialect.SQL, f"SELECT f, {sets} FROM t GROUP BY f ORDER BY DISTINCTCOUNT(d) DESC, f LIMIT 3"),
        (Dialect.SQL, f"SELECT CASE WHEN i < 18 THEN 0 ELSE i END AS c, {sets} FROM t GROUP BY c ORDER BY c LIMIT 50"),
        (Dialect.SQL, f"SELECT s, {sets} FROM t GROUP BY s HAVING DISTINCTCOUNT(l) > 5 ORDER BY s LIMIT 100"),
        (Dialect.SQL, f"SELECT {sets} FROM t"),
    ]
    return found


def answered(cluster: InProcessCluster, dialect: Dialect, text: str) -> dict[str, Any]:
    answer = cluster.ask(text, dialect)
    changing = ("timeUsedMs", "requestId", "reduceTimeMs", "brokerReduceTimeMs")
    return {key: value for key, value in answer.items() if key not in changing and not key.endswith(("Ms", "Ns"))}


def test_answers_are_those_of_merging_all_at_once(
    cluster: InProcessCluster, by_partitions: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = questions()
    in_partitions = [answered(cluster, *question) for question in asked]
    assert len(by_partitions) == len(asked)
    monkeypatch.setattr(reducing, "plan_merge", lambda context, partials: MergePlan(0))
    for question, found in zip(asked, in_partitions, strict=True):
        assert found == answered(cluster, *question), question
    assert len(by_partitions) == len(asked)
    assert sum(not found["exceptions"] for found in in_partitions) == len(asked)


@pytest.mark.parametrize("having", ["", " HAVING COUNT(*) > 3"])
def test_without_order_any_groups_are_right_and_each_is_whole(
    cluster: InProcessCluster, by_partitions: list[int], having: str
) -> None:
    everything = cluster.sql("SELECT l, COUNT(*), SUM(i) FROM t GROUP BY l LIMIT 100000")["resultTable"]["rows"]
    shown = cluster.sql(f"SELECT l, COUNT(*), SUM(i) FROM t GROUP BY l{having} LIMIT 9 OFFSET 2")["resultTable"]["rows"]
    assert len(shown) == 9 and len({row[0] for row in shown}) == 9
    assert all(row in everything and (not having or row[1] > 3) for row in shown)
    assert len(by_partitions) == 2


def test_without_order_any_different_rows_are_right(cluster: InProcessCluster, by_partitions: list[int]) -> None:
    everything = cluster.sql("SELECT DISTINCT l, o FROM t LIMIT 100000")["resultTable"]["rows"]
    shown = cluster.sql("SELECT DISTINCT l, o FROM t LIMIT 9 OFFSET 2")["resultTable"]["rows"]
    assert len(shown) == 9 and len({tuple(row) for row in shown}) == 9
    assert all(row in everything for row in shown) and len({tuple(row) for row in everything}) == len(everything)
    assert len(by_partitions) == 2


def test_a_limit_on_groups_is_kept(cluster: InProcessCluster, by_partitions: list[int]) -> None:
    answer = cluster.sql("SET numGroupsLimit = 20; SELECT l, COUNT(*) FROM t GROUP BY l LIMIT 100000")
    assert len(answer["resultTable"]["rows"]) <= 20 and answer["numGroupsLimitReached"] is True


def drawn(count: int) -> tuple[QueryContext, list[PartialResult]]:
    key = Identifier("k")
    context = QueryContext(
        Dialect.SQL,
        QueryKind.GROUP_BY,
        "t",
        (OutputColumn("k", key),),
        group_by=(key,),
        limit=5,
        options=QueryOptions(),
    )
    return context, [PartialResult(pa.table({"k0": pa.array(np.arange(count))})) for _ in range(2)]


def test_a_merge_that_is_too_late_ends() -> None:
    context, partials = drawn(1_000)

    def check() -> None:
        raise QueryTimeoutError("too late")

    with pytest.raises(QueryTimeoutError):
        merge_by_partitions(context, partials, 8, check)
