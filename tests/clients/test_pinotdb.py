"""Proves that `pinotdb`, the reference's DB-API, works as it is: parameters, types of every column, nulls, options,
errors. The oracle is what was uploaded (trips_table.py).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import pinotdb
import pytest
from live_cluster import LiveCluster
from pinotdb.db import Type
from trips_table import CITIES, NUM_TRIPS, TRIPS

pytestmark = pytest.mark.cluster

TYPES = {
    "tripId": Type.NUMBER,
    "city": Type.STRING,
    "order": Type.NUMBER,
    "paid": Type.BOOLEAN,
    "payload": Type.STRING,
    "details": Type.JSON,
    "tags": Type.STRING,
    "marks": Type.NUMBER,
    "distance": Type.NUMBER,
    "fare": Type.NUMBER,
    "share": Type.NUMBER,
    "price": Type.STRING,
    "at": Type.TIMESTAMP,
    "atMillis": Type.NUMBER,
    "atSeconds": Type.NUMBER,
    "day": Type.STRING,
}


def as_pinotdb_shows(name: str, value: Any) -> Any:
    """A value of trips_table.py as a row of pinotdb has it: bytes as hex, decimals as JSON text, instants without
    zone.
    """
    match name, value:
        case _, None:
            return None
        case "payload", bytes():
            return value.hex()
        case "details", str():
            return json.loads(value)
        case "price", _:
            return json.dumps(format(value.normalize(), "f"))
        case "at", datetime():
            return value.replace(tzinfo=None)
    return value


@pytest.fixture(scope="module")
def connection(trips_cluster: LiveCluster) -> Iterator[Any]:
    broker = urlsplit(trips_cluster.broker_url)
    made = pinotdb.connect(host=broker.hostname, port=broker.port, path="/query/sql", scheme="http")
    yield made
    made.close()


@pytest.fixture
def cursor(connection: Any) -> Any:
    return connection.cursor()


def test_every_column_has_its_type_and_its_values(cursor: Any) -> None:
    names = ", ".join(f'"{name}"' for name in TYPES)
    cursor.execute(f"SELECT {names} FROM trips ORDER BY tripId LIMIT 1000 OPTION(enableNullHandling=true)")
    assert [(column[0], column[1]) for column in cursor.description] == list(TYPES.items())
    assert cursor.fetchall() == [[as_pinotdb_shows(name, row[name]) for name in TYPES] for row in TRIPS]


def test_all_columns_come_in_the_order_of_their_names(cursor: Any) -> None:
    cursor.execute("SELECT * FROM trips LIMIT 3")
    assert [column[0] for column in cursor.description] == sorted(TYPES)
    assert {entry["name"]: entry["type"] for entry in cursor.schema}["tags"] == "STRING_ARRAY"


def test_rows_are_fetched_one_by_one_in_batches_and_all(cursor: Any) -> None:
    cursor.execute("SELECT tripId FROM trips ORDER BY tripId LIMIT 20")
    assert cursor.fetchone() == [0]
    assert cursor.fetchmany(4) == [[1], [2], [3], [4]]
    assert [row for (row,) in cursor] == list(range(5, 20))
    assert cursor.fetchone() is None and cursor.fetchmany(5) == [] and cursor.fetchall() == []


@pytest.mark.parametrize("city", CITIES)
def test_a_text_as_parameter_finds_its_rows(cursor: Any, city: str) -> None:
    cursor.execute("SELECT COUNT(*) FROM trips WHERE city = %(city)s AND city IS NOT NULL", {"city": city})
    assert cursor.fetchall() == [[sum(row["city"] == city for row in TRIPS)]]


def test_parameters_of_every_kind(cursor: Any) -> None:
    query = (
        "SELECT tripId FROM trips WHERE paid = %(paid)s AND tripId IN (%(ids)s) AND fare > %(fare)s AND city LIKE "
        "'O%%' ORDER BY tripId LIMIT 100"
    )
    cursor.execute(query, {"paid": False, "ids": list(range(50)), "fare": 10.5})
    expected = [
        row["tripId"]
        for row in TRIPS[:50]
        if not row["paid"] and (row["fare"] or 0) > 10.5 and (row["city"] or "").startswith("O")
    ]
    assert expected and [row for (row,) in cursor] == expected


def test_nulls_come_as_none_unless_default_values_are_asked_for(cursor: Any, connection: Any) -> None:
    without_fare = [row["tripId"] for row in TRIPS if row["fare"] is None]
    for query, options in (
        ("SELECT fare, tripId FROM trips WHERE fare IS NULL ORDER BY tripId LIMIT 1000", "enableNullHandling=true"),
        (
            "SET enableNullHandling=true; SELECT fare, tripId FROM trips WHERE fare IS NULL ORDER BY tripId LIMIT 1000",
            None,
        ),
        ("SELECT fare, tripId FROM trips WHERE fare IS NULL ORDER BY tripId LIMIT 1000", None),
    ):
        cursor.execute(query, queryOptions=options)
        assert cursor.fetchall() == [[None, number] for number in without_fare]
    cursor.execute("SELECT fare FROM trips WHERE fare IS NULL LIMIT 1", queryOptions="enableNullHandling=false")
    assert cursor.fetchall() == [[0.0]]  # the default of a metric, as in the reference


def test_options_reach_the_query(cursor: Any) -> None:
    cursor.execute("SELECT COUNT(*) FROM trips", queryOptions="timeoutMs=7000")
    assert cursor.fetchall() == [[NUM_TRIPS]]
    with pytest.raises(pinotdb.DatabaseError, match="timeoutMs"):
        cursor.execute("SET timeoutMs=0; SELECT COUNT(*) FROM trips")


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ("SELEC 1", 150, "line 1, column 1"),
        ("SELECT nosuch FROM trips", 710, "nosuch"),
        ("SELECT COUNT(*) FROM no_such_table", 190, "TableDoesNotExistError"),
        ("SELECT tripId FROM trips WHERE tripId = 'x'", 700, "x"),
        ("SHOW DATABASES", 150, "TABLES or COLUMNS FROM"),
    ],
)
def test_errors_are_raised_with_code_and_message(cursor: Any, query: str, code: int, words: str) -> None:
    with pytest.raises(pinotdb.DatabaseError) as caught:
        cursor.execute(query)
    assert f"'errorCode': {code}" in str(caught.value) and words in str(caught.value)
    # The same cursor answers the next question.
    cursor.execute("SELECT COUNT(*) FROM trips")
    assert cursor.fetchone() == [NUM_TRIPS]


def test_tables_and_columns_are_listed_in_sql(cursor: Any) -> None:
    cursor.execute("SHOW TABLES")
    assert ["trips"] in cursor.fetchall()
    cursor.execute("SELECT docs, segments FROM system.tables WHERE table_name = 'trips'")
    assert cursor.fetchall() == [[NUM_TRIPS, 2]]
    cursor.execute("SELECT status FROM system.queries WHERE query LIKE 'SHOW TABLE_' AND num_rows > 0 LIMIT 1")
    assert cursor.fetchall() == [["OK"]]


def test_a_wrong_path_is_an_error(trips_cluster: LiveCluster) -> None:
    broker = urlsplit(trips_cluster.broker_url)
    with pytest.raises(pinotdb.DatabaseError):
        pinotdb.connect(host=broker.hostname, port=broker.port, path="/nothing/here").cursor().execute("SELECT 1")


def test_the_answer_attests_that_it_is_complete(cursor: Any) -> None:
    found = cursor.execute_native("SELECT * FROM trips LIMIT 1000")
    assert (found.metadata.completeness, len(found.rows), found.metadata.unknown_reasons) == ("complete", NUM_TRIPS, [])
    assert (found.query_stats["totalDocs"], found.query_stats["numSegmentsQueried"]) == (NUM_TRIPS, 2)


def test_coroutines_ask_too(trips_cluster: LiveCluster) -> None:
    broker = urlsplit(trips_cluster.broker_url)

    async def asked() -> list[Any]:
        connection = pinotdb.connect_async(host=broker.hostname, port=broker.port)
        cursors = [connection.cursor() for _ in range(8)]
        await asyncio.gather(
            *(
                each.execute("SELECT MAX(distance) FROM trips WHERE tripId <= %(n)s", {"n": n})
                for n, each in enumerate(cursors)
            )
        )
        found = [each.fetchall() for each in cursors]
        await connection.close()
        return found

    assert asyncio.run(asked()) == [[[float(2**53 + n)]] for n in range(8)]


def test_other_names_of_the_same_table_and_columns(cursor: Any) -> None:
    for table in ("trips", "TRIPS", '"trips"', "trips_OFFLINE", "default.trips", '"default"."trips"'):
        cursor.execute(f"SELECT TRIPID, trips.City FROM {table} WHERE tripid = 1")
        assert (cursor.description[0][0], cursor.fetchall()) == ("tripId", [[1, "O'Hare"]]), table
