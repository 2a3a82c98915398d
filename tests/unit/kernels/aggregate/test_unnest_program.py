"""Proves the kernels of multi-value columns against lists in Python: filters (any value, none, after other predicates,
in lists of docs), lanes in portions, counts and sums by group; docs without values, of one, of as many as a word of
bits has, and of more than a block.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from fake_segment import FakeSegment, fake_column
from group_harness import Column, answer, make_context, run
from numba import njit

from pinotpy.data_types import DataType
from pinotpy.kernels.filter import multi_value
from pinotpy.kernels.runtime import abi
from pinotpy.kernels.vector.unnested_entries import fill_unnested
from pinotpy.pql.ast import Identifier
from pinotpy.query.model.context import And, Bound, Comparison, Not, Or, Predicate

M, R, ROW = Column("m", DataType.INT, False), Column("r", DataType.INT), Column("row", DataType.INT)
LENGTHS: dict[str, list[int]] = {
    "one": [1] * 2049,
    "few": [1, 2, 3, 4] * 1300,
    "none": [0] * 2100,
    "some without": [0, 3, 0, 1, 8, 9, 0] * 700,
    "words": [56, 57, 58, 63, 64, 65, 0, 1] * 300,
    "one long": [2] * 1000 + [5000] + [1] * 3000,
    "more than bits": [1] * 10 + [multi_value.VALUES_MAX, 70] + [2] * 3000,
    "short": [3],
}


def _lists(lengths: list[int], values: int, seed: int) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    flat = (rng.zipf(1.3, sum(lengths)) - 1) % values
    ends = np.cumsum(lengths).tolist()
    return [flat[end - length : end].tolist() for end, length in zip(ends, lengths, strict=True)]


def _segment(lists: list[list[int]], *, dictionary: bool = True, texts: bool = False) -> FakeSegment:
    values: list[Any] = [[b"v%06d" % v for v in doc] for doc in lists] if texts else lists
    rng = random.Random(len(lists))
    return FakeSegment(
        "s",
        [
            fake_column(
                "m", DataType.STRING if texts else DataType.INT, values, single_value=False, dictionary=dictionary
            ),
            fake_column("r", DataType.INT, [rng.randrange(1000) for _ in lists]),
            fake_column("row", DataType.INT, list(range(len(lists))), dictionary=False),
        ],
    )


def _in(*values: Any) -> Predicate:
    return Predicate(Identifier("m"), Comparison.IN, values)


def _less(name: str, value: int) -> Predicate:
    return Predicate(Identifier(name), Comparison.RANGE, upper=Bound(value, False))


def _count_and_sum(segment: FakeSegment, where: Any, texts: bool = False) -> tuple[int, int, int]:
    column = Column("m", DataType.STRING, False) if texts else M
    partial = run(make_context([column, R, ROW], [("count", "*"), ("sum", "row")], where=where), [segment])
    ((count, total),) = answer(make_context([column, R, ROW], [("count", "*"), ("sum", "row")]), [partial])
    return count, int(total or 0), partial.statistics.num_entries_scanned_in_filter


@pytest.mark.parametrize("case", LENGTHS)
@pytest.mark.parametrize("values", [2, 200, 3000, 80_000])
def test_a_filter_takes_docs_of_which_any_value_passes(case: str, values: int) -> None:
    lists = _lists(LENGTHS[case], values, values)
    segment = _segment(lists)
    tests = {
        "range": (_less("m", values // 3), lambda v: v < values // 3),
        "one": (_in(1), lambda v: v == 1),
        "three": (_in(0, 1, values - 1), lambda v: v in (0, 1, values - 1)),
        "far": (_in(5, values // 2), lambda v: v in (5, values // 2)),
    }
    distinct = {v for doc in lists for v in doc}
    for condition, passes in tests.values():
        if all(map(passes, distinct)) and not all(lists):
            continue  # decided by the dictionary, which takes for granted that docs have values (and stored ones do)
        rows = [row for row, doc in enumerate(lists) if any(map(passes, doc))]
        others = sorted(set(range(len(lists))) - set(rows))
        assert _count_and_sum(segment, condition)[:2] == (len(rows), sum(rows))
        assert _count_and_sum(segment, Not(condition))[:2] == (len(others), sum(others))


@pytest.mark.parametrize("case", ["few", "some without", "words", "one long"])
@pytest.mark.parametrize(("dictionary", "texts"), [(True, True), (False, False), (False, True)])
def test_texts_and_raw_values_are_filtered_alike(case: str, dictionary: bool, texts: bool) -> None:
    lists = _lists(LENGTHS[case], 300, 3)
    segment = _segment(lists, dictionary=dictionary, texts=texts)
    for wanted in ((7,), (0, 5, 299)):
        literals = [f"v{v:06d}" if texts else v for v in wanted]
        rows = [row for row, doc in enumerate(lists) if any(v in wanted for v in doc)]
        assert _count_and_sum(segment, _in(*literals), texts)[:2] == (len(rows), sum(rows))


@pytest.mark.parametrize("case", LENGTHS)
@pytest.mark.parametrize("kept", [3, 120, 500, 1000])
def test_what_earlier_conditions_leave_is_filtered_and_counted_by_value(case: str, kept: int) -> None:
    lists = _lists(LENGTHS[case], 50, kept)
    segment = _segment(lists)
    first = segment.column("r").dictionary.values()[segment.column("r").ids()] < kept
    rows = [row for row, doc in enumerate(lists) if first[row] and 3 in doc]
    count, total, entries = _count_and_sum(segment, And((_less("r", kept), _in(3))))
    assert (count, total) == (len(rows), sum(rows))
    is_known = all(3 not in doc for doc in lists) or bool(first.all())
    if not is_known:
        assert entries == len(lists) + sum(len(doc) for row, doc in enumerate(lists) if first[row])
    either = [row for row, doc in enumerate(lists) if first[row] or 3 in doc]
    assert _count_and_sum(segment, Or((_less("r", kept), _in(3))))[:2] == (len(either), sum(either))


@njit
def _filled(
    offsets: Any, docs: Any, skip: Any, flagged: bool, position: int, entry: int, entries: int, positions: int
) -> Any:
    # Functions of kernels have no door for Python.
    return fill_unnested(offsets, docs, skip, flagged, position, entry, entries, positions)


@pytest.mark.parametrize("case", LENGTHS)
@pytest.mark.parametrize("flagged", [False, True])
def test_lanes_are_the_entries_of_the_docs_in_order(case: str, flagged: bool) -> None:
    rng = np.random.default_rng(1)
    lengths = np.array(LENGTHS[case])
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32)
    docs = np.flatnonzero(rng.random(len(lengths)) < 0.7).astype(np.uint32)[: abi.BLOCK]
    skip = (rng.random(len(docs)) < 0.3).astype(np.uint8)
    counts = np.where(skip & flagged, 0, lengths[docs])
    positions = np.repeat(np.arange(len(docs)), counts)
    entries = np.concatenate(
        [np.arange(offsets[doc], offsets[doc] + count) for doc, count in zip(docs, counts, strict=True)] or [[]]
    )
    # A border behind each array: lanes that are stored in advance stay within it.
    out = np.full((2, abi.BLOCK + 16), 0xDEAD, np.uint32)
    found: list[Any] = []
    place = (0, 0, -1)
    while place[1] < len(docs):
        place = _filled(offsets, docs, skip, flagged, place[1], place[2], out[0].ctypes.data, out[1].ctypes.data)
        assert place[0] == abi.BLOCK or place[1] == len(docs)
        found.append(out[:, : place[0]].copy())
    assert (out[:, abi.BLOCK :] == 0xDEAD).all()
    lanes = np.concatenate(found, axis=1) if found else np.zeros((2, 0))
    assert (lanes[0] == entries).all() and (lanes[1] == positions).all()


@pytest.mark.parametrize("case", ["one", "few", "some without", "words", "one long"])
def test_values_are_counted_and_added_once_each(case: str) -> None:
    lists = _lists(LENGTHS[case], 90, 5)
    segment = _segment(lists)
    calls = [("countmv", "m"), ("summv", "m"), ("maxmv", "m"), ("distinctcountmv", "m"), ("countmv", "m")]
    where = _less("r", 500)
    filters = [None, None, None, None, _in(2)]
    r = segment.column("r").dictionary.values()[segment.column("r").ids()]

    def of(rows: list[int]) -> tuple[Any, ...]:
        flat = [v for row in rows for v in lists[row]]
        return len(flat), sum(flat), max(flat), len(set(flat)), sum(len(lists[row]) for row in rows if 2 in lists[row])

    context = make_context([M, R, ROW], calls, where=where, filters=filters)
    assert [tuple(map(int, row)) for row in answer(context, [run(context, [segment])])] == [
        of(np.flatnonzero(r < 500).tolist())
    ]
    grouped = make_context([M, R, ROW], [("count", "*"), ("sum", "row"), ("countmv", "m")], ["m"], where=where)
    found = {key: tuple(map(int, rest)) for key, *rest in answer(grouped, [run(grouped, [segment])])}
    expected: dict[int, tuple[int, int, int]] = {}
    for row in np.flatnonzero(r < 500).tolist():
        for value in lists[row]:
            count, total, values = expected.get(value, (0, 0, 0))
            expected[value] = (count + 1, total + row, values + len(lists[row]))
    assert found == expected
