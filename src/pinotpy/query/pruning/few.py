"""A filter against the facts of a few segments, one after the other: for so few each call of numpy costs more than what
it does.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import reduce
from operator import and_, or_
from typing import Final

import numpy as np

from pinotpy.query.pruning.bounds import Bounds, PartitionedColumn
from pinotpy.query.pruning.facts_table import Facts
from pinotpy.query.pruning.indexes import Flags
from pinotpy.query.pruning.leaves import Rule, Spans, Wanted
from pinotpy.query.pruning.walk import Walk

FEW_MAX: Final = 64


def kept_of_few(walk: Walk, table: Facts) -> list[int]:
    """Rows of the segments, at most FEW_MAX, that may have a row that passes, ascending."""
    leaves = _BitLeaves(table)
    excluded = walk.over(leaves) or 0
    if table.has_empty:
        excluded |= _bits(table.num_docs == 0)
    return [row for row in range(table.size) if not excluded >> row & 1]


def _bits(flags: Flags) -> int:
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


class _BitLeaves:
    """Sets are numbers whose bits are segments, the first one the lowest; never 0."""

    def __init__(self, table: Facts) -> None:
        self.table = table

    def never(self) -> int | None:
        return (1 << len(self.table)) - 1 or None

    def by_range(self, bounds: Bounds, spans: Spans, negated: bool) -> int | None:
        ranges = bounds.listed
        lows, highs = spans
        if len(lows) == 1:
            (least,), (most,) = spans
            if negated:
                excluded = [bit for bit, low, high in ranges if least <= low and high <= most]
            else:
                excluded = [bit for bit, low, high in ranges if high < least or low > most]
        elif negated:
            lasts = ((bit, bisect_right(lows, low) - 1, high) for bit, low, high in ranges)
            excluded = [bit for bit, last, high in lasts if last >= 0 and high <= highs[last]]
        else:
            firsts = ((bit, bisect_left(highs, low), high) for bit, low, high in ranges)
            excluded = [bit for bit, first, high in firsts if first == len(lows) or lows[first] > high]
        return sum(excluded) or None

    def by_partition(self, partitions: PartitionedColumn, wanted: Wanted) -> int | None:
        excluded = 0
        for ids_wanted, segments in zip(wanted, partitions.listed, strict=True):
            if ids_wanted is not None:
                excluded += sum([bit for bit, ids in segments if ids_wanted.isdisjoint(ids)])
        return excluded or None

    def by_flags(self, find: Callable[[], tuple[Flags | None, str]], rule: Rule) -> tuple[int | None, str]:
        excluded, why = find()
        return None if excluded is None else _bits(excluded) or None, why

    def of_and(self, sets: Sequence[int]) -> int:
        return reduce(or_, sets)

    def of_or(self, sets: Sequence[int]) -> int | None:
        return reduce(and_, sets) or None
