"""Uniting (group, value) entries: every distinct pair once, with the sum of its counts, by group. Compared with a
dictionary in Python on random and hostile entries: none, one, all equal, NaN and both zeros, the ends of LONG, counts
beyond 32 bits.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pinotpy.errors import MemoryLimitError
from pinotpy.kernels.aggregate import distinct_pairs
from pinotpy.kernels.runtime import abi
from pinotpy.query.aggregate.value_sets import ThreadEntries, deduplicate
from pinotpy.query.runtime.control import QueryControl

Longs = NDArray[np.int64]
LONG = np.iinfo(np.int64)
NOTHING = np.empty(0, np.int64)


def _entries(rows: Longs, values: Longs, counts: Longs) -> Longs:
    return np.column_stack([(rows << distinct_pairs.ROW_SHIFT) | counts, values]).astype(np.int64)


def _deduplicated(
    threads: list[ThreadEntries], num_groups: int, num_threads: int = 2, metas: Longs | None = None
) -> tuple[Longs, Longs, Longs]:
    with ThreadPoolExecutor(2) as executor:
        plan: Any = SimpleNamespace(control=QueryControl(), num_threads=num_threads, executor=executor)
        return deduplicate(
            plan, threads, num_groups, np.zeros(1, np.int64) if metas is None else metas, NOTHING, counted=True
        )


def _counter(offsets: Longs, keys: Longs, counts: Longs) -> dict[tuple[int, int], int]:
    groups = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    found = dict(zip(zip(groups.tolist(), keys.tolist(), strict=True), counts.tolist(), strict=True))
    assert len(found) == len(keys), "a pair came twice"
    return found


@pytest.mark.parametrize(
    ("num_entries", "num_groups", "values"),
    [
        (0, 3, [7]),
        (1, 1, [LONG.min]),
        (5_000, 1, [42]),
        (60_000, 1, list(range(0, 40_000, 3))),
        (60_000, 977, [LONG.min, LONG.max, 0, -1, 1 << 40, 3 << 52]),
        (200_000, 40, list(range(-5_000, 5_000))),
        (50_000, 7, [i << 48 for i in range(-3000, 3000)]),
    ],
)
def test_each_pair_comes_once_with_its_counts_added_up(num_entries: int, num_groups: int, values: list[int]) -> None:
    rng = np.random.default_rng([num_entries, num_groups])
    expected: Counter[tuple[int, int]] = Counter()
    threads = []
    for _ in range(2):
        rows, picked = (
            rng.integers(0, 3 * num_groups, num_entries),
            np.array(values, np.int64)[rng.integers(0, len(values), num_entries)],
        )
        counts = rng.integers(1, 5, num_entries)
        groups = rng.integers(0, num_groups, 3 * num_groups)
        threads.append(ThreadEntries(_entries(rows, picked, counts), groups, np.zeros(3 * num_groups, np.int64)))
        for group, value, count in zip(groups[rows].tolist(), picked.tolist(), counts.tolist(), strict=True):
            expected[group, value] += count
    assert _counter(*_deduplicated(threads, num_groups)) == dict(expected)


def test_counts_of_a_value_may_pass_32_bits() -> None:
    largest = (1 << 32) - 1
    entries = _entries(np.zeros(3, np.int64), np.array([5, 5, 6]), np.array([largest, largest, 1]))
    offsets, keys, counts = _deduplicated([ThreadEntries(entries, np.zeros(1, np.int64), np.zeros(1, np.int64))], 1)
    assert _counter(offsets, keys, counts) == {(0, 5): 2 * largest, (0, 6): 1}


def test_dict_ids_of_several_units_meet_by_value_with_one_zero_and_one_nan() -> None:
    dictionaries = [np.array([-1.5, -0.0, 2.0]), np.array([0.0, 2.0, np.nan]), np.array([np.nan])]
    metas = np.zeros((3, abi.META_WORDS), np.int64)
    for meta, dictionary in zip(metas, dictionaries, strict=True):
        meta[abi.M_CARDINALITY], meta[abi.M_STORED], meta[abi.M_DICTIONARY] = (
            len(dictionary),
            abi.T_DOUBLE,
            dictionary.ctypes.data,
        )
    addresses = np.array([meta.ctypes.data for meta in metas])
    rows, ids = np.array([0, 0, 0, 1, 1, 1, 2]), np.array([0, 1, 2, 0, 1, 2, 0])
    entries = _entries(rows, ids, np.ones(7, np.int64))
    # Rows 0 and 2 are of group 1, row 1 of group 0.
    threads = [ThreadEntries(entries, np.array([1, 0, 1]), np.array([0, 1, 2]))]
    offsets, keys, _ = _deduplicated(threads, 2, 1, addresses)
    values = keys.view(np.float64)
    assert sorted(map(str, values[: offsets[1]].tolist())) == ["0.0", "2.0", "nan"]
    assert sorted(map(str, values[offsets[1] :].tolist())) == ["-1.5", "0.0", "2.0", "nan"]


def test_a_budget_that_is_too_small_ends_the_query_and_gives_everything_back() -> None:
    control = QueryControl(memory_max_bytes=1 << 10)
    plan: Any = SimpleNamespace(control=control, num_threads=1, executor=None)
    entries = _entries(np.zeros(1000, np.int64), np.arange(1000), np.ones(1000, np.int64))
    with pytest.raises(MemoryLimitError, match="maxBytes"):
        deduplicate(
            plan,
            [ThreadEntries(entries, np.zeros(1, np.int64), np.zeros(1, np.int64))],
            1,
            np.zeros(1, np.int64),
            NOTHING,
            counted=False,
        )
    assert control.words[abi.C_MEMORY_USED] == 0
