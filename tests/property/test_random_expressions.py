"""Random expressions (arithmetic, casts, CASE, comparisons, text, dates, arrays; nested) in select lists, filters,
group keys, orders and as arguments of aggregations, over random tables (types, multi-values, encodings, indexes,
splits, servers, threads, both null modes): every answer equals DuckDB's, values in full.

500 queries run in the fast tier, 3,000 others in the full one; `make fuzz N=…` runs more. A failure prints its seed:
replay it with PINOTPY_FUZZ_SEED=… alone.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import duck_oracle
import pytest
from expression_oracle import define_macros
from expression_questions import check_expressions, random_expression_question
from in_process import InProcessCluster
from random_expressions import can_compute
from random_tables import random_table
from thinning import cases

QUERIES_PER_TABLE = 25
QUERIES = int(os.environ.get("PINOTPY_FUZZ", "500"))
CHUNKS = 10
TABLES_PER_CHUNK = max(1, QUERIES // QUERIES_PER_TABLE // CHUNKS)
START = int(os.environ.get("PINOTPY_FUZZ_START", "0")) + 5_000_000


def run_seed(seed: int, directory: Path) -> int:
    """Build the table of `seed`, ask its queries, compare; return how many were asked."""
    rng = random.Random(seed)
    table = random_table(rng)
    while not can_compute(table):
        table = random_table(rng)
    cluster = InProcessCluster(directory / str(seed), num_servers=rng.choice([1, 1, 2]), threads=rng.choice([1, 2]))
    connection = duck_oracle.load(table, null_handling=table.null_handling)
    define_macros(connection)
    try:
        cluster.add_table(table.schema, table.config, table.splits())
        for number in range(QUERIES_PER_TABLE):
            question = random_expression_question(rng, table, connection)
            ask = cluster.pql if question.dialect == "pql" else cluster.sql
            answer = ask(
                question.text, query_options=f"preserveType=true;enableNullHandling={str(table.null_handling).lower()}"
            )
            try:
                check_expressions(question, answer, connection, null_handling=table.null_handling)
            except Exception as error:
                raise AssertionError(
                    f"seed {seed}, query {number}\n{question.dialect}: {question.text}\nduck: {question.duck}\n{error}"
                ) from error
    finally:
        connection.close()
        cluster.close()
    return QUERIES_PER_TABLE


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_expressions_equal_duckdb(chunk: int, tmp_path: Path) -> None:
    only = os.environ.get("PINOTPY_FUZZ_SEED")
    seeds = [int(only)] if only else range(START + chunk * TABLES_PER_CHUNK, START + (chunk + 1) * TABLES_PER_CHUNK)
    asked = sum(run_seed(seed, tmp_path) for seed in seeds)
    print(f"{asked} random queries over expressions")
    assert asked >= QUERIES_PER_TABLE


FULL_QUERIES = cases(3_000, multiple_of=QUERIES_PER_TABLE * CHUNKS)
FULL_START = 6_000_000


@pytest.mark.full
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_many_more_random_expressions_agree_with_duckdb(chunk: int, tmp_path: Path) -> None:
    """Other seeds than the fast tier's."""
    tables = FULL_QUERIES // QUERIES_PER_TABLE // CHUNKS
    first = FULL_START + chunk * tables
    asked = sum(run_seed(seed, tmp_path) for seed in range(first, first + tables))
    print(f"{asked} random queries over expressions")
    assert asked == FULL_QUERIES // CHUNKS
