"""A filter against the facts of all segments of a table at once, in arrays: which segments cannot have a row that
passes, and by which rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from pinotpy.query.model.context import QueryContext
from pinotpy.query.pruning.bounds import Bounds, PartitionedColumn
from pinotpy.query.pruning.facts_table import Facts
from pinotpy.query.pruning.indexes import Flags
from pinotpy.query.pruning.leaves import Rule, Spans, Wanted
from pinotpy.query.pruning.walk import Leaf, Walk

Rules = NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Finding:
    """One leaf of the filter. negated: under an odd number of NOTs. num_excluded: segments that it excludes by itself.
    why: why it excludes no more, "" where nothing stands in the way.
    """

    condition: Leaf
    negated: bool
    num_excluded: int
    why: str


@dataclass(frozen=True, slots=True)
class Pruning:
    """rules: int8[n] of `Rule`, by segment. findings: of all leaves in the filter's order, if they were asked for."""

    rules: Rules
    findings: tuple[Finding, ...] = ()

    @property
    def kept(self) -> Flags:
        """Segments that may have a row that passes, bool[n]."""
        kept: Flags = self.rules == Rule.KEPT
        return kept

    def counts(self) -> dict[Rule, int]:
        """How many segments each rule excludes; a segment counts for the first rule that excludes it."""
        counts = np.bincount(self.rules, minlength=len(Rule)).tolist()
        return {rule: counts[rule] for rule in Rule if rule is not Rule.KEPT and counts[rule]}


def prune(context: QueryContext, table: Facts, *, explains: bool = False) -> Pruning:
    """Which segments of `table` cannot have a row that passes the filter of `context`. explains: with findings.

    Raises nothing: a literal that is refused is for the servers to refuse.
    """
    findings: list[Finding] = []

    def tell(node: Leaf, negated: bool, found: Rules | None, why: str) -> None:
        findings.append(Finding(node, negated, 0 if found is None else int(np.count_nonzero(found)), why))

    rules = excluded_by_rules(Walk(context), table, tell if explains else None)
    return Pruning(rules, tuple(findings))


def excluded_by_rules(
    walk: Walk, table: Facts, tell: Callable[[Leaf, bool, Rules | None, str], None] | None = None
) -> Rules:
    """The rule by which each segment of `table` is excluded, int8[n]."""
    leaves = _RuleLeaves(table)
    found = walk.over(leaves, tell)
    if table.has_empty:
        empty = leaves.by(table.num_docs == 0, Rule.EMPTY)
        found = empty if found is None else _first_of(empty, found)
    return np.zeros(len(table), np.int8) if found is None else found


def _first_of(first: Rules, second: Rules) -> Rules:
    return np.where(first != Rule.KEPT, first, second)


def _both(first: Rules, second: Rules) -> Rules:
    return np.where(second != Rule.KEPT, first, np.int8(Rule.KEPT))


class _RuleLeaves:
    """Sets are rules by segment, int8[n]."""

    def __init__(self, table: Facts) -> None:
        self.table = table

    def by(self, excluded: Flags, rule: Rule) -> Rules:
        """`rule` where a segment is excluded."""
        return excluded.view(np.int8) * np.int8(rule)

    def never(self) -> Rules:
        return np.full(len(self.table), Rule.NEVER, np.int8)

    def by_range(self, bounds: Bounds, spans: Spans, negated: bool) -> Rules | None:
        lows, highs = spans
        low, high = bounds.low, bounds.high
        if len(lows) == 1:
            excluded = (low >= lows[0]) & (high <= highs[0]) if negated else (high < lows[0]) | (low > highs[0])
        elif negated:
            # If any span holds the whole range, the last one that begins before it does.
            last = np.searchsorted(lows, low, "right") - 1
            excluded = (last >= 0) & (high <= np.asarray(highs)[last])
        else:
            # If any span meets the range, the first one that does not end before it does.
            first = np.searchsorted(highs, low, "left")
            excluded = (first == len(lows)) | (np.asarray(lows)[np.minimum(first, len(lows) - 1)] > high)
        return self.by(excluded & bounds.known, Rule.MIN_MAX)

    def by_partition(self, partitions: PartitionedColumn, wanted: Wanted) -> Rules | None:
        excluded = np.zeros(len(self.table), np.bool_)
        for number, ids in enumerate(wanted):
            if ids is not None:
                # How many wanted ids come before each place of `ids`: a segment has one if its first and last count
                # differ.
                counts = np.zeros(len(partitions.ids) + 1, np.int64)
                np.cumsum(np.isin(partitions.ids, list(ids)), out=counts[1:])
                is_outside = counts[partitions.starts[1:]] == counts[partitions.starts[:-1]]
                excluded |= is_outside & (partitions.scheme == number)
        return self.by(excluded, Rule.PARTITION)

    def by_flags(self, find: Callable[[], tuple[Flags | None, str]], rule: Rule) -> tuple[Rules | None, str]:
        excluded, why = find()
        return None if excluded is None else self.by(excluded, rule), why

    def of_and(self, sets: Sequence[Rules]) -> Rules:
        return reduce(_first_of, sets)

    def of_or(self, sets: Sequence[Rules]) -> Rules:
        return reduce(_both, sets)
