"""Proves that user functions stand wherever an expression may: selected, in filters, as group and sort keys, below and
above other functions, as arguments of aggregations; in both dialects, over several segments and servers; that their
faults are answers with code 200; and that a server which lacks one, or has another, refuses before it touches a
segment. The oracle is numpy.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from in_process import InProcessCluster
from user_function_registry import remove_user_functions

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import QueryExecutionError
from pinotpy.functions import UserFunction, udf
from pinotpy.functions.scalar import spec
from pinotpy.functions.user.user_function_adapter import scalar_function
from pinotpy.pql.parser import parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.model.context import QueryOptions
from pinotpy.query.model.context_codec import decode_context, encode_context
from pinotpy.query.model.user_functions import check_user_functions

SCHEMA = Schema.from_json(
    {
        "schemaName": "rides",
        "dimensionFieldSpecs": [
            {"name": "city", "dataType": "STRING"},
            {"name": "lat", "dataType": "DOUBLE"},
            {"name": "lon", "dataType": "DOUBLE"},
        ],
        "metricFieldSpecs": [{"name": "fare", "dataType": "LONG"}],
    }
)
CONFIG = TableConfig.from_json(
    {
        "tableName": "rides",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "tableIndexConfig": {},
        "metadata": {},
    }
)
RNG = np.random.default_rng(11)
ROWS = 3000
CITY = RNG.choice(["Basel", "Bern", "Genf"], ROWS)
LAT, LON = RNG.uniform(46, 47.5, ROWS).round(4), RNG.uniform(6, 9.5, ROWS).round(4)
FARE = RNG.integers(0, 500, ROWS)


@udf(arguments=["DOUBLE", "DOUBLE"], result="DOUBLE")
def far_from_bern(lat: Any, lon: Any) -> Any:
    return np.hypot((lat - 46.948) * 111.2, (lon - 7.447) * 75.9)


@udf(arguments=["STRING"], result="STRING")
def initial(text: Any) -> Any:
    return np.array([value[:1] for value in text], object)


@udf(arguments=["LONG"], result="LONG")
def bucket(fare: Any) -> Any:
    return fare // 100


@udf(arguments=["LONG"], result="BOOLEAN")
def is_odd(fare: Any) -> Any:
    return fare % 2 == 1


@udf(arguments=["LONG"], result="LONG")
def fails(fare: Any) -> Any:
    raise ValueError(f"cannot take {len(fare)} rows")


KM = far_from_bern(LAT, LON)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    remove_user_functions()
    for function in (far_from_bern, initial, bucket, is_odd, fails):
        spec.add_user_function(scalar_function(function))
    found = InProcessCluster(tmp_path_factory.mktemp("rides"), num_servers=2)
    whole = pa.RecordBatch.from_pydict({"city": CITY, "lat": LAT, "lon": LON, "fare": FARE})
    found.add_table(SCHEMA, CONFIG, [[whole.slice(0, 1000)], [whole.slice(1000, 1)], [whole.slice(1001)]])
    yield found
    found.close()
    remove_user_functions()


def rows(cluster: InProcessCluster, text: str) -> list[list[Any]]:
    answer = cluster.sql(text)
    assert answer["exceptions"] == [], answer["exceptions"]
    return answer["resultTable"]["rows"]


def test_selected_and_in_filters(cluster: InProcessCluster) -> None:
    found = rows(
        cluster,
        "SELECT far_from_bern(lat, lon), initial(city), bucket(fare) FROM rides WHERE far_from_bern(lat, lon) < 5 "
        "LIMIT 5000",
    )
    near = KM < 5
    expected = sorted(
        zip(KM[near].tolist(), [city[0] for city in CITY[near]], (FARE[near] // 100).tolist(), strict=True)
    )
    assert len(expected) > 5 and sorted(map(tuple, found)) == expected
    odd = int(FARE[FARE % 2 == 1].sum())
    assert rows(cluster, "SELECT SUM(fare) FROM rides WHERE is_odd(fare)") == [[odd]]
    assert rows(cluster, "SELECT COUNT(*) FROM rides WHERE NOT is_odd(fare) AND initial(city) IN ('G', 'X')") == [
        [int(((FARE % 2 == 0) & (CITY == "Genf")).sum())]
    ]


def test_as_group_and_sort_key_and_as_argument_of_aggregations(cluster: InProcessCluster) -> None:
    found = rows(
        cluster,
        "SELECT bucket(fare), COUNT(*), MAX(far_from_bern(lat, lon)) FROM rides GROUP BY bucket(fare) ORDER BY "
        "bucket(fare) DESC LIMIT 10",
    )
    buckets = FARE // 100
    assert found == [[b, int((buckets == b).sum()), float(KM[buckets == b].max())] for b in (4, 3, 2, 1, 0)]
    assert [
        row[0]
        for row in rows(cluster, "SELECT far_from_bern(lat, lon) FROM rides ORDER BY far_from_bern(lat, lon) LIMIT 7")
    ] == np.sort(KM)[:7].tolist()


def test_nested_with_other_functions_and_with_each_other(cluster: InProcessCluster) -> None:
    found = rows(
        cluster,
        "SELECT MAX(bucket(CAST(far_from_bern(lat, lon) AS LONG)) * 2) FROM rides WHERE upper(initial(city)) = 'B'",
    )
    assert found == [[float((KM[CITY != "Genf"].astype(np.int64) // 100).max() * 2)]]


def test_in_pql_with_quoted_numbers(cluster: InProcessCluster) -> None:
    answer = cluster.pql(
        "SELECT SUM(bucket(fare)) FROM rides WHERE FAR_FROM_BERN(lat, '7.447') < 5 GROUP BY initial(city) TOP 10"
    )
    assert answer["exceptions"] == [], answer["exceptions"]
    near = far_from_bern(LAT, np.full(ROWS, 7.447)) < 5
    expected = {city[0]: 0.0 for city in ("Bern", "Genf")}
    for city, fare in zip(CITY[near], FARE[near], strict=True):
        expected[city[0]] += float(fare // 100)
    (groups,) = [result["groupByResult"] for result in answer["aggregationResults"]]
    assert {entry["group"][0]: float(entry["value"]) for entry in groups} == expected


@pytest.mark.parametrize("dialect", ["pql", "sql"])
def test_a_fault_of_the_function_is_an_answer_with_code_200(cluster: InProcessCluster, dialect: str) -> None:
    answer = getattr(cluster, dialect)("SELECT MAX(fails(fare)) FROM rides")
    assert {error["errorCode"] for error in answer["exceptions"]} == {200}
    assert all(
        "user function 'fails' failed: ValueError: cannot take" in error["message"] for error in answer["exceptions"]
    )
    assert "Traceback" not in str(answer) and "resultTable" not in answer


def test_a_function_that_the_broker_lacks_is_refused_before_servers_are_asked(cluster: InProcessCluster) -> None:
    for dialect, code in (("pql", 200), ("sql", 700)):
        answer = getattr(cluster, dialect)("SELECT far_from_zug(lat, lon) FROM rides")
        assert [error["errorCode"] for error in answer["exceptions"]] == [code]
        assert "far" in answer["exceptions"][0]["message"] and answer["numServersQueried"] == 0


@pytest.mark.parametrize(
    ("instead", "message"),
    [
        (
            None,
            "this server has no function 'bucket', expected bucket(fare LONG) LONG: install its package there, or "
            "name it in pinot.server.user.functions",
        ),
        (
            udf(arguments=["LONG"], result="DOUBLE", name="bucket")(lambda fare: fare / 100),
            "this server has another function 'bucket' than the broker: expected bucket(fare LONG) LONG, found "
            "bucket(fare LONG) DOUBLE; "
            "install one version everywhere",
        ),
    ],
)
def test_a_server_that_lacks_the_function_refuses_before_any_segment(
    cluster: InProcessCluster, instead: UserFunction | None, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = {name: function for name, function in spec.user_functions().items() if name != "bucket"}
    on_servers = others | ({} if instead is None else {"bucket": scalar_function(instead)})
    broker = threading.current_thread()  # servers answer on threads of their own

    def user_functions() -> dict[str, spec.ScalarFunction]:
        return spec.user_functions() if threading.current_thread() is broker else on_servers

    def touched(*args: Any) -> Any:
        raise AssertionError("segments were touched")

    monkeypatch.setattr("pinotpy.query.model.user_functions.user_functions", user_functions)
    for registry in cluster.registries.values():
        monkeypatch.setattr(registry, "acquire", touched)
    answer = cluster.sql("SELECT city, MAX(fare) FROM rides WHERE bucket(fare) = 3 GROUP BY city")
    told = {
        (error["errorCode"], error["message"].removeprefix("QueryExecutionError: ")) for error in answer["exceptions"]
    }
    assert told == {(200, f"{message} (server '{server}')") for server in cluster.registries}
    assert "resultTable" not in answer


def test_a_query_names_all_its_user_functions_and_no_others(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compiled(text: str) -> Any:
        return compile_query(parse_sql(text), SCHEMA, QueryOptions(), null_handling=False)

    assert compiled("SELECT abs(fare) FROM rides").user_functions == ()
    everywhere = compiled(
        "SELECT is_odd(fare), SUM(bucket(fare)) FILTER (WHERE initial(city) = 'B') FROM rides GROUP BY is_odd(fare) "
        "HAVING MAX(far_from_bern(lat, lon)) > 3"
    )
    assert everywhere.user_functions == (
        ("bucket", "bucket(fare LONG) LONG"),
        ("farfrombern", "far_from_bern(lat DOUBLE, lon DOUBLE) DOUBLE"),
        ("initial", "initial(text STRING) STRING"),
        ("isodd", "is_odd(fare LONG) BOOLEAN"),
    )
    assert decode_context(encode_context(everywhere)) == everywhere
    check_user_functions(everywhere)
    with monkeypatch.context() as patch:
        patch.setattr("pinotpy.query.model.user_functions.user_functions", dict)
        with pytest.raises(QueryExecutionError, match="no function 'bucket'"):
            check_user_functions(everywhere)
