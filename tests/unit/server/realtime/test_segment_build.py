"""Segments that are built of a log's chunks, frozen and not, are those that the builder makes of the same batches."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from consuming_registry import filled_log
from consuming_rows import CONFIG, SCHEMA, rows_of

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import DataError
from pinotpy.ingest.row_order import sort_rows
from pinotpy.segment.build.builder import build_segment
from pinotpy.server.realtime.segment_build import columns_of_chunks


@pytest.mark.parametrize("sorted_by", [(), ("word",), ("flag", "at"), ("id",)])
def test_rows_of_any_range_in_any_order(sorted_by: tuple[str, ...], tmp_path: Path) -> None:
    rows = rows_of(random.Random(4), 300)
    log = filled_log(SCHEMA, CONFIG, [rows], chunk_rows=77, batch_rows=10)
    for first, end in ((0, 300), (80, 299), (154, 155)):
        columns = columns_of_chunks(SCHEMA, log.view().chunks, (first, end), sorted_by)
        built = build_segment(SCHEMA, CONFIG, columns, tmp_path / f"{first}", "s", threads=1)
        batches = [rows.slice(first, end - first)]
        whole = sort_rows(batches, SCHEMA, sorted_by) if sorted_by else batches
        assert built.crc == build_segment(SCHEMA, CONFIG, whole, tmp_path / f"{first} whole", "s").crc


def test_rows_that_are_not_here_any_more_make_no_segment() -> None:
    log = filled_log(SCHEMA, CONFIG, [rows_of(random.Random(4), 300)], chunk_rows=77, batch_rows=10)
    with pytest.raises(DataError, match="of rows 0 to 300 of the log 223 are here"):
        columns_of_chunks(SCHEMA, log.view().chunks[1:], (0, 300))


def test_texts_that_chunks_hold_in_different_forms_meet(tmp_path: Path) -> None:
    """Few distinct ones have a dictionary once they are frozen, many do not, and rows that still come number theirs."""
    words = [*(f"word {row % 3}" for row in range(400)), *(f"word {row}" for row in range(400)), "last"]
    rows = rows_of(random.Random(4), len(words)).set_column(1, "word", pa.array(words))
    lists = [None if number % 7 == 0 else [word, f"{word}!"] for number, word in enumerate(words)]
    rows = rows.set_column(rows.schema.get_field_index("words"), "words", pa.array(lists))
    log = filled_log(SCHEMA, CONFIG, [rows], chunk_rows=400, batch_rows=100)
    for column in ("word", "words"):
        parts = [chunk.stored(column, 0, chunk.num_rows).type for chunk in log.view().chunks]
        assert len({str(part) for part in parts}) > 1
    columns = columns_of_chunks(SCHEMA, log.view().chunks, (0, len(words)))
    built = build_segment(SCHEMA, CONFIG, columns, tmp_path / "chunks", "s", threads=1)
    assert built.crc == build_segment(SCHEMA, CONFIG, [rows], tmp_path / "rows", "s").crc
    assert {columns.take("word").type, columns.take("words").type.value_type} == {pa.large_binary()}


@pytest.mark.parametrize(
    ("pattern", "days"),
    [("yyyyMMdd", ["20240930", "20241002", "20241001"]), ("yyyy-MM-dd", ["2024-9-30", "2024-10-02", None])],
)
def test_a_time_column_of_texts(pattern: str, days: list[Any], tmp_path: Path) -> None:
    schema = Schema.from_json(
        {
            "schemaName": "t",
            "dateTimeFieldSpecs": [
                {
                    "name": "day",
                    "dataType": "STRING",
                    "format": f"1:DAYS:SIMPLE_DATE_FORMAT:{pattern}",
                    "granularity": "1:DAYS",
                }
            ],
        }
    )
    config = TableConfig.from_json(
        {
            "tableName": "t", "tableType": "OFFLINE", "tenants": {}, "metadata": {},
            "segmentsConfig": {"timeColumnName": "day", "replication": "1"}, "tableIndexConfig": {},
        }
    )  # fmt: skip
    rows = pa.record_batch([pa.array(days * 20, pa.string())], names=["day"])
    log = filled_log(schema, config, [rows], chunk_rows=40, batch_rows=7)
    columns = columns_of_chunks(schema, log.view().chunks, (0, 60))
    built = build_segment(schema, config, columns, tmp_path / "chunks", "s", threads=1)
    whole = build_segment(schema, config, [rows], tmp_path / "rows", "s")
    assert built.crc == whole.crc and built.time_range == whole.time_range
    assert built.time_range is not None
    assert (built.time_range.start_ms, built.time_range.end_ms) == (1_727_654_400_000, 1_727_827_200_000)
