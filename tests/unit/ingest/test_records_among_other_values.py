"""Proves that no value is lost where a field holds a record in some rows and a list, or a word, in others: columns that
read the record's fields get them, columns that read the field itself get its JSON, and what no column takes is counted
by its field.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pytest
from sniffed_files import built

from pinotpy.cli.load_report import left_out
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.ingest.decoders.ledger import StreamLedger
from pinotpy.ingest.jobs.file_reports import file_report
from pinotpy.ingest.ledger import RowLedger
from pinotpy.ingest.pipeline import RowPipeline, read_rows
from pinotpy.ingest.readers.spec import FileFormat, InputFile

MIXED = [
    {"id": 1, "a": {"b": 1, "c": "x"}, "n": {"o": {"p": 1}}},
    {"id": 2, "a": [1, 2], "n": {"o": [5, 6]}},
    {"id": 3, "a": {"b": 3}, "n": None},
    {"id": 4, "a": [{"b": 7}, {"b": 8}], "n": {"o": 7}},
    {"id": 5, "a": "word", "n": {"o": "x"}},
    {"id": 6},
]


def lines(records: list[dict[str, Any]]) -> bytes:
    return "\n".join(json.dumps(record) for record in records).encode()


def ingested(
    content: bytes, specs: dict[str, str], file_format: FileFormat = FileFormat.JSON, **complex_types: Any
) -> tuple[list[tuple[Any, ...]], RowLedger]:
    schema = Schema.from_json(
        {
            "schemaName": "t",
            "dimensionFieldSpecs": [{"name": name, "dataType": kind} for name, kind in specs.items()],
        }
    )
    table = {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": 1},
        "tenants": {},
        "tableIndexConfig": {},
        "ingestionConfig": {"complexTypeConfig": complex_types},
    }
    ledger = RowLedger("a")
    file = InputFile(Path(f"a.{file_format}"), lambda: io.BytesIO(content), len(content))
    batches = read_rows(file, file_format, RowPipeline(schema, TableConfig.from_json(table)), ledger)
    return [tuple(row[name] for name in specs) for batch in batches for row in batch.to_pylist()], ledger


def test_records_keep_their_fields_and_every_value_its_json() -> None:
    specs = {"id": "INT", "a.b": "LONG", "a.c": "STRING", "a": "STRING", "n.o": "STRING", "n.o.p": "INT"}
    rows, ledger = ingested(lines(MIXED), specs)
    assert rows == [
        (1, 1, "x", '{"b":1,"c":"x"}', '{"p":1}', 1),
        (2, None, None, "[1,2]", "[5,6]", None),
        (3, 3, None, '{"b":3}', None, None),
        (4, None, None, '[{"b":7},{"b":8}]', "7", None),
        (5, None, None, "word", "x", None),
        (6, None, None, None, None, None),
    ]
    assert not ledger.unmapped


def test_what_no_column_takes_is_counted_by_its_field() -> None:
    rows, ledger = ingested(lines(MIXED), {"id": "INT", "a.b": "LONG", "n.o.p": "INT"})
    assert [row[1] for row in rows] == [1, None, 3, None, None, None]
    assert ledger.unmapped == {"a": 3, "n.o": 3}
    assert file_report("a", 1, ledger).unmapped_by_field == {"a": 3, "n.o": 3}
    of_stream = StreamLedger()
    of_stream.add(ledger, 6, 0, np.arange(6))
    assert of_stream.to_json()["unmappedByField"] == {"a": 3, "n.o": 3}


@pytest.mark.parametrize("other", [[1, 2], "word", 7])
def test_a_batch_without_any_record_is_counted_too(other: Any) -> None:
    _, ledger = ingested(lines([{"id": 1, "a": other}, {"id": 2, "a": other}]), {"id": "INT", "a.b": "LONG"})
    assert ledger.unmapped == {"a": 2}


def test_lists_are_unnested_beside_rows_that_have_none() -> None:
    records = [
        {"id": 1, "a": [{"b": 1}, {"b": 2}]},
        {"id": 2, "a": {"b": 3}},
        {"id": 3, "a": "word"},
        {"id": 4, "a": []},
        {"id": 5},
    ]
    rows, ledger = ingested(lines(records), {"id": "INT", "a.b": "LONG"}, fieldsToUnnest=["a"])
    assert rows == [(1, 1), (1, 2), (2, None), (3, None), (4, None), (5, None)]
    assert ledger.unmapped == {"a": 2}


def test_fields_whose_names_hold_the_delimiter_lose_nothing() -> None:
    _, ledger = ingested(lines([{"id": 1, "a": 5, "a.b": 2}]), {"id": "INT", "a.b": "LONG"})
    assert not ledger.unmapped


def test_a_union_within_a_record_that_may_be_missing_is_read() -> None:
    """A record of Avro that is null in some rows and has a union as a field."""
    inner = {"type": "record", "name": "inner", "fields": [{"name": "v", "type": ["null", "long", "string"]}]}
    schema = {
        "type": "record",
        "name": "row",
        "fields": [{"name": "id", "type": "int"}, {"name": "a", "type": ["null", inner]}],
    }
    records = [{"id": 1, "a": {"v": 5}}, {"id": 2, "a": None}, {"id": 3, "a": {"v": "x"}}, {"id": 4, "a": {"v": None}}]
    out = io.BytesIO()
    fastavro.writer(out, schema, records)
    rows, _ = ingested(out.getvalue(), {"id": "INT", "a.v": "STRING"}, FileFormat.AVRO)
    assert rows == [(1, "5"), (2, None), (3, "x"), (4, None)]


def in_file(others: dict[int, Any], count: int = 20_600) -> bytes:
    """Records, and other values in some rows; the sample of `load` ends before 20,001."""
    return lines([{"id": row, "a": others.get(row, {"b": row, "c": "x"})} for row in range(count)])


@pytest.mark.parametrize(
    ("rows", "count"), [((3, 5), 9), ((8_500, 8_600), 8_700), ((20_500, 20_501), 20_600)], ids=["first", "next", "late"]
)
def test_load_keeps_such_a_field_whole(tmp_path: Path, rows: tuple[int, int], count: int) -> None:
    """In the first batch, in the second one, and behind the sample."""
    file = built(tmp_path, in_file({rows[0]: [1, 2], rows[1]: [{"b": 5}]}, count), "a.json")
    assert file.types == {"id": "INT", "a": "JSON"}
    assert [file.rows[row]["a"] for row in (2, *rows)] == ['{"b":2,"c":"x"}', "[1,2]", '[{"b":5}]']
    is_late = rows[0] > 20_000
    assert (
        any("field 'a': in 2 rows it holds something else than a record" in line for line in file.reading.lines)
        is is_late
    )
    assert not any("no column takes" in line for line in left_out(file.reading))


def test_load_keeps_a_late_word_among_records(tmp_path: Path) -> None:
    file = built(tmp_path, in_file({20_500: "word"}), "a.json")
    assert file.types == {"id": "INT", "a": "STRING"}
    assert [file.rows[row]["a"] for row in (2, 20_500)] == ['{"b":2,"c":"x"}', "word"]


def test_a_wished_part_is_kept_and_what_it_leaves_out_is_told(tmp_path: Path) -> None:
    file = built(tmp_path, in_file({20_500: [1, 2]}), "a.json", types={"a_b": "LONG"})
    assert file.types["a_b"] == "LONG"
    assert any("values that no column takes" in line and "a 1" in line for line in left_out(file.reading))


def test_sampled_unions_are_what_they_were_as_text(tmp_path: Path) -> None:
    file = built(tmp_path, lines(MIXED), "a.json")
    assert [row["a"] for row in file.rows] == ['{"b":1,"c":"x"}', "[1,2]", '{"b":3}', '[{"b":7},{"b":8}]', "word", None]
