"""Proves the scan's kernels against numpy twins: compaction, counting, hash sets, dictionary lookup for many segments,
fetches, expansion of multi-values, flushes and stops of the driver."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fake_segment import FakeColumn, FakeSegment, fake_column

from pinotpy.data_types import DataType
from pinotpy.kernels.filter import byte_masks, hash_set, predicate_table
from pinotpy.kernels.order import collect_rows
from pinotpy.kernels.runtime import abi, selection
from pinotpy.pql.ast import Dialect, Identifier
from pinotpy.query.model.context import ColumnRef, Comparison, OrderBy, OutputColumn, Predicate, QueryContext, QueryKind
from pinotpy.query.order.select import Collector
from pinotpy.query.order.top_n import find_top_rows
from pinotpy.query.plan.build import build_scan
from pinotpy.query.plan.scan_plan import ScanPlan, Shape
from pinotpy.query.runtime.control import QueryControl


@pytest.mark.parametrize(("n", "share"), list(itertools.product((0, 1, 15, 16, 17, 2047, 2048), (0.0, 0.02, 0.5, 1.0))))
def test_compaction_and_counting_equal_flatnonzero(n: int, share: float) -> None:
    rng = np.random.default_rng(n)
    mask = np.zeros(abi.BLOCK, np.uint8)
    mask[:n] = rng.random(n) < share
    listed = np.sort(rng.choice(1 << 20, abi.BLOCK, replace=False)).astype(np.int32)
    out = np.zeros(abi.BLOCK, np.int32)
    expected = np.flatnonzero(mask)
    assert selection.compress_range(mask[:n], mask.ctypes.data, 77, out, out.ctypes.data) == len(expected)
    assert (out[: len(expected)] == 77 + expected).all()
    assert selection.compress_list(
        mask[:n], mask.ctypes.data, listed[:n], listed.ctypes.data, out, out.ctypes.data
    ) == len(expected)
    assert (out[: len(expected)] == listed[expected]).all()
    for plain in (selection._range_plain, selection._list_plain):
        source: Any = 77 if plain is selection._range_plain else listed[:n]
        assert plain(mask[:n], source, out) == len(expected)
    assert (out[: len(expected)] == listed[expected]).all()
    assert _count(mask.ctypes.data, n) == len(expected)


def _count(address: int, n: int) -> int:
    from numba import njit

    counted = byte_masks.count_ones

    @njit
    def call(address: int, n: int) -> int:
        return counted(address, n)

    return int(call(address, n))


def test_a_hash_set_holds_its_words_and_no_others() -> None:
    rng = np.random.default_rng(5)
    words = np.unique(rng.integers(-(2**63), 2**63 - 1, 50_000))
    table = hash_set.hash_set(words)
    pairs = table.reshape(-1, 2)
    assert (np.sort(pairs[pairs[:, 1] == 1, 0]) == words).all() and len(pairs) >= 2 * len(words)
    segment = FakeSegment(
        "s", [fake_column("a", DataType.LONG, [*words[:3000].tolist(), *(words[:3000] + 1).tolist()], dictionary=False)]
    )
    wanted = words[:3000:2]
    assert (
        _docs([segment], "a", DataType.LONG, wanted.tolist())
        == np.flatnonzero(np.isin(segment.column("a").raw_values(), wanted)).tolist()
    )


@pytest.mark.parametrize("num_values", [2, 300, 50_000])
def test_in_over_a_wide_dictionary_equals_isin(num_values: int) -> None:
    rng = np.random.default_rng(num_values)
    values = rng.integers(0, 200_000, 150_000)
    wanted = np.unique(rng.integers(0, 200_000, num_values))
    segment = FakeSegment("s", [fake_column("a", DataType.INT, values.tolist())])
    assert segment.column("a").cardinality > 1 << 16
    assert _docs([segment], "a", DataType.INT, wanted.tolist()) == np.flatnonzero(np.isin(values, wanted)).tolist()


def ranges(metas: np.ndarray, low: int, high: int, *, low_text: bytes = b"", end_text: bytes = b"") -> np.ndarray:
    """The ids of a range in every segment, as planning finds them."""
    table, addresses = np.zeros((predicate_table.PREDICATE_ROWS, len(metas)), np.int64), np.ones(3, np.int64)
    texts, nothing = [np.array(bytearray(text), np.uint8) for text in (low_text, end_text)], np.zeros(0, np.uint8)
    ends = low, float(low), high, float(high)
    predicate_table.range_predicate(
        metas, table.reshape(-1), *ends, *texts, bool(end_text), nothing, 0, 0, 0, False, addresses
    )
    return table[predicate_table.L_IDS : predicate_table.L_IDS + 2].reshape(len(metas), 2)


def test_dictionary_lookup_of_many_segments_equals_searchsorted() -> None:
    rng = np.random.default_rng(9)
    for data_type in (DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE):
        columns = [
            fake_column("a", data_type, (rng.integers(-50, 50, 40) / 1).astype(data_type.stored.numpy).tolist())
            for _ in range(20)
        ]
        metas = np.array([column.meta for column in columns])
        out = np.zeros((20, 2), np.int64)
        out[:] = ranges(metas, -7, 12)
        for column, (low, high) in zip(columns, out.tolist(), strict=True):
            assert column.dictionary is not None
            assert (low, high) == (
                column.dictionary.values().searchsorted(-7),
                column.dictionary.values().searchsorted(12, "right"),
            )
    texts = [
        fake_column(
            "t", DataType.STRING, [bytes(rng.integers(97, 100, rng.integers(0, 4)).astype(np.uint8)) for _ in range(30)]
        )
        for _ in range(20)
    ]
    metas, out = np.array([column.meta for column in texts]), np.zeros((20, 2), np.int64)
    out[:] = ranges(metas, 0, 0, low_text=b"ab", end_text=b"c")
    for column, (low, high) in zip(texts, out.tolist(), strict=True):
        values = _texts(column)
        assert values[low:high] == [value for value in values if b"ab" <= value < b"c"]


def _texts(column: FakeColumn) -> list[bytes]:
    assert column.dictionary is not None
    return [column.dictionary.value(i) for i in range(column.cardinality)]


def _context(name: str, data_type: DataType, condition: Any = None, single_value: bool = True) -> QueryContext:
    output = (OutputColumn(name, Identifier(name)),)
    return QueryContext(
        Dialect.SQL,
        QueryKind.SELECTION,
        "t",
        output,
        filter=condition,
        limit=10**7,
        columns=(ColumnRef(name, data_type, single_value),),
    )


def _docs(segments: list[FakeSegment], name: str, data_type: DataType, values: list[Any]) -> list[int]:
    plan = build_scan(
        _context(name, data_type, Predicate(Identifier(name), Comparison.IN, tuple(values))), segments, QueryControl()
    )
    return _collect(plan, lambda shape: None)[1]


def _collect(plan: ScanPlan, emit: Any, capacity: int = 10**6) -> tuple[list[int], list[int]]:
    """Units and docs of all lanes that reach the end of the select stage."""
    for shape in plan.shapes():
        emit(shape)
        shape.emit(collect_rows.collect_docs.address)
    collector = Collector(capacity, 0)
    found: list[tuple[Any, Any]] = []
    plan.run(lambda thread: (collector.words.ctypes.data, collector), on_flush=lambda c: found.append(c.take()))
    found.append(collector.take())
    return np.concatenate([f[0] for f in found]).tolist(), np.concatenate([f[1] for f in found]).tolist()


def test_expanding_repeats_docs_once_a_value_in_portions_of_a_block() -> None:
    rng = np.random.default_rng(2)
    lists = [rng.integers(0, 5, rng.integers(1, 9)).tolist() for _ in range(3000)]
    others = [rng.integers(0, 5, rng.integers(1, 3)).tolist() for _ in range(3000)]
    segment = FakeSegment(
        "s",
        [
            fake_column("m", DataType.INT, lists, single_value=False),
            fake_column("n", DataType.INT, others, single_value=False),
        ],
    )
    context = _context("m", DataType.INT, single_value=False)
    expected = [doc for doc, values in enumerate(lists) for _ in values]
    assert _collect(build_scan(context, [segment], QueryControl()), lambda shape: shape.expand("m"))[1] == expected
    # A buffer of two blocks is flushed in the middle of a block, and the scan goes on where it was.
    flushed = _collect(
        build_scan(context, [segment], QueryControl(quantum_ns=1)),
        lambda shape: shape.expand("m"),
        capacity=2 * abi.BLOCK,
    )
    assert flushed[1] == expected

    def both(shape: Shape) -> None:
        shape.expand("m")
        shape.expand("n")

    product = [doc for doc, (a, b) in enumerate(zip(lists, others, strict=True)) for _ in range(len(a) * len(b))]
    assert _collect(build_scan(context, [segment], QueryControl()), both)[1] == product


@pytest.mark.parametrize("data_type", [DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE])
@pytest.mark.parametrize("dictionary", [True, False])
def test_fetched_values_equal_the_column(data_type: DataType, dictionary: bool) -> None:
    rng = np.random.default_rng(4)
    values = (rng.integers(-300, 300, 5003) / 1).astype(data_type.stored.numpy)
    segment = FakeSegment("s", [fake_column("a", data_type, values.tolist(), dictionary=dictionary)])
    condition = Predicate(Identifier("a"), Comparison.NOT_IN, (0, 1, 2, 3, 4, 5))
    for where, expected in ((None, values), (condition, values[~np.isin(values, range(6))])):
        context = replace(_context("a", data_type, where), order_by=(OrderBy(Identifier("a")),))
        # Sort keys are made of fetched values; all rows are kept.
        docs = find_top_rows(build_scan(context, [segment], QueryControl()), 5003)[1]
        assert len(docs) == len(expected) and (values[docs] == np.sort(expected)).all()
