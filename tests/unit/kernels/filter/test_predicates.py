"""Proves filter predicates against numpy twins: bitmaps as flags at any offset, sets of dict ids as runs, tables and
bitmaps of narrow and wide dictionaries, null flags under masks, each alone and behind a predicate that leaves few docs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fake_segment import FakeSegment, fake_column
from numba import njit

from pinotpy.data_types import DataType
from pinotpy.kernels.filter import predicates
from pinotpy.kernels.runtime import abi, bit_flags
from pinotpy.pql.ast import Dialect, Identifier
from pinotpy.query.model.context import (
    And,
    Bound,
    ColumnRef,
    Comparison,
    OutputColumn,
    Predicate,
    QueryContext,
    QueryKind,
)
from pinotpy.query.order.select import run_selection
from pinotpy.query.plan.build import build_scan
from pinotpy.query.runtime.control import QueryControl

_FLAGS_FROM, _ANY_FROM = bit_flags.flags_from, bit_flags.any_from


@njit
def _flags(out_address: int, bits: Any, base: int, n: int) -> None:
    _FLAGS_FROM(out_address, bits, base, n)


@njit
def _any(address: int, base: int, n: int) -> bool:
    return bool(_ANY_FROM(address, base, n))


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 1.0])
def test_bits_become_flags_at_any_offset(share: float) -> None:
    rng = np.random.default_rng(3)
    for num_bits in (1, 7, 8, 9, 63, 64, 65, 2048, 2049, 5000):
        flags = rng.random(num_bits) < share
        bits = np.packbits(flags, bitorder="little")
        for base in {0, 1, 7, 8, 13, 64, 100, 2047, 2048} & set(range(num_bits)):
            for n in {1, 8, 9, 63, 2048, num_bits - base} & set(range(1, min(num_bits - base, abi.BLOCK) + 1)):
                out = np.full(abi.BLOCK + 8, 7, np.uint8)
                _flags(out.ctypes.data, bits, base, n)
                assert (out[:n] == flags[base : base + n]).all() and (out[(n + 7) & ~7 :] == 7).all()
                assert _any(bits.ctypes.data, base, n) >= flags[base : base + n].any()
                assert share > 0 or not _any(bits.ctypes.data, base, n)


def _selected(
    segments: list[FakeSegment], condition: Any, names: tuple[str, ...], *, null_handling: bool = False
) -> tuple[list[int], set[int]]:
    """Values of column `doc` where the condition holds, in order, and the functions that were asked."""
    output = (OutputColumn("doc", Identifier("doc")),)
    columns = tuple(ColumnRef(name, DataType.INT, True) for name in (*names, "doc"))
    context = QueryContext(
        Dialect.SQL,
        QueryKind.SELECTION,
        "t",
        output,
        filter=condition,
        limit=10**7,
        columns=columns,
        null_handling=null_handling,
    )
    plan = build_scan(context, segments, QueryControl())
    functions = set(plan.filter_program[:, :, abi.I_FUNCTION].ravel().tolist())
    rows = run_selection(plan).rows
    return ([] if rows is None else rows.column(0).to_pylist()), functions


def _in(name: str, values: list[int]) -> Predicate:
    return Predicate(Identifier(name), Comparison.IN, tuple(values))


def _runs(rng: np.random.Generator, cardinality: int, count: int) -> list[int]:
    # The ends of the dictionary among them: where a range of bytes would wrap around.
    picked = np.unique(np.concatenate([[0, cardinality - 1], rng.integers(0, cardinality, count)]))
    return np.unique(np.concatenate([picked, np.minimum(picked[: count // 2] + 1, cardinality - 1)])).tolist()


@pytest.mark.parametrize(
    ("cardinality", "count", "function"),
    [
        (5, 1, predicates.ids_runs),
        (256, 3, predicates.ids_runs),
        (250, 60, predicates.ids_lut),
        (3_000, 2, predicates.ids_runs),
        (3_000, 300, predicates.ids_lut),
        (70_000, 1, predicates.ids_runs),
        (70_000, 500, predicates.ids_bits),
    ],
)
@pytest.mark.parametrize("negated", [False, True])
def test_sets_of_ids_equal_isin(cardinality: int, count: int, function: Any, negated: bool) -> None:
    rng = np.random.default_rng(cardinality + count)
    num_docs = max(cardinality, 5_000)
    parts = [
        np.concatenate([np.arange(cardinality), rng.integers(0, cardinality, num_docs - cardinality)]) for _ in range(2)
    ]
    parts.append(np.full(2_049, cardinality // 2))  # a segment of one id
    rare = [rng.random(len(part)) < 0.02 for part in parts]
    segments = []
    for number, (part, few) in enumerate(zip(parts, rare, strict=True)):
        rng.shuffle(part)
        docs = np.arange(len(part)) + number * 1_000_000
        columns = [("a", part), ("few", few.astype(np.int64)), ("doc", docs)]
        segments.append(
            FakeSegment(f"s{number}", [fake_column(name, DataType.INT, values.tolist()) for name, values in columns])
        )
    wanted = _runs(rng, cardinality, count)
    members = [np.isin(part, wanted) != negated for part in parts]
    everywhere = np.concatenate([np.arange(len(part)) + number * 1_000_000 for number, part in enumerate(parts)])
    test = Predicate(Identifier("a"), Comparison.NOT_IN if negated else Comparison.IN, tuple(wanted))
    found, functions = _selected(segments, test, ("a",))
    assert found == everywhere[np.concatenate(members)].tolist()
    assert function.address in functions
    found, _ = _selected(segments, And((test, _in("few", [1]))), ("a", "few"))
    assert found == everywhere[np.concatenate(members) & np.concatenate(rare)].tolist()


@pytest.mark.parametrize("share", [0.0, 0.001, 0.4, 1.0])
def test_nulls_are_cleared_from_masks_wherever_a_block_begins(share: float) -> None:
    rng = np.random.default_rng(int(share * 1000))
    segments, expected = [], []
    for number, num_docs in enumerate((1, 8, 2_047, 2_049, 6_001)):
        values, nulls = rng.integers(0, 50, num_docs), rng.random(num_docs) < share
        day, docs = np.sort(rng.integers(0, 9, num_docs)), np.arange(num_docs) + number * 1_000_000
        listed = [None if null else value for value, null in zip(values.tolist(), nulls.tolist(), strict=True)]
        columns = [
            fake_column("a", DataType.INT, listed),
            fake_column("day", DataType.INT, day.tolist()),
            fake_column("doc", DataType.INT, docs.tolist()),
        ]
        segments.append(FakeSegment(f"s{number}", columns))
        # Days clip the scan to a run of docs that begins anywhere.
        expected += docs[(day >= 4) & (values != 7) & ~nulls].tolist()
    condition = And(
        (
            Predicate(Identifier("a"), Comparison.NOT_EQ, (7,)),
            Predicate(Identifier("day"), Comparison.RANGE, lower=Bound(4, True)),
        )
    )
    assert _selected(segments, condition, ("a", "day"), null_handling=True)[0] == expected
