"""Batches cover all rows once, in order; slow work gets small ones; a query that is late ends between two."""

from __future__ import annotations

import time

import pytest

from pinotpy.errors import QueryTimeoutError
from pinotpy.query.runtime.batches import BATCH_DOCS, batches
from pinotpy.query.runtime.control import QueryControl


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 1_000_000])
def test_every_row_is_in_one_batch(count: int) -> None:
    runs = list(batches(count, QueryControl()))
    assert [first for first, _ in runs] == [0, *(end for _, end in runs[:-1])][: len(runs)]
    assert (runs[-1][1] if runs else 0) == count
    assert max((end - first for first, end in runs), default=0) <= BATCH_DOCS


def test_fast_work_comes_in_large_batches_and_slow_work_in_small_ones() -> None:
    assert len(list(batches(1_000_000, QueryControl()))) < 25
    sizes = []
    for first, end in batches(300, QueryControl()):
        sizes.append(end - first)
        time.sleep(0.001 * (end - first))  # work of a millisecond a row, not a wait
    assert max(sizes[1:]) <= 64 and min(sizes[:-1]) >= 8


def test_a_late_query_ends_at_the_next_batch() -> None:
    control = QueryControl(time.monotonic_ns() + 30_000_000)
    start = time.monotonic()
    with pytest.raises(QueryTimeoutError):
        for first, end in batches(10**6, control):
            time.sleep(0.001 * (end - first))
    assert time.monotonic() - start < 2
