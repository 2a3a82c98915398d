"""Loads what reading and building of ordinary tables need, before anything is read."""

from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.ingest.decoders.ledger import StreamLedger
from pinotpy.ingest.decoders.registry import make_decoder
from pinotpy.segment.build.indexing import resolve_indexing
from pinotpy.segment.consuming.log_ranges import UNKNOWN_TIME_MS
from pinotpy.segment.consuming.partition_log import PartitionLog
from pinotpy.server.realtime.ingest_worker import PartitionSpec
from pinotpy.server.realtime.segment_build import build_of_chunks
from pinotpy.stream.spec import LONG_OFFSETS, StreamBatch

_TYPES: Final = ("INT", "LONG", "FLOAT", "DOUBLE", "STRING")
_STREAMS: Final = ("pinotpy.stream.file", "pinotpy.stream.kafka.factory")
_RECORDS: Final = 64


def load_kernels() -> None:
    """Read a few made-up records and build a segment of them."""
    for name in _STREAMS:
        with suppress(ImportError):  # Kafka's library need not be there
            import_module(name)
    spec = _spec()
    decoder = make_decoder(spec.stream, spec.schema, spec.config)
    log = PartitionLog(
        spec.schema,
        resolve_indexing(spec.schema, spec.config),
        segment_name=spec.segment_name,
        start_offset=0,
        offset_dtype=LONG_OFFSETS.dtype,
    )
    decoded = decoder.decode(_batch(), StreamLedger())
    records = decoded.records
    log.append(decoded.rows, records, np.full(len(records), UNKNOWN_TIME_MS, np.int64), _RECORDS)
    with tempfile.TemporaryDirectory(prefix="pinotpy-") as folder:
        build_of_chunks(spec, log.view().chunks, (0, len(records)), Path(folder), spec.segment_name, 0)


def _spec() -> PartitionSpec:
    columns = [{"name": f"{name}_{kind}".lower(), "dataType": kind} for name in ("coded", "raw") for kind in _TYPES]
    lists = [{"name": f"list_{kind}".lower(), "dataType": kind, "singleValueField": False} for kind in _TYPES[1::3]]
    time = {"name": "ts", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:MILLISECONDS"}
    schema = {"schemaName": "kernels", "dimensionFieldSpecs": [*columns, *lists], "dateTimeFieldSpecs": [time]}
    stream = {
        "streamType": "file",
        "stream.file.topic.name": "none",
        "stream.file.directory": "none",
        "stream.file.decoder.class.name": "json",
    }
    table = {
        "tableName": "kernels",
        "tableType": "REALTIME",
        "segmentsConfig": {"timeColumnName": "ts", "replication": "1", "schemaName": "kernels"},
        "tenants": {},
        "tableIndexConfig": {
            "invertedIndexColumns": ["coded_string"],
            "noDictionaryColumns": [column["name"] for column in columns if column["name"].startswith("raw")],
            "streamConfigs": stream,
        },
        "metadata": {},
    }
    config = TableConfig.from_json(table)
    assert config.stream_config is not None
    return PartitionSpec(
        "kernels_REALTIME", 0, Schema.from_json(schema), config, config.stream_config, "kernels__0__0__0", "0"
    )


def _batch() -> StreamBatch:
    values: dict[str, Any] = {"INT": 1, "LONG": 1, "FLOAT": 0.5, "DOUBLE": 0.5, "STRING": "text"}
    record: dict[str, Any] = {f"{name}_{kind}".lower(): values[kind] for name in ("coded", "raw") for kind in _TYPES}
    lists = {f"list_{kind}".lower(): [values[kind]] * 2 for kind in _TYPES[1::3]}
    # Some plain, some with lists, which another parser reads, and one that is none.
    records = [
        record | {"ts": number, "coded_long": number} | (lists if number % 2 else {}) for number in range(_RECORDS - 1)
    ]
    payloads = pa.array([*(json.dumps(each).encode() for each in records), b"{"], pa.binary())
    numbers = np.arange(_RECORDS, dtype=LONG_OFFSETS.dtype)
    times_ms = np.full(_RECORDS, UNKNOWN_TIME_MS, np.int64)
    return StreamBatch(payloads, pa.nulls(_RECORDS, pa.binary()), numbers, times_ms, _RECORDS)
