"""Random grouped and distinct queries of SQL's grammar under every grouping method that the option can force: what a
method serves is DuckDB's answer, what it cannot serve is refused with the reason, whichever servers hold the rows.

A failure prints its seed and its method.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from in_process import InProcessCluster
from sql_answers import check_sql
from sql_questions import SqlQuestions
from sql_tables import load_both, sql_table

from pinotpy.query.group import hash_table, radix_partition, top_n_groups
from pinotpy.query.model.grouping_method import GroupingMethod
from pinotpy.query.plan import build as scan
from pinotpy.segment.shared_codes.cache import SharedDictionaries

TABLES, QUERIES_PER_TABLE = 8, 40
START = 16_000_000


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes inside the methods, for tables of few rows."""
    monkeypatch.setattr(top_n_groups, "GROUPS_MIN", 1)
    monkeypatch.setattr(scan, "DOCS_PER_THREAD_MIN", 8)
    monkeypatch.setattr(hash_table, "PART_GROUPS", 4)
    monkeypatch.setattr(hash_table, "FEW_GROUPS", 8)
    for name, value in (("PARTITIONED_ROWS_MIN", 0), ("PART_DOCS", 16), ("PART_BITS_MIN", 1)):
        monkeypatch.setattr(radix_partition, name, value)


def test_whatever_a_method_serves_is_duckdbs_answer(tmp_path: Path) -> None:
    served: Counter[GroupingMethod] = Counter()
    for seed in range(START, START + TABLES):
        _run_seed(seed, tmp_path, served)
    print({method.name: served[method] for method in GroupingMethod})
    assert all(served[method] >= 5 for method in GroupingMethod), served


def _run_seed(seed: int, directory: Path, served: Counter[GroupingMethod]) -> None:
    rng = random.Random(seed)
    table = sql_table(rng)
    cluster = InProcessCluster(directory / str(seed), num_servers=rng.choice([1, 1, 2]), threads=rng.choice([1, 2]))
    for service in cluster.services.values():
        service._runs._dictionaries = SharedDictionaries()
    connection = load_both(table)
    try:
        cluster.add_table(table.schema, table.config, table.splits(), mixed_forms=True)
        questions = SqlQuestions(rng, table, Counter())
        for number in range(QUERIES_PER_TABLE):
            question = questions.next()
            if "GROUP BY" not in question.text and not question.text.startswith("SELECT DISTINCT"):
                continue
            nulls = f"enableNullHandling={str(question.null_handling).lower()}"
            for method in GroupingMethod:
                answer = cluster.sql(question.text, query_options=f"{nulls};groupingMethod={method.name}")
                errors = answer["exceptions"]
                if errors and all(f"groupingMethod={method.name} cannot serve" in one["message"] for one in errors):
                    assert {one["errorCode"] for one in errors} == {700}
                    continue
                try:
                    check_sql(question, answer, connection)
                except Exception as error:
                    raise AssertionError(
                        f"seed {seed}, query {number}, {method.name}, {nulls}\n{question.text}\nduck: "
                        f"{question.duck}\n{error}"
                    ) from error
                served[method] += 1
    finally:
        connection.close()
        cluster.close()
