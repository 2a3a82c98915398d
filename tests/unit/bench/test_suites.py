"""Proves that every query of every suite means the same for the engine and for DuckDB: 20,000 rows, both in this
process, two draws of literals.

A benchmark that compares answers only while it measures would find a wrong text after an hour.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from bench.compare import require_same
from bench.ours import InProcess, ask, segment_directories
from bench.peer_engines import DuckDb
from bench.suites import SUITES, Query, Suite
from bench.tables import TABLES

ROWS = 20_000


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Suite → (the engine, DuckDB), made when first asked for."""
    data_dir: Path = tmp_path_factory.mktemp("bench")
    made: dict[tuple[str, str], tuple[InProcess, DuckDb]] = {}

    def of(suite: Suite) -> tuple[InProcess, DuckDb]:
        if (suite.table, suite.variant) not in made:
            table = TABLES[suite.table]
            files = table.parquet_files(data_dir, ROWS)
            segments = segment_directories(
                table, ROWS, data_dir, config=suite.config(table.config), variant=suite.variant
            )
            made[suite.table, suite.variant] = (
                InProcess(table, segments),
                DuckDb(table, files, table.folder(data_dir, ROWS), enums=False),
            )
        return made[suite.table, suite.variant]

    yield of
    for ours, _ in made.values():
        ours.close()


@pytest.mark.parametrize(
    ("suite", "query"), [pytest.param(s, q, id=f"{s.name}-{q.name}") for s in SUITES.values() for q in s.queries]
)
def test_the_engine_and_duckdb_give_the_same_answer(engines: Any, suite: Any, query: Query) -> None:
    ours, peer = engines(suite)
    num_rows = 0
    for repetition in (0, 1):
        parameters = query.drawn(repetition)
        _, rows = ask(ours, query, parameters)
        _, others = peer.ask(query, parameters, False)
        require_same(query, "pinotpy", rows, "duckdb", others)
        num_rows += len(rows)
    # What is rare among millions is absent among so few rows; every other question has an answer.
    assert num_rows > 0 or query.name in ("ssb_3_4", "two_inverted", "needle_rows")


def test_a_difference_ends_the_run_with_both_answers() -> None:
    query = SUITES["study"].queries[1]
    with pytest.raises(SystemExit, match=r"q02_eq_sum: answers differ.*[\s\S]*5\.0[\s\S]*6\.0"):
        require_same(query, "pinotpy", [[5]], "duckdb", [[6]])
    require_same(query, "pinotpy", [[5]], "duckdb", [[5.0 + 1e-12]])


def test_literals_differ_between_repetitions_and_not_between_runs() -> None:
    for suite in SUITES.values():
        for query in suite.queries:
            assert query.drawn(0) == query.drawn(0)
            assert query.drawn(0) != query.drawn(1)


def test_generated_rows_are_the_same_in_every_run_and_sorted() -> None:
    for table in TABLES.values():
        first, again, second = table.chunk(0, 2, 5_000), table.chunk(0, 2, 5_000), table.chunk(1, 2, 5_000)
        assert first.equals(again)
        assert first.schema.names == second.schema.names
        assert sorted(first.schema.names) == sorted(table.columns)
        ordered = [
            *first.column(table.sort_columns[-1]).to_pylist(),
            *second.column(table.sort_columns[-1]).to_pylist(),
        ]
        assert ordered == sorted(ordered)
        for name, texts in table.few_values.items():
            column = first.column(name)
            values = column.flatten() if name in ("tags", "labels") else column
            assert set(values.drop_null().to_pylist()) <= set(texts)


def test_duckdb_reads_as_many_rows_as_were_generated(engines: Any) -> None:
    _, peer = engines(SUITES["ssb"])
    assert isinstance(peer, DuckDb)
    assert duckdb.__version__ == peer.version
    _, rows = peer.ask(
        Query("count", lambda rng: {}, "SELECT count(*), count(DISTINCT lo_orderdate) FROM lineorder", None), {}, False
    )
    assert rows[0][0] == ROWS
    assert 2_000 < rows[0][1] <= 2_406
