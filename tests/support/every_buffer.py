"""A small segment with every encoding, every index and every kind of buffer, for tests that damage it, and queries that
read them.
"""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.pql.parser import parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.model.context import QueryOptions
from pinotpy.segment.build.builder import build_segment_into
from pinotpy.segment.directory.directory import SegmentDirectory

NUM_DOCS = 300
_TYPES = {
    "i": "INT",
    "p": "LONG",
    "s": "STRING",
    "r": "DOUBLE",
    "t": "STRING",
    "z": "LONG",
    "y": "JSON",
    "sorted": "INT",
    "few": "INT",
}
_LISTS = {"mi": "INT", "ms": "STRING", "mr": "LONG", "mt": "BYTES"}
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": n, "dataType": t} for n, t in _TYPES.items()]
        + [{"name": n, "dataType": t, "singleValueField": False} for n, t in _LISTS.items()],
    }
)
_STAR_TREE = {
    "dimensionsSplitOrder": ["few", "sorted"],
    "functionColumnPairs": ["COUNT__*", "SUM__z", "MAX__i", "DISTINCTCOUNTHLL__s"],
    "maxLeafRecords": 1,
}


QUERIES = (
    "SELECT few, SUM(z), COUNT(*), MAX(i) FROM t WHERE sorted > 7 GROUP BY few ORDER BY few LIMIT 10",  # star-tree
    "SELECT sorted, DISTINCTCOUNTHLL(s) FROM t GROUP BY sorted ORDER BY sorted LIMIT 100",
    "SELECT i, COUNT(*), SUM(r) FROM t WHERE p > 1000000 GROUP BY i ORDER BY i LIMIT 100",
    "SELECT s, MIN(p), MAX(z) FROM t WHERE i IN (3, 5, 7) GROUP BY s ORDER BY s LIMIT 100",
    "SELECT t, r, y FROM t WHERE r BETWEEN 0.2 AND 0.4 ORDER BY r LIMIT 50",
    "SELECT COUNT(*) FROM t WHERE t = 'ab' OR s LIKE '%a%'",
    "SELECT COUNT(*), SUM(z) FROM t WHERE JSON_MATCH(y, '\"$.a\" = 3')",
    "SELECT COUNT(*) FROM t WHERE TEXT_MATCH(s, 'a OR b')",
    "SELECT COUNT(*) FROM t WHERE TEXT_MATCH(ms, 'a*') AND i IS NOT NULL",
    "SELECT mi, COUNT(*) FROM t GROUP BY mi ORDER BY mi LIMIT 100",
    "SELECT ms, mt, mr FROM t WHERE mi = 4 LIMIT 50",
    "SELECT DISTINCT ms FROM t ORDER BY ms LIMIT 200",
    "SELECT COUNT(*), SUM(z) FROM t WHERE mr > 6 AND few = 1",
    "SELECT DISTINCT p FROM t WHERE s > 'b' ORDER BY p LIMIT 200",
    "SELECT MIN(i), MAX(p), AVG(r), DISTINCTCOUNT(t), COUNT(z) FROM t",
)

CONTEXTS = [compile_query(parse_sql(text), SCHEMA, QueryOptions(), null_handling=False) for text in QUERIES]


def config(*, star_tree: bool = False) -> TableConfig:
    """The table config that the segment is built by."""
    return TableConfig.from_json(
        {
            "tableName": "t",
            "tableType": "OFFLINE",
            "segmentsConfig": {"replication": "1"},
            "tenants": {},
            "metadata": {},
            "tableIndexConfig": {
                "nullHandlingEnabled": True,
                "noDictionaryColumns": ["r", "t", "mr", "mt"],
                "noDictionaryConfig": {"z": "LZ4", "y": "ZSTANDARD"},
                "invertedIndexColumns": ["i", "s", "mi", "p", "few"],
                "bloomFilterColumns": ["t", "mi"],
                "rangeIndexColumns": ["p", "r", "mr"],
                "jsonIndexColumns": ["y"],
                "starTreeIndexConfigs": [_STAR_TREE] if star_tree else [],
            },
            "fieldConfigList": [
                {"name": "p", "properties": {"dictIdEncoding": "FIXED_BIT"}},
                *({"name": name, "indexType": "TEXT"} for name in ("s", "t", "ms")),
            ],
        }
    )


def rows() -> pa.RecordBatch:
    """Its rows, in storage form."""
    rng = random.Random(11)

    def values(make: Any) -> list[Any]:
        return [None if rng.random() < 0.1 else make() for _ in range(NUM_DOCS)]

    def word() -> str:
        return "".join(rng.choices("abcdé", k=rng.randrange(8)))

    def several(make: Any) -> Any:
        return lambda: [make() for _ in range(rng.randrange(4))]

    columns = {
        "i": pa.array(values(lambda: rng.randrange(20)), pa.int32()),
        "p": pa.array(values(lambda: rng.randrange(2**40)), pa.int64()),
        "few": pa.array(values(lambda: rng.randrange(2)), pa.int32()),
        "s": pa.array(values(word)),
        "r": pa.array(values(rng.random), pa.float64()),
        "t": pa.array(values(word)),
        "z": pa.array(values(lambda: rng.randrange(100)), pa.int64()),
        "y": pa.array(values(lambda: f'{{"a":{rng.randrange(9)}}}')),
        "sorted": pa.array(sorted(rng.randrange(30) for _ in range(NUM_DOCS)), pa.int32()),
        "mi": pa.array(values(several(lambda: rng.randrange(9))), pa.list_(pa.int32())),
        "ms": pa.array(values(several(word)), pa.list_(pa.string())),
        "mr": pa.array(values(several(lambda: rng.randrange(9))), pa.list_(pa.int64())),
        "mt": pa.array(values(several(lambda: rng.randbytes(3))), pa.list_(pa.binary())),
    }
    return pa.record_batch(columns)


def build_into(directory: SegmentDirectory, *, star_tree: bool = False) -> None:
    """Build the segment `seg`."""
    build_segment_into(directory, SCHEMA, config(star_tree=star_tree), [rows()], "seg")
