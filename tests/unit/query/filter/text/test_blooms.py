"""Proves that Bloom filters of raw texts lose no row: of every text that a run of docs has the filter says so, and
queries that ask for one text give the rows that Python's comparison gives, the first time, when filters are made, and
after.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numba import njit, uint64

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.kernels.runtime import abi
from pinotpy.kernels.text import block_blooms as kernels
from pinotpy.pql.parser import parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.execute import execute
from pinotpy.query.filter.text import blooms
from pinotpy.query.model.context import QueryOptions
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.segments.segment_set import SegmentSet
from pinotpy.segment.build.builder import build_segment_into
from pinotpy.segment.decoded_cache import DECODED
from pinotpy.segment.directory.memory_directory import MemoryDirectory
from pinotpy.segment.immutable import open_segment

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "x", "dataType": "STRING"},
            {"name": "day", "dataType": "INT"},
            {"name": "n", "dataType": "INT"},
        ],
    }
)
CONFIG = TableConfig.from_json(
    {
        "tableName": "t", "tableType": "OFFLINE", "segmentsConfig": {"replication": "1"}, "tenants": {}, "metadata": {},
        "tableIndexConfig": {"noDictionaryColumns": ["x", "n"], "sortedColumn": ["day"]},
    }
)  # fmt: skip
ROWS = 7_000


@njit
def _held(filters: int, low: int, high: int, hashes: Any, out: Any) -> None:
    for i in range(len(hashes)):
        out[i] = kernels.may_hold(filters, low, high, uint64(hashes[i]))


def _filled(texts: list[bytes]) -> tuple[Any, Any]:
    starts = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64)
    data = np.frombuffer(b"".join(texts) + b"\0", np.uint8)
    filters = np.zeros((-(-len(texts) // abi.BLOCK), kernels.RUN_WORDS), np.uint64)
    kernels.fill_value_lists(data.ctypes.data, starts.ctypes.data, len(texts), filters)
    hashes = np.array(
        [
            kernels.hash_text(data.ctypes.data + start, len(text))
            for start, text in zip(starts.tolist(), texts, strict=False)
        ],
        np.int64,
    )
    return filters, hashes


def test_a_run_holds_all_its_texts_and_hardly_any_other() -> None:
    rng = np.random.default_rng(3)
    texts = [b"", *(rng.integers(0, 256, rng.integers(0, 40), np.uint8).tobytes() for _ in range(3 * abi.BLOCK + 99))]
    filters, hashes = _filled(texts)
    found = np.zeros(len(hashes), np.uint8)
    for run in range(len(filters)):
        low, high = run * abi.BLOCK, min((run + 1) * abi.BLOCK, len(texts))
        own = found[low:high]
        _held(filters.ctypes.data, low, high, hashes[low:high], own)
        assert own.all()
    _held(filters.ctypes.data, 5, abi.BLOCK + 5, hashes, found)  # two runs
    assert found[: 2 * abi.BLOCK].all()
    others = np.array(
        [kernels.hash_text(text.ctypes.data, 16) for text in rng.integers(0, 256, (20_000, 16), np.uint8)], np.int64
    )
    vain = np.zeros(len(others), np.uint8)
    _held(filters.ctypes.data, 0, abi.BLOCK, others, vain)
    assert vain.mean() < 0.02


@pytest.fixture
def parts() -> list[dict[str, Any]]:
    rng = np.random.default_rng(8)
    pool = ["", "a", "b" * 100, *(f"{number:016x}" for number in rng.integers(0, 1 << 60, 4_000).tolist())]
    return [
        {
            "x": [pool[i] for i in rng.integers(0, len(pool), ROWS)],
            "day": np.sort(rng.integers(0, 50, ROWS)),
            "n": np.arange(ROWS),
        }
        for _ in range(3)
    ]


@pytest.fixture
def segments(parts: list[dict[str, Any]]) -> Iterator[SegmentSet]:
    opened = []
    for i, part in enumerate(parts):
        directory = MemoryDirectory(f"s{i}")
        batch = pa.record_batch(
            {"x": pa.array(part["x"]), "day": pa.array(part["day"], pa.int32()), "n": pa.array(part["n"], pa.int32())}
        )
        build_segment_into(directory, SCHEMA, CONFIG, [batch], f"s{i}")
        opened.append(open_segment(directory))
    yield SegmentSet(opened)
    for segment in opened:
        segment.close()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Docs of the filters that were made; also of small segments."""
    docs: list[int] = []
    fill = kernels.fill_value_lists

    def noted(data: int, starts: int, count: int, filters: Any) -> None:
        docs.append(count)
        fill(data, starts, count, filters)

    monkeypatch.setattr(blooms, "DOCS_MIN", 0)
    monkeypatch.setattr(kernels, "fill_value_lists", noted)
    return docs


def _answer(segments: SegmentSet, condition: str) -> tuple[int, int]:
    context = compile_query(
        parse_sql(f"SELECT COUNT(*), SUM(n) FROM t WHERE {condition}"), SCHEMA, QueryOptions(), null_handling=False
    )
    rows = execute(context, segments, QueryControl()).rows
    return (0, 0) if rows is None else (rows.column("a0_count")[0].as_py(), int(rows.column("a1_sum")[0].as_py()))


def test_rows_of_a_text_are_found_by_filters(
    segments: SegmentSet, parts: list[dict[str, Any]], made: list[int]
) -> None:
    rows = [
        (text, int(day), int(n))
        for part in parts
        for text, day, n in zip(part["x"], part["day"], part["n"], strict=True)
    ]
    for text in ("", "a", "b" * 100, "nowhere", *(rows[i][0] for i in range(0, len(rows), 2_500))):
        for condition, passes in (
            (f"x = '{text}'", lambda row, text=text: row[0] == text),
            (f"x <> '{text}'", lambda row, text=text: row[0] != text),
            (f"x = '{text}' AND day BETWEEN 7 AND 31", lambda row, text=text: row[0] == text and 7 <= row[1] <= 31),
            (f"x = '{text}' OR n < 100", lambda row, text=text: row[0] == text or row[2] < 100),
        ):
            wanted = [row[2] for row in rows if passes(row)]
            assert _answer(segments, condition) == (len(wanted), sum(wanted)), condition
    assert made == [ROWS] * 3


def test_filters_that_would_fill_the_budget_are_not_made(segments: SegmentSet, made: list[int]) -> None:
    budget = DECODED.budget_bytes
    try:
        DECODED.set_budget(4 * 3 * ROWS)
        for _ in range(3):
            _answer(segments, "x = 'a'")
    finally:
        DECODED.set_budget(budget)
    assert not made
