"""Logs of a partition's rows that are not sealed, as a server's registry shows them to queries."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.segment.build.indexing import resolve_indexing
from pinotpy.segment.consuming.frozen_chunk import freeze_chunk
from pinotpy.segment.consuming.log_pieces import LogPieces, PieceView
from pinotpy.segment.consuming.log_ranges import LogRanges, LogView
from pinotpy.segment.consuming.memory import HeapMemory
from pinotpy.segment.consuming.partition_log import PartitionLog


def filled_log(
    schema: Schema,
    config: TableConfig | None,
    batches: Iterable[pa.RecordBatch],
    *,
    chunk_rows: int,
    batch_rows: int,
    segment_name: str = "t__0__0__20260101T0000Z",
) -> PartitionLog:
    """A log of these rows, one record each, at offsets 0, 2, 4, …; its full chunks are frozen."""
    log = PartitionLog(
        schema,
        resolve_indexing(schema, config),
        segment_name=segment_name,
        start_offset=0,
        offset_dtype=np.dtype(np.int64),
        chunk_rows=chunk_rows,
    )
    row = 0
    for batch in batches:
        for first in range(0, batch.num_rows, batch_rows):
            some = batch.slice(first, batch_rows)
            offsets = 2 * np.arange(row, row + some.num_rows, dtype=np.int64)
            row += some.num_rows
            log.append(some, offsets, offsets + 1_700_000_000_000, 2 * row)
    freeze(log)
    return log


def freeze(log: LogRanges) -> None:
    log.freeze_chunks(lambda chunk: freeze_chunk(chunk, HeapMemory()))


class ReadLog:
    """A log as the server's partitions are to queries; implements ReadPartition."""

    def __init__(self, log: PartitionLog, table: str) -> None:
        self._log, self._pieces = log, LogPieces(log, table)

    def log_view(self) -> LogView:
        return self._log.view()

    def piece_view(self) -> PieceView:
        return self._pieces.view()

    def offset_text(self, offset: int | bytes) -> str:
        return str(offset)

    is_behind = False
