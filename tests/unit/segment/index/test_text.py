"""Proves that a stored text index holds every word of every row at its place, however the column is encoded, and that a
damaged one is refused: against words counted row by row in Python, and by faults that are written with right CRCs.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from text_oracle import KeptBuffers, kept_index

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.data_types import DataType
from pinotpy.errors import DataError, InvalidConfigError, SegmentCorruptError
from pinotpy.functions.text.text_analysis import analyze
from pinotpy.segment import layout
from pinotpy.segment.build.builder import build_segment_into
from pinotpy.segment.data_source import TextIndex
from pinotpy.segment.directory.memory_directory import MemoryDirectory
from pinotpy.segment.immutable import open_segment
from pinotpy.segment.index import text as text_index
from pinotpy.segment.index.text import VALUE_GAP, check_text_index, check_text_sizes
from pinotpy.segment.metadata import ColumnMetadata

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            *({"name": name, "dataType": "STRING"} for name in ("plain", "raw", "packed", "zipped", "bare")),
            {"name": "json", "dataType": "JSON"},
            {"name": "many", "dataType": "STRING", "singleValueField": False},
            {"name": "manyRaw", "dataType": "STRING", "singleValueField": False},
        ],
    }
)
INDEXED = [name for name in SCHEMA.field_specs if name != "bare"]
WORDS = ["quick", "Brown", "fox", "the", "and", "dog's", "3.14", "Ünï", "日本", "c++", "--", "x_1", ""]


def config(**changes: Any) -> TableConfig:
    document: dict[str, Any] = {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "metadata": {},
        "tableIndexConfig": {"noDictionaryColumns": ["raw", "manyRaw"], "noDictionaryConfig": {"zipped": "LZ4"}},
        "fieldConfigList": [{"name": name, "indexType": "TEXT"} for name in INDEXED if name != "packed"]
        + [{"name": "packed", "indexTypes": ["TEXT"], "properties": {"dictIdEncoding": "FIXED_BIT"}}],
    }
    return TableConfig.from_json(document | changes)


def rows_of(rng: random.Random, num_docs: int) -> dict[str, list[Any]]:
    def text() -> str:
        return " ".join(rng.choices(WORDS, k=rng.choice([0, 1, 2, 5, 12])))

    columns: dict[str, list[Any]] = {
        name: [None if rng.random() < 0.1 else text() for _ in range(num_docs)] for name in SCHEMA.field_specs
    }
    for name in ("many", "manyRaw"):
        columns[name] = [
            None if rng.random() < 0.1 else [text() for _ in range(rng.randrange(5))] for _ in range(num_docs)
        ]
    return columns


def expected(rows: list[Any]) -> dict[str, list[tuple[int, int]]]:
    """Term → (doc, position) of its occurrences."""
    found = defaultdict(list)
    for doc, row in enumerate(rows):
        start = 0
        # Rows without a value hold the default.
        values = ["null"] if row is None or row == [] else [row] if isinstance(row, str) else row
        for value in values:
            for term, position in analyze(value):
                found[term].append((doc, start + position))
            # One word is put behind the value, to count also the stop words at its end.
            start += analyze(value + " zz")[-1][1] + VALUE_GAP
    return dict(found)


def held(index: TextIndex) -> dict[str, list[tuple[int, int]]]:
    return {
        term: list(zip(index.docs(i, i + 1).tolist(), index.positions(i).tolist(), strict=True))
        for i, term in enumerate(index.terms(0, index.num_terms).to_pylist())
    }


@pytest.mark.parametrize("num_docs", [0, 1, 120])
@pytest.mark.parametrize("batch_bytes", [64, 4 << 20])
def test_every_word_stands_at_its_place(num_docs: int, batch_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_index, "_BATCH_BYTES", batch_bytes)
    rows = rows_of(random.Random(num_docs), num_docs)
    types = {
        name: spec.data_type.arrow if spec.single_value else pa.list_(spec.data_type.arrow)
        for name, spec in SCHEMA.field_specs.items()
    }
    batch = pa.record_batch({name: pa.array(values, types[name]) for name, values in rows.items()})
    directory = MemoryDirectory("texts")
    build_segment_into(directory, SCHEMA, config(), [batch.slice(0, 50), batch.slice(50)], "seg")
    with open_segment(directory) as segment:
        assert segment.column("bare").text_index is None
        for name in INDEXED:
            index = segment.column(name).text_index
            assert index is not None
            found = held(index)
            assert list(found) == sorted(found, key=str.encode), name
            assert found == expected(rows[name]), name


def test_terms_are_found_by_their_bytes() -> None:
    _, index = kept_index(["b a c", "é b"])
    assert index.num_terms == 3 and index.terms(0, 3).to_pylist() == ["b", "c", "é"]
    assert [index.index_of(term) for term in (b"b", b"\xc3\xa9", b"a", b"d")] == [0, 2, -1, -1]
    assert [index.lower_bound(term) for term in (b"", b"b", b"bb", b"d", b"\xff")] == [0, 0, 1, 2, 3]
    assert index.docs(0, 2).tolist() == [0, 1, 0]


@pytest.mark.parametrize(("num_words", "dtype"), [(256, "<u1"), (257, "<u2"), (65_537, "<u4")])
def test_positions_are_as_narrow_as_the_longest_row_allows(num_words: int, dtype: str) -> None:
    _, index = kept_index(["b", " ".join(["w"] * num_words)])
    assert index.positions(1).dtype == dtype
    assert index.positions(1).tolist() == list(range(num_words))


def test_what_the_format_cannot_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_index, "_OCCURRENCES_MAX", 3)
    assert kept_index(["x y", "z"])
    with pytest.raises(DataError, match="'c' has 4 words"):
        kept_index(["x y", "z z"])


@pytest.mark.parametrize(
    "index_types", [{"indexType": "TEXT"}, {"indexTypes": ["INVERTED", "TEXT"]}, {"indexes": {"text": {}}}]
)
def test_a_text_index_needs_text(index_types: dict[str, Any]) -> None:
    schema = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": [{"name": "n", "dataType": "INT"}]})
    table = config(tableIndexConfig={}, fieldConfigList=[{"name": "n", **index_types}])
    with pytest.raises(InvalidConfigError) as raised:
        build_segment_into(
            MemoryDirectory("t"), schema, table, [pa.record_batch({"n": pa.array([1], pa.int32())})], "seg"
        )
    assert [fault.path for fault in raised.value.faults] == ["$.fieldConfigList[0]"]


# --- damage --------------------------------------------------------------------------------------------------------


def wrong(what: str, expected: object, found: object) -> SegmentCorruptError:
    return SegmentCorruptError(f"wrong {what}", file="f", expected=expected, found=found)


def entry(kind: str, dtype: Any, at: int, value: int) -> Callable[[KeptBuffers], None]:
    def change(kept: KeptBuffers) -> None:
        kept.view(kind, dtype)[at] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (entry(layout.TEXT_TERMS_OFFSETS, np.int32, 0, 1), "terms"),
        (entry(layout.TEXT_TERMS_OFFSETS, np.int32, -1, 1000), "terms"),
        (entry(layout.TEXT_TERMS_OFFSETS, np.int32, 1, 50), "terms"),
        (entry(layout.TEXT_TERMS, np.uint8, 0, ord("z")), "ascending terms"),
        (entry(layout.TEXT_TERMS, np.uint8, 0, 0x80), "terms"),
        (entry(layout.TEXT_OFFSETS, np.uint32, 0, 1), "lists"),
        (entry(layout.TEXT_OFFSETS, np.uint32, -1, 2**32 - 1), "lists"),
        (entry(layout.TEXT_OFFSETS, np.uint32, 1, 7), "lists"),
        (entry(layout.TEXT_DOCS, np.int32, 0, -1), "docs"),
        (entry(layout.TEXT_DOCS, np.int32, 0, 3), "docs"),
        (entry(layout.TEXT_DOCS, np.int32, 0, 2), "occurrences"),
        (entry(layout.TEXT_POSITIONS, np.uint8, 0, 1), "occurrences"),
    ],
)
def test_faults_with_right_crcs_are_found(change: Callable[[KeptBuffers], None], message: str) -> None:
    # Lists: fox (0, 0) (0, 1) (1, 0); ox (1, 1); yak (2, 0).
    kept, _ = kept_index(["fox fox", "fox ox", "yak"])
    check_text_index(kept, 3, wrong)  # type: ignore[arg-type]
    change(kept)
    with pytest.raises(SegmentCorruptError, match=message):
        check_text_index(kept, 3, wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        {layout.TEXT_DOCS: None},
        {layout.TEXT_TERMS_OFFSETS: 0, layout.TEXT_OFFSETS: 0},
        {layout.TEXT_TERMS_OFFSETS: 14, layout.TEXT_OFFSETS: 14},
        {layout.TEXT_OFFSETS: 20},
        {layout.TEXT_DOCS: 18},
        {layout.TEXT_POSITIONS: 15},
        {layout.TEXT_POSITIONS: 0},
    ],
)
def test_sizes_that_do_not_fit_together_are_found(change: dict[str, int | None]) -> None:
    kept, _ = kept_index(["fox fox", "fox ox", "yak"])
    sizes: dict[str, int] = {kind: buffer.nbytes for kind, buffer in kept.buffers.items()}
    text, number = column_of("raw"), replace(column_of("raw"), data_type=DataType.INT)
    check_text_sizes(text, sizes, wrong)
    check_text_sizes(number, {layout.FORWARD: 12}, wrong)
    with pytest.raises(SegmentCorruptError, match="text index"):
        check_text_sizes(number, sizes, wrong)
    with pytest.raises(SegmentCorruptError, match="text index"):
        check_text_sizes(text, {kind: size for kind, size in (sizes | change).items() if size is not None}, wrong)


def column_of(name: str) -> ColumnMetadata:
    directory = MemoryDirectory("one")
    types = {
        name: spec.data_type.arrow if spec.single_value else pa.list_(spec.data_type.arrow)
        for name, spec in SCHEMA.field_specs.items()
    }
    build_segment_into(
        directory,
        SCHEMA,
        config(),
        [pa.record_batch({name: pa.array([], kind) for name, kind in types.items()})],
        "seg",
    )
    with open_segment(directory) as segment:
        return segment.column(name).metadata
