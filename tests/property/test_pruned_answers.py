"""Random tables with a time column, partitions, sorted columns, NaN and nulls of both modes, cut into segments by one
of their columns; random questions in PQL and SQL: what brokers answer after pruning equals DuckDB's answer, and has the
keys, columns, codes and counters of the answer over all segments; so do questions that are refused.

1,000 questions run in the fast tier, 10,000 others in the full one. A failure prints its seed.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import duck_oracle
import pytest
from in_process import InProcessCluster
from prunable_filters import narrow_question
from prunable_tables import PrunableTable, prunable_table
from pruned_comparison import broken_question, codes, counters, same_form
from random_queries import Question, check
from thinning import cases

from pinotpy.errors import PinotError
from pinotpy.pql.parser import parse_pql, parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.model.context import Predicate, QueryOptions

QUESTIONS_PER_TABLE = 25
BROKEN_PER_TABLE = 6
CHUNKS = 8
TABLES_PER_CHUNK = 5
FULL_CHUNKS = 20
FULL_TABLES = cases(10_000, multiple_of=QUESTIONS_PER_TABLE * FULL_CHUNKS) // QUESTIONS_PER_TABLE // FULL_CHUNKS
FULL_TABLES_MAX = 10_000 // QUESTIONS_PER_TABLE // FULL_CHUNKS
FULL_START = 1_000_000


def reasons(
    cluster: InProcessCluster, prunable: PrunableTable, question: Question, over_all: dict[str, Any]
) -> Counter[str]:
    """What left out segments: rules, and conditions by comparison and type of the column. Raises AssertionError if all
    were left out, and some have rows: the answer does not show that where one of these is asked for its types.
    """
    found: Counter[str] = Counter()
    pruner = cluster.catalog.targets["t"].halves[0].pruner
    assert pruner is not None
    statement = (parse_pql if question.dialect == "pql" else parse_sql)(question.text)
    table = prunable.table
    try:
        context = compile_query(statement, table.schema, QueryOptions(), null_handling=table.null_handling)
    except PinotError:
        return found
    pruning = pruner.explain(context).pruning
    assert pruning.kept.any() or not over_all["numSegmentsMatched"], "what has the rows is asked for its types alone"
    for rule, number in pruning.counts().items():
        found[f"by {rule.name}"] += number
    types = {column.name: column.type for column in table.columns}
    for finding in pruning.findings:
        if finding.num_excluded and isinstance(finding.condition, Predicate):
            left = getattr(finding.condition.lhs, "name", "function")
            word = "NOT " if finding.negated else ""
            found[f"{word}{finding.condition.comparison} {types.get(left, left)}"] += 1
    return found


class Run:
    """Questions about the tables of some seeds, and how many of them left out segments, and why."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.num_questions = self.num_pruning = self.num_refused = 0
        self.reasons: Counter[str] = Counter()

    def ask_about(self, seed: int) -> None:
        rng = random.Random(seed)
        prunable = prunable_table(rng)
        table = prunable.table
        cluster = InProcessCluster(
            self.directory / str(seed), num_servers=rng.choice([1, 2, 3]), threads=1, prunes=True
        )
        connection = duck_oracle.load(prunable.read, null_handling=table.null_handling)
        options = f"preserveType=true;enableNullHandling={str(table.null_handling).lower()}"
        try:
            cluster.add_table(table.schema, table.config, table.splits())
            for number in range(QUESTIONS_PER_TABLE + BROKEN_PER_TABLE):
                question = narrow_question(rng, prunable)
                text, is_broken = question.text, number >= QUESTIONS_PER_TABLE
                if is_broken:
                    where = text.partition(" WHERE ")[2].partition(" GROUP BY ")[0].partition(" ORDER BY ")[0]
                    text = broken_question(rng, table, where.partition(" LIMIT ")[0])
                ask = cluster.pql if question.dialect == "pql" else cluster.sql
                try:
                    answer = ask(text, query_options=options)
                    over_all = ask(text, query_options=f"{options};skipBrokerPruning=true")
                    assert over_all["numSegmentsPrunedByBroker"] == 0
                    same_form(answer, over_all)
                    if is_broken:
                        self.num_refused += bool(codes(answer))
                        continue
                    check(question, answer, connection, null_handling=table.null_handling)
                    if question.kind != "selection":  # without an order LIMIT takes what comes first
                        assert counters(answer) == counters(over_all)
                    assert answer["totalDocs"] == table.num_rows
                    assert 1 <= answer["numServersQueried"] == answer["numServersResponded"]
                    if answer["numSegmentsPrunedByBroker"]:
                        self.num_pruning += 1
                        self.reasons += reasons(cluster, prunable, question, over_all)
                except AssertionError as error:
                    raise AssertionError(f"seed {seed}, question {number}: {text}\n{error}") from error
                self.num_questions += 1
        finally:
            connection.close()
            cluster.close()


def run(seeds: range, directory: Path, least: float) -> None:
    """least: the share of questions that leave out segments; 0: there are too few tables to say."""
    asked = Run(directory)
    for seed in seeds:
        asked.ask_about(seed)
    print(f"{asked.num_pruning} of {asked.num_questions} questions leave out segments: {asked.reasons.most_common()}")
    print(f"{asked.num_refused} of {len(seeds) * BROKEN_PER_TABLE} broken questions are refused")
    assert asked.num_pruning >= least * asked.num_questions
    if least:
        assert asked.num_refused >= 0.5 * len(seeds) * BROKEN_PER_TABLE
        assert all(asked.reasons[f"by {rule}"] for rule in ("MIN_MAX", "PARTITION", "NEVER"))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_pruned_answers_equal_duckdb(chunk: int, tmp_path: Path) -> None:
    run(range(chunk * TABLES_PER_CHUNK, (chunk + 1) * TABLES_PER_CHUNK), tmp_path, least=0.5)


@pytest.mark.full
@pytest.mark.parametrize("chunk", range(FULL_CHUNKS))
def test_many_more_pruned_answers_equal_duckdb(chunk: int, tmp_path: Path) -> None:
    """Other seeds than the fast tier's. Two in three leave out segments; of a few tables none may have segments that
    differ.
    """
    first = FULL_START + chunk * FULL_TABLES
    run(range(first, first + FULL_TABLES), tmp_path, least=0.5 if FULL_TABLES == FULL_TABLES_MAX else 0.0)
