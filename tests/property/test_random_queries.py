"""Random tables (types, multi-values, nulls, extremes, unicode), random splits into segments and servers, random
encodings and indexes (built with the segments or by a reload, used as lists, as bits or as priced), random queries in
PQL and SQL: every answer equals DuckDB's.

1,000 queries run in the fast tier, 3,000 others in the full one; `make fuzz N=…` runs more. A failure prints its seed:
replay it with PINOTPY_FUZZ_SEED=… alone.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import duck_oracle
import pytest
from in_process import InProcessCluster
from index_ways import WAYS, index_way
from random_queries import check, random_question
from random_tables import random_table
from thinning import cases

QUERIES_PER_TABLE = 25
QUERIES = int(os.environ.get("PINOTPY_FUZZ", "1000"))
CHUNKS = 20
TABLES_PER_CHUNK = max(1, QUERIES // QUERIES_PER_TABLE // CHUNKS)
START = int(os.environ.get("PINOTPY_FUZZ_START", "0"))


def run_seed(seed: int, directory: Path) -> int:
    """Build the table of `seed`, ask its queries, compare; return how many were asked."""
    rng = random.Random(seed)
    table = random_table(rng)
    cluster = InProcessCluster(directory / str(seed), num_servers=rng.choice([1, 1, 2, 3]), threads=rng.choice([1, 2]))
    connection = duck_oracle.load(table, null_handling=table.null_handling)
    try:
        # Which indexes there are, how they came to be and how they are used must not change an answer.
        way = WAYS[seed % len(WAYS)]
        cluster.add_table(table.schema, table.config, table.splits(), by_reload=seed % 2 == 1, mixed_forms=True)
        for number in range(QUERIES_PER_TABLE):
            question = random_question(rng, table)
            ask = cluster.pql if question.dialect == "pql" else cluster.sql
            with index_way(way):
                answer = ask(
                    question.text,
                    query_options=f"preserveType=true;enableNullHandling={str(table.null_handling).lower()}",
                )
            try:
                check(question, answer, connection, null_handling=table.null_handling)
            except AssertionError as error:
                raise AssertionError(
                    f"seed {seed}, query {number}, indexes {way}\n{question.dialect}: {question.text}\nduck: "
                    f"{question.duck}\n{error}"
                ) from error
    finally:
        connection.close()
        cluster.close()
    return QUERIES_PER_TABLE


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_queries_equal_duckdb(chunk: int, tmp_path: Path) -> None:
    only = os.environ.get("PINOTPY_FUZZ_SEED")
    seeds = [int(only)] if only else range(START + chunk * TABLES_PER_CHUNK, START + (chunk + 1) * TABLES_PER_CHUNK)
    asked = sum(run_seed(seed, tmp_path) for seed in seeds)
    assert asked >= QUERIES_PER_TABLE


FULL_QUERIES = cases(3_000, multiple_of=QUERIES_PER_TABLE * CHUNKS)
FULL_START = 1_000_000


@pytest.mark.full
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_many_more_random_queries_equal_duckdb(chunk: int, tmp_path: Path) -> None:
    """Other seeds than the fast tier's."""
    tables = FULL_QUERIES // QUERIES_PER_TABLE // CHUNKS
    first = FULL_START + chunk * tables
    asked = sum(run_seed(seed, tmp_path) for seed in range(first, first + tables))
    print(f"{asked} random queries")
    assert asked == FULL_QUERIES // CHUNKS
