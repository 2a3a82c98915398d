"""Batches cover all rows once, in order; slow work gets small ones; a query that is late ends between two."""

from __future__ import annotations

import pytest

from pinotpy.errors import QueryTimeoutError
from pinotpy.query.runtime import batches as batches_module
from pinotpy.query.runtime import control as control_module
from pinotpy.query.runtime.batches import BATCH_DOCS, batches
from pinotpy.query.runtime.control import QueryControl


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 1_000_000])
def test_every_row_is_in_one_batch(count: int) -> None:
    runs = list(batches(count, QueryControl()))
    assert [first for first, _ in runs] == [0, *(end for _, end in runs[:-1])][: len(runs)]
    assert (runs[-1][1] if runs else 0) == count
    assert max((end - first for first, end in runs), default=0) <= BATCH_DOCS


class WorkClock:
    """Time passes only by work: of a millisecond a row, or of none."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000_000

    def monotonic_ns(self) -> int:
        return self.now_ns

    def work(self, num_docs: int) -> None:
        self.now_ns += num_docs * 1_000_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> WorkClock:
    made = WorkClock()
    monkeypatch.setattr(batches_module, "time", made)
    monkeypatch.setattr(control_module, "time", made)
    return made


def test_fast_work_comes_in_large_batches_and_slow_work_in_small_ones(clock: WorkClock) -> None:
    assert len(list(batches(1_000_000, QueryControl()))) < 25
    sizes = []
    for first, end in batches(300, QueryControl()):
        sizes.append(end - first)
        clock.work(end - first)
    assert max(sizes[1:]) <= 64 and min(sizes[:-1]) >= 8


def test_a_late_query_ends_at_the_next_batch(clock: WorkClock) -> None:
    control = QueryControl(clock.now_ns + 30_000_000)
    ends = []
    with pytest.raises(QueryTimeoutError):
        for first, end in batches(10**6, control):
            ends.append(end)
            clock.work(end - first)
    assert ends == [64], "the first took 64 ms of 30"
