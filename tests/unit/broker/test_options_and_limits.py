"""Proves what options do to a query end to end, and that every limit on a query holds exactly: what is at the limit is
answered, one more is refused with the right code, and quickly. Times are printed (pytest -s); what is asserted of them
leaves room for slow machines.
"""

from __future__ import annotations

import copy
import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.broker.catalog import Half, Target
from pinotpy.broker.routing.table_routing import TableRouting
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.data_types import DataType
from pinotpy.errors import QueryExecutionError
from pinotpy.pql.ast import Dialect, Identifier
from pinotpy.query.model.context import ColumnRef, OutputColumn, QueryContext, QueryKind
from pinotpy.query.model.context_codec import encode_context
from pinotpy.query.result.partial import PartialResult
from pinotpy.rpc.wire import RequestKind, ServerRequest, encode_request

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "word", "dataType": "STRING"}, {"name": "n", "dataType": "INT"}],
    }
)
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
DOCS = 1000
ROWS = pa.record_batch(
    {"word": pa.array([f"word {i:06d}" for i in range(DOCS)]), "n": pa.array(range(DOCS), pa.int32())}
)
DIALECTS = ["pql", "sql"]
REFUSED_IN_S = 60.0  # milliseconds, in truth; a parser that tries again and again needs far longer


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    cluster = InProcessCluster(tmp_path_factory.mktemp("cluster"), num_servers=2)
    cluster.add_table(SCHEMA, CONFIG, [[ROWS], [ROWS]])
    cluster.pql("SELECT COUNT(*) FROM t WHERE n > 1 GROUP BY n")  # compiles what all queries run
    yield cluster
    cluster.close()


@pytest.fixture
def cluster(built: InProcessCluster) -> Iterator[InProcessCluster]:
    """The cluster; its limits are put back afterwards."""
    limits, of_servers = built.broker.limits, {name: service._limits for name, service in built.services.items()}
    yield built
    built.broker.limits = limits
    built.broker.plans = type(built.broker.plans)()
    for name, service in built.services.items():
        service._limits = of_servers[name]
        service._decode_short.cache_clear()


def refused(cluster: InProcessCluster, text: str, dialect: str, code: int, words: str, **fields: Any) -> None:
    start = time.monotonic()
    answer = cluster.ask(text, Dialect.PQL if dialect == "pql" else Dialect.SQL, **fields)
    took_s = time.monotonic() - start
    print(f"{code} {words!r} refused in {took_s * 1000:.0f} ms")
    assert [fault["errorCode"] for fault in answer["exceptions"]] == [code], answer["exceptions"]
    assert words in answer["exceptions"][0]["message"]
    assert not {"resultTable", "selectionResults", "aggregationResults"} & answer.keys()
    assert took_s < REFUSED_IN_S


def count(cluster: InProcessCluster, text: str, dialect: str, **fields: Any) -> int:
    answer = cluster.ask(text, Dialect.PQL if dialect == "pql" else Dialect.SQL, **fields)
    assert answer["exceptions"] == []
    return int(answer["aggregationResults"][0]["value"] if dialect == "pql" else answer["resultTable"]["rows"][0][0])


