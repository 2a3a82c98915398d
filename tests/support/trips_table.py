"""The table `trips` that foreign clients ask: a column of every type, names that are reserved words, and rows without
values.

Rows are written down here in plain Python; DuckDB reads the same rows where an answer has to be computed.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from live_cluster import LiveCluster, wait_until

from pinotpy.decimals import encode_decimal

NUM_TRIPS = 300
CITIES = ["Oslo", "O'Hare", 'say "hi"', "100 %", "Größe 🙂", "back\\slash", ""]
START = datetime(2023, 12, 28, 22, 47, 11, 250_000, tzinfo=UTC)

SCHEMA: dict[str, Any] = {
    "schemaName": "trips",
    "enableColumnBasedNullHandling": True,
    "dimensionFieldSpecs": [
        {"name": "tripId", "dataType": "INT"},
        {"name": "city", "dataType": "STRING"},
        {"name": "order", "dataType": "INT"},
        {"name": "paid", "dataType": "BOOLEAN"},
        {"name": "payload", "dataType": "BYTES"},
        {"name": "details", "dataType": "JSON"},
        {"name": "tags", "dataType": "STRING", "singleValueField": False},
        {"name": "marks", "dataType": "INT", "singleValueField": False},
    ],
    "metricFieldSpecs": [
        {"name": "distance", "dataType": "LONG"},
        {"name": "fare", "dataType": "DOUBLE"},
        {"name": "share", "dataType": "FLOAT"},
        {"name": "price", "dataType": "BIG_DECIMAL"},
    ],
    "dateTimeFieldSpecs": [
        {"name": "at", "dataType": "TIMESTAMP", "format": "1:MILLISECONDS:TIMESTAMP", "granularity": "1:MILLISECONDS"},
        {"name": "atMillis", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:MILLISECONDS"},
        {"name": "atSeconds", "dataType": "LONG", "format": "1:SECONDS:EPOCH", "granularity": "1:SECONDS"},
        {
            "name": "day",
            "dataType": "STRING",
            "format": "1:DAYS:SIMPLE_DATE_FORMAT:yyyy-MM-dd",
            "granularity": "1:DAYS",
        },
    ],
}
CONFIG: dict[str, Any] = {
    "tableName": "trips",
    "tableType": "OFFLINE",
    "segmentsConfig": {"replication": "1"},
    "tenants": {},
    "tableIndexConfig": {},
    "metadata": {},
}


def trip(number: int) -> dict[str, Any]:
    """Row `number`; None where the row has no value. `at` is an instant, `price` a Decimal, `payload` bytes, `details`
    JSON text.
    """
    at = START + timedelta(minutes=97 * number, milliseconds=number)
    millis = round(at.timestamp() * 1000)
    return {
        "tripId": number,
        "city": None if number % 11 == 10 else CITIES[number % len(CITIES)],
        "order": number % 3,
        "paid": number % 4 == 0,
        "payload": number.to_bytes(3, "big"),
        "details": f'{{"seat":{number % 5},"name":"n{number % 2}"}}',
        "tags": [f"t{number % 2}", f"t{number % 5}"],
        "marks": [number % 7, number],
        "distance": 2**53 + number,
        "fare": None if number % 13 == 12 else number * 1.25,
        "share": (number % 10) / 8,
        "price": Decimal(number) / 100 + 10**20,
        "at": at,
        "atMillis": millis,
        "atSeconds": millis // 1000,
        "day": at.strftime("%Y-%m-%d"),
    }


TRIPS: list[dict[str, Any]] = [trip(number) for number in range(NUM_TRIPS)]


def stored_batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """Rows as a segment stores them."""
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return pa.RecordBatch.from_pydict(
        {
            "tripId": pa.array(columns["tripId"], pa.int32()),
            "city": pa.array(columns["city"], pa.string()),
            "order": pa.array(columns["order"], pa.int32()),
            "paid": pa.array(columns["paid"], pa.bool_()),
            "payload": pa.array(columns["payload"], pa.binary()),
            "details": pa.array(columns["details"], pa.string()),
            "tags": pa.array(columns["tags"], pa.list_(pa.string())),
            "marks": pa.array(columns["marks"], pa.list_(pa.int32())),
            "distance": pa.array(columns["distance"], pa.int64()),
            "fare": pa.array(columns["fare"], pa.float64()),
            "share": pa.array(columns["share"], pa.float32()),
            "price": pa.array([encode_decimal(value) for value in columns["price"]], pa.binary()),
            "at": pa.array(columns["atMillis"], pa.int64()),
            "atMillis": pa.array(columns["atMillis"], pa.int64()),
            "atSeconds": pa.array(columns["atSeconds"], pa.int64()),
            "day": pa.array(columns["day"], pa.string()),
        }
    )


def add_trips(live: LiveCluster) -> None:
    """Create the table, upload its rows in two segments, and wait until the broker answers for all of them."""
    live.add_table(SCHEMA, CONFIG, [[stored_batch(TRIPS[:110])], [stored_batch(TRIPS[110:])]])
    count = "SELECT COUNT(*) FROM trips"
    wait_until(
        lambda: live.query(count, "sql").get("resultTable", {}).get("rows") == [[NUM_TRIPS]],
        120.0,
        "the broker answers for the table",
    )
