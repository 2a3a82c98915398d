"""Requests to a web service: what the other tables lack. Raw texts that hardly repeat, raw numbers, nulls, many users.

day 365 (sorted); ts milliseconds, raw, ascending; session a hexadecimal text, one in eight rows a new one (1.25 million
per 10 million rows), raw; path a text of 20 to 40 bytes that hardly repeats, raw; user_id 2 million per 10 million
rows, skewed; country 200 and device 12, skewed; status 8; latency DOUBLE, size LONG and price DOUBLE raw; score INT,
null in 20 % of the rows; referrer 500, null in 30 %; labels of 100, one to four a row.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.tables.table import Table, domain, names, pick

FIRST_DAY: Final = 19_000
NUM_DAYS: Final = 365
STATUSES: Final = (200, 201, 204, 301, 304, 400, 404, 500)
VERBS: Final = ("item", "cart", "search", "login", "review", "basket", "order", "help")
_DAY_MS: Final = 86_400_000


def num_users(rows: int) -> int:
    return max(1_000, rows // 5)


def num_sessions(rows: int) -> int:
    return max(1_000, rows // 8)


def session(number: int) -> str:
    """The text of session `number`."""
    return f"{int(_mixed(np.array([number]))[0]):016x}"


def _chunk(number: int, num_chunks: int, rows: int) -> pa.RecordBatch:
    rng = np.random.default_rng([31, number])
    all_rows = num_chunks * rows
    low_ms, high_ms = (FIRST_DAY * _DAY_MS + (number + i) * NUM_DAYS * _DAY_MS // num_chunks for i in (0, 1))
    ts = np.sort(rng.integers(low_ms, high_ms, rows))
    user = (num_users(all_rows) * rng.random(rows) ** 2).astype(np.int64)
    session_ids = rng.integers(0, num_sessions(all_rows), rows)
    lengths = rng.integers(1, 5, rows)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    labels = pick(_LABELS, rng.integers(0, 100, int(offsets[-1])).astype(np.int32))
    columns: dict[str, pa.Array] = {
        "session": _hexadecimal(_mixed(session_ids)),
        "path": _paths(rng, rows),
        "user_id": pa.array(user * 104_729 + 17),
        "country": pick(_COUNTRIES, (rng.zipf(1.3, rows) - 1) % 200),
        "device": pick(_DEVICES, (rng.zipf(1.6, rows) - 1) % 12),
        "status": pa.array(np.array(STATUSES)[np.minimum(rng.geometric(0.6, rows) - 1, 7)], pa.int32()),
        "score": pa.array(rng.integers(0, 101, rows).astype(np.int32), mask=rng.random(rows) < 0.2),
        "referrer": pick(
            _REFERRERS, pa.array(((rng.zipf(1.4, rows) - 1) % 500).astype(np.int32), mask=rng.random(rows) < 0.3)
        ),
        "labels": pa.ListArray.from_arrays(pa.array(offsets), labels),
        "latency": pa.array(np.round(np.exp(rng.normal(3.0, 1.2, rows)), 3)),
        "size": pa.array(rng.integers(100, 2_000_000, rows)),
        "price": pa.array(np.round(rng.gamma(2.0, 20.0, rows), 2)),
        "ts": pa.array(ts),
        "day": pa.array((ts // _DAY_MS).astype(np.int32)),
    }
    return pa.RecordBatch.from_pydict(columns)


def _mixed(ids: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Ids scattered over 64 bits, one to one: the finaliser of splitmix64."""
    mixed = ids.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _hexadecimal(values: np.ndarray[Any, Any]) -> pa.Array:
    """Sixteen digits each."""
    shifts = np.arange(60, -1, -4, dtype=np.uint64)
    digits = ((values[:, None] >> shifts) & np.uint64(15)).astype(np.uint8)
    text = np.where(digits < 10, digits + 48, digits + 87).astype(np.uint8)
    offsets = np.arange(0, 16 * len(values) + 1, 16, dtype=np.int32)
    return pa.StringArray.from_buffers(len(values), pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(text)))


def _paths(rng: np.random.Generator, rows: int) -> pa.Array:
    """`/item/482133/view?q=7f3a91`."""
    verb = pick(pa.array([f"/{verb}/" for verb in VERBS]), rng.integers(0, len(VERBS), rows).astype(np.int32))
    number = pa.array(rng.integers(0, 1_000_000, rows)).cast(pa.string())
    action = pick(
        pa.array(["/view?q=", "/edit?q=", "/list?page=", "/save?token="]), rng.integers(0, 4, rows).astype(np.int32)
    )
    token = pc.utf8_slice_codeunits(_hexadecimal(rng.integers(0, 1 << 63, rows).astype(np.uint64)), 0, 8)
    return pc.binary_join_element_wise(verb, number, action, token, "")


_COUNTRIES: Final = names("country_", 200)
_DEVICES: Final = names("device_", 12, 2)
_LABELS: Final = names("label_", 100, 2)
_REFERRERS: Final = pa.array([f"https://site-{i:03d}.example/" for i in range(500)])
_SCHEMA: Final[dict[str, Any]] = {
    "schemaName": "requests",
    "dimensionFieldSpecs": [
        {"name": "session", "dataType": "STRING"},
        {"name": "path", "dataType": "STRING"},
        {"name": "user_id", "dataType": "LONG"},
        {"name": "country", "dataType": "STRING"},
        {"name": "device", "dataType": "STRING"},
        {"name": "status", "dataType": "INT"},
        {"name": "score", "dataType": "INT"},
        {"name": "referrer", "dataType": "STRING"},
        {"name": "labels", "dataType": "STRING", "singleValueField": False},
    ],
    "metricFieldSpecs": [
        {"name": "latency", "dataType": "DOUBLE"},
        {"name": "size", "dataType": "LONG"},
        {"name": "price", "dataType": "DOUBLE"},
    ],
    "dateTimeFieldSpecs": [
        {"name": "ts", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:MILLISECONDS"},
        {"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"},
    ],
}
_CONFIG: Final[dict[str, Any]] = {
    "tableName": "requests",
    "tableType": "OFFLINE",
    "segmentsConfig": {"timeColumnName": "day", "timeType": "DAYS", "replication": "1", "segmentPushType": "APPEND"},
    "tenants": {},
    "tableIndexConfig": {
        "loadMode": "MMAP",
        "sortedColumn": ["day"],
        "noDictionaryColumns": ["session", "path", "latency", "size", "price", "ts"],
        "noDictionaryConfig": {"ts": "DELTA"},
        "nullHandlingEnabled": True,
    },
    "metadata": {},
}
REQUESTS: Final = Table(
    name="requests",
    schema=_SCHEMA,
    config=_CONFIG,
    chunk=_chunk,
    sort_columns=("day", "ts"),
    version=1,
    few_values=domain(("country", _COUNTRIES), ("device", _DEVICES), ("referrer", _REFERRERS), ("labels", _LABELS)),
    nullable=("score", "referrer"),
)
