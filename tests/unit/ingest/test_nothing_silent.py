"""Proves: an input whose records have none of the schema's fields fails, whatever missingColumns says, with the fields
found and expected; causes of rejected rows are told once, grouped by value with their count, and with what maps them.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from decoding import batch_of, decoded, decoder_of, realtime_table
from hypothesis import given
from hypothesis import strategies as st

from pinotpy.config.ingestion import MissingColumns
from pinotpy.config.schema import Schema
from pinotpy.errors import DecodeError
from pinotpy.ingest.decoders.ledger import StreamLedger, summed
from pinotpy.ingest.jobs.fault_lines import rejected_rows
from pinotpy.ingest.jobs.file_reports import file_report
from pinotpy.ingest.ledger import CAUSES_MAX, RowLedger
from pinotpy.ingest.pipeline import RowPipeline, read_rows
from pinotpy.ingest.readers.spec import FileFormat, InputFile

DEFAULTED = [
    {"name": "id", "dataType": "LONG", "defaultNullValue": 0},
    {"name": "text", "dataType": "STRING", "defaultNullValue": "none"},
    {"name": "upper", "dataType": "STRING", "transformFunction": "upper(raw)"},
]
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": DEFAULTED,
        "dateTimeFieldSpecs": [
            {"name": "ts", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:MILLISECONDS"}
        ],
    }
)
OTHERS = [{"weather": "rain", "degrees": 7}, {"weather": "sun", "degrees": 20}]


def content_of(kind: FileFormat, records: list[dict[str, Any]]) -> bytes:
    if kind is FileFormat.JSON:
        return "".join(json.dumps(record) + "\n" for record in records).encode()
    if kind is FileFormat.CSV:
        lines = [",".join(records[0]), *(",".join(map(str, record.values())) for record in records)]
        return "\n".join(lines).encode()
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(records), sink)
    return sink.getvalue()


def read(kind: FileFormat, content: bytes, **how: Any) -> tuple[list[dict[str, Any]], RowLedger]:
    ledger = RowLedger("a")
    file = InputFile(Path(f"a.{kind}"), lambda: io.BytesIO(content), len(content))
    pipeline = RowPipeline(SCHEMA, **how)
    return [row for batch in read_rows(file, kind, pipeline, ledger) for row in batch.to_pylist()], ledger


@pytest.mark.parametrize("missing", list(MissingColumns))
@pytest.mark.parametrize("kind", [FileFormat.JSON, FileFormat.CSV, FileFormat.PARQUET])
def test_a_file_with_none_of_the_fields_fails_whatever_may_be_missing(
    kind: FileFormat, missing: MissingColumns
) -> None:
    with pytest.raises(DecodeError) as raised:
        read(kind, content_of(kind, OTHERS), missing_columns=missing)
    text = raised.value.message
    assert "weather" in text and "degrees" in text and "'id'" in text.replace("id, text", "'id'")
    if kind is not FileFormat.CSV:  # its reader says it of the header, with the delimiter
        assert "no record has a field of schema 't': found fields 'degrees', 'weather', expected some of 'id'" in text


def test_records_without_any_field_fail_as_well() -> None:
    with pytest.raises(DecodeError, match="found no field at all, expected some of 'id', 'text'"):
        read(FileFormat.JSON, b"{}\n{}\n", missing_columns=MissingColumns.DEFAULT)


def test_one_field_is_enough_also_one_that_only_an_expression_reads() -> None:
    for record, told in (({"id": 1}, 1), ({"raw": "x"}, None), ({"weather": "rain", "ts": 5}, None)):
        rows, _ = read(FileFormat.JSON, content_of(FileFormat.JSON, [record]), missing_columns=MissingColumns.DEFAULT)
        assert [row["id"] for row in rows] == [told]


def test_a_file_without_records_is_no_fault() -> None:
    assert read(FileFormat.JSON, b"", missing_columns=MissingColumns.DEFAULT)[0] == []


# --- streams ----------------------------------------------------------------------------------------------------------


def payloads(records: list[dict[str, Any]]) -> list[bytes | None]:
    return [json.dumps(record).encode() for record in records]


def test_a_stream_of_other_records_is_told_and_goes_on() -> None:
    decoder = decoder_of(realtime_table("json", {}), SCHEMA)
    ledger = StreamLedger()
    decoder.decode(batch_of(payloads(OTHERS)), ledger)
    assert ledger.indexed == 2 and ledger.no_field("t") == (
        "no record has a field of schema 't': found fields 'degrees', 'weather', expected some of 'id', 'text', 'ts'; "
        "check that these are the records, the table and the schema that are meant"
    )
    told = ledger.to_json()
    assert told["missingColumns"] == ["id", "text", "ts"] and told["nulls"]["id"] == 2
    batch = decoder.decode(batch_of(payloads([{"id": 7}]), 2), ledger)
    assert batch.rows.num_rows == 1 and ledger.no_field("t") == ""
    assert ledger.to_json()["missingColumns"] == ["text", "ts"] and ledger.to_json()["values"]["id"] == 1


def test_the_counts_of_two_processes_are_those_of_one() -> None:
    decoder = decoder_of(realtime_table("json", {}), SCHEMA)
    parts = ([{"id": 1}], [{"text": "x" * 600, "ts": 5}], OTHERS)
    ledgers = []
    for part in parts:
        ledgers.append(StreamLedger())
        decoder.decode(batch_of(payloads(part)), ledgers[-1])
    whole = decoded(decoder, payloads([record for part in parts for record in part]))[2]
    total = ledgers[0].to_json()
    for ledger in ledgers[1:]:
        total = summed(total, ledger.to_json())
    assert total["missingColumns"] == whole["missingColumns"] == []
    assert total["values"] == whole["values"] == {"id": 1, "text": 1, "ts": 1}
    assert total["cut"] == whole["cut"] == {"text": 1}
    assert summed(total, {}) == total
    taken = StreamLedger()
    for ledger in ledgers:
        taken.take(ledger)
    assert taken.to_json()["values"] == total["values"] and taken.fields == ledgers[2].fields == ("weather", "degrees")


# --- causes -----------------------------------------------------------------------------------------------------------


def ledger_of(causes: list[tuple[str, str]], file: str = "a.csv") -> RowLedger:
    ledger = RowLedger(file)
    for row, (column, cause) in enumerate(causes, 1):
        ledger.num_rows_read += 1
        ledger.reject(row, column, cause)
    return ledger


def test_causes_of_all_files_are_told_once_with_what_maps_them() -> None:
    number = ("qty", "'n/a' is no number, expected one for INT")
    files = [
        file_report("/in/a.csv", 1, ledger_of([number] * 30 + [("", "3 fields, expected 4")])),
        file_report("/in/b.csv", 1, ledger_of([number] * 12 + [("note", "600 characters long, allowed are 512")])),
    ]
    share = "--reject-share (pinotpy.rejectShareMax) leaves such rows out"
    assert rejected_rows(files) == [
        "42 rows (1, 2, 3, …) of a.csv: column 'qty': 'n/a' is no number, expected one for INT; nullStringValue "
        f'"n/a" of the reader\'s settings reads it as null, dataType STRING of the column takes it as text, {share}',
        f"row 31 of a.csv: 3 fields, expected 4; check delimiter and quoteCharacter of the reader's settings; {share}",
        "row 13 of b.csv: column 'note': 600 characters long, allowed are 512; maxLength or "
        f"maxLengthExceedStrategy of the column takes it, {share}",
    ]


def test_the_error_of_a_file_groups_its_causes() -> None:
    ledger = ledger_of([("qty", "'n/a' is no number")] * 30 + [("qty", "'-' is no number")])
    with pytest.raises(DecodeError) as raised:
        ledger.check(0)
    lines = raised.value.message.splitlines()
    assert lines[1:] == [
        "  30 rows (1, 2, 3, …) column 'qty': 'n/a' is no number",
        "  row 31 column 'qty': '-' is no number",
    ]


@given(st.lists(st.tuples(st.sampled_from(["", "a", "b"]), st.integers(0, 300).map(str)), max_size=400))
def test_every_rejected_row_is_counted_under_a_cause(causes: list[tuple[str, str]]) -> None:
    ledger = ledger_of(causes)
    assert ledger.causes.total() == ledger.num_rows_rejected == len(causes)
    assert len(ledger.causes) <= CAUSES_MAX + 1
