"""Proves that segments of every format version ever written still open and mean the same: one small segment a version
is kept in data/ for ever, its rows are written down here.

`data/segment-v1` was built by the first release of format 1 from `SCHEMA`, `CONFIG` and `ROWS`;
`data/segment-v1-bitmaps` when inverted indexes could be Roaring bitmaps as well, kinds of buffers that an older reader
skips. Never build them anew: when bytes change, a new folder stands beside them, and where an older reader would read
them wrong, the version goes up.
"""

from __future__ import annotations

import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.decimals import encode_decimal
from pinotpy.segment.build.builder import build_segment
from pinotpy.segment.immutable import load_segment
from pinotpy.segment.index.inverted import AS_BITMAPS, AS_LISTS

DATA = Path(__file__).parent / "data"

SCHEMA = Schema.from_json(
    {
        "schemaName": "compat",
        "dimensionFieldSpecs": [
            {"name": "carrier", "dataType": "STRING"},
            {"name": "origin", "dataType": "STRING"},
            {"name": "tags", "dataType": "STRING", "singleValueField": False},
            {"name": "gates", "dataType": "INT", "singleValueField": False},
            {"name": "note", "dataType": "JSON"},
            {"name": "blob", "dataType": "BYTES"},
            {"name": "late", "dataType": "BOOLEAN"},
            {"name": "codes", "dataType": "LONG", "singleValueField": False},
        ],
        "metricFieldSpecs": [
            {"name": "delay", "dataType": "INT"},
            {"name": "distance", "dataType": "LONG"},
            {"name": "speed", "dataType": "FLOAT"},
            {"name": "cost", "dataType": "DOUBLE"},
            {"name": "price", "dataType": "BIG_DECIMAL"},
        ],
        "dateTimeFieldSpecs": [
            {"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"},
            {"name": "at", "dataType": "TIMESTAMP", "format": "TIMESTAMP", "granularity": "1:MILLISECONDS"},
        ],
    }
)

CONFIG = TableConfig.from_json(
    {
        "tableName": "compat",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1", "timeColumnName": "day"},
        "tenants": {},
        "metadata": {},
        "tableIndexConfig": {
            "nullHandlingEnabled": True,
            "noDictionaryColumns": ["delay", "blob", "codes"],
            "noDictionaryConfig": {"cost": "LZ4", "note": "ZSTANDARD", "distance": "SNAPPY"},
            "invertedIndexColumns": ["carrier", "tags"],
            "segmentPartitionConfig": {
                "columnPartitionMap": {"carrier": {"functionName": "Murmur", "numPartitions": 16}}
            },
        },
        "fieldConfigList": [{"name": "origin", "properties": {"dictIdEncoding": "FIXED_BIT"}}],
    }
)

