"""The rows of groups that threads leave in their arenas when a scan is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pinotpy.arrays import Int64Array
from pinotpy.kernels.aggregate.result_context import ResultContext
from pinotpy.kernels.group import merge_rows


@dataclass(frozen=True, slots=True)
class ArenaRows:
    """The rows of one thread: int64[n, key words + row words], the morsel of each, and its number among all rows."""

    context: ResultContext
    rows: Int64Array
    morsels: Int64Array
    first: int


def arena_rows(contexts: Sequence[ResultContext], numbers: Int64Array | None = None) -> list[ArenaRows]:
    """The rows that the threads left; `numbers`: of morsels, where they are not those of the plan (prepared.py)."""
    out, first = [], 0
    for context in contexts:
        rows = context.arena()
        morsels = merge_rows.morsels_of_rows(context.morsels(), len(rows))
        out.append(ArenaRows(context, rows, morsels if numbers is None else numbers[morsels], first))
        first += len(rows)
    return out
