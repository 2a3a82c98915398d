"""Rows of every kind in a partition's log."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.segment.build.indexing import resolve_indexing
from pinotpy.segment.consuming.memory import ChunkMemory
from pinotpy.segment.consuming.partition_log import PartitionLog
from pinotpy.segment.consuming.piece import Piece
from pinotpy.segment.to_arrow import column_to_arrow

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "id", "dataType": "LONG"},
            {"name": "word", "dataType": "STRING"},
            {"name": "plain", "dataType": "STRING"},
            {"name": "flag", "dataType": "BOOLEAN"},
            {"name": "data", "dataType": "BYTES"},
            {"name": "numbers", "dataType": "INT", "singleValueField": False},
            {"name": "words", "dataType": "STRING", "singleValueField": False},
            {"name": "notes", "dataType": "STRING", "singleValueField": False},
        ],
        "metricFieldSpecs": [{"name": "cost", "dataType": "DOUBLE"}],
        "dateTimeFieldSpecs": [
            {"name": "at", "dataType": "TIMESTAMP", "format": "TIMESTAMP", "granularity": "1:MILLISECONDS"}
        ],
    }
)
CONFIG = TableConfig.from_json(
    {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "metadata": {},
        "tableIndexConfig": {"noDictionaryColumns": ["plain", "notes", "cost"], "nullHandlingEnabled": True},
    }
)
TYPES = {
    name: spec.data_type.arrow if spec.single_value else pa.list_(spec.data_type.arrow)
    for name, spec in SCHEMA.field_specs.items()
}


def rows_of(dice: random.Random, count: int) -> pa.RecordBatch:
    def some(make: Any) -> list[Any]:
        return [None if dice.random() < 0.1 else make() for _ in range(count)]

    def text() -> str:
        return dice.choice(["", "a", "ab", "é", "longer than a word of eight"]) + str(dice.randrange(40))

    columns = {
        "id": list(range(count)),
        "word": some(text),
        "plain": some(text),
        "flag": some(lambda: dice.random() < 0.5),
        "data": some(lambda: dice.randbytes(dice.randrange(4))),
        "numbers": some(lambda: [dice.randrange(9) for _ in range(dice.randrange(4))]),
        "words": some(lambda: [text() for _ in range(dice.randrange(3))]),
        "notes": some(lambda: [text() for _ in range(dice.randrange(3))]),
        "cost": some(lambda: dice.choice([0.0, -0.0, 1.5, float("inf"), dice.random()])),
        "at": some(lambda: dice.randrange(1 << 41)),
    }
    return pa.record_batch([pa.array(columns[name], TYPES[name]) for name in TYPES], names=list(TYPES))


def new_log(chunk_rows: int, memory: ChunkMemory | None = None) -> PartitionLog:
    return PartitionLog(
        SCHEMA,
        resolve_indexing(SCHEMA, CONFIG),
        segment_name="t__0__0",
        start_offset=100,
        offset_dtype=np.dtype(np.int64),
        memory=memory,
        chunk_rows=chunk_rows,
    )


def append(log: PartitionLog, rows: pa.RecordBatch, first: int, count: int) -> None:
    """Rows [first, first + count), row r at offset 100 + 2 r."""
    offsets = 100 + 2 * np.arange(first, first + count, dtype=np.int64)
    log.append(rows.slice(first, count), offsets, offsets * 1000, 100 + 2 * (first + count))


def filled(log: PartitionLog, rows: pa.RecordBatch, dice: random.Random) -> PartitionLog:
    first = 0
    while first < rows.num_rows:
        count = min(dice.randrange(0, 50), rows.num_rows - first)
        append(log, rows, first, count)
        first += count
    return log


def read(pieces: Sequence[Piece]) -> dict[str, list[Any]]:
    """Values as queries see them."""
    return {
        name: [value for piece in pieces for value in column_to_arrow(piece.column(name)).to_pylist()] for name in TYPES
    }
