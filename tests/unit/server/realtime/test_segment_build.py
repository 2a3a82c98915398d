"""Segments that are built of a log's chunks, frozen and not, are those that the builder makes of the same batches."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import every_buffer
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


@pytest.mark.parametrize("sorted_by", [(), ("sorted",), ("s",)])
def test_every_index_and_the_star_tree_are_built_of_a_log_to_the_byte(
    sorted_by: tuple[str, ...], tmp_path: Path
) -> None:
    """Inverted, range, Bloom, JSON and text indexes, null vectors, dictionaries of both widths and compressed values:
    on every replica the same bytes, wherever its chunks begin.
    """
    config, schema, count = every_buffer.config(star_tree=True), every_buffer.SCHEMA, every_buffer.NUM_DOCS
    rows = every_buffer.rows().take(pa.array(random.Random(5).sample(range(count), count)))
    batches = sort_rows([rows], schema, sorted_by) if sorted_by else [rows]
    whole = build_segment(schema, config, batches, tmp_path / "rows", "s", creation_time_ms=1)
    kinds = {buffer.kind.partition(".")[0] for column in whole.columns for buffer in column.buffers}
    assert {"inverted", "range", "bloom", "json", "text", "nulls"} <= kinds and whole.star_trees
    expected = {path.name: path.read_bytes() for path in (tmp_path / "rows" / "s").iterdir()}
    for first, chunk_rows, batch_rows in ((0, 77, 10), (20, 130, 33)):
        before = rows.slice(0, first)  # rows of the segment before it
        log = filled_log(schema, config, [before, rows], chunk_rows=chunk_rows, batch_rows=batch_rows)
        columns = columns_of_chunks(schema, log.view().chunks, (first, first + count), sorted_by)
        folder = tmp_path / f"{chunk_rows}"
        build_segment(schema, config, columns, folder, "s", threads=1, creation_time_ms=1)
        built = {path.name: path.read_bytes() for path in (folder / "s").iterdir()}
        assert built.keys() == expected.keys()
        assert [name for name, content in built.items() if content != expected[name]] == []


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
