"""The Star Schema Benchmark, lineorder joined with its four dimensions into one table, 24 columns.

Distributions and cardinalities are those of the benchmark's generator (O'Neil, O'Neil, Chen, "Star Schema Benchmark",
revision 3): per 6 million rows 30,000 customers, 2,000 suppliers and 200,000 × (1 + log2) parts; orders of 1 to 7 lines
on uniform days of the 2,406 from 1992-01-01 on; quantity 1–50, discount 0–10, price of a part 90,000 + its key's
digits, cents; 5 regions of 5 nations of 10 cities; 5 manufacturers of 5 categories of 40 brands. Rows lie in the order
of the day, as the events of a business arrive.
"""

from __future__ import annotations

import datetime
import math
from typing import Any, Final

import numpy as np
import pyarrow as pa

from bench.tables.table import CHUNK_ROWS, Table, domain, pick

REGIONS: Final[dict[str, tuple[str, ...]]] = {
    "AFRICA": ("ALGERIA", "ETHIOPIA", "KENYA", "MOROCCO", "MOZAMBIQUE"),
    "AMERICA": ("ARGENTINA", "BRAZIL", "CANADA", "PERU", "UNITED STATES"),
    "ASIA": ("CHINA", "INDIA", "INDONESIA", "JAPAN", "VIETNAM"),
    "EUROPE": ("FRANCE", "GERMANY", "ROMANIA", "RUSSIA", "UNITED KINGDOM"),
    "MIDDLE EAST": ("EGYPT", "IRAN", "IRAQ", "JORDAN", "SAUDI ARABIA"),
}
NATIONS: Final = tuple(nation for nations in REGIONS.values() for nation in nations)
MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
NUM_DAYS: Final = 2_406
_FIRST: Final = datetime.date(1992, 1, 1)
_INTS: Final = (
    "lo_linenumber",
    "lo_custkey",
    "lo_partkey",
    "lo_suppkey",
    "d_year",
    "d_yearmonthnum",
    "d_weeknuminyear",
)
_METRICS: Final = ("lo_quantity", "lo_extendedprice", "lo_discount", "lo_revenue", "lo_supplycost")


def city(nation: str, number: int) -> str:
    """`UNITED KI1`: nine characters of the nation and a digit."""
    return f"{nation[:9]:9s}{number}"


