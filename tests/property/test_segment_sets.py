"""Random tables whose segments are served as one set, as two and as three (SegmentSets), over random queries in PQL and
SQL (its whole grammar): every answer equals DuckDB's, and the counters of several sets are those of the one.

250 queries run in the fast tier, 1,600 others in the full one.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import duck_oracle
import pytest
from in_process import InProcessCluster
from index_ways import WAYS, index_way
from metamorphic import cut_anew
from random_queries import check, random_question
from random_tables import RandomTable, random_table
from split_registry import SplitRegistry
from sql_answers import check_sql
from sql_questions import SqlQuestions
from sql_tables import load_both, sql_table
from thinning import cases

QUERIES_PER_TABLE = 25
START = 4_200_000
# Not among them: numEntriesScannedInFilter, since every plan orders the conditions under AND by its own segments'
# estimates, and numEntriesScannedPostFilter, since the dictionaries of one set may answer where those of all do not.
COUNTERS = (
    "numDocsScanned",
    "numSegmentsQueried",
    "numSegmentsProcessed",
    "numSegmentsMatched",
    "numGroupsLimitReached",
    "totalDocs",
)
POST_FILTER = "numEntriesScannedPostFilter"


class ThreeSets(SplitRegistry):
    num_sets = 3


def several_segments(rng: random.Random, table: RandomTable) -> RandomTable:
    """The table cut so that there are segments for three sets, if it has the rows."""
    cuts = (
        rng.sample(range(1, table.num_rows), min(rng.randint(2, 7), table.num_rows - 1)) if table.num_rows > 1 else ()
    )
    return cut_anew(table, cuts)


def clusters(table: RandomTable, directory: Path, threads: int) -> list[InProcessCluster]:
    """The same built segments in one set, in two and in three."""
    served = [InProcessCluster(directory, threads=threads)]
    names = served[0].add_table(table.schema, table.config, table.splits())
    folder = directory / table.config.raw_table_name
    for registry in (SplitRegistry, ThreeSets):
        served.append(InProcessCluster(directory, threads=threads, registry=registry))
        served[-1].add_built_table(table.schema, table.config, [folder / name for name in names])
    return served


def counters(answer: dict[str, Any], *, has_trees: bool) -> dict[str, Any]:
    """The counters that are equal. Of trees records are scanned, and each plan decides by its own whether to."""
    names = COUNTERS[1:] if has_trees else COUNTERS
    return {name: answer[name] for name in names if name in answer}


def run_seed(seed: int, directory: Path) -> int:
    """Build the table of `seed`, ask its queries of one, two and three sets, compare; return how many were asked."""
    rng = random.Random(seed)
    table = several_segments(rng, random_table(rng))
    served = clusters(table, directory / str(seed), threads=1)
    connection = duck_oracle.load(table, null_handling=table.null_handling)
    way, has_trees = WAYS[seed % len(WAYS)], bool(table.config.indexing.star_tree_index_configs)
    try:
        for number in range(QUERIES_PER_TABLE):
            question = random_question(rng, table)
            options = f"preserveType=true;enableNullHandling={str(table.null_handling).lower()}"
            answers = []
            for cluster in served:
                ask = cluster.pql if question.dialect == "pql" else cluster.sql
                with index_way(way):
                    answers.append(ask(question.text, query_options=options))
            try:
                for answer in answers:
                    check(question, answer, connection, null_handling=table.null_handling)
                    assert counters(answer, has_trees=has_trees) == counters(answers[0], has_trees=has_trees)
                    assert answer[POST_FILTER] <= answers[0][POST_FILTER]
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, query {number}, {way}\n{question.text}\n{error}") from error
    finally:
        connection.close()
        for cluster in served:
            cluster.close()
    return QUERIES_PER_TABLE


def run_sql_seed(seed: int, directory: Path) -> int:
    """The same with queries of SQL's whole grammar."""
    rng = random.Random(seed)
    table = several_segments(rng, sql_table(rng))
    served = clusters(table, directory / str(seed), threads=1)
    connection = load_both(table)
    way, has_trees = WAYS[seed % len(WAYS)], bool(table.config.indexing.star_tree_index_configs)
    questions = SqlQuestions(rng, table, Counter())
    try:
        for number in range(QUERIES_PER_TABLE):
            question = questions.next()
            options = f"enableNullHandling={str(question.null_handling).lower()}"
            answers = []
            for cluster in served:
                with index_way(way):
                    answers.append(cluster.sql(question.text, query_options=options))
            try:
                for answer in answers:
                    check_sql(question, answer, connection)
                    assert counters(answer, has_trees=has_trees) == counters(answers[0], has_trees=has_trees)
                    assert answer[POST_FILTER] <= answers[0][POST_FILTER]
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, query {number}, {way}\n{question.text}\n{error}") from error
    finally:
        connection.close()
        for cluster in served:
            cluster.close()
    return QUERIES_PER_TABLE


@pytest.mark.parametrize("chunk", range(3))
def test_one_set_and_several_give_the_same_answers(chunk: int, tmp_path: Path) -> None:
    first = START + 2 * chunk
    assert sum(run_seed(seed, tmp_path) for seed in range(first, first + 2)) == 50


@pytest.mark.parametrize("chunk", range(2))
def test_one_set_and_several_give_the_same_answers_to_sql(chunk: int, tmp_path: Path) -> None:
    first = START + 500_000 + 2 * chunk
    assert sum(run_sql_seed(seed, tmp_path) for seed in range(first, first + 2)) == 50


TABLES = cases(8)  # of each chunk in the full tier


@pytest.mark.full
@pytest.mark.parametrize("chunk", range(4))
def test_one_set_and_several_give_the_same_answers_to_many_more(chunk: int, tmp_path: Path) -> None:
    first = START + 10_000 + 8 * chunk
    asked = sum(run_seed(seed, tmp_path) for seed in range(first, first + TABLES))
    print(f"{asked} random queries")
    assert asked == QUERIES_PER_TABLE * TABLES


@pytest.mark.full
@pytest.mark.parametrize("chunk", range(4))
def test_one_set_and_several_give_the_same_answers_to_much_more_sql(chunk: int, tmp_path: Path) -> None:
    first = START + 600_000 + 8 * chunk
    asked = sum(run_sql_seed(seed, tmp_path) for seed in range(first, first + TABLES))
    print(f"{asked} random SQL queries")
    assert asked == QUERIES_PER_TABLE * TABLES
