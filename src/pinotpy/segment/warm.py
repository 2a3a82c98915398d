"""Run every kernel of this room once, so that no first segment waits for a compiler (0.5-1 s each without cache)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.functions.json.json_records import JsonIndexing
from pinotpy.kernels.codec.bloom import BLOCK_WORDS, set_bits
from pinotpy.kernels.codec.numbered_entries import grown, new_table
from pinotpy.kernels.codec.posting_builder import inverted_index, sorted_starts
from pinotpy.kernels.codec.roaring import bitmap_offsets, bitmaps_at, docs_of_bitmap, first_bad_bitmap
from pinotpy.kernels.filter.posting_bitmaps import assign_buckets
from pinotpy.segment.build.builder import build_segment_into
from pinotpy.segment.directory.memory_directory import MemoryDirectory
from pinotpy.segment.immutable import open_segment
from pinotpy.segment.index.bloom import value_hashes
from pinotpy.segment.index.json import build_json_records

_TYPES = {"text": "STRING", "raw": "STRING", "number": "INT", "packed": "INT"}


def warm_segment_kernels() -> None:
    """Build, open and search a segment of four rows in memory; called by a daemon before it says that it is ready."""
    fields = [{"name": name, "dataType": data_type} for name, data_type in _TYPES.items()] + [
        {"name": "list", "dataType": "INT", "singleValueField": False}
    ]
    schema = Schema.from_json({"schemaName": "warm", "dimensionFieldSpecs": fields})
    functions = {"text": "Murmur", "raw": "HashCode", "number": "ByteArray"}
    partitions = {name: {"functionName": function, "numPartitions": 2} for name, function in functions.items()}
    config = TableConfig.from_json(
        {
            "tableName": "warm",
            "tableType": "OFFLINE",
            "segmentsConfig": {"replication": "1"},
            "tenants": {},
            "metadata": {},
            "tableIndexConfig": {
                "noDictionaryColumns": ["raw"],
                "invertedIndexColumns": ["number", "list"],
                "segmentPartitionConfig": {"columnPartitionMap": partitions},
            },
            "fieldConfigList": [{"name": "packed", "properties": {"dictIdEncoding": "FIXED_BIT"}}],
        }
    )
    batch = pa.record_batch(
        {
            "text": ["b", "a", "c", "a"],
            "raw": ["b", "a", "c", "a"],
            "number": pa.array([2, 1, 3, 1], pa.int32()),
            "packed": pa.array([2, 1, 3, 1], pa.int32()),
            "list": pa.array([[1, 2], [2], [1], [3]], pa.list_(pa.int32())),
        }
    )
    # Kernels are compiled for each width of dict ids; the rows below have narrow ones only.
    for width in (1, 2, 4):
        ids = np.zeros(2, f"<u{width}")
        inverted_index(ids, 1)
        inverted_index(ids, 1, np.array([0, 1, 2], np.uint32))
        sorted_starts(ids, 1)
    # Four rows are too few for bitmaps.
    offsets, begins = np.array([0, 1], np.uint32), np.zeros(2, np.int64)
    bitmap_offsets(offsets, np.zeros(1, np.int32), begins)
    data = bitmaps_at(offsets, np.zeros(1, np.int32), begins)
    first_bad_bitmap(data.ctypes.data, begins, offsets, 1)
    docs_of_bitmap(data.ctypes.data, np.zeros(1, np.int32))
    # Range indexes and Bloom filters are built on reload, too, of columns of every type.
    for dtype in (np.uint32, np.int32, np.int64, np.float32, np.float64):
        assign_buckets(np.zeros(1, dtype), np.zeros(1, dtype), np.zeros(1, np.uint32))
    for values in (np.zeros(1, np.int64), pa.array([b"a"])):
        set_bits(value_hashes(values), np.zeros(BLOCK_WORDS, np.uint32))
    build_json_records("warm", pa.array([b'{"a": [1, 2], "b": "c"}']), JsonIndexing())
    grown(new_table(2, 2), 0, 0)
    directory = MemoryDirectory("warm")
    build_segment_into(directory, schema, config, [batch], "warm")
    with open_segment(directory) as segment:
        dictionary = segment.column("text").dictionary
        assert dictionary is not None and dictionary.index_of(b"c") == 2
        assert segment.column("packed").ids().tolist() == [1, 0, 2, 0]
