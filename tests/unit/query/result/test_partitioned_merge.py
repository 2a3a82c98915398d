"""Proves that merging groups by partitions gives the answer of merging all at once, for keys and values of all types,
in both dialects, with nulls, HAVING, ORDER BY and OFFSET; that equal keys are in one partition, wherever they lie in
memory, and others in all of them; and that a merge can be ended.
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
from pinotpy.broker.query_memory import merge_bytes
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.decimals import encode_decimal
from pinotpy.errors import QueryTimeoutError
from pinotpy.pql.ast import Dialect, Identifier
from pinotpy.query.model.context import OutputColumn, QueryContext, QueryKind, QueryOptions
from pinotpy.query.result.partial import PartialResult
from pinotpy.query.result.partitioned_merge import _rows_by_partition, exceeds_groups_limit, merge_by_partitions

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
    """Every GROUP BY is merged in eight partitions; the list has one entry a merge."""
    merges: list[int] = []

    def merged(context: QueryContext, partials: list[PartialResult], *rest: Any) -> PartialResult:
        merges.append(len(partials))
        return merge_by_partitions(context, partials, *rest)

    def divided(context: QueryContext, partials: list[PartialResult]) -> int:
        return 1 if context.kind is not QueryKind.GROUP_BY or exceeds_groups_limit(context, partials) else 8

    monkeypatch.setattr(reducing, "INLINE_REDUCE_BYTES_MAX", -1)
    monkeypatch.setattr(reducing, "merge_partitions", divided)
    monkeypatch.setattr(reducing, "merge_by_partitions", merged)
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
    monkeypatch.setattr(reducing, "merge_partitions", lambda context, partials: 1)
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


def test_a_limit_on_groups_is_kept(cluster: InProcessCluster, by_partitions: list[int]) -> None:
    answer = cluster.sql("SET numGroupsLimit = 20; SELECT l, COUNT(*) FROM t GROUP BY l LIMIT 100000")
    assert len(answer["resultTable"]["rows"]) <= 20 and answer["numGroupsLimitReached"] is True


ARRAYS = [
    pa.array([5, None, -5, 5, 0, None] * 50, pa.int32()),
    pa.array([2**62, None, -(2**63), 2**62, 7, 7] * 50, pa.int64()),
    pa.array([0.0, -0.0, float("nan"), -float("nan"), None, 1.5] * 50, pa.float64()),
    pa.array([0.0, -0.0, float("nan"), None, 2.5, 1.5] * 50, pa.float32()),
    pa.array([True, False, None, True, True, False] * 50),
    pa.array(["", "a", None, "aaaaaaaaaaaaaaaaaaaaaaaa", "ß", "a"] * 50),
    pa.array([b"", b"\0", None, b"\0\0", b"x" * 100, b"\0"] * 50),
]


@pytest.mark.parametrize("values", ARRAYS, ids=lambda values: str(values.type))
def test_equal_values_are_in_one_partition_wherever_they_lie(values: pa.Array) -> None:
    whole = [[values[int(row)].as_py() for row in rows] for rows in _rows_by_partition([values], 16)]
    part = values.slice(7, 201)
    cut = [[part[int(row)].as_py() for row in rows] for rows in _rows_by_partition([part], 16)]
    assert sum(map(len, whole)) == len(values) and sum(map(len, cut)) == 201
    # As text: NaN is not equal to itself; the zeros are equal and have two.
    places: dict[str, set[int]] = {}
    for partitions in (whole, cut):
        for number, found in enumerate(partitions):
            for value in found:
                places.setdefault(str(value).replace("-0.0", "0.0"), set()).add(number)
    assert all(len(numbers) == 1 for numbers in places.values()), places


@pytest.mark.parametrize(
    "values",
    [
        np.arange(50_000),
        np.arange(50_000) * 4096,
        np.arange(50_000) / 3,
        [f"user-{k}@example.com" for k in range(50_000)],
        [f"https://example.com/{k}/index.html" for k in range(50_000)],
        [f"{k}" for k in range(50_000)],
    ],
    ids=["numbers", "multiples", "doubles", "addresses", "urls", "digits"],
)
def test_different_values_spread_over_all_partitions(values: Any) -> None:
    sizes = [len(rows) for rows in _rows_by_partition([pa.array(values)], 64)]
    assert max(sizes) < 2 * 50_000 / 64, sizes


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


def test_a_partitioned_merge_takes_a_part_of_the_memory() -> None:
    context, partials = drawn(2_000_000)
    assert reducing.merge_partitions(context, partials) >= 16
    assert merge_bytes(context, partials, 32) * 5 < merge_bytes(context, partials)
    few = drawn(1_000)
    assert reducing.merge_partitions(*few) == 1
