"""Proves that what computing a statement's constants costs is bounded, and paid by nobody but who asks: off the event
loop, in turn by client, after the rights on the table, on one budget of bytes and time. So is what long queries take.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from types import FrameType
from typing import Any, cast

import httpx
import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.broker import compiling, gathering
from pinotpy.broker.api import query
from pinotpy.broker.handler import Question, answer_query
from pinotpy.broker.parts import EVERY_TABLE, TableRights
from pinotpy.broker.segment_choice import CompiledQuery
from pinotpy.clock import ManualClock
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import OutOfCapacityError
from pinotpy.functions.constants_budget import ConstantsBudget, ConstantsBudgetError
from pinotpy.pql.ast import Dialect
from pinotpy.query.compile.rewrite import constants
from pinotpy.query.result.response import sql as sql_response
from pinotpy.service.access import AllowAll
from pinotpy.service.http import build_app
from pinotpy.service.metric_catalogue import BROKER_METRICS
from pinotpy.service.metrics import Metrics
from pinotpy.service.turn_queue import TurnQueue

SCHEMA = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": [{"name": "n", "dataType": "INT"}]})
CONFIG = TableConfig.from_json(
    {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "tableIndexConfig": {},
        "metadata": {},
    }
)
NOBODY = TableRights("nobody", lambda table: False, lambda table: False)


def growing(levels: int) -> str:
    """Each level makes ten characters of one."""
    text = "'a'"
    for _ in range(levels):
        text = f"REPLACE({text}, 'a', 'aaaaaaaaaa')"
    return text


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    built = InProcessCluster(tmp_path_factory.mktemp("cluster"))
    built.add_table(SCHEMA, CONFIG, [[pa.record_batch({"n": pa.array([1, 2], pa.int32())})]])
    yield built
    built.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT {} FROM t",
        "SELECT n FROM t WHERE n = 1 OR {} = 'b'",
        "SELECT LENGTH({})",
        "SELECT n, COUNT(*) FROM t GROUP BY n, {}",
        "SELECT n FROM t ORDER BY {}",
        "SELECT REPLACE(REPLACE(CAST(1.5 AS STRING), '1', REPEAT('1', 100000)), '1', REPEAT('1', 100000))",
    ],
)
def test_a_statement_whose_constants_grow_is_refused(cluster: InProcessCluster, sql: str) -> None:
    answer = cluster.sql(sql.format(growing(12)))
    (problem,) = answer["exceptions"]
    assert "1048576 characters" in problem["message"], problem


@pytest.mark.parametrize(
    "pql",
    [
        "SELECT {} FROM t",
        "SELECT n FROM t WHERE n = 1 OR {} = 'b'",
        "SELECT MAX(LENGTH({})) FROM t GROUP BY n",
        "SELECT COUNT(*) FROM t GROUP BY {}",
        "SELECT n FROM t ORDER BY {}",
    ],
)
def test_a_pql_statement_whose_constants_grow_is_refused(cluster: InProcessCluster, pql: str) -> None:
    (problem,) = cluster.pql(pql.format(growing(12)))["exceptions"]
    assert problem["errorCode"] == 200 and "1048576 characters" in problem["message"], problem


def test_constants_of_pql_share_the_budget_and_keep_their_names(cluster: InProcessCluster) -> None:
    each = "LENGTH(REPEAT('a',1000000))"
    answer = cluster.pql(f"SELECT {each}, UPPER('a') FROM t LIMIT 1")["selectionResults"]
    assert answer == {"columns": ["length(repeat('a','1000000'))", "upper('a')"], "results": [["1000000", "A"]]}
    for pql in (
        f"SELECT {', '.join([f'ADD({each},{i})' for i in range(20)])} FROM t",
        f"SELECT n FROM t WHERE {' AND '.join([f'ADD({each},{i}) = 1' for i in range(20)])}",
    ):
        (problem,) = cluster.pql(pql)["exceptions"]
        assert problem["errorCode"] == 200 and "pinot.broker.query.constants.maxBytes" in problem["message"]


def test_all_constants_of_a_statement_share_one_budget(cluster: InProcessCluster) -> None:
    each = "LENGTH(REPEAT('a', 1000000))"
    assert cluster.sql(f"SELECT {each}")["resultTable"]["rows"] == [[1_000_000]]
    several = ", ".join(f"{each} + {i} AS c{i}" for i in range(20))
    for sql in (
        f"SELECT {several}",
        f"SELECT {several} FROM t",
        f"SELECT n FROM t WHERE {each} = {each} AND 1 IN ({', '.join([each] * 20)})",
    ):
        (problem,) = cluster.sql(sql)["exceptions"]
        assert problem["errorCode"] == 200, problem
        assert "16777216 bytes" in problem["message"] and "pinot.broker.query.constants.maxBytes" in problem["message"]


def test_the_budget_ends_with_its_time() -> None:
    clock = ManualClock()
    budget = ConstantsBudget(time_max_ms=50, clock=clock)
    clock.advance(50)
    budget.spend(1)
    clock.advance(1)
    with pytest.raises(ConstantsBudgetError, match=r"50 ms.*pinot\.broker\.query\.constants\.timeoutMs"):
        budget.spend(1)


LONG = "SELECT " + ", ".join(f"n + {i}" for i in range(1000)) + " FROM t"
WIDE = "SELECT " + ", ".join(f"n + {i}" for i in range(3000)) + " FROM t"


@pytest.mark.parametrize(
    ("place", "work", "sql"),
    [
        (compiling, "check_constants", "PQL: SELECT UPPER('a'), n FROM t"),
        (constants, "_evaluated", "SELECT UPPER('a')"),
        (constants, "_evaluated", "SELECT UPPER('a'), n FROM t"),
        (constants, "_evaluated", "SELECT n FROM t WHERE n = LENGTH('a')"),
        (compiling, "_parsed", LONG),
        (compiling, "compile_query", LONG),
        (CompiledQuery, "encoded", LONG),
        (gathering.PartialResult, "from_bytes", WIDE),
    ],
)
def test_what_may_take_long_is_done_while_the_loop_serves_others(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch, place: object, work: str, sql: str
) -> None:
    begun, served = threading.Event(), threading.Event()
    done = getattr(place, work)

    def do_slowly(*args, **kwargs):
        begun.set()
        assert served.wait(60), "the loop serves nobody meanwhile"
        return done(*args, **kwargs)

    monkeypatch.setattr(place, work, do_slowly)

    async def others() -> None:
        while not begun.is_set():
            await asyncio.sleep(0.001)
        served.set()

    async def ask() -> bytes:
        dialect = Dialect.PQL if sql.startswith("PQL: ") else Dialect.SQL
        question = Question(f"{sql.removeprefix('PQL: ')} LIMIT {len(work)}", dialect)
        answer, _ = await asyncio.gather(answer_query(cluster.broker, question, EVERY_TABLE), others())
        return answer

    assert json.loads(asyncio.run(ask())).get("exceptions", []) == []


@pytest.mark.parametrize("dialect", Dialect)
def test_nothing_is_computed_for_a_table_that_the_client_may_not_read(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch, dialect: Dialect
) -> None:
    monkeypatch.setattr(constants._Constants, "computed", lambda *_: pytest.fail("computed for a stranger"))
    question = Question("SELECT UPPER('b'), n FROM t", dialect)
    answer = json.loads(asyncio.run(answer_query(cluster.broker, question, NOBODY)))
    assert [problem["errorCode"] for problem in answer["exceptions"]] == [180]


def test_long_queries_of_one_client_do_not_wait_without_bound(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = TurnQueue("compile", 1, 0, lambda waiting: OutOfCapacityError("enough"))
    monkeypatch.setattr(cluster.broker, "compiling", queue)
    (problem,) = cluster.sql("SELECT UPPER('c')")["exceptions"]
    assert problem["errorCode"] == 211


PROJECTIONS = 20_000
STAGES: list[tuple[object, str]] = [
    (compiling, "_parsed"),
    (compiling, "compile_query"),
    (CompiledQuery, "encoded"),
    (gathering.PartialResult, "from_bytes"),
    (sql_response, "result_keys"),
    (sql_response, "write"),
]


def test_of_20_000_projections_the_loop_does_nothing_but_answer_others(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each stage waits until the broker has answered for its liveness; and what the loop's own thread calls is counted:
    whatever handles projections one by one calls many functions for each.
    """
    metrics = Metrics("broker", BROKER_METRICS)
    app = build_app("broker", query.routes(cluster.broker), access=AllowAll(), metrics=metrics, ready=lambda: None)
    sql = f"SELECT {', '.join(f'n + {i}' for i in range(1, PROJECTIONS + 1))} FROM t LIMIT 2"
    loops: list[asyncio.AbstractEventLoop] = []
    stages: list[str] = []
    calls: Counter[str] = Counter()

    async def is_alive() -> bool:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://broker") as client:
            return (await client.get("/health/liveness")).text == "OK"

    def observed(place: object, name: str) -> None:
        done = getattr(place, name)

        def do(*args: Any, **kwargs: Any) -> Any:
            stages.append(name)
            assert asyncio.run_coroutine_threadsafe(is_alive(), loops[0]).result(60)
            return done(*args, **kwargs)

        monkeypatch.setattr(place, name, do)

    for place, name in STAGES:
        observed(place, name)

    def count(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            calls[f"{frame.f_code.co_filename}:{frame.f_code.co_qualname}"] += 1
        elif event == "c_call":
            calls[f"{argument.__qualname__} in {frame.f_code.co_filename}:{frame.f_code.co_qualname}"] += 1

    async def ask() -> bytes:
        loops.append(asyncio.get_running_loop())
        sys.setprofile(count)  # of this thread
        try:
            return cast(bytes, await answer_query(cluster.broker, Question(sql, Dialect.SQL), EVERY_TABLE))
        finally:
            sys.setprofile(None)

    rows = json.loads(asyncio.run(ask()))["resultTable"]["rows"]
    assert [(len(row), row[0], row[-1]) for row in rows] == [(PROJECTIONS, n + 1, n + PROJECTIONS) for n in (1, 2)]
    assert set(stages) == {name for _, name in STAGES}
    # One each for the bytes of the answer's columns, and two for letting go of what planning knew of each, where it is
    # this thread that does. To merge or to write them would take about fifteen.
    assert calls.total() < 5 * PROJECTIONS, calls.most_common(12)
