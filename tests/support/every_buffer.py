"""A small segment with every encoding, every index and every kind of buffer, for tests that damage it."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
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
