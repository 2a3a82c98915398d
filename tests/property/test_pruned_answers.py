"""Random tables in the order of one column or cut at random, split into segments and servers, with partitions; random
questions in PQL and SQL: what brokers answer after pruning equals DuckDB's answer, and its counters those of the query
over all segments.

1,000 questions run in the fast tier, 10,000 others in the full one. A failure prints its seed.
"""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import duck_oracle
import pytest
from in_process import InProcessCluster
from random_queries import Question, check, random_question
from random_tables import RandomTable, random_table, sort_value
from thinning import cases

from pinotpy.config.table import TableConfig

QUESTIONS_PER_TABLE = 25
CHUNKS = 20
TABLES_PER_CHUNK = 2
FULL_TABLES = cases(10_000, multiple_of=QUESTIONS_PER_TABLE * CHUNKS) // QUESTIONS_PER_TABLE // CHUNKS
FULL_START = 1_000_000


# How often another question is drawn in the place of one that does not ask for the column that segments go by.
DRAWN_MAX = 4


def prunable_table(rng: random.Random) -> tuple[RandomTable, str]:
    """Many segments, most often in the order of a column, of which one may be partitioned. With the name of the column
    by which most can be pruned.
    """
    table = random_table(rng, rows_max=80)
    while not 8 <= table.num_rows <= 400:
        table = random_table(rng, rows_max=80)
    plain = [column for column in table.columns if column.single_value]
    cells, ordered_by = table.cells, ""
    if plain and rng.random() < 0.85:
        by = rng.choice(plain)
        ordered_by = by.name
        filled = [by.default if cell is None else cell for cell in cells[by.name]]
        order = sorted(range(table.num_rows), key=lambda row: sort_value(filled[row]))
        cells = {name: [values[row] for row in order] for name, values in cells.items()}
    cuts = tuple(sorted(rng.sample(range(1, table.num_rows), min(rng.choice([1, 3, 7]), table.num_rows - 1))))
    document = table.config.to_json_dict()
    whole = [column for column in plain if column.type in ("INT", "LONG", "STRING", "BOOLEAN")]
    if whole and rng.random() < 0.7:
        partitioned = rng.choice(whole).name
        ordered_by = ordered_by or partitioned
        functions = {"functionName": rng.choice(["Murmur", "HashCode"]), "numPartitions": rng.choice([2, 7, 64])}
        document["tableIndexConfig"]["segmentPartitionConfig"] = {"columnPartitionMap": {partitioned: functions}}
    return replace(table, cells=cells, cuts=cuts, config=TableConfig.from_json(document)), ordered_by


def asked_question(rng: random.Random, table: RandomTable, column: str) -> Question:
    """Most often with a condition on the column."""
    for _ in range(DRAWN_MAX):
        question = random_question(rng, table)
        if re.search(rf"\b{column}\b", question.text.partition(" WHERE ")[2].partition(" GROUP BY ")[0]):
            break
    return question


def counters(answer: dict[str, Any]) -> tuple[Any, ...]:
    """What does not depend on who prunes."""
    pruned = answer["numSegmentsPrunedByBroker"]
    return (
        answer["totalDocs"],
        answer["numSegmentsQueried"] + pruned,
        answer["numSegmentsMatched"],
        answer["numDocsScanned"],
        answer["partialResult"],
    )


def run_seed(seed: int, directory: Path) -> tuple[int, int]:
    """Ask about the table of `seed`; return over how many segments, and how many of them the broker left out."""
    rng = random.Random(seed)
    table, column = prunable_table(rng)
    cluster = InProcessCluster(directory / str(seed), num_servers=rng.choice([1, 2, 3]), threads=1, prunes=True)
    connection = duck_oracle.load(table, null_handling=table.null_handling)
    options = f"preserveType=true;enableNullHandling={str(table.null_handling).lower()}"
    num_segments = num_pruned = 0
    try:
        cluster.add_table(table.schema, table.config, table.splits())
        for number in range(QUESTIONS_PER_TABLE):
            question = asked_question(rng, table, column)
            ask = cluster.pql if question.dialect == "pql" else cluster.sql
            answer = ask(question.text, query_options=options)
            try:
                check(question, answer, connection, null_handling=table.null_handling)
                over_all = ask(question.text, query_options=f"{options};skipBrokerPruning=true")
                assert over_all["numSegmentsPrunedByBroker"] == 0
                if question.kind != "selection":  # without an order LIMIT takes what comes first
                    assert counters(answer) == counters(over_all)
                assert answer["totalDocs"] == table.num_rows
                assert 1 <= answer["numServersQueried"] == answer["numServersResponded"]
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, question {number}: {question.text}\n{error}") from error
            num_segments += len(table.cuts) + 1
            num_pruned += answer["numSegmentsPrunedByBroker"]
    finally:
        connection.close()
        cluster.close()
    return num_segments, num_pruned


def run(seeds: range, directory: Path) -> None:
    counts = [run_seed(seed, directory) for seed in seeds]
    num_segments, num_pruned = (sum(column) for column in zip(*counts, strict=True))
    print(f"{num_pruned} of {num_segments} segments pruned")
    assert num_pruned, f"none of {num_segments} segments is pruned"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_pruned_answers_equal_duckdb(chunk: int, tmp_path: Path) -> None:
    run(range(chunk * TABLES_PER_CHUNK, (chunk + 1) * TABLES_PER_CHUNK), tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_many_more_pruned_answers_equal_duckdb(chunk: int, tmp_path: Path) -> None:
    """Other seeds than the fast tier's."""
    first = FULL_START + chunk * FULL_TABLES
    run(range(first, first + FULL_TABLES), tmp_path)