def _chunk(number: int, num_chunks: int, rows: int) -> pa.RecordBatch:
    rng = np.random.default_rng([19, number])
    scale = max(1.0, num_chunks * CHUNK_ROWS / 6_000_000)
    num_parts = int(200_000 * (1 + math.log2(scale)))
    order_of_line = np.repeat(np.arange(rows), rng.integers(1, 8, rows))[:rows]
    lines = np.arange(rows) - np.searchsorted(order_of_line, order_of_line) + 1
    num_orders = int(order_of_line[-1]) + 1 if rows else 0
    low, high = (
        number * NUM_DAYS // num_chunks,
        max((number + 1) * NUM_DAYS // num_chunks, number * NUM_DAYS // num_chunks + 1),
    )
    day = np.sort(rng.integers(low, high, num_orders))[order_of_line]
    customer = rng.integers(1, int(30_000 * scale) + 1, num_orders)[order_of_line]
    part, supplier = rng.integers(1, num_parts + 1, rows), rng.integers(1, int(2_000 * scale) + 1, rows)
    quantity, discount = rng.integers(1, 51, rows), rng.integers(0, 11, rows)
    part_price = 90_000 + part // 10 % 20_001 + 100 * (part % 1_000)
    price = quantity * part_price
    c_city, s_city, brand = (
        _of_key(seed, key, cardinality)
        for seed, key, cardinality in ((1, customer, 250), (2, supplier, 250), (3, part, 1_000))
    )
    columns = {
        "lo_orderkey": pa.array(number * rows + order_of_line, pa.int64()),
        "lo_linenumber": lines,
        "lo_custkey": customer,
        "lo_partkey": part,
        "lo_suppkey": supplier,
        "lo_orderdate": _DATES["key"][day],
        "lo_quantity": quantity,
        "lo_extendedprice": price,
        "lo_discount": discount,
        "lo_revenue": price * (100 - discount) // 100,
        "lo_supplycost": 6 * part_price // 10,
        "d_year": _DATES["year"][day],
        "d_yearmonthnum": _DATES["month"][day],
        "d_weeknuminyear": _DATES["week"][day],
        "d_yearmonth": pick(_YEAR_MONTHS, _DATES["month_id"][day]),
        "c_city": pick(_CITIES, c_city),
        "c_nation": pick(_NATIONS, c_city // 10),
        "c_region": pick(_REGIONS, c_city // 50),
        "s_city": pick(_CITIES, s_city),
        "s_nation": pick(_NATIONS, s_city // 10),
        "s_region": pick(_REGIONS, s_city // 50),
        "p_mfgr": pick(_MAKERS, brand // 200),
        "p_category": pick(_CATEGORIES, brand // 40),
        "p_brand": pick(_BRANDS, brand),
    }
    return pa.RecordBatch.from_pydict(
        {name: c if isinstance(c, pa.Array) else pa.array(c, pa.int32()) for name, c in columns.items()}
    )


def _of_key(seed: int, key: np.ndarray[Any, Any], cardinality: int) -> np.ndarray[Any, Any]:
    """A uniform attribute that depends on the key alone: the finaliser of splitmix64."""
    mixed = key.astype(np.uint64) + np.uint64(seed * 0x9E3779B97F4A7C15 & (1 << 64) - 1)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((mixed ^ (mixed >> np.uint64(31))) % np.uint64(cardinality)).astype(np.int64)


def _dates() -> dict[str, np.ndarray[Any, Any]]:
    days = [_FIRST + datetime.timedelta(days=i) for i in range(NUM_DAYS)]
    return {
        "key": np.array([d.year * 10_000 + d.month * 100 + d.day for d in days]),
        "year": np.array([d.year for d in days]),
        "month": np.array([d.year * 100 + d.month for d in days]),
        "week": np.array([(d.timetuple().tm_yday - 1) // 7 + 1 for d in days]),
        "month_id": np.array([(d.year - 1992) * 12 + d.month - 1 for d in days]),
    }


_DATES: Final = _dates()
_CITIES: Final = pa.array([city(nation, i) for nation in NATIONS for i in range(10)])
_YEAR_MONTHS: Final = pa.array([f"{month}{year}" for year in range(1992, 1999) for month in MONTHS])
_NATIONS: Final = pa.array(NATIONS)
_REGIONS: Final = pa.array(list(REGIONS))
_MAKERS: Final = pa.array([f"MFGR#{i + 1}" for i in range(5)])
_CATEGORIES: Final = pa.array([f"MFGR#{i // 5 + 1}{i % 5 + 1}" for i in range(25)])
_BRANDS: Final = pa.array([f"MFGR#{i // 200 + 1}{i // 40 % 5 + 1}{i % 40 + 1:02d}" for i in range(1_000)])
_TEXTS: Final = domain(
    ("d_yearmonth", _YEAR_MONTHS),
    ("c_city", _CITIES),
    ("c_nation", _NATIONS),
    ("c_region", _REGIONS),
    ("s_city", _CITIES),
    ("s_nation", _NATIONS),
    ("s_region", _REGIONS),
    ("p_mfgr", _MAKERS),
    ("p_category", _CATEGORIES),
    ("p_brand", _BRANDS),
)
_SCHEMA: Final[dict[str, Any]] = {
    "schemaName": "lineorder",
    "dimensionFieldSpecs": [
        {"name": "lo_orderkey", "dataType": "LONG"},
        *({"name": name, "dataType": "INT"} for name in _INTS),
        *({"name": name, "dataType": "STRING"} for name in _TEXTS),
    ],
    "metricFieldSpecs": [{"name": name, "dataType": "INT"} for name in _METRICS],
    "dateTimeFieldSpecs": [
        {
            "name": "lo_orderdate",
            "dataType": "INT",
            "format": "1:DAYS:SIMPLE_DATE_FORMAT:yyyyMMdd",
            "granularity": "1:DAYS",
        }
    ],
}
_CONFIG: Final[dict[str, Any]] = {
    "tableName": "lineorder",
    "tableType": "OFFLINE",
    "segmentsConfig": {
        "timeColumnName": "lo_orderdate",
        "timeType": "DAYS",
        "replication": "1",
        "segmentPushType": "APPEND",
    },
    "tenants": {},
    "tableIndexConfig": {
        "loadMode": "MMAP",
        "sortedColumn": ["lo_orderdate"],
        "noDictionaryColumns": ["lo_orderkey", "lo_extendedprice", "lo_revenue"],
        "noDictionaryConfig": {"lo_orderkey": "DELTA"},
    },
    "metadata": {},
}
LINEORDER: Final = Table(
    name="lineorder",
    schema=_SCHEMA,
    config=_CONFIG,
    chunk=_chunk,
    sort_columns=("lo_orderdate",),
    version=1,
    few_values=_TEXTS,
    summed=_METRICS,
)