NUM_ROWS = 60
COLUMNS: dict[str, list[Any]] = {
    "carrier": [None if i % 13 == 5 else ["UA", "AA", "B6", "Île", "日本"][i * 7 % 5] for i in range(NUM_ROWS)],
    "origin": [["EWR", "LGA", "JFK"][i * i % 7 % 3] for i in range(NUM_ROWS)],
    "tags": [None if i % 5 == 0 else [f"t{(i + k) % 4}" for k in range(i % 5)] for i in range(NUM_ROWS)],
    "gates": [[i % 3, -i, i % 3] for i in range(NUM_ROWS)],
    "note": [f'{{"i":{i}}}' for i in range(NUM_ROWS)],
    "blob": [None if i % 9 == 0 else bytes([i, 255 - i])[: i % 3] for i in range(NUM_ROWS)],
    "late": [None if i % 10 == 9 else i % 4 == 1 for i in range(NUM_ROWS)],
    "codes": [[2**62 + i] * (1 + i % 2) for i in range(NUM_ROWS)],
    "delay": [None if i == 7 else i * i - 900 for i in range(NUM_ROWS)],
    "distance": [10**12 + i // 10 for i in range(NUM_ROWS)],
    "speed": [None if i % 6 == 1 else i / 4 for i in range(NUM_ROWS)],
    "cost": [float("inf") if i == 3 else i * 0.1 for i in range(NUM_ROWS)],
    "price": [encode_decimal(Decimal(i - 30).scaleb(-2)) for i in range(NUM_ROWS)],
    "day": [15706 + i // 20 for i in range(NUM_ROWS)],
    "at": [1_357_000_000_000 + 86_400_000 * (i % 7) for i in range(NUM_ROWS)],
}


def batch() -> pa.RecordBatch:
    types = {
        name: spec.data_type.arrow if spec.single_value else pa.list_(spec.data_type.arrow)
        for name, spec in SCHEMA.field_specs.items()
    }
    return pa.record_batch({name: pa.array(values, types[name]) for name, values in COLUMNS.items()})


@pytest.fixture(params=["segment-v1", "segment-v1-bitmaps"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy: opening leaves a marker beside the files."""
    return Path(shutil.copytree(DATA / request.param, tmp_path / request.param))


def test_a_kept_segment_opens_and_holds_its_rows(kept: Path) -> None:
    with load_segment(kept) as segment:
        assert (segment.name, segment.table, segment.num_docs) == ("compat_v1", "compat", NUM_ROWS)
        assert segment.columns() == tuple(COLUMNS) and segment.metadata.creation_time_ms == 1_700_000_000_000
        assert pa.Table.from_batches(segment.to_batches()).to_pydict() == COLUMNS
        time = segment.metadata.time_range
        assert time is not None and (time.column, time.start_ms, time.end_ms) == (
            "day",
            15706 * 86_400_000,
            15708 * 86_400_000,
        )


def test_the_indexes_of_a_kept_segment_answer(kept: Path) -> None:
    with load_segment(kept) as segment:
        carrier, tags, day, origin = (segment.column(name) for name in ("carrier", "tags", "day", "origin"))
        assert carrier.dictionary is not None and tags.dictionary is not None
        stored = [value if value is not None else "null" for value in COLUMNS["carrier"]]
        assert carrier.dictionary.arrow().to_pylist() == sorted({value.encode() for value in stored})
        assert carrier.inverted_docs(carrier.dictionary.index_of(b"AA")).tolist() == [
            i for i, value in enumerate(stored) if value == "AA"
        ]
        assert tags.inverted_docs(tags.dictionary.index_of(b"t2")).tolist() == [
            i for i, row in enumerate(COLUMNS["tags"]) if row and "t2" in row
        ]
        assert day.sorted_starts().tolist() == [0, 20, 40, 60]
        assert origin.metadata.encoding == "PACKED" and origin.metadata.width == 2
        assert carrier.partitioning is not None and carrier.partitioning.partitions == (3, 5, 8, 10, 11, 14)
        assert segment.column("cost").max_value == float("inf") and segment.column("delay").min_value == -900


def test_the_builder_of_today_writes_the_bytes_of_version_1(tmp_path: Path) -> None:
    """Except for compressed chunks, whose bytes belong to the codec's library: their columns are compared by value
    above.
    """
    build_segment(SCHEMA, CONFIG, [batch()], tmp_path, "compat_v1", creation_time_ms=1_700_000_000_000)
    with (
        load_segment(tmp_path / "compat_v1") as today,
        load_segment(Path(shutil.copytree(DATA / "segment-v1-bitmaps", tmp_path / "kept"))) as kept,
    ):
        for name in COLUMNS:
            new, old = today.column(name).metadata, kept.column(name).metadata
            if new.codec is None:
                assert [(b.kind, b.size_bytes, b.crc) for b in new.buffers] == [
                    (b.kind, b.size_bytes, b.crc) for b in old.buffers
                ], name


def test_the_first_release_had_the_same_buffers_but_for_bitmaps(tmp_path: Path) -> None:
    first, later = (
        load_segment(Path(shutil.copytree(DATA / name, tmp_path / name)))
        for name in ("segment-v1", "segment-v1-bitmaps")
    )
    with first, later:
        for name in COLUMNS:
            old, new = (
                {b.kind: (b.size_bytes, b.crc) for b in s.column(name).metadata.buffers} for s in (first, later)
            )
            changed = {kind for kind in old.keys() | new.keys() if old.get(kind) != new.get(kind)}
            assert not changed if name != "tags" else changed == {*AS_LISTS, *AS_BITMAPS}, name
