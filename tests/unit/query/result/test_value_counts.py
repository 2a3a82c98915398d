"""Proves that values of sets are counted by parts as Python's sets count them: for all types that sets have, one group
or many, sets that nothing was seen in, and slices of arrays; and that counting can be ended.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pinotpy.query.result import value_counts
from pinotpy.query.result.value_counts import count_values

POOLS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int32(), [*range(-100, 100), 2**31 - 1, -(2**31)]),
    "long": (pa.int64(), [*range(0, 10**15, 10**13), 2**63 - 1, -(2**63)]),
    "float": (pa.float32(), [k / 4 for k in range(90)] + [float("inf")]),
    "double": (pa.float64(), [k / 7 for k in range(90)] + [1e300]),
    "text": (pa.binary(), [b"", b"\0", b"\0\0", *(f"a long name {k} and more".encode() for k in range(90))]),
}


def unchecked() -> None:
    """Goes on."""


@pytest.mark.parametrize("num_parts", [1, 8])
@pytest.mark.parametrize("num_groups", [1, 3, 40])
@pytest.mark.parametrize("name", POOLS)
def test_counts_are_those_of_sets(name: str, num_groups: int, num_parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_counts, "BLOCK_ROWS", 64)
    rng = random.Random(f"{name} {num_groups} {num_parts}")
    kind, pool = POOLS[name]
    expected: list[set[Any]] = [set() for _ in range(num_groups)]
    arrays, groups = [], []
    for _ in range(4):
        lists: list[list[Any] | None] = []
        for _ in range(rng.randint(1, 30)):
            lists.append(None if rng.random() < 0.1 else rng.sample(pool, rng.randint(0, len(pool))))
            groups.append(rng.randrange(num_groups))
            expected[groups[-1]] |= set(lists[-1] or [])
        # Something lies before and behind it.
        padded = pa.array([pool[:3], *lists, pool[:2]], pa.list_(kind))
        arrays.append(padded.slice(1, len(lists)))
    counts = count_values(arrays, np.array(groups), num_groups, num_parts, unchecked)
    assert counts.tolist() == [len(values) for values in expected]


def test_zeros_and_nans_are_one_value() -> None:
    sets = [pa.array([[0.0, float("nan")], [-0.0, -float("nan"), 1.0]]), pa.array([None, []], pa.list_(pa.float64()))]
    assert count_values(sets, np.zeros(4, np.int64), 1, 4, unchecked).tolist() == [3]
    assert count_values(sets, np.array([0, 1, 1, 0]), 2, 4, unchecked).tolist() == [2, 3]


def test_counting_that_is_too_late_ends() -> None:
    def check() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        count_values([pa.array([[1, 2]])], np.zeros(1, np.int64), 1, 8, check)
