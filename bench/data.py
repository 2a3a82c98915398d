"""The generated table of the suite: clicks on advertisements, 12 columns, in chunks of one million rows sorted by day.

Cardinalities: day 365 (sorted), country 200 and campaign 10,000 (both skewed), carrier 15, user_id ~1.5 M per 10 M
rows, price 60,000, url 20,000, cost a raw double, clicks and discount small, tags multi-valued.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

CHUNK: Final = 1_000_000
SCHEMA: Final[dict[str, Any]] = {
    "schemaName": "ads",
    "dimensionFieldSpecs": [
        {"name": "country", "dataType": "STRING"},
        {"name": "carrier", "dataType": "STRING"},
        {"name": "campaign", "dataType": "STRING"},
        {"name": "user_id", "dataType": "LONG"},
        {"name": "url", "dataType": "STRING"},
        {"name": "tags", "dataType": "STRING", "singleValueField": False},
        {"name": "clicks", "dataType": "INT"},
        {"name": "discount", "dataType": "INT"},
    ],
    "metricFieldSpecs": [{"name": "price", "dataType": "INT"}, {"name": "cost", "dataType": "DOUBLE"}],
    "dateTimeFieldSpecs": [{"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}],
}
TABLE_CONFIG: Final[dict[str, Any]] = {
    "tableName": "ads",
    "tableType": "OFFLINE",
    "segmentsConfig": {"timeColumnName": "day", "timeType": "DAYS", "replication": "1", "segmentPushType": "APPEND"},
    "tenants": {},
    "tableIndexConfig": {
        "loadMode": "MMAP",
        "noDictionaryColumns": ["cost"],
        "invertedIndexColumns": ["user_id"],
        "sortedColumn": ["day"],
    },
    "metadata": {},
}
FIRST_DAY: Final = 18_000


def chunk(number: int, num_chunks: int, rows: int = CHUNK, seed: int = 7) -> pa.RecordBatch:
    """Rows of chunk `number` of `num_chunks`, in storage form."""
    rng = np.random.default_rng([seed, number])
    zipf = (rng.zipf(1.3, rows) - 1).astype(np.int64)
    day = np.sort(FIRST_DAY + (number * 365 + rng.integers(0, 365, rows)) // num_chunks).astype(np.int32)
    lengths = rng.integers(1, 5, rows)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    tag_ids = rng.integers(0, 100, int(offsets[-1])).astype(np.int32)
    columns: dict[str, pa.Array] = {
        "country": _names("country_", zipf % 200, 200),
        "carrier": _names("carrier_", rng.integers(0, 15, rows), 15),
        "campaign": _names("campaign_", (rng.zipf(1.2, rows) - 1) % 10_000, 10_000),
        "user_id": pa.array((rng.integers(0, 1_500_000, rows) * 7919).astype(np.int64)),
        "url": _names("https://shop.example/item/", rng.integers(0, 20_000, rows), 20_000),
        "tags": pa.ListArray.from_arrays(
            pa.array(offsets), pa.array([f"tag_{i:02d}" for i in range(100)]).take(pa.array(tag_ids))
        ),
        "clicks": pa.array(rng.integers(0, 50, rows).astype(np.int32)),
        "discount": pa.array(rng.integers(0, 11, rows).astype(np.int32)),
        "price": pa.array(rng.integers(1, 60_001, rows).astype(np.int32)),
        "cost": pa.array(np.round(rng.gamma(2.0, 15.0, rows), 4)),
        "day": pa.array(day),
    }
    return pa.RecordBatch.from_pydict(columns)


def _names(prefix: str, ids: np.ndarray[Any, Any], cardinality: int) -> pa.Array:
    dictionary = pa.array([f"{prefix}{i:05d}" for i in range(cardinality)])
    return pa.DictionaryArray.from_arrays(pa.array(np.asarray(ids, np.int32)), dictionary).cast(pa.string())
