"""Proves that records of a stream become the rows that the same documents become in a file, that whatever cannot be one
is counted with its cause, and that it does not matter how records are cut into batches.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import UserError
from pinotpy.ingest.decoders.ledger import StreamLedger
from pinotpy.ingest.decoders.registry import decoder_name, make_decoder
from pinotpy.ingest.decoders.spec import RowDecoder
from pinotpy.ingest.ledger import RowLedger
from pinotpy.ingest.pipeline import RowPipeline, read_rows
from pinotpy.ingest.readers.spec import FileFormat, InputFile
from pinotpy.stream.spec import StreamBatch

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "id", "dataType": "LONG"},
            {"name": "text", "dataType": "STRING"},
            {"name": "many", "dataType": "INT", "singleValueField": False},
            {"name": "upper", "dataType": "STRING", "transformFunction": "upper(text)"},
        ],
        "metricFieldSpecs": [{"name": "price", "dataType": "DOUBLE"}],
        "dateTimeFieldSpecs": [
            {"name": "ts", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:MILLISECONDS"}
        ],
    }
)


def config(decoder: str = "json", **ingestion: Any) -> TableConfig:
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
                }
            },
            "ingestionConfig": ingestion,
            "metadata": {},
        }
    )


def decoder(table: TableConfig) -> RowDecoder:
    stream = table.stream_config
    assert stream is not None
    return make_decoder(stream, SCHEMA, table)


def batch(payloads: list[bytes | None], first: int = 0) -> StreamBatch:
    count = len(payloads)
    offsets = np.arange(first, first + count, dtype=np.int64)
    no_times = np.full(count, -1, np.int64)  # a missing time stays null
    return StreamBatch(pa.array(payloads, pa.binary()), pa.nulls(count, pa.binary()), offsets, no_times, first + count)


def good(number: int) -> bytes:
    document = {"id": number, "text": f"t{number % 5}", "many": [number, 2], "price": number / 4, "ts": 10**12 + number}
    return json.dumps({key: value for key, value in document.items() if (number + len(key)) % 7}).encode()


HOSTILE: list[bytes | None] = [
    None,
    b"",
    b"{",
    b"nothing",
    b"[1, 2]",
    b"5",
    b'{"id": NaN}',
    b'{"text": ' + b"[" * 10_000,
    b'{"text": "\xff\xfe"}',
    b'{"id": 18446744073709551616}',
    b'{"id": "seven"}',
    b'{"many": [1, "x"]}',
    b"\x00\x01\x02",
    b'{"id": 1} trailing',
]


def test_rows_are_those_of_a_file_with_the_same_documents(tmp_path: Path) -> None:
    table = config(filterConfig={"filterFunction": "id > 150"})
    payloads: list[bytes | None] = [good(number) for number in range(200)]
    (tmp_path / "rows.json").write_bytes(b"\n".join(payload for payload in payloads if payload))
    of_file = RowLedger("rows.json")
    pipeline = RowPipeline(SCHEMA, table, reject_share_max=1.0)
    expected = [
        row
        for rows in read_rows(InputFile(tmp_path / "rows.json"), FileFormat.JSON, pipeline, of_file)
        for row in rows.to_pylist()
    ]
    ledger = StreamLedger()
    decoded = decoder(table).decode(batch(payloads), ledger)
    assert decoded.rows.to_pylist() == expected and expected
    assert len(decoded.records) == len(expected)
    counts = ledger.to_json()
    assert (counts["records"], counts["indexed"], counts["filtered"], counts["rejected"]) == (
        200, of_file.num_rows_indexed, of_file.num_rows_filtered, 0,
    )  # fmt: skip
    assert counts["filtered"] > 0 and counts["nulls"] == dict(of_file.nulls)


@pytest.mark.parametrize("seed", range(4))
def test_good_rows_are_exact_among_hostile_records_however_they_are_cut(seed: int) -> None:
    dice = random.Random(seed)
    payloads = [good(number) for number in range(60)]
    mixed: list[bytes | None] = [*payloads, *HOSTILE, b'{"text": "' + b"x" * 5_000_000 + b'"}']
    dice.shuffle(mixed)
    whole_ledger = StreamLedger()
    whole = decoder(config()).decode(batch(mixed), whole_ledger)
    bad = {payload for payload in HOSTILE if payload is not None}
    expected = [number for number, payload in enumerate(mixed) if payload is not None and payload not in bad]
    assert whole.records.tolist() == expected
    assert whole_ledger.rejected == len(HOSTILE) - 1 and whole_ledger.tombstones == 1
    assert whole_ledger.records == len(mixed) == whole_ledger.indexed + whole_ledger.rejected + 1

    ledger, rows, records, first = StreamLedger(), [], [], 0
    cut = decoder(config())
    while first < len(mixed):
        end = first + dice.randrange(1, 9)
        part = cut.decode(batch(mixed[first:end], first), ledger)
        rows += part.rows.to_pylist()
        records += (part.records + first).tolist()
        first = end
    assert (rows, records) == (whole.rows.to_pylist(), expected)
    whole_counts, counts = whole_ledger.to_json(), ledger.to_json()
    for each in (whole_counts, counts):
        each["samples"] = sorted(sample["offset"] for sample in each["samples"])
    del whole_counts["samples"], counts["samples"]  # which ten are kept depends on the order
    assert counts == whole_counts


def test_rejected_records_are_kept_with_their_offset_and_cause() -> None:
    ledger = StreamLedger()
    decoder(config()).decode(batch([good(1), b"{bad", b'{"id": "seven"}'] + [b"x" * 9_000] * 50, first=1_000), ledger)
    samples = {sample["offset"]: sample for sample in ledger.to_json()["samples"]}
    assert len(samples) == 10 and "1001" in samples
    assert "no JSON" in samples["1001"]["cause"] and samples["1001"]["record"] == "{bad"
    assert all(len(sample["record"]) <= 256 for sample in samples.values())
    assert sum(ledger.causes.values()) == ledger.rejected == 52


def test_unnested_records_give_several_rows_of_one_offset() -> None:
    table = config(complexTypeConfig={"fieldsToUnnest": ["items"]})
    schema = Schema.from_json(
        {"schemaName": "t", "dimensionFieldSpecs": [{"name": "items.a", "dataType": "INT"}],
         "dateTimeFieldSpecs": [{"name": "ts", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH",
                                 "granularity": "1:MILLISECONDS"}]}
    )  # fmt: skip
    stream = table.stream_config
    assert stream is not None
    ledger = StreamLedger()
    payloads: list[bytes | None] = [
        b'{"ts": 1, "items": [{"a": 1}, {"a": 2}]}',
        None,
        b'{"ts": 2, "items": [{"a": 3}]}',
    ]
    decoded = make_decoder(stream, schema, table).decode(batch(payloads), ledger)
    assert decoded.records.tolist() == [0, 0, 2]
    assert decoded.rows.column("items.a").to_pylist() == [1, 2, 3]
    assert (ledger.records, ledger.tombstones, ledger.indexed, ledger.added) == (3, 1, 3, 1)


def test_a_batch_without_rows_has_all_columns() -> None:
    decoded = decoder(config()).decode(batch([None, b"x"]), StreamLedger())
    assert decoded.rows.num_rows == 0 and decoded.rows.schema.names == list(SCHEMA.field_specs)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("json", "json"),
        (" json ", "json"),
        ("org.apache.pinot.plugin.stream.kafka.KafkaJSONMessageDecoder", "json"),
        ("org.apache.pinot.plugin.inputformat.json.JSONMessageDecoder", "json"),
    ],
)
def test_decoders_are_named_shortly_or_by_the_class_of_the_reference(written: str, name: str) -> None:
    assert decoder_name(written) == name
    decoder(config(written))


def test_a_decoder_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(UserError, match=r"no decoder 'thrift': expected one of avro, csv, json"):
        decoder(config("thrift"))
