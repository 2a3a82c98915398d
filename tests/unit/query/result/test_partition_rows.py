"""Proves that equal values are in one partition, wherever they lie in memory, that different ones spread over all of
them, and that as few columns and bytes are looked at as spread all rows, not only the first ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pinotpy.query.result import partition_rows
from pinotpy.query.result.partition_rows import divided, rows_by_partition

ARRAYS = [
    pa.array([5, None, -5, 5, 0, None] * 50, pa.int32()),
    pa.array([2**62, None, -(2**63), 2**62, 7, 7] * 50, pa.int64()),
    pa.array([0.0, -0.0, float("nan"), -float("nan"), None, 1.5] * 50, pa.float64()),
    pa.array([0.0, -0.0, float("nan"), None, 2.5, 1.5] * 50, pa.float32()),
    pa.array([True, False, None, True, True, False] * 50),
    pa.array(["", "a", None, "aaaaaaaaaaaaaaaaaaaaaaaa", "ß", "a"] * 50),
    pa.array([b"", b"\0", None, b"\0\0", b"x" * 100, b"\0"] * 50),
]


@pytest.mark.parametrize("whole_texts", [False, True])
@pytest.mark.parametrize("values", ARRAYS, ids=lambda values: str(values.type))
def test_equal_values_are_in_one_partition_wherever_they_lie(values: pa.Array, whole_texts: bool) -> None:
    found = rows_by_partition([values], 16, whole_texts=whole_texts)
    whole = [[values[int(row)].as_py() for row in rows] for rows in found]
    part = values.slice(7, 201)
    found = rows_by_partition([part], 16, whole_texts=whole_texts)
    cut = [[part[int(row)].as_py() for row in rows] for rows in found]
    assert sum(map(len, whole)) == len(values) and sum(map(len, cut)) == 201
    # As text: NaN is not equal to itself; the zeros are equal and have two.
    places: dict[str, set[int]] = {}
    for partitions in (whole, cut):
        for number, values_of in enumerate(partitions):
            for value in values_of:
                places.setdefault(str(value).replace("-0.0", "0.0"), set()).add(number)
    assert all(len(numbers) == 1 for numbers in places.values()), places


@pytest.mark.parametrize(
    "values",
    [
        np.arange(50_000),
        np.arange(50_000) * 4096,
        np.arange(50_000) / 3,
        [f"user-{k}@example.com" for k in range(50_000)],
        [f"https://example.com/{k}/index.html" for k in range(50_000)],
        [f"{k}" for k in range(50_000)],
    ],
    ids=["numbers", "multiples", "doubles", "addresses", "urls", "digits"],
)
def test_different_values_spread_over_all_partitions(values: Any) -> None:
    sizes = [len(rows) for rows in rows_by_partition([pa.array(values)], 64)]
    assert max(sizes) < 2 * 50_000 / 64, sizes


def largest_part(rows_of: list[list[Any]]) -> float:
    """Of all rows, the part that the largest partition has."""
    sizes = [sum(len(block[i]) for block in rows_of) for i in range(len(rows_of[0]))]
    return max(sizes) / sum(sizes)


def unchecked() -> None:
    """Goes on."""


def test_texts_that_differ_only_elsewhere_are_told_apart_by_all_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_rows, "_HASHED_BYTES", 10_000)
    # Alike in length, at both ends and in the middle.
    texts = pa.array([f"{'a' * 20}{k:05d}{'b' * 40}" for k in range(20_000)] + [""])
    assert largest_part([rows_by_partition([texts], 16)]) > 0.99
    rows_of = divided([[texts.slice(0, 9_000)], [texts.slice(9_000)]], 16, unchecked)
    assert largest_part(rows_of) < 2 / 16
    assert sorted(row for part in rows_of[0] for row in part.tolist()) == list(range(9_000))


def test_a_column_that_spreads_the_first_rows_only_is_not_enough() -> None:
    many = pa.array(np.arange(30_000))
    one = pa.array(np.full(30_000, 7))
    blocks = [[many, many], [one, many], [one, many]]
    assert largest_part(divided(blocks, 16, unchecked)) < 2 / 16
    # Equal rows are in the same partition of all blocks.
    rows_of = divided([*blocks, [one, many]], 16, unchecked)
    assert [part.tolist() for part in rows_of[1]] == [part.tolist() for part in rows_of[3]]


def test_numbers_that_spread_rows_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("texts need not be hashed")

    monkeypatch.setattr(partition_rows, "_words_of_texts", refused)
    numbers = np.arange(50_000)
    texts = pa.array([str(number) for number in numbers])
    assert largest_part(divided([[texts, pa.array(numbers)]], 16, unchecked)) < 2 / 16