# --- limits on the text ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_text_of_two_mebibytes_is_answered_and_one_byte_more_is_refused(
    cluster: InProcessCluster, dialect: str
) -> None:
    head, tail = "SELECT COUNT(*) FROM t WHERE word = '", "'"
    filler = "x" * (2 * 1024 * 1024 - len(head) - len(tail))
    assert count(cluster, head + filler + tail, dialect) == 0
    refused(cluster, head + filler + "x" + tail, dialect, 150, "more than 2097152 bytes")
    # Bytes count, not characters.
    refused(cluster, head + "ä" * (len(filler) // 2 + 1) + tail, dialect, 150, "more than 2097152 bytes")


def nested(depth: int) -> str:
    return f"SELECT COUNT(*) FROM t WHERE {'(' * depth}n >= 0{')' * depth}"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_nesting_is_answered_to_its_limit_and_refused_beyond(cluster: InProcessCluster, dialect: str) -> None:
    deepest = max(
        depth
        for depth in range(190, 202)
        if not cluster.ask(nested(depth), Dialect.PQL if dialect == "pql" else Dialect.SQL)["exceptions"]
    )
    assert 195 <= deepest <= 200, "brackets, and the levels of the condition itself, up to 200"
    assert count(cluster, nested(deepest), dialect) == 2 * DOCS
    for depth in (deepest + 1, 201, 10_000, 90_000):
        refused(cluster, nested(depth), dialect, 150, "nest deeper than 200 levels")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_calls_nested_200_deep_are_computed(cluster: InProcessCluster, dialect: str) -> None:
    def calls(depth: int) -> str:
        return f"SELECT COUNT(*) FROM t WHERE {'abs(' * depth}n{')' * depth} >= 0"

    assert count(cluster, calls(190), dialect) == 2 * DOCS
    refused(cluster, calls(201), dialect, 150, "nest deeper than 200 levels")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_list_of_50_000_values_is_answered_and_one_more_is_refused(cluster: InProcessCluster, dialect: str) -> None:
    values = [str(i * 3) for i in range(50_000)]
    start = time.monotonic()
    assert count(cluster, f"SELECT COUNT(*) FROM t WHERE n IN ({','.join(values)})", dialect) == 2 * len(
        range(0, DOCS, 3)
    )
    print(f"50,000 values answered in {(time.monotonic() - start) * 1000:.0f} ms")
    refused(
        cluster,
        f"SELECT COUNT(*) FROM t WHERE n IN ({','.join([*values, '7'])})",
        dialect,
        150,
        "at most 50000 literals",
    )
    texts = ",".join(f"'word {i:06d}'" for i in range(50_000))
    assert count(cluster, f"SELECT COUNT(*) FROM t WHERE word IN ({texts})", dialect) == 2 * DOCS


# --- limits on the answer --------------------------------------------------------------------------------------------


def test_rows_and_groups_have_a_ceiling(cluster: InProcessCluster) -> None:
    cluster.broker.limits = dataclasses.replace(cluster.broker.limits, response_rows_max=100)
    assert len(cluster.pql("SELECT n FROM t LIMIT 100")["selectionResults"]["results"]) == 100
    refused(cluster, "SELECT n FROM t LIMIT 101", "pql", 700, "exceeds maximum allowed value of 100")
    assert (
        len(cluster.pql("SELECT COUNT(*) FROM t GROUP BY n TOP 100")["aggregationResults"][0]["groupByResult"]) == 100
    )
    refused(cluster, "SELECT COUNT(*) FROM t GROUP BY n TOP 101", "pql", 700, "exceeds maximum allowed value of 100")
    assert len(cluster.sql("SELECT n FROM t LIMIT 100")["resultTable"]["rows"]) == 100
    refused(cluster, "SELECT n FROM t LIMIT 101", "sql", 700, "exceeds maximum allowed value of 100")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_groups_beyond_their_limit_are_cut_and_the_answer_says_so(cluster: InProcessCluster, dialect: str) -> None:
    ask = cluster.pql if dialect == "pql" else cluster.sql
    text = f"SELECT COUNT(*) FROM t GROUP BY n {'TOP' if dialect == 'pql' else 'LIMIT'} 5000"
    for limit, reached in ((DOCS, False), (DOCS - 1, True)):
        answer = ask(f"{text} OPTION(numGroupsLimit={limit})")
        assert answer["numGroupsLimitReached"] is reached, limit
        assert answer["exactness"] == ("bounded" if reached else "exact")
    # A client lowers the limit of the servers, and never raises it.
    for service in cluster.services.values():
        service._limits = dataclasses.replace(service._limits, groups_max=10)
        service._decode_short.cache_clear()
    assert ask(text)["numGroupsLimitReached"] and ask(f"{text} OPTION(numGroupsLimit=999999)")["numGroupsLimitReached"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_groups_that_only_all_servers_together_have_too_many_of_are_told(tmp_path: Path, dialect: str) -> None:
    cluster = InProcessCluster(tmp_path, num_servers=2)
    cluster.add_table(SCHEMA, CONFIG, [[ROWS.slice(0, 30)], [ROWS.slice(30, 30)]])
    ask = cluster.pql if dialect == "pql" else cluster.sql
    text = f"SELECT COUNT(*) FROM t GROUP BY n {'TOP' if dialect == 'pql' else 'LIMIT'} 5000"
    for limit, reached in ((30, True), (59, True), (60, False)):
        answer = ask(f"{text} OPTION(numGroupsLimit={limit})")
        shown = answer["resultTable"]["rows"] if dialect == "sql" else answer["aggregationResults"][0]["groupByResult"]
        assert len(shown) == limit
        assert (answer["numGroupsLimitReached"], answer["exactness"]) == (reached, "bounded" if reached else "exact"), (
            limit
        )
    cluster.close()


def test_bytes_of_a_server_s_answer_have_a_ceiling(cluster: InProcessCluster) -> None:
    (name, service), *_ = cluster.services.items()
    segments = tuple(s for s in ("t_0000", "t_0001") if cluster.registries[name].num_docs("t_OFFLINE", (s,)))
    columns = (ColumnRef("word", DataType.STRING),)
    context = QueryContext(
        Dialect.SQL,
        QueryKind.SELECTION,
        "t_OFFLINE",
        (OutputColumn("word", Identifier("word")),),
        limit=10**6,
        columns=columns,
    )
    request = encode_request(
        ServerRequest(
            RequestKind.QUERY,
            1,
            10_000,
            broker_id="b",
            table_name_with_type="t_OFFLINE",
            segment_names=segments,
            context=encode_context(context),
        )
    )
    # The counters of times in the answer have different numbers of digits from call to call.
    size = len(service.handle(request, 10, "test")) + 50
    service._limits = dataclasses.replace(service._limits, response_bytes_max=size)
    assert service.handle(request, 10, "test")
    service._limits = dataclasses.replace(service._limits, response_bytes_max=size - 100)
    with pytest.raises(QueryExecutionError, match=r"pinot\.server\.grpc\.maxResponseBytes"):
        service.handle(request, 10, "test")


def test_memory_of_a_query_has_a_ceiling(cluster: InProcessCluster) -> None:
    for service in cluster.services.values():
        service._limits = dataclasses.replace(service._limits, memory_max_bytes=1000)
    refused(cluster, "SELECT word, n FROM t LIMIT 2000", "sql", 200, "pinot.server.query.memory.maxBytes")


# --- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("value", ["0", "-1", "'abc'", "1.5", "''"])
def test_a_timeout_that_is_no_positive_number_is_refused(cluster: InProcessCluster, dialect: str, value: str) -> None:
    refused(
        cluster,
        f"SELECT COUNT(*) FROM t OPTION(timeoutMs={value})",
        dialect,
        700,
        "timeoutMs must be a number between 1 and 2^63-1",
    )


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "options",
    [
        "timeoutMs=9223372036854775807",
        "debugOptions='a;b'",
        "optimizationFlags='-multipleOrEqualitiesToInClause'",
        "skipUpsert=true",
        "useStarTree=false",
        "maxExecutionThreads=1",
        "maxExecutionThreads=64",
        "nosuch='anything'",
        "TIMEOUTMS='abc'",  # names count letter by letter: this one is unknown
    ],
)
def test_options_that_change_no_answer_are_accepted(cluster: InProcessCluster, dialect: str, options: str) -> None:
    assert count(cluster, f"SELECT COUNT(*) FROM t WHERE n >= 10 OPTION({options})", dialect) == 2 * (DOCS - 10)


def test_debug_options_are_accepted_beside_the_text(cluster: InProcessCluster) -> None:
    for debug in ("useStarTree=false", "optimizationFlags=-flattenNestedPredicates", "nosuch=1;other=2", ""):
        assert count(cluster, "SELECT COUNT(*) FROM t", "pql", debug_options=debug) == 2 * DOCS
    refused(cluster, "SELECT COUNT(*) FROM t", "pql", 150, "debugOptions", debug_options="foo")


@pytest.mark.parametrize("text", ["OPTION()", "OPTION(foo)", "OPTION(a=1 b=2)"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_options_without_a_value_are_refused(cluster: InProcessCluster, dialect: str, text: str) -> None:
    refused(cluster, f"SELECT COUNT(*) FROM t {text}", dialect, 150, "")


def test_values_of_options_count_in_any_case_and_the_text_wins(cluster: InProcessCluster) -> None:
    query = "SELECT SUM(n) FROM t WHERE n < 3"
    assert cluster.pql(query)["aggregationResults"][0]["value"] == "6.00000"
    assert cluster.pql(f"{query} OPTION(preserveType=TRUE)")["aggregationResults"][0]["value"] == 6.0
    assert cluster.pql(f"{query} OPTION(PreserveType=true)")["aggregationResults"][0]["value"] == "6.00000"
    assert (
        cluster.pql(f"{query} OPTION(preserveType=false)", query_options="preserveType=true")["aggregationResults"][0][
            "value"
        ]
        == "6.00000"
    )
    assert cluster.pql(f"{query} OPTION(responseFormat=Sql)")["resultTable"]["rows"] == [[6.0]]
    assert "aggregationResults" in cluster.pql(f"{query} OPTION(responseFormat=nosuch)")
    assert "aggregationResults" in cluster.pql(
        f"{query} OPTION(responseFormat=pql)", query_options="responseFormat=sql"
    )


# --- timeouts ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    """Two million docs, on two servers."""
    cluster = InProcessCluster(tmp_path_factory.mktemp("large"), num_servers=2)
    rng = np.random.default_rng(5)
    numbers = rng.integers(0, 100_000, 250_000).astype(np.int32)
    rows = pa.record_batch({"word": pa.array([f"w{i % 1000}" for i in numbers.tolist()]), "n": pa.array(numbers)})
    cluster.add_table(SCHEMA, CONFIG, [[rows]])
    (name,) = {path.name for path in (cluster.directory / "t").iterdir()}
    # The same docs again and again, under other names: what a query does with them costs the same.
    (server, registry), *_ = cluster.registries.items()
    with registry.acquire("t_OFFLINE", (name,)) as held:
        (segment,) = held.segments
    names = [name, *(f"t_{number:04d}" for number in range(1, 8))]
    for other in names[1:]:
        twin = copy.copy(segment)
        twin.name = other
        registry.put("t_OFFLINE", twin)
    cluster.catalog.targets["t"] = Target(
        "t", SCHEMA, (Half(TableRouting("t_OFFLINE", dict.fromkeys(names, (server,)))),)
    )
    yield cluster
    cluster.close()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM t GROUP BY n, word LIMIT 10",  # kernels, then the groups of all segments put together
        "SELECT n, word FROM t ORDER BY n * 2 + 1 LIMIT 1000000",  # an expression as sort key, batch by batch
        # a filter computed in Python
        "SELECT COUNT(*) FROM t WHERE concat(word, word) = 'w1w1' OR concat(word, n) = 'w5w5'",
        "SELECT word, n FROM t LIMIT 2000000",  # rows
    ],
)
def test_a_query_ends_at_its_deadline(large: InProcessCluster, text: str) -> None:
    assert large.sql(f"{text.split(' LIMIT', maxsplit=1)[0]} LIMIT 1")["exceptions"] == []
    answer = large.sql(f"{text} OPTION(timeoutMs=30)")
    assert [fault["errorCode"] for fault in answer["exceptions"]] == [250], answer["exceptions"]
    assert "timeoutMs" in answer["exceptions"][0]["message"] and "resultTable" not in answer


@pytest.mark.parametrize(
    ("of_broker_ms", "of_table_ms", "option_ms", "expected_ms"),
    [
        (500_000, None, None, 500_000),
        (500_000, 100_000, None, 100_000),
        (500_000, 2_000_000, None, 2_000_000),  # a table may have longer ones than others
        (500_000, 100_000, 300_000, 300_000),
        (500_000, 100_000, 40_000, 40_000),
        (500_000, 100_000, 6_000_000, 500_000),  # a client never raises what the operator gave
        (500_000, 2_000_000, 1_000_000, 1_000_000),
        (500_000, 2_000_000, 6_000_000, 2_000_000),
        (500_000, None, 6_000_000, 500_000),
    ],
)
def test_a_query_has_its_own_time_or_its_tables_or_the_brokers(
    cluster: InProcessCluster, of_broker_ms: int, of_table_ms: int | None, option_ms: int | None, expected_ms: int
) -> None:
    seen: list[int] = []

    async def send(server: str, request: ServerRequest, timeout_s: float) -> PartialResult:
        seen.append(request.timeout_ms)
        return await cluster._send(server, request, timeout_s)

    target, broker = cluster.catalog.targets["t"], cluster.broker
    plain, limits = broker.send, broker.limits
    cluster.catalog.targets["t"] = dataclasses.replace(target, timeout_ms=of_table_ms)
    broker.send, broker.limits = send, dataclasses.replace(limits, timeout_ms=of_broker_ms)
    try:
        for _ in range(3):  # also of a plan that is kept
            answer = cluster.sql(
                f"SELECT COUNT(*) FROM t{'' if option_ms is None else f' OPTION(timeoutMs={option_ms})'}"
            )
            assert answer["exceptions"] == []
    finally:
        broker.send, broker.limits = plain, limits
        cluster.catalog.targets["t"] = target
    assert (
        len(seen) == 3 * len(cluster.registries)
        and all(expected_ms - 30_000 < each < expected_ms + 1_000 for each in seen)
        and min(seen) > 0
    )
