"""Random tables whose segments hide some of their rows (Segment.visible), with any encodings, indexes and star-trees,
over random queries in PQL and SQL (its whole grammar): every answer equals DuckDB's over the visible rows alone.

450 queries run in the fast tier, 1,600 others in the full one.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from pathlib import Path

import duck_oracle
import pytest
from hiding_segment import HidingSegment, visible_part
from in_process import InProcessCluster
from index_ways import WAYS, index_way
from random_queries import check, random_question
from random_tables import RandomTable, random_table
from sql_answers import check_sql
from sql_questions import SqlQuestions
from sql_tables import load_both, sql_table

QUERIES_PER_TABLE = 25
START = 4_100_000
CHUNKS = 4


def hide_some(rng: random.Random, table: RandomTable) -> tuple[list[bool], list[list[bool] | None]]:
    """Which rows of the table are visible; and of each segment, None where it hides nothing."""
    seen, hiding = list[bool](), list[list[bool] | None]()
    for low, high in itertools.pairwise([0, *table.cuts, table.num_rows]):
        share = rng.choice([0.0, 0.1, 0.5, 0.9, 1.0])
        part = [rng.random() < share for _ in range(high - low)]
        hiding.append(None if rng.random() < 0.2 else part)
        seen += [True] * len(part) if hiding[-1] is None else part
    return seen, hiding


def serve(cluster: InProcessCluster, table: RandomTable, hiding: list[list[bool] | None]) -> None:
    """The table's segments, each with the rows that it hides."""
    cluster.add_table(
        table.schema,
        table.config,
        table.splits(),
        as_served=lambda number, segment: HidingSegment(segment, hiding[number]),
    )


def run_seed(seed: int, directory: Path) -> int:
    """Build the table of `seed`, hide rows of it, ask its queries, compare; return how many were asked."""
    rng = random.Random(seed)
    table = random_table(rng)
    seen, hiding = hide_some(rng, table)
    cluster = InProcessCluster(directory / str(seed), num_servers=rng.choice([1, 1, 2]), threads=rng.choice([1, 2]))
    visible = visible_part(table, seen)
    connection = duck_oracle.load(visible, null_handling=table.null_handling)
    try:
        way = WAYS[seed % len(WAYS)]
        serve(cluster, table, hiding)
        for number in range(QUERIES_PER_TABLE):
            question = random_question(rng, table)
            ask = cluster.pql if question.dialect == "pql" else cluster.sql
            options = f"preserveType=true;enableNullHandling={str(table.null_handling).lower()}"
            with index_way(way):
                answer = ask(question.text, query_options=options)
            try:
                check(question, answer, connection, null_handling=table.null_handling)
            except AssertionError as error:
                raise AssertionError(
                    f"seed {seed}, query {number}, indexes {way}\n{question.dialect}: {question.text}\n{error}"
                ) from error
    finally:
        connection.close()
        cluster.close()
    return QUERIES_PER_TABLE


def run_sql_seed(seed: int, directory: Path) -> int:
    """The same with queries of SQL's whole grammar."""
    rng = random.Random(seed)
    table = sql_table(rng)
    seen, hiding = hide_some(rng, table)
    cluster = InProcessCluster(directory / str(seed), num_servers=rng.choice([1, 1, 2]), threads=rng.choice([1, 2]))
    connection = load_both(visible_part(table, seen))
    way = WAYS[seed % len(WAYS)]
    try:
        serve(cluster, table, hiding)
        questions = SqlQuestions(rng, table, Counter())
        for number in range(QUERIES_PER_TABLE):
            question = questions.next()
            options = f"enableNullHandling={str(question.null_handling).lower()}"
            with index_way(way):
                answer = cluster.sql(question.text, query_options=options)
            try:
                check_sql(question, answer, connection)
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, query {number}, indexes {way}\n{question.text}\n{error}") from error
    finally:
        connection.close()
        cluster.close()
    return QUERIES_PER_TABLE


@pytest.mark.parametrize("chunk", range(2))
def test_hidden_rows_are_in_no_answer_of_sql(chunk: int, tmp_path: Path) -> None:
    first = START + 500_000 + 3 * chunk
    assert sum(run_sql_seed(seed, tmp_path) for seed in range(first, first + 3)) == 75


@pytest.mark.full
@pytest.mark.parametrize("chunk", range(4))
def test_hidden_rows_are_in_no_answer_of_much_more_sql(chunk: int, tmp_path: Path) -> None:
    first = START + 600_000 + 8 * chunk
    asked = sum(run_sql_seed(seed, tmp_path) for seed in range(first, first + 8))
    print(f"{asked} random SQL queries")
    assert asked == 200


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_hidden_rows_are_in_no_answer(chunk: int, tmp_path: Path) -> None:
    assert sum(run_seed(seed, tmp_path) for seed in range(START + 3 * chunk, START + 3 * chunk + 3)) == 75


@pytest.mark.full
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_hidden_rows_are_in_no_answer_of_many_more(chunk: int, tmp_path: Path) -> None:
    first = START + 10_000 + 8 * chunk
    asked = sum(run_seed(seed, tmp_path) for seed in range(first, first + 8))
    print(f"{asked} random queries")
    assert asked == 200
