"""Few groups are put together by ids that the set of segments keeps: the kernel does what numpy does; answers are those
of the rows for every type of key, nulls, several keys and threads, and those of merging by value; a later set takes the
shared dictionaries over; keys without small dictionaries take the longer way.
"""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from group_harness import Cells, Column, answer, build, check, drawn_cells, expected, forcing, joined, make_context, run

from pinotpy.data_types import DataType as D
from pinotpy.functions.state.exact_sums import WINDOW, WINDOW_MAIN, exact_array
from pinotpy.kernels.aggregate.result_context import G_ARENA, G_MORSELS, ResultContext
from pinotpy.kernels.group import compact_merge as kernel
from pinotpy.kernels.group import merge_rows
from pinotpy.kernels.runtime import abi
from pinotpy.kernels.runtime.growable import V_ADDRESS, V_USED
from pinotpy.query.group import choose, small_result
from pinotpy.query.model.grouping_method import GroupingMethod
from pinotpy.query.plan import build as scan
from pinotpy.query.result.compact_rows import COMPACT_ROWS_MAX
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.segments.segment_set import SegmentSet

COLUMNS = [
    Column("i", D.INT), Column("l", D.LONG), Column("d", D.DOUBLE), Column("s", D.STRING), Column("b", D.BOOLEAN),
        Column("t", D.TIMESTAMP),
    Column("big", D.BIG_DECIMAL), Column("many", D.INT), Column("raw", D.DOUBLE, raw=True),
]  # fmt: skip
POOLS: dict[str, list[Any]] = {
    "i": [*range(12), -(2**31), 2**31 - 1],
    "l": [*range(20), 2**63 - 1, -(2**63)],
    "d": [-1e308, 0.1, 5e-324, 1e300, float("inf")],
    "s": ["", "a", "b", "Zürich", *(f"value {i}" for i in range(9))],
    "b": [True, False],
    "t": [0, -1, 1_600_000_000_000],
    "big": [Decimal("1.5"), Decimal("-2"), Decimal(10) ** 30],
    "many": list(range(5000)),
    "raw": [0.1, 2.5, 1e300, -1e-300, 1e16, -1e16, 7.0],
}
CALLS = [
    ("count", "*"),
    ("sum", "raw"),
    ("avg", "raw"),
    ("sum", "l"),
    ("min", "d"),
    ("max", "i"),
    ("count", "s"),
    ("minmaxrange", "i"),
]
KEYS = [["i"], ["l"], ["s"], ["b"], ["t"], ["big"], ["s", "b"], ["b", "i", "s"], ["t", "l", "big", "s"], ["many"]]


@pytest.fixture(scope="module")
def parts() -> list[Cells]:
    rng = random.Random(11)
    return [drawn_cells(rng, COLUMNS, POOLS, rng.randint(1, 400)) for _ in range(6)]


