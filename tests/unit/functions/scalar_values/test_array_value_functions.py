"""Proves the functions that make, join and compare multi-values against lists of Python."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pinotpy.data_types import DataType
from pinotpy.errors import QueryExecutionError

INT, LONG, FLOAT, DOUBLE, STRING = DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE, DataType.STRING


def _lists(seed: int, values: list[Any]) -> list[list[Any]]:
    chosen = random.Random(seed)
    return [chosen.choices(values, k=chosen.randrange(1, 7)) for _ in range(200)]


OF_TYPES = {
    "Int": (INT, [1, 2, 3, -5, 2**31 - 1]),
    "Long": (LONG, [1, 2, 2**60, -5]),
    "Float": (FLOAT, [0.5, -1.5, 2.0]),
    "Double": (DOUBLE, [0.1, -1e300, 2.0]),
    "String": (STRING, ["a", "é", "", "b"]),
}


@pytest.mark.parametrize("suffix", OF_TYPES)
def test_one_more_value_and_all_positions_of_one(call: Any, suffix: str) -> None:
    data_type, values = OF_TYPES[suffix]
    rows = _lists(1, values)
    ones = random.Random(2).choices(values, k=len(rows))
    assert call(f"arrayPushBack{suffix}", (data_type, rows), (data_type, ones)) == [
        [*row, one] for row, one in zip(rows, ones, strict=True)
    ]
    assert call(f"arrayPushFront{suffix}", (data_type, rows), (data_type, ones)) == [
        [one, *row] for row, one in zip(rows, ones, strict=True)
    ]
    expected = [[at for at, value in enumerate(row) if value == one] for row, one in zip(rows, ones, strict=True)]
    assert call(f"arrayIndexesOf{suffix}", (data_type, rows), (data_type, ones)) == expected
    assert call(f"arrayIndexesOf{suffix}", (data_type, rows), values[0]) == [
        [at for at, value in enumerate(row) if value == values[0]] for row in rows
    ]


@pytest.mark.parametrize("suffix", OF_TYPES)
def test_two_lists_overlap_if_a_value_is_in_both(call: Any, suffix: str) -> None:
    data_type, values = OF_TYPES[suffix]
    left, right = _lists(3, values), _lists(4, values)
    assert call("arraysOverlap", (data_type, left), (data_type, right)) == [
        bool(set(a) & set(b)) for a, b in zip(left, right, strict=True)
    ]


def test_positions_in_both(call: Any) -> None:
    left = [sorted(set(row)) for row in _lists(5, list(range(9)))]
    right = [sorted(set(row)) for row in _lists(6, list(range(9)))]
    assert call("intersectIndices", (INT, left), (INT, right)) == [
        sorted(set(a) & set(b)) for a, b in zip(left, right, strict=True)
    ]


def test_lists_of_the_values_of_a_row(call: Any) -> None:
    assert call("array", (INT, [1, 2, 3]), (INT, [4, 5, 6])) == [[1, 4], [2, 5], [3, 6]]
    assert call("arrayValueConstructor", (INT, [1, 2]), 0.5, (LONG, [7, 8])) == [[1.0, 0.5, 7.0], [2.0, 0.5, 8.0]]
    assert call("array", "a", (STRING, ["b", None])) == [["a", "b"], None]


def test_generated_numbers(call: Any) -> None:
    for start, end, step in [(1, 10, 3), (1, 1, 1), (10, 1, -4), (5, 1, 1), (0, 9, 10), (-3, 3, 2)]:
        expected = list(range(start, end + (1 if step > 0 else -1), step))
        for suffix, data_type in (("Int", INT), ("Long", LONG), ("Float", FLOAT), ("Double", DOUBLE)):
            assert call(f"generate{suffix}Array", (data_type, [start]), end, step) == [expected]
    assert call("generateDoubleArray", 0, 1, 0.25) == [[0.0, 0.25, 0.5, 0.75, 1.0]]


@pytest.mark.parametrize("arguments", [(1, 5, 0), (0, 2**40, 1), (float("inf"), 1, 1)])
def test_what_cannot_be_generated_is_refused(call: Any, arguments: tuple[Any, ...]) -> None:
    start, *others = arguments
    with pytest.raises(QueryExecutionError, match="GENERATEDOUBLEARRAY: expected"):
        call("generateDoubleArray", (DOUBLE, [start]), *others)


def test_sums_of_whole_numbers(call: Any) -> None:
    rows = _lists(7, [2**53 + 1, 7, -(2**60), 2**62])
    assert call("arraySumLong", (LONG, rows)) == [(sum(row) + 2**63) % 2**64 - 2**63 for row in rows]
    assert call("arraySumInt", (INT, [[2**31 - 1, 1], [1, 2]])) == [-(2**31), 3]


def test_lists_as_text(call: Any) -> None:
    rows = _lists(8, ["a", "", "é"])
    assert call("arrayToString", (STRING, rows), ", ") == [", ".join(row) for row in rows]
    assert call("arrayToString", (STRING, rows), "-", "nothing") == [
        "-".join(value or "nothing" for value in row) for row in rows
    ]
    assert call("arrayToString", (DOUBLE, [[0.5, 1e10]]), " ") == ["0.5 1.0E10"]
