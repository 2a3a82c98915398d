"""Clicks on advertisements (bench.data) as a benchmark table; no inverted index, so that scans are compared with
scans.
"""

from __future__ import annotations

from typing import Final

from bench.data import SCHEMA, TABLE_CONFIG, chunk
from bench.tables.table import Table, domain, names

_INDEXING: Final = {
    key: value for key, value in TABLE_CONFIG["tableIndexConfig"].items() if key != "invertedIndexColumns"
}
ADS: Final = Table(
    name="ads",
    schema=SCHEMA,
    config={**TABLE_CONFIG, "tableIndexConfig": _INDEXING},
    chunk=chunk,
    sort_columns=("day",),
    version=1,
    few_values=domain(
        ("country", names("country_", 200)),
        ("carrier", names("carrier_", 15)),
        ("campaign", names("campaign_", 10_000)),
        ("url", names("https://shop.example/item/", 20_000)),
        ("tags", names("tag_", 100, 2)),
    ),
    summed=("price", "discount"),
)