@pytest.fixture(scope="module")
def segments(parts: list[Cells], tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = tmp_path_factory.mktemp("segments")
    return [build(folder, COLUMNS, part, f"s{i}") for i, part in enumerate(parts)]


@pytest.mark.parametrize("null_handling", [False, True], ids=["plain", "nulls"])
@pytest.mark.parametrize("keys", KEYS, ids="+".join)
@pytest.mark.parametrize("threads", [1, 3])
def test_few_groups_are_those_of_the_rows(
    segments: list[Any], parts: list[Cells], executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch,
    keys: list[str], null_handling: bool, threads: int,
) -> None:  # fmt: skip
    monkeypatch.setattr(scan, "DOCS_PER_THREAD_MIN", 1)
    context = make_context(COLUMNS, CALLS, keys, null_handling=null_handling)
    partial = run(context, SegmentSet(segments), threads=threads, executor=executor)
    wanted = expected(COLUMNS, joined(parts), CALLS, keys, null_handling=null_handling)
    assert (partial.few is not None) == (len(wanted) <= COMPACT_ROWS_MAX)
    check(answer(context, [partial]), wanted, len(keys))
    merged = replace(context, options=forcing(GroupingMethod.MORSEL_TABLES))
    by_value = run(merged, SegmentSet(segments), threads=threads, executor=executor)
    assert by_value.few is None and by_value.rows.equals(partial.rows)


@pytest.mark.parametrize("keys", [["d"], ["raw"], ["s", "raw"]], ids="+".join)
def test_keys_without_small_dictionaries_of_whole_numbers_or_texts_take_the_longer_way(
    segments: list[Any], parts: list[Cells], keys: list[str]
) -> None:
    context, control = make_context(COLUMNS, CALLS, keys), QueryControl()
    check(
        answer(context, [run(context, SegmentSet(segments), control=control)]),
        expected(COLUMNS, joined(parts), CALLS, keys, null_handling=False),
        len(keys),
    )
    assert control.grouping_methods == [GroupingMethod.MORSEL_TABLES.value]


def test_large_dictionaries_are_not_numbered(
    segments: list[Any], parts: list[Cells], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choose, "SMALL_VALUES_MAX", 10)
    context, control = make_context(COLUMNS, CALLS, ["s"]), QueryControl()
    check(
        answer(context, [run(context, SegmentSet(segments), control=control)]),
        expected(COLUMNS, joined(parts), CALLS, ["s"], null_handling=False),
        1,
    )
    assert control.grouping_methods == [GroupingMethod.MORSEL_TABLES.value]


def test_a_later_set_takes_numberings_over_until_they_are_worn(
    segments: list[Any], parts: list[Cells], monkeypatch: pytest.MonkeyPatch
) -> None:
    context = make_context(COLUMNS, CALLS, ["s"])
    first = SegmentSet(segments[:3])
    run(context, first)
    second = SegmentSet([segments[1], *segments[3:]], first)
    rows = joined([parts[1], *parts[3:]])
    check(answer(context, [run(context, second)]), expected(COLUMNS, rows, CALLS, ["s"], null_handling=False), 1)
    assert (
        second.attached(small_result.SmallDictionaries).columns["s"]
        is first.attached(small_result.SmallDictionaries).columns["s"]
    )
    monkeypatch.setattr(small_result, "_WORN", 0)
    third = SegmentSet(segments[:1], second)
    monkeypatch.setattr(small_result, "_WORN_IDS_MIN", 0)
    check(answer(context, [run(context, third)]), expected(COLUMNS, parts[0], CALLS, ["s"], null_handling=False), 1)
    assert (
        third.attached(small_result.SmallDictionaries).columns["s"]
        is not first.attached(small_result.SmallDictionaries).columns["s"]
    )


def test_the_kernel_does_what_numpy_does() -> None:
    rng = np.random.default_rng(7)
    for trial in range(60):
        num_keys, width, num_segments = int(rng.integers(1, 4)), int(rng.integers(1, 5)), int(rng.integers(1, 5))
        kinds = np.array(
            [merge_rows.ADD, *([merge_rows.WIDE, merge_rows.WIDE_HIGH] if width > 2 else []), *[merge_rows.GROW] * 4][
                :width
            ],
            np.int64,
        )
        cardinalities = rng.integers(1, 9, (num_segments, num_keys))
        sizes = np.full(num_keys, 12, np.int64)  # ids 0 … 10, and 11 for null
        code_maps = [[rng.permutation(11)[:c].astype(np.int32) for c in row] for row in cardinalities]
        addresses = np.array([[code_map.ctypes.data for code_map in row] for row in code_maps], np.int64)
        total, seen, threads = 0, [], []
        for _ in range(int(rng.integers(1, 4))):
            morsels = np.sort(rng.integers(0, num_segments, int(rng.integers(0, 5))))
            counts = rng.integers(1, 40, len(morsels))
            segment = np.repeat(morsels, counts)
            ids = np.column_stack([rng.integers(0, cardinalities[segment, k] + 1) for k in range(num_keys)]).reshape(
                len(segment), num_keys
            )
            words = rng.integers(-(2**63), 2**63 - 1, (len(segment), width), endpoint=True)
            arena = np.ascontiguousarray(np.concatenate([ids, words], axis=1), np.int64)
            starts = np.ascontiguousarray(
                np.column_stack([np.arange(len(morsels)), np.cumsum(counts) - counts]), np.int64
            )
            threads.append((arena, starts, morsels.astype(np.int64)))
            for row, own in zip(arena, segment, strict=True):
                digits = [
                    int(code_maps[own][k][row[k]]) if row[k] < cardinalities[own, k] else 11 for k in range(num_keys)
                ]
                seen.append((int(np.dot(digits, [12**k for k in range(num_keys)][::-1])), row[num_keys:]))
            total += len(arena)
        index, groups = np.zeros(1 << (2 * total + 2).bit_length(), np.int64), np.full(total, -1, np.int64)
        keys, out = np.empty(total, np.int64), np.zeros((total, width), np.int64)
        known = first = 0
        control = np.zeros(abi.CONTROL_WORDS, np.int64)
        for arena, starts, morsels in threads:
            context = ResultContext(control, width, num_keys)
            words = context.words.copy()
            for vector, held in ((G_ARENA, arena), (G_MORSELS, starts)):
                words[vector + V_ADDRESS], words[vector + V_USED] = held.ctypes.data, held.size
            known = kernel.put_together(
                words, morsels, addresses, cardinalities, sizes, kinds, index, groups, first, keys, out, known
            )
            first += len(arena)
        order = list(dict.fromkeys(key for key, _ in seen))
        assert keys[:known].tolist() == order, trial
        assert groups.tolist() == [order.index(key) for key, _ in seen]
        wanted = np.zeros((known, width), np.int64)
        if total:
            merge_rows.merge_rows(np.array([row for _, row in seen], np.int64), 0, groups, kinds, wanted)
        assert (out[:known] == wanted).all()


def test_exact_sums_of_one_window_are_those_that_arrow_lists_hold() -> None:
    rng = np.random.default_rng(9)
    for trial in range(200):
        count = int(rng.integers(1, 6))
        table = rng.integers(-(2**63), 2**63 - 1, (count, 4), endpoint=True) >> rng.integers(0, 64, (count, 4))
        table[:, 2] = table[:, 1] >> 63 if trial % 3 else table[:, 2]
        if trial % 5 == 0:
            table[int(rng.integers(0, count)), 1:3] = 0
        lists = kernel.exact_lists(table, 1, WINDOW * WINDOW_MAIN)
        none = np.zeros(0, np.int64)
        wanted = exact_array(table[:, 1], table[:, 2], np.ones(count, np.bool_), (none, none, none, none))
        assert lists.tolist() == wanted.to_pylist()
