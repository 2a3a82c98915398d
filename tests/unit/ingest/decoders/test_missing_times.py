"""Proves that a record without a time has the time that its stream has for it, in the format of the table's time
column, and that a table which says what a missing time is to be keeps its word.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pinotpy.config.schema import Schema
from pinotpy.config.stream_configs import read_stream_config
from pinotpy.config.table import TableConfig
from pinotpy.ingest.decoders.ledger import StreamLedger
from pinotpy.ingest.decoders.registry import make_decoder
from pinotpy.stream.spec import StreamBatch

STREAM = {
    "streamType": "file",
    "stream.file.topic.name": "t",
    "stream.file.decoder.class.name": "json",
    "stream.file.directory": "/t",
}
RECORDS: list[Any] = [{"id": 1, "ts": None}, {"id": 2}, {"id": 3, "ts": 7}, {"id": 4, "ts": "x"}, {"id": 5}]
TIMES_MS = [1_700_000_000_000, 1_700_000_060_000, 1, 2, -1]


def decoded(time_spec: dict[str, Any], records: list[Any]) -> tuple[list[Any], StreamLedger]:
    """The time column of the rows, and what was counted."""
    schema = Schema.from_json(
        {
            "schemaName": "t",
            "dimensionFieldSpecs": [{"name": "id", "dataType": "LONG"}],
            "dateTimeFieldSpecs": [{"name": "ts", "granularity": "1:MILLISECONDS", **time_spec}],
        }
    )
    config = TableConfig.from_json(
        {
            "tableName": "t",
            "tableType": "REALTIME",
            "segmentsConfig": {"replication": "1", "timeColumnName": "ts"},
            "tenants": {},
            "tableIndexConfig": {"streamConfigs": STREAM},
        }
    )
    faults: list[Any] = []
    stream = read_stream_config(STREAM, "$", faults)
    assert stream is not None and not faults
    payloads = pa.array([json.dumps(record).encode() for record in records], pa.binary())
    offsets = np.arange(len(records), dtype=np.int64)
    times = np.array(TIMES_MS[: len(records)], np.int64)
    batch = StreamBatch(payloads, pa.nulls(len(records), pa.binary()), offsets, times, len(records))
    ledger = StreamLedger()
    rows = make_decoder(stream, schema, config).decode(batch, ledger)
    return rows.rows.column("ts").to_pylist(), ledger


def test_a_record_without_a_time_has_that_of_its_stream() -> None:
    times, ledger = decoded({"dataType": "LONG", "format": "1:MILLISECONDS:EPOCH"}, RECORDS)
    assert times == [1_700_000_000_000, 1_700_000_060_000, 7, None], "a bad one is rejected, and one has none anywhere"
    assert (ledger.indexed, ledger.rejected, ledger.null_times) == (4, 1, 3)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"dataType": "INT", "format": "1:DAYS:EPOCH"}, [19_675, 19_675]),
        (
            {"dataType": "STRING", "format": "1:DAYS:SIMPLE_DATE_FORMAT:yyyy-MM-dd HH:mm"},
            ["2023-11-14 22:13", "2023-11-14 22:14"],
        ),
        ({"dataType": "TIMESTAMP", "format": "1:MILLISECONDS:TIMESTAMP"}, TIMES_MS[:2]),
        ({"dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "defaultNullValue": 5}, [None, None]),
        ({"dataType": "INT", "format": "1:MILLISECONDS:EPOCH"}, [None, None]),  # it does not fit
    ],
)
def test_it_is_in_the_column_s_own_format(spec: dict[str, Any], expected: list[Any]) -> None:
    times, _ = decoded(spec, RECORDS[:2])
    assert times == expected
