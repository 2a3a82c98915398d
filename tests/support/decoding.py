"""Records for decoders of streams: tables, batches, batches cut at random, and the same rows read from a file."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pinotpy.config.ingestion import MissingColumns
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.ingest.decoders.ledger import StreamLedger
from pinotpy.ingest.decoders.registry import make_decoder
from pinotpy.ingest.decoders.spec import RowDecoder
from pinotpy.ingest.ledger import RowLedger
from pinotpy.ingest.pipeline import RowPipeline, read_rows
from pinotpy.ingest.readers.spec import FileFormat, InputFile
from pinotpy.stream.spec import StreamBatch


def realtime_table(decoder: str, properties: Mapping[str, str], **ingestion: Any) -> TableConfig:
    return TableConfig.from_json(
        {
            "tableName": "t",
            "tableType": "REALTIME",
            "segmentsConfig": {"timeColumnName": "ts", "replication": "1"},
            "tenants": {},
            "tableIndexConfig": {
                "streamConfigs": {
                    "streamType": "file",
                    "stream.file.topic.name": "t",
                    "stream.file.directory": "/topics",
                    "stream.file.decoder.class.name": decoder,
                    **{f"stream.file.decoder.prop.{name}": text for name, text in properties.items()},
                }
            },
            "ingestionConfig": ingestion,
            "metadata": {},
        }
    )


def decoder_of(table: TableConfig, schema: Schema) -> RowDecoder:
    stream = table.stream_config
    assert stream is not None
    return make_decoder(stream, schema, table)


def batch_of(payloads: Sequence[bytes | None], first: int = 0) -> StreamBatch:
    count = len(payloads)
    offsets = np.arange(first, first + count, dtype=np.int64)
    no_times = np.full(count, -1, np.int64)  # a missing time stays null
    return StreamBatch(pa.array(payloads, pa.binary()), pa.nulls(count, pa.binary()), offsets, no_times, first + count)


def decoded(
    decoder: RowDecoder, payloads: Sequence[bytes | None], dice: random.Random | None = None
) -> tuple[list[dict[str, Any]], list[int], dict[str, Any]]:
    """(rows, of which record each is, counts without samples): of one batch, or of batches cut by `dice`."""
    ledger = StreamLedger()
    rows: list[dict[str, Any]] = []
    records: list[int] = []
    first = 0
    while first < len(payloads):
        end = first + dice.randrange(1, 9) if dice is not None else len(payloads)
        part = decoder.decode(batch_of(payloads[first:end], first), ledger)
        rows += part.rows.to_pylist()
        records += (part.records + first).tolist()
        first = end
    counts = ledger.to_json()
    del counts["samples"]  # which ten are kept depends on the order
    return rows, records, counts


def rows_of_file(
    path: Path, file_format: FileFormat, schema: Schema, table: TableConfig, config: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], RowLedger]:
    ledger = RowLedger(path.name)
    pipeline = RowPipeline(schema, table, reject_share_max=1.0, missing_columns=MissingColumns.DEFAULT)
    batches = read_rows(InputFile(path), file_format, pipeline, ledger, reader_config=config)
    return [row for batch in batches for row in batch.to_pylist()], ledger
