"""Random queries of SQL's whole grammar over tables of all types (any nulls, split into segments and servers,
encodings, indexes built with the segments or by a reload, used as lists, as bits or as priced), in both null modes:
every answer equals DuckDB's, in values, types, order and cut.

900 queries run in the fast tier, 4,500 others in the full one; `make fuzz N=…` runs more. How many had each clause,
operator, function and type in each mode is printed; one that no query of a chunk had fails. A failure prints its seed:
replay it with PINOTPY_FUZZ_SEED=… alone.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from in_process import InProcessCluster
from index_ways import WAYS, index_way
from sql_answers import check_sql
from sql_questions import SqlQuestions
from sql_tables import load_both, sql_table
from thinning import cases

from pinotpy.query.group import top_n_groups

QUERIES_PER_TABLE = 50
QUERIES = int(os.environ.get("PINOTPY_FUZZ", "900"))
CHUNKS = 3
TABLES_PER_CHUNK = max(1, QUERIES // QUERIES_PER_TABLE // CHUNKS)
START = int(os.environ.get("PINOTPY_FUZZ_START", "0")) + 8_000_000
# What random queries must have, each in both null modes.
FEATURES = (
    "< literal", "<= literal", "<> literal", "= literal", "> literal", ">= literal", "literal on the left",
    "fraction beside whole numbers", "IN",
    "NOT IN", "BETWEEN", "NOT BETWEEN", "LIKE", "NOT LIKE", "LIKE ESCAPE", "REGEXP_LIKE", "IS NULL", "IS NOT NULL",
    "IS NULL of an expression",
    "IS NOT NULL of an expression", "IS TRUE", "IS NOT TRUE", "IS FALSE", "IS NOT FALSE", "IS DISTINCT FROM",
    "IS NOT DISTINCT FROM", "AND", "OR",
    "NOT", "bare BOOLEAN", "constant condition", "column to column", "expression to expression",
    "expression beside literal", "JSON_MATCH",
    "TEXT_MATCH", "JSON_EXTRACT_SCALAR", "multi-value <", "multi-value <=", "multi-value <>", "multi-value =",
    "multi-value >", "multi-value >=",
    "multi-value IN", "multi-value NOT IN", "multi-value BETWEEN", "multi-value selected", "CASE WHEN",
    "CASE value WHEN", "CASE without ELSE",
    "CASE of texts", "COALESCE", "COALESCE of texts", "NULLIF", "NULLIF of texts", "CAST", "CAST AS VARCHAR",
    "functions", "arithmetic",
    "unary minus", "||", "constant selected", "alias", "DISTINCT", "WHERE", "GROUP BY", "GROUP BY alias",
    "GROUP BY ordinal", "GROUP BY multi-value",
    "HAVING", "HAVING AND", "HAVING OR", "HAVING BETWEEN", "HAVING IN", "HAVING IS NULL", "HAVING IS NOT NULL",
    "HAVING call to call", "ORDER BY ASC",
    "ORDER BY DESC", "ORDER BY alias", "ORDER BY ordinal", "ORDER BY what is not selected", "NULLS FIRST", "NULLS LAST",
    "LIMIT", "LIMIT OFFSET",
    "LIMIT a, b", "OFFSET LIMIT", "FETCH", "FILTER", "aggregation COUNT", "aggregation COUNT DISTINCT",
    "aggregation DISTINCTCOUNT",
    "aggregation SUM", "aggregation AVG", "aggregation MIN", "aggregation MAX", "aggregation MINMAXRANGE",
    "aggregation PERCENTILE",
    "DISTINCT multi-value", "IN of an expression", "NOT IN of an expression", "BETWEEN of an expression",
    "NOT BETWEEN of an expression",
    "arithmetic of aggregations",
    "CASE over aggregations", "COALESCE of aggregations", "query selection", "query distinct", "query aggregation",
    "query grouped",
    "type INT", "type LONG", "type FLOAT", "type DOUBLE", "type BIG_DECIMAL", "type BOOLEAN", "type TIMESTAMP",
    "type STRING", "type BYTES",
    "type JSON", "type INT multi-value", "type STRING multi-value", "type LONG multi-value", "type DOUBLE multi-value",
)  # fmt: skip

# These in any null mode.
RARER = (
    "MINSTRING", "MAXSTRING", "BOOL_AND", "BOOL_OR", "MINLONG", "MAXLONG", "DISTINCTSUM", "DISTINCTAVG",
    "COUNT DISTINCT of several", "MODE", "VAR_POP",
    "STDDEV_POP", "COVAR_POP", "ARRAYAGG", "LISTAGG", "EXPRMIN", "EXPRMAX", "HISTOGRAM", "ANYVALUE", "SUMPRECISION",
)  # fmt: skip


def run_seed(seed: int, directory: Path, seen: Counter[str]) -> int:
    """Build the table of `seed`, ask its queries, compare; return how many rows were compared."""
    rng = random.Random(seed)
    table = sql_table(rng)
    cluster = InProcessCluster(directory / str(seed), num_servers=rng.choice([1, 1, 2, 3]), threads=rng.choice([1, 2]))
    connection = load_both(table)
    way, rows = WAYS[seed % len(WAYS)], 0
    try:
        cluster.add_table(table.schema, table.config, table.splits(), by_reload=seed % 4 == 1, mixed_forms=True)
        questions = SqlQuestions(rng, table, seen)
        for number in range(QUERIES_PER_TABLE):
            question = questions.next()
            with index_way(way):
                answer = cluster.sql(
                    question.text, query_options=f"enableNullHandling={str(question.null_handling).lower()}"
                )
            try:
                rows += check_sql(question, answer, connection)
            except Exception as error:
                mode = "with nulls" if question.null_handling else "plain"
                raise AssertionError(
                    f"seed {seed}, query {number}, {mode}, indexes {way}\n{question.text}\nduck: "
                    f"{question.duck}\n{error}"
                ) from error
    finally:
        connection.close()
        cluster.close()
    return rows


@pytest.fixture(autouse=True)
def groups_that_are_not_shown_are_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that has everything leaves them out from 4,096 groups on; here from one on, so that few rows try it."""
    monkeypatch.setattr(top_n_groups, "GROUPS_MIN", 1)


