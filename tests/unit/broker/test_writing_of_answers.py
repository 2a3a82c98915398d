"""Proves that a broker writes large answers in pieces: the text is that of the whole, whatever the pieces; between any
two the query's deadline is looked at; and an answer that is late is 250 without rows. Rows are compared with Python's
own.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.broker import handler, reducing
from pinotpy.broker.handler import Question, answer_query
from pinotpy.broker.parts import EVERY_TABLE
from pinotpy.clock import SystemClock
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.data_types import DataType
from pinotpy.errors import QueryTimeoutError
from pinotpy.pql.ast import Dialect
from pinotpy.query.model.context import QueryContext
from pinotpy.query.model.result_type import ResultType
from pinotpy.query.result.reduced import ReducedResult, ResultColumn
from pinotpy.query.result.response import rows, values

NUM_ROWS = 20_000


def _column(data_type: DataType, given: list[Any], arrow: pa.DataType, *, single_value: bool = True) -> ResultColumn:
    return ResultColumn("c", ResultType(data_type, single_value), pa.array(given, arrow))


@pytest.mark.parametrize("piece", [1, 7, 100, 8 << 10])
def test_pieces_of_any_size_make_the_same_rows(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "PIECE_VALUES_MAX", piece)
    rng = random.Random(piece)
    numbers = [rng.choice([None, rng.randint(-9, 9)]) for _ in range(501)]
    lists = [[rng.random() for _ in range(rng.randint(0, 5))] for _ in numbers]
    floats = [rng.choice([0.1, -2.5, None]) for _ in numbers]
    columns = [
        _column(DataType.LONG, numbers, pa.int64()),
        _column(DataType.DOUBLE, lists, pa.list_(pa.float64()), single_value=False),
        _column(DataType.FLOAT, floats, pa.float32()),
    ]
    halves = pa.chunked_array([columns[0].values[:200], columns[0].values[200:]])
    columns[0] = ResultColumn("c", columns[0].type, halves)
    written = orjson.dumps({"rows": rows.json_rows(columns, [values.native] * 3)})
    assert json.loads(written)["rows"] == [list(row) for row in zip(numbers, lists, floats, strict=True)]


def test_no_rows_are_an_empty_list() -> None:
    assert orjson.dumps(rows.json_rows([_column(DataType.INT, [], pa.int32())], [values.native])) == b"[]"
    assert orjson.dumps(rows.json_rows([], [])) == b"[]"


@pytest.mark.parametrize("values_per_row", [1, 40])
def test_no_piece_is_larger_than_64_ki_values(values_per_row: int) -> None:
    since_check: list[int] = []

    def show(column: ResultColumn) -> list[Any]:
        since_check[-1] += len(column.values) * values_per_row
        return values.native(column)

    column = _column(DataType.INT, [[1] * values_per_row] * 10_000, pa.list_(pa.int32()), single_value=False)
    rows.json_rows([column] * 3, [show] * 3, lambda: since_check.append(0))
    assert sum(since_check) == 30_000 * values_per_row and max(since_check) <= 64 << 10


def test_a_check_that_raises_ends_the_writing() -> None:
    left = itertools.count(3, -1)

    def check() -> None:
        if next(left) == 0:
            raise QueryTimeoutError("late")

    shown: list[int] = []

    def show(column: ResultColumn) -> list[Any]:
        shown.append(len(column.values))
        return values.native(column)

    with pytest.raises(QueryTimeoutError):
        rows.json_rows([_column(DataType.INT, [1] * 100_000, pa.int32())], [show], check)
    assert len(shown) == 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    schema = Schema.from_json({"schemaName": "t", "metricFieldSpecs": [{"name": "n", "dataType": "DOUBLE"}]})
    config = TableConfig.from_json(
        {
            "tableName": "t",
            "tableType": "OFFLINE",
            "segmentsConfig": {"replication": "1"},
            "tenants": {},
            "tableIndexConfig": {},
            "metadata": {},
        }
    )
    directory: Path = tmp_path_factory.mktemp("cluster")
    built = InProcessCluster(directory)
    built.add_table(schema, config, [[pa.record_batch({"n": pa.array([i / 3 for i in range(NUM_ROWS)])})]])
    yield built
    built.close()


class _Clock(SystemClock):
    ahead_ns = 0

    def monotonic_ns(self) -> int:
        return time.monotonic_ns() + self.ahead_ns


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize(
    "query", ["SELECT n FROM t LIMIT 20000", "SELECT n FROM t LIMIT 5", "SELECT COUNT(*) FROM t GROUP BY n LIMIT 20000"]
)
@pytest.mark.parametrize("trace", [True, False])
def test_an_answer_that_is_not_written_in_time_is_250_without_rows(
    cluster: InProcessCluster, dialect: Dialect, query: str, trace: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = _Clock()
    monkeypatch.setattr(cluster.broker, "clock", clock)
    writer = handler.pql_response if dialect is Dialect.PQL else handler.sql_response
    write_rows = writer.result_keys

    def in_time(*arguments: Any) -> dict[str, Any]:
        return write_rows(*arguments)

    def late(*arguments: Any) -> dict[str, Any]:
        clock.ahead_ns = 60_000_000_000
        return write_rows(*arguments)

    def keys(answer: dict[str, Any]) -> set[str]:
        return answer.keys() & {"selectionResults", "aggregationResults", "resultTable"}

    monkeypatch.setattr(writer, "result_keys", in_time)
    answer = cluster.ask(query, dialect, query_options="timeoutMs=30000", trace=trace)
    assert answer["exceptions"] == [] and len(keys(answer)) == 1
    monkeypatch.setattr(writer, "result_keys", late)
    show_shortly = reducing.shown_small

    def late_and_short(*arguments: Any) -> dict[str, Any] | None:
        shown = show_shortly(*arguments)
        clock.ahead_ns = 60_000_000_000 if shown is not None else 0
        return shown

    monkeypatch.setattr(reducing, "shown_small", late_and_short)
    answer = cluster.ask(query, dialect, query_options="timeoutMs=30000", trace=trace)
    assert [e["errorCode"] for e in answer["exceptions"]] == [250] and "written" in answer["exceptions"][0]["message"]
    assert not keys(answer) and answer["partialResult"] is True and answer["timeUsedMs"] >= 30_000
    assert answer.get("numRowsResultSet", 0) == 0
    assert ("broker" in answer["traceInfo"]) is trace


def test_other_queries_are_answered_while_a_large_answer_is_written(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small query that is asked when the writing of a large one has begun ends before it."""
    ended: list[str] = []
    write_rows = handler.sql_response.result_keys

    async def ask(name: str, text: str) -> None:
        await answer_query(cluster.broker, Question(text, Dialect.SQL), EVERY_TABLE)
        ended.append(name)

    async def main() -> None:
        loop, writing = asyncio.get_running_loop(), asyncio.Event()

        def told(context: QueryContext, result: ReducedResult, check: rows.Check) -> dict[str, Any]:
            if result.num_rows == NUM_ROWS:
                loop.call_soon_threadsafe(writing.set)
            return write_rows(context, result, check)

        monkeypatch.setattr(handler.sql_response, "result_keys", told)
        columns = ", ".join(f"n AS n{i}" for i in range(30))
        large = asyncio.create_task(ask("large", f"SELECT {columns} FROM t LIMIT {NUM_ROWS}"))
        async with asyncio.timeout(20):
            await writing.wait()
            await ask("small", "SELECT n FROM t LIMIT 1")
            await large

    asyncio.run(main())
    assert ended == ["small", "large"]
