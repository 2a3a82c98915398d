"""Proves that a batch goes with the last reference to it: a process that reads looks for circles every hundred thousand
objects only, and until then they would keep a hundred bytes and more of each record.
"""

from __future__ import annotations

import gc
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.ingest.decoders.ledger import StreamLedger
from pinotpy.ingest.decoders.registry import make_decoder
from pinotpy.stream.spec import LONG_OFFSETS, StreamBatch

NUM_RECORDS = 50
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "id", "dataType": "LONG"},
            {"name": "word", "dataType": "STRING"},
            {"name": "small", "dataType": "INT"},
            {"name": "tags", "dataType": "STRING", "singleValueField": False},
            {"name": "double_id", "dataType": "LONG", "transformFunction": "plus(id, id)"},
            {"name": "upper_word", "dataType": "STRING", "transformFunction": "upper(word)"},
        ],
        "dateTimeFieldSpecs": [
            {"name": "ts", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:MILLISECONDS"},
            {
                "name": "day",
                "dataType": "STRING",
                "format": "1:DAYS:SIMPLE_DATE_FORMAT:yyyyMMdd",
                "granularity": "1:DAYS",
            },
        ],
    }
)


def config(decoder: str) -> TableConfig:
    stream = {
        "streamType": "file",
        "stream.file.topic.name": "none",
        "stream.file.directory": "none",
        "stream.file.decoder.class.name": decoder,
    }
    if decoder == "csv":
        stream["stream.file.decoder.prop.header"] = "id,word,small,tags,ts,day"
    return TableConfig.from_json(
        {
            "tableName": "t", "tableType": "REALTIME", "tenants": {}, "metadata": {},
            "segmentsConfig": {"timeColumnName": "ts", "replication": "1", "schemaName": "t"},
            "ingestionConfig": {"filterConfig": {"filterFunction": "id = 7"}},
            "tableIndexConfig": {"streamConfigs": stream},
        }
    )  # fmt: skip


def record(decoder: str, number: int) -> bytes:
    # Plain ones, some that another reader takes, some that are bad.
    value: Any = "many" if number % 10 == 3 else number
    if decoder == "csv":
        return f"{value},word {number},{number},a;b,1700000000000,20240101".encode()
    word = "with \\ escape" if number % 10 == 4 else f"word {number}"
    return json.dumps(
        {"id": value, "word": word, "small": number, "tags": ["a", "b"], "ts": 1_700_000_000_000, "day": "20240101"}
    ).encode()


@pytest.mark.parametrize("decoder", ["json", "csv"])
def test_what_was_decoded_is_in_no_circle(decoder: str) -> None:
    table = config(decoder)
    assert table.stream_config is not None
    reader = make_decoder(table.stream_config, SCHEMA, table)
    payloads = pa.array([record(decoder, number) for number in range(NUM_RECORDS)], pa.binary())
    numbers = np.arange(NUM_RECORDS, dtype=LONG_OFFSETS.dtype)
    batch = StreamBatch(payloads, pa.nulls(NUM_RECORDS, pa.binary()), numbers, numbers, NUM_RECORDS)
    ledger = StreamLedger()
    reader.decode(batch, ledger)  # imports, caches
    counts = ledger.to_json()
    assert counts["indexed"] and counts["filtered"] and counts["rejected"] == 5, counts
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        decoded = reader.decode(batch, StreamLedger())
        assert decoded.rows.num_rows
        del decoded
        gc.collect()
        # Other threads of the process may leave circles, too.
        circles = [type(each).__name__ for each in gc.garbage if is_of_decoding(each)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not circles, "objects that only refer to each other"


def is_of_decoding(found: object) -> bool:
    is_arrow = isinstance(found, (pa.Array, pa.ChunkedArray, pa.RecordBatch))
    return is_arrow or str(getattr(found, "__module__", "")).startswith("pinotpy.ingest")
