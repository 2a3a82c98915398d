"""Proves the order of rows against Python's own sort over written-down keys: types, extremes, nulls, directions,
limits.
"""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pinotpy.query.result import ordering
from pinotpy.query.result.ordering import PARTITION_ROWS_MIN, SortKey, order_indices

POOLS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int32(), [0, 1, -1, 2**31 - 1, -(2**31), 7]),
    "long": (pa.int64(), [0, 5, -5, 2**63 - 1, -(2**63), 2**62]),
    "double": (pa.float64(), [0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan, 1e300, -1e-300]),
    "float": (pa.float32(), [0.0, 0.5, -2.0, math.inf, math.nan]),
    "text": (pa.string(), ["", "a", "B", "é", "\U0001f600", "zz"]),
    "bytes": (pa.binary(), [b"", b"\xff", b"\x00", b"ab"]),
    "bool": (pa.bool_(), [True, False]),
}


def rank(value: Any) -> Any:
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return value.encode() if isinstance(value, str) else value


def expected(rows: list[tuple[Any, ...]], keys: list[tuple[bool, bool | None]], limit: int | None) -> list[int]:
    order = list(range(len(rows)))
    for column in reversed(range(len(keys))):
        ascending, nulls_last = keys[column]
        last = ascending if nulls_last is None else nulls_last
        present = sorted((i for i in order if rows[i][column] is not None), key=lambda i: rank(rows[i][column]))
        if not ascending:  # stable in reverse order of values
            groups: dict[Any, list[int]] = {}
            for i in present:
                groups.setdefault(rank(rows[i][column]), []).append(i)
            present = [i for key in sorted(groups, reverse=True) for i in groups[key]]
        nulls = [i for i in order if rows[i][column] is None]
        position = {i: n for n, i in enumerate(order)}
        present = stable(present, rows, column, position)
        order = present + nulls if last else nulls + present
    return order if limit is None else order[:limit]


def stable(present: list[int], rows: list[tuple[Any, ...]], column: int, position: dict[int, int]) -> list[int]:
    out: list[int] = []
    for i in present:
        out.append(i)
    groups: list[list[int]] = []
    for i in out:
        if groups and rank(rows[groups[-1][0]][column]) == rank(rows[i][column]):
            groups[-1].append(i)
        else:
            groups.append([i])
    return [i for group in groups for i in sorted(group, key=position.__getitem__)]


@pytest.mark.parametrize("seed", range(150))
def test_random_rows_come_in_order(seed: int) -> None:
    rng = random.Random(seed)
    names = rng.sample(list(POOLS), rng.randint(1, 3))
    num_rows = rng.choice([0, 1, 10, 200, PARTITION_ROWS_MIN + 100])
    nulls = rng.random() < 0.5
    columns = [
        [None if nulls and rng.random() < 0.2 else rng.choice(POOLS[n][1]) for _ in range(num_rows)] for n in names
    ]
    keys = [(rng.random() < 0.5, rng.choice([None, None, True, False])) for _ in names]
    limit = rng.choice([None, 0, 1, 10, num_rows])
    sort_keys = [
        SortKey(pa.array(c, POOLS[n][0]), a, last) for n, c, (a, last) in zip(names, columns, keys, strict=True)
    ]
    got = order_indices(sort_keys, num_rows, limit)
    rows = list(zip(*columns, strict=True))
    # Beyond the partition threshold ties keep their order too.
    assert list(got) == expected(rows, keys, limit)


def test_no_key_keeps_the_order() -> None:
    assert np.array_equal(order_indices([], 5, 3), [0, 1, 2])


def test_later_keys_are_looked_at_in_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of rows that are all equal in the first key those that the second one leaves; the first ten of all, by their
    last.
    """
    num_rows, looked_at = 20_000, list[int]()
    codes = ordering._codes
    monkeypatch.setattr(ordering, "_codes", lambda key: (looked_at.append(len(key.values)), codes(key))[1])
    names = [f"n{number % 4_000:04}" for number in range(num_rows)]
    keys = [
        pa.array(np.ones(num_rows, np.int64)),
        pa.array(names),
        pa.array(np.arange(num_rows)),
        pa.array(np.arange(num_rows) * 0.5),
    ]
    found = order_indices([SortKey(key) for key in keys], num_rows, 10)
    assert found.tolist() == [0, 4_000, 8_000, 12_000, 16_000, 1, 4_001, 8_001, 12_001, 16_001]
    assert looked_at == [num_rows, num_rows, 10, 10, 10, 10]
