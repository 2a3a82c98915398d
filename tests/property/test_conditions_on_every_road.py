"""One rule for comparing numbers of different types, wherever a condition stands: random conditions over values near
the edges of their types (2^24, 2^53, 2^63, subnormals, -0.0, NaN, infinities, literals with many digits) are asked in
WHERE, FILTER, SELECT, CASE, HAVING, IS [NOT] TRUE, NOT and IS NULL, over any indexes, encodings, segments, partitions
and star-trees. Every answer is what exact arithmetic finds in the rows, so that a condition, its negation and its null
case part them.

60 conditions run in the fast tier, 2,000 others in the full one, `make fuzz N=…` runs more. A failure prints its seed:
replay it with PINOTPY_FUZZ_SEED=… alone.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from in_process import InProcessCluster
from index_ways import WAYS, index_way
from number_conditions import Condition, Conditions, edge_table
from thinning import cases

CONDITIONS_PER_TABLE = 20
CONDITIONS = int(os.environ.get("PINOTPY_FUZZ", "60"))
START = int(os.environ.get("PINOTPY_FUZZ_START", "0")) + 11_000_000
FULL_START, CHUNKS = 12_000_000, 2
FULL_CONDITIONS = cases(2_000, multiple_of=CONDITIONS_PER_TABLE * CHUNKS)


def check_condition(
    cluster: InProcessCluster,
    condition: Condition,
    rows: list[dict[str, Any]],
    columns: str,
    turn: int,
    *,
    null_handling: bool,
) -> None:
    """Ask it on every road (of some that are alike one, in turn); AssertionError with the road that goes elsewhere."""
    p = condition.text
    truths = {row["id"]: condition.holds(row) for row in rows}
    true, false, unknown = (
        [number for number, truth in truths.items() if truth is wanted] for wanted in (True, False, None)
    )
    assert null_handling or not unknown
    selecting = {
        f"WHERE {p}": true,
        f"WHERE NOT ({p})": false,
        f"WHERE ({p}) IS NULL": unknown,
    }
    text, ids = (
        (f"({p}) IS TRUE", true),
        (f"({p}) IS NOT TRUE", false + unknown),
        (f"CASE WHEN {p} THEN TRUE ELSE FALSE END", true),
    )[turn % 3]
    selecting[f"WHERE {text}"] = ids
    if null_handling or not condition.asks_nulls:
        selecting[f"GROUP BY id, {columns} HAVING {p}"] = true
    expected = {
        f"SELECT id FROM t {text} LIMIT 1000": [[number] for number in sorted(ids)] for text, ids in selecting.items()
    }
    values = (
        f"SELECT id, {p}, CASE WHEN {p} THEN 1 ELSE 0 END, ({p}) IS TRUE, ({p}) IS NOT TRUE, NOT ({p}), ({p}) IS "
        "NULL FROM t LIMIT 1000"
    )
    expected[values] = [
        [
            number,
            truth,
            int(truth is True),
            truth is True,
            truth is not True,
            None if truth is None else not truth,
            truth is None,
        ]
        for number, truth in truths.items()
    ]
    counts = f"COUNT(*) FILTER (WHERE {p}), COUNT(*) FILTER (WHERE NOT ({p})), COUNT(*) FILTER (WHERE ({p}) IS NULL)"
    expected[f"SELECT {counts}, SUM(CASE WHEN {p} THEN id ELSE 0 END) FROM t"] = [
        [len(true), len(false), len(unknown), float(sum(true))]
    ]
    text, ids = ((p, true), (f"NOT ({p})", false))[turn % 2]  # a star-tree answers these where it can
    expected[f"SELECT COUNT(*), SUM(id) FROM t WHERE {text}"] = [
        [len(ids), float(sum(ids)) if ids else None if null_handling else 0.0]
    ]
    answers = cluster.sql_all(list(expected), query_options=f"enableNullHandling={str(null_handling).lower()}")
    for (text, wanted), answer in zip(expected.items(), answers, strict=True):
        assert not answer["exceptions"], f"{text}\n{answer['exceptions']}"
        found = sorted(answer["resultTable"]["rows"], key=lambda row: row[0])
        assert found == wanted, f"{text}\nfound {found}\nexpected {wanted}"


def run_seed(seed: int, directory: Path) -> int:
    """Ask the conditions of one table; gives how many there were."""
    rng = random.Random(seed)
    table = edge_table(rng)
    names = [column.name for column in table.columns]
    rows = [dict(zip(names, cells, strict=True)) for cells in zip(*(table.cells[name] for name in names), strict=True)]
    cluster = InProcessCluster(directory / str(seed), num_servers=rng.choice([1, 1, 2]), threads=1)
    try:
        cluster.add_table(table.schema, table.config, table.splits(), by_reload=seed % 4 == 1, mixed_forms=True)
        for number in range(CONDITIONS_PER_TABLE):
            null_handling = rng.random() < 0.5
            condition = Conditions(rng, table, null_handling=null_handling).next()
            way = WAYS[(seed + number) % len(WAYS)]
            try:
                with index_way(way):
                    check_condition(cluster, condition, rows, ", ".join(names[1:]), number, null_handling=null_handling)
            except Exception as error:
                mode = "with nulls" if null_handling else "plain"
                raise AssertionError(
                    f"seed {seed}, condition {number}, {mode}, indexes {way}: {condition.text}\n{error}"
                ) from error
    finally:
        cluster.close()
    return CONDITIONS_PER_TABLE


def test_random_conditions_equal_exact_arithmetic_on_every_road(tmp_path: Path) -> None:
    only = os.environ.get("PINOTPY_FUZZ_SEED")
    seeds = [int(only)] if only else range(START, START + -(-CONDITIONS // CONDITIONS_PER_TABLE))
    print(f"{sum(run_seed(seed, tmp_path) for seed in seeds)} conditions on every road")


@pytest.mark.full
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_many_more_random_conditions_on_every_road(chunk: int, tmp_path: Path) -> None:
    """Other seeds than the fast tier's."""
    tables = FULL_CONDITIONS // CONDITIONS_PER_TABLE // CHUNKS
    for seed in range(FULL_START + chunk * tables, FULL_START + (chunk + 1) * tables):
        run_seed(seed, tmp_path)
