"""Batches of rows for what is computed in Python: as large as functions are fast, so that a deadline is looked at in
time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from pinotpy.query.runtime.control import QueryControl

BATCH_DOCS: Final = 1 << 16
_FIRST_DOCS: Final = 1 << 6
_LEAST_DOCS: Final = 1 << 4
# A batch that takes longer is followed by a smaller one, one that takes less by a larger one.
_SLOW_NS: Final = 20_000_000
_FAST_NS: Final = 5_000_000


def batches(count: int, control: QueryControl) -> Iterator[tuple[int, int]]:
    """Runs [first, end) of `count` rows, one after another; raises between them what the control raises.

    Dates and sums take a nanosecond a row and come in batches of BATCH_DOCS; a pattern that backtracks over long texts
    takes a millisecond and comes in batches of a few rows.
    """
    size, first = _FIRST_DOCS, 0
    while first < count:
        control.check()
        end = min(first + size, count)
        start_ns = time.monotonic_ns()
        yield first, end
        took_ns = time.monotonic_ns() - start_ns
        first = end
        if took_ns > _SLOW_NS:
            size = max(size * _SLOW_NS // (2 * took_ns), _LEAST_DOCS)
        elif took_ns < _FAST_NS:
            size = min(size * 8, BATCH_DOCS)
