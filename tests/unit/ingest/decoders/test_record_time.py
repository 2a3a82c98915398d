"""Proves that clock functions in a stream's expressions are the records' own times, so that replicas which read at
different moments make the same rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.ingest.decoders.ledger import StreamLedger
from pinotpy.ingest.decoders.registry import make_decoder
from pinotpy.stream.spec import StreamBatch

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "id", "dataType": "LONG"},
            {"name": "read_at", "dataType": "LONG", "transformFunction": "now()"},
            {"name": "hour_before", "dataType": "LONG", "transformFunction": "ago('PT1H')"},
            {"name": "age", "dataType": "LONG", "transformFunction": "now() - ts"},
        ],
        "dateTimeFieldSpecs": [
            {"name": "ts", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:MILLISECONDS"}
        ],
    }
)
TIMES = [1_700_000_000_000 + number for number in range(3)]
PAYLOADS = {
    "json": [b'{"id": 0, "ts": 1699999999000}', b'{"id": 1, "ts": 1699999999000, "$recordTime": 5, "read_at": 7}',
             b'{"ts": 1699999999000, "id": "2"}'],
    "csv": [b"0,1699999999000,", b"1,1699999999000,7", b"2,1699999999000,"],
}  # fmt: skip


def config(decoder: str, **ingestion: Any) -> TableConfig:
    stream = {
        "streamType": "file", "stream.file.topic.name": "t", "stream.file.directory": "/topics",
        "stream.file.decoder.class.name": decoder,
    }  # fmt: skip
    if decoder == "csv":
        stream["stream.file.decoder.prop.header"] = "id,ts,read_at"
    return TableConfig.from_json(
        {
            "tableName": "t", "tableType": "REALTIME", "tenants": {}, "metadata": {}, "ingestionConfig": ingestion,
            "segmentsConfig": {"timeColumnName": "ts", "replication": "1"},
            "tableIndexConfig": {"streamConfigs": stream},
        }
    )  # fmt: skip


def rows(table: TableConfig, payloads: list[bytes], times_ms: list[int]) -> list[dict[str, Any]]:
    assert table.stream_config is not None
    count = len(payloads)
    batch = StreamBatch(
        pa.array(payloads, pa.binary()), pa.nulls(count, pa.binary()), np.arange(count), np.array(times_ms), count
    )
    decoded: list[dict[str, Any]] = (
        make_decoder(table.stream_config, SCHEMA, table).decode(batch, StreamLedger()).rows.to_pylist()
    )
    return decoded


@pytest.mark.parametrize("decoder", ["json", "csv"])
def test_the_clock_is_the_time_of_the_record(decoder: str) -> None:
    found = rows(config(decoder), PAYLOADS[decoder], TIMES)
    assert [(row["id"], row["read_at"], row["hour_before"], row["age"]) for row in found] == [
        (0, TIMES[0], TIMES[0] - 3_600_000, 1_000),
        (1, 7, TIMES[1] - 3_600_000, 1_001),  # what the record says is kept
        (2, TIMES[2], TIMES[2] - 3_600_000, 1_002),
    ]


def test_a_filter_reads_it_too() -> None:
    table = config("json", filterConfig={"filterFunction": "now() > 1700000000000"})
    assert [row["id"] for row in rows(table, PAYLOADS["json"], TIMES)] == [0]  # it says what is left out


def test_a_stream_without_times_gives_null() -> None:
    found = rows(config("json"), PAYLOADS["json"][:1], [-1])
    assert (found[0]["read_at"], found[0]["hour_before"], found[0]["age"]) == (None, None, None)


def test_a_duration_that_is_none_is_refused() -> None:
    table = config("json", filterConfig={"filterFunction": "ago('an hour') > 5"})
    assert table.stream_config is not None
    ledger = StreamLedger()
    batch = StreamBatch(
        pa.array(PAYLOADS["json"], pa.binary()), pa.nulls(3, pa.binary()), np.arange(3), np.array(TIMES), 3
    )
    make_decoder(table.stream_config, SCHEMA, table).decode(batch, ledger)
    assert ledger.rejected == 3 and "duration" in next(iter(ledger.causes))
