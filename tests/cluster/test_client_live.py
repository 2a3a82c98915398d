"""Proves the Python client against real daemons: all ways to connect find the brokers and give the same answers; a
connection by ZooKeeper follows a broker that joins and one that is killed; the manual's examples run as written; values
come back typed. The oracle is what was uploaded, computed here in plain Python.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from live_cluster import LiveCluster, wait_until

from pinotpy.client import Connection, Request, ResultKind, connect
from pinotpy.errors import NotFoundError, ParseError, PinotError, TableNotFoundError, UserError
from pinotpy.service.ports import free_port

pytestmark = pytest.mark.cluster

CITIES = ["Oslo", "O'Hare", 'say "hi"', "what?", "-- no comment", "Größe 🙂", "back\\slash", ""]
ROWS = 400
SCHEMA = {
    "schemaName": "rides",
    "dimensionFieldSpecs": [
        {"name": "city", "dataType": "STRING"},
        {"name": "tags", "dataType": "INT", "singleValueField": False},
    ],
    "metricFieldSpecs": [
        {"name": "fare", "dataType": "LONG"},
        {"name": "tip", "dataType": "DOUBLE"},
        {"name": "share", "dataType": "FLOAT"},
    ],
}
CONFIG = {
    "tableName": "rides",
    "tableType": "OFFLINE",
    "segmentsConfig": {"replication": "1"},
    "tenants": {},
    "tableIndexConfig": {},
    "metadata": {},
}

# (city, tags, fare, tip, share) of every row
DATA = [(CITIES[i % len(CITIES)], [i % 3, i % 5], 2**53 + i, i * 1e-7, (i % 10) / 10) for i in range(ROWS)]


def batch(rows: list[tuple[Any, ...]]) -> list[pa.RecordBatch]:
    city, tags, fare, tip, share = zip(*rows, strict=True)
    return [
        pa.RecordBatch.from_pydict(
            {
                "city": pa.array(city),
                "tags": pa.array(tags, pa.list_(pa.int32())),
                "fare": pa.array(fare, pa.int64()),
                "tip": pa.array(tip, pa.float64()),
                "share": pa.array(share, pa.float32()),
            }
        )
    ]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    live = LiveCluster(tmp_path_factory.mktemp("cluster"), num_servers=1)
    try:
        live.add_table(SCHEMA, CONFIG, [batch(DATA[:150]), batch(DATA[150:])])
        with connect(broker=live.broker_url) as ready:
            wait_until(
                lambda: ready.execute("SELECT COUNT(*) FROM rides").result_set(0).get_int(0) == ROWS,
                20.0,
                "the broker answers for the table",
            )
        yield live
    finally:
        live.close()


@pytest.fixture(scope="module")
def connection(cluster: LiveCluster) -> Iterator[Connection]:
    with Connection.from_zookeeper(f"{cluster.zk_address}/TestCluster") as made:
        yield made


def test_every_way_to_connect_finds_the_broker(cluster: LiveCluster, tmp_path: Path) -> None:
    host_port = cluster.broker_url.removeprefix("http://")
    (tmp_path / "demo.properties").write_text(f"# demo\nbrokerList = {host_port}\n")
    ways: list[Callable[[], Connection]] = [
        lambda: Connection.from_zookeeper(f"{cluster.zk_address}/TestCluster"),
        lambda: Connection.from_properties(tmp_path / "demo.properties"),
        lambda: Connection.from_properties({"brokerList": "127.0.0.1:1", "brokerList.rides": host_port}),
        lambda: Connection.from_host_list("127.0.0.1:1", host_port),
        lambda: connect(cluster.controller_url),
        lambda: connect(cluster.broker_url),
        lambda: connect(controller=cluster.controller_url.removeprefix("http://")),
    ]
    for way in ways:
        with way() as made:
            assert made.execute("SELECT COUNT(*) FROM rides").result_set(0).get_int(0) == ROWS
            assert made.execute_async("SELECT COUNT(*) FROM rides").result(60).rows == [[ROWS]]


def test_a_cluster_that_is_not_in_zookeeper_is_named(cluster: LiveCluster) -> None:
    with (
        Connection.from_zookeeper(f"{cluster.zk_address}/NoSuchCluster") as made,
        pytest.raises(NotFoundError, match="NoSuchCluster"),
    ):
        made.execute("SELECT COUNT(*) FROM rides")


# --- the manual's examples -----------------------------------------------------------------------------------------


def test_a_selection_as_in_the_manual(connection: Connection) -> None:
    found = connection.execute("select city, fare from rides where city = 'Oslo' limit 1000").result_set(0)
    got = sorted((found.get_string(row, 0), found.get_long(row, 1)) for row in range(found.row_count))
    assert got == sorted((city, fare) for city, _, fare, _, _ in DATA if city == "Oslo")


def test_groups_as_in_the_manual(connection: Connection) -> None:
    group = connection.execute("select min(fare), max(fare), count(*) from rides group by city top 100", dialect="pql")
    assert group.result_set_count == 3 and [each.kind for each in group.result_sets] == [ResultKind.GROUP_BY] * 3
    fares: dict[str, list[int]] = {}
    for city, _, fare, _, _ in DATA:
        fares.setdefault(city, []).append(fare)
    least, most, count = (
        {each.get_group_key_string(row, 0): each.get_double(row) for row in range(each.row_count)}
        for each in group.result_sets
    )
    assert least == {city: float(min(values)) for city, values in fares.items()}
    assert most == {city: float(max(values)) for city, values in fares.items()}
    assert count == {city: len(values) for city, values in fares.items()}
    assert group.result_set(0).group_key_column_name(0) == "city"


@pytest.mark.parametrize("city", CITIES)
@pytest.mark.parametrize("dialect", ["pql", "sql"])
def test_prepared_statements_find_any_text(connection: Connection, city: str, dialect: str) -> None:
    statement = connection.prepare_statement("select count(*) from rides where city = ? -- is it ?", dialect=dialect)
    statement.set_string(1, city)
    expected = sum(row[0] == city for row in DATA)
    assert expected and statement.execute().result_set(0).get_int(0) == expected
    assert statement.execute_async().result(60).result_set(0).get_int(0) == expected


@pytest.mark.parametrize("dialect", ["pql", "sql"])
def test_prepared_numbers_are_compared_exactly(connection: Connection, dialect: str) -> None:
    statement = connection.prepare_statement(
        "select count(*) from rides where fare >= ? and tip < ? and tags = ?", dialect=dialect
    )
    statement.set_long(1, 2**53 + 7)
    statement.set_double(2, 1e-7 * 300)
    statement.set_int(3, 4)
    expected = sum(fare >= 2**53 + 7 and tip < 1e-7 * 300 and 4 in tags for _, tags, fare, tip, _ in DATA)
    assert 0 < expected < ROWS and statement.execute().result_set(0).get_int(0) == expected
    shares = connection.prepare_statement("select count(*) from rides where share = ?", dialect=dialect)
    shares.set_float(1, 0.3)
    assert shares.execute().result_set(0).get_int(0) == ROWS // 10


# --- Python's manners ----------------------------------------------------------------------------------------------


def test_pql_with_preserved_types_gives_numbers(connection: Connection) -> None:
    query = "SELECT city, tags, fare, tip FROM rides WHERE fare < ? LIMIT 1000"
    text = connection.execute(query, [2**53 + 20], dialect="pql")
    typed = connection.execute(query, [2**53 + 20], dialect="pql", options={"preserveType": True})
    assert text.types == ("STRING", "STRING_ARRAY", "STRING", "STRING") and typed.types == (
        "STRING",
        "LONG_ARRAY",
        "LONG",
        "DOUBLE",
    )
    expected = [[city, tags, fare, tip] for city, tags, fare, tip, _ in DATA[:20]]
    assert sorted(typed.rows, key=lambda row: row[2]) == expected
    assert sorted(typed.to_arrow().column("fare").to_pylist()) == [row[2] for row in expected]


def test_sql_columns_are_typed_in_arrow_and_pandas(connection: Connection) -> None:
    result = connection.execute(
        Request("sql", "SELECT city, tags, fare, tip, share FROM rides ORDER BY fare LIMIT 1000")
    )
    arrow = result.to_arrow()
    assert [str(kind) for kind in arrow.schema.types] == ["string", "list<item: int32>", "int64", "double", "float"]
    assert [tuple(row.values()) for row in arrow.drop_columns("share").to_pylist()] == [row[:4] for row in DATA]
    assert arrow.column("share") == pa.chunked_array([pa.array([row[4] for row in DATA], pa.float32())])
    frame = result.to_pandas()
    assert frame["fare"].tolist() == [row[2] for row in DATA] and frame["tip"].tolist() == [row[3] for row in DATA]
    assert (
        result.statistics.total_docs,
        result.statistics.num_segments_queried,
        result.counters["totalDocs"],
        result.partial,
    ) == (ROWS, 2, ROWS, False)


def test_a_trace_is_given_on_request(connection: Connection) -> None:
    assert connection.execute("SELECT COUNT(*) FROM rides WHERE fare > 0").trace == {}
    assert connection.execute("SELECT COUNT(*) FROM rides WHERE fare > 0", trace=True).trace


def test_a_cursor_reads_real_rows(connection: Connection) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT fare, city FROM rides WHERE city IN ? ORDER BY fare LIMIT 1000", [["Oslo", "O'Hare"]])
        assert cursor.fetchall() == [[fare, city] for city, _, fare, _, _ in DATA if city in ("Oslo", "O'Hare")]


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("SELEC 1", ParseError),
        ("SELECT COUNT(*) FROM no_such_table", TableNotFoundError),
        ("SELECT nosuch FROM rides", UserError),
    ],
)
def test_refusals_have_their_class_or_come_back_whole(
    connection: Connection, query: str, kind: type[PinotError]
) -> None:
    with pytest.raises(kind) as caught:
        connection.execute(query)
    group = connection.execute(query, fail_on_exceptions=False)
    assert group.exceptions[0].code == caught.value.code and group.result_set_count == 0


# --- brokers that come and go --------------------------------------------------------------------------------------


def test_a_connection_by_zookeeper_follows_brokers_that_join_and_die(
    cluster: LiveCluster, connection: Connection
) -> None:
    def known() -> set[str]:
        source = connection._source
        return {url.rpartition(":")[2] for url in source.urls("rides", time.monotonic() + 60)}

    def asks() -> bool:
        return connection.execute("SELECT COUNT(*) FROM rides").result_set(0).get_int(0) == ROWS

    first = cluster.broker_url.rpartition(":")[2]
    assert asks() and known() == {first}
    second = str(free_port())
    cluster.processes.start(
        "broker-2",
        "start-broker",
        "--zk-address",
        cluster.zk_address,
        "--cluster-name",
        "TestCluster",
        "--broker-port",
        second,
    )
    wait_until(lambda: asks() and known() == {first, second}, 120, "the second broker is known")
    cluster.processes.kill("broker")
    # From the first query on: whoever is asked first, the living one answers.
    for _ in range(20):
        assert asks()
    wait_until(lambda: asks() and known() == {second}, 60.0, "the dead broker is forgotten")
