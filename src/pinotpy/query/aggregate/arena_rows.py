"""The rows of groups that threads leave in their arenas when a scan is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pinotpy.kernels.aggregate.result_context import ResultContext
from pinotpy.kernels.group import merge_rows

Words = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ArenaRows:
    """The rows of one thread: int64[n, key words + row words], the morsel of each, and its number among all rows."""

    context: ResultContext
    rows: Words
    morsels: Words
    first: int


def arena_rows(contexts: Sequence[ResultContext], numbers: Words | None = None) -> list[ArenaRows]:
    """The rows that the threads left; `numbers`: of morsels, where they are not those of the plan (prepared.py)."""
    out, first = [], 0
    for context in contexts:
        rows = context.arena()
        morsels = merge_rows.morsels_of_rows(context.morsels(), len(rows))
        out.append(ArenaRows(context, rows, morsels if numbers is None else numbers[morsels], first))
        first += len(rows)
    return out
