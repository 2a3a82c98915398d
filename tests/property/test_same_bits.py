"""Any split of the same rows into segments, servers and threads, in any order of the replies, gives the same answer to
the last bit: sums of doubles between 1e-300 and 1e300 too, registers of HyperLogLog too. Estimates of t-digests stay
within their bound.

Answers are compared as JSON text; what they must be is proved by the random queries against DuckDB.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from metamorphic import ShufflingCluster, as_text, batches_of

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig

ROWS = 2_000
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "city", "dataType": "STRING"},
            {"name": "kind", "dataType": "INT"},
            {"name": "tags", "dataType": "STRING", "singleValueField": False},
            {"name": "parts", "dataType": "DOUBLE", "singleValueField": False},
        ],
        "metricFieldSpecs": [
            {"name": "amount", "dataType": "DOUBLE"},
            {"name": "share", "dataType": "FLOAT"},
            {"name": "count", "dataType": "LONG"},
        ],
    }
)
EXACT = (
    "SELECT SUM(amount), AVG(amount), MIN(amount), MAX(amount), MINMAXRANGE(amount), SUM(share), AVG(share), "
    'SUM("count"), AVG("count") FROM t',
    "SELECT SUM(amount * share), SUM(amount / (kind - 3)), AVG(share - amount), SUM(exp(share)), "
    "AVG(sqrt(abs(amount))) FROM t WHERE kind <> 3",
    "SELECT SUM(parts), AVG(parts), MIN(parts), MINMAXRANGE(parts), COUNTMV(tags), DISTINCTCOUNT(tags) FROM t",
    "SELECT DISTINCTCOUNT(city), DISTINCTCOUNT(amount), DISTINCTCOUNTBITMAP(city), DISTINCTCOUNT(kind % 3) FROM t",
    "SELECT PERCENTILE(amount, 5), PERCENTILE(amount, 50), PERCENTILE(share, 99), PERCENTILE(parts, 50), "
    "PERCENTILE(kind * share, 95) FROM t",
    "SELECT DISTINCTCOUNTHLL(city), DISTINCTCOUNTRAWHLL(city), DISTINCTCOUNTRAWHLL(amount), "
    'DISTINCTCOUNTRAWHLL("count"), DISTINCTCOUNTRAWHLL(tags) FROM t',
    "SELECT kind, SUM(amount), AVG(share), COUNT(*), SUM(amount - share) FROM t GROUP BY kind ORDER BY kind LIMIT 1000",
    "SELECT city, SUM(amount), AVG(amount), PERCENTILE(amount, 50), DISTINCTCOUNTRAWHLL(tags) FROM t "
    "GROUP BY city ORDER BY city LIMIT 1000",
    "SELECT tags, kind % 2, SUM(share), SUM(parts), MAX(amount) FROM t "
    "GROUP BY tags, kind % 2 ORDER BY tags, kind % 2 LIMIT 1000",
    "SELECT upper(city), SUM(amount) FROM t WHERE amount * 2 > share "
    "GROUP BY upper(city) ORDER BY SUM(amount) DESC, upper(city) LIMIT 20",
    "SELECT amount, share, city FROM t WHERE kind > 2 ORDER BY amount DESC, city, share LIMIT 50",
    "SELECT DISTINCT city, kind FROM t ORDER BY city, kind LIMIT 1000",
)
EXACT_PQL = (
    "SELECT SUM(amount), AVG(share), MIN(amount), MAX(count), DISTINCTCOUNTHLL(city), PERCENTILE50(amount), "
    "PERCENTILEEST90(kind) FROM t",
    "SELECT SUM(amount), AVG(amount), MAX(share) FROM t GROUP BY city, kind TOP 100000",
    "SELECT SUMMV(parts), DISTINCTCOUNTMV(tags), PERCENTILE95MV(parts) FROM t GROUP BY div(kind, 2) TOP 100000",
)


def arrays(rng: np.random.Generator) -> dict[str, pa.Array]:
    """Doubles of all magnitudes and both signs, so that another order of adding would show."""
    cities = [f"city {n} {'é' * (n % 3)}" for n in range(40)]

    def wild(size: int) -> Any:
        return (
            rng.choice([-1.0, 1.0], size)
            * rng.uniform(1, 10, size)
            * 10.0 ** rng.choice([-300, -20, -3, 0, 0, 0, 3, 16, 280], size)
        )

    return {
        "city": pa.array(rng.choice(cities, ROWS).tolist()),
        "kind": pa.array(rng.integers(0, 8, ROWS), pa.int32()),
        "tags": pa.array([rng.choice(cities, n).tolist() for n in rng.integers(1, 4, ROWS)], pa.list_(pa.string())),
        "parts": pa.array([wild(n).tolist() for n in rng.integers(1, 4, ROWS)], pa.list_(pa.float64())),
        "amount": pa.array(wild(ROWS)),
        "share": pa.array((rng.normal(0, 50, ROWS) * 10.0 ** rng.integers(-5, 5, ROWS)).astype(np.float32)),
        "count": pa.array(rng.integers(-(2**62), 2**62, ROWS)),
    }


def config(*, raw: bool) -> TableConfig:
    return TableConfig.from_json(
        {
            "tableName": "t", "tableType": "OFFLINE", "segmentsConfig": {"replication": "1"}, "tenants": {},
            "metadata": {},
            "tableIndexConfig": {"noDictionaryColumns": ["amount", "share", "count"] if raw else []},
        }
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(2))
def test_any_split_servers_threads_and_order_of_replies_give_the_same_bits(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    columns = arrays(np.random.default_rng(seed))
    first: list[str] = []
    for number, (segments, servers, threads) in enumerate(
        [(1, 1, 1), (2, 2, 1), (50, 3, 2), (rng.randint(3, 20), 2, 4), (rng.randint(3, 9), 3, 3)]
    ):
        cuts = sorted(rng.sample(range(1, ROWS), segments - 1))
        cluster = ShufflingCluster(tmp_path / str(number), rng, num_servers=servers, threads=threads)
        try:
            cluster.add_table(SCHEMA, config(raw=rng.random() < 0.5), batches_of(columns, cuts))
            texts = [as_text(cluster.sql(text, query_options="preserveType=true")) for text in EXACT]
            texts += [as_text(cluster.pql(text, query_options="preserveType=true")) for text in EXACT_PQL]
        finally:
            cluster.close()
        for question, text, expected in zip([*EXACT, *EXACT_PQL], texts, first or texts, strict=True):
            assert '"exceptions": []' in text, text[:500]
            assert text == expected, (
                f"{segments} segments on {servers} servers with {threads} threads: {question}\n{text[:500]}\nis "
                f"not\n{expected[:500]}"
            )
        first = first or texts


def test_estimates_of_any_split_stay_within_their_bound(tmp_path: Path) -> None:
    columns = arrays(np.random.default_rng(9))
    values = np.sort(columns["share"].to_numpy().astype(np.float64))
    for segments, servers in ((1, 1), (7, 2), (40, 3)):
        rng = random.Random(segments)
        cluster = ShufflingCluster(tmp_path / str(segments), rng, num_servers=servers, threads=2)
        try:
            cluster.add_table(
                SCHEMA, config(raw=True), batches_of(columns, sorted(rng.sample(range(1, ROWS), segments - 1)))
            )
            for function in ("PERCENTILETDIGEST", "PERCENTILEKLL"):
                for percentile in (5, 50, 95):
                    estimate = float(
                        cluster.sql(f"SELECT {function}(share, {percentile}) FROM t")["resultTable"]["rows"][0][0]
                    )
                    rank = np.searchsorted(values, estimate) / ROWS
                    assert abs(rank - percentile / 100) < 0.03, (
                        f"{function} {percentile} over {segments} segments: rank {rank}"
                    )
        finally:
            cluster.close()