def run_seeds(seeds: Sequence[int], directory: Path) -> None:
    """Ask, compare and print what was asked; enough seeds must have asked everything."""
    seen: Counter[str] = Counter()
    rows = sum(run_seed(seed, directory, seen) for seed in seeds)
    print(f"{len(seeds) * QUERIES_PER_TABLE} random queries, {rows} rows compared: {dict(sorted(seen.items()))}")
    assert rows
    if len(seeds) >= 20:
        wanted = {f"{feature} ({mode})" for feature in FEATURES for mode in ("plain", "nulls")} - {
            "HAVING IS NULL (plain)",
            "HAVING IS NOT NULL (plain)",
        }
        missing = wanted - seen.keys()
        missing |= {
            name for name in RARER if not any(f"aggregation {name} ({mode})" in seen for mode in ("plain", "nulls"))
        }
        assert not missing, f"never asked: {sorted(missing)}"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_sql_queries_equal_duckdb(chunk: int, tmp_path: Path) -> None:
    only = os.environ.get("PINOTPY_FUZZ_SEED")
    run_seeds(
        [int(only)] if only else range(START + chunk * TABLES_PER_CHUNK, START + (chunk + 1) * TABLES_PER_CHUNK),
        tmp_path,
    )


FULL_QUERIES = cases(4_500, multiple_of=QUERIES_PER_TABLE * CHUNKS)
FULL_START = 9_000_000


@pytest.mark.full
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_many_more_random_sql_queries_equal_duckdb(chunk: int, tmp_path: Path) -> None:
    """Other seeds than the fast tier's."""
    tables = FULL_QUERIES // QUERIES_PER_TABLE // CHUNKS
    run_seeds(range(FULL_START + chunk * tables, FULL_START + (chunk + 1) * tables), tmp_path)
