"""A filter against the facts of a table's segments: which segments cannot have a row that passes.

The filter is walked from the root down, NOT pushed to the leaves: AND excludes what any child excludes, OR what all
children exclude. What cannot be decided by the facts excludes nothing, so a segment that is excluded has no such row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from pinotpy.errors import PinotError
from pinotpy.pql.ast import Identifier
from pinotpy.query.model.context import (
    And,
    Comparison,
    Constant,
    ExpressionPredicate,
    Filter,
    Not,
    Or,
    Predicate,
    QueryContext,
)
from pinotpy.query.model.predicate import typed_predicate
from pinotpy.query.pruning.bounds import Flags
from pinotpy.query.pruning.facts_table import Facts
from pinotpy.query.pruning.leaves import Outcome, Rule, Rules, exclude
from pinotpy.query.pruning.monotone import exclude_by_function

# As deep as servers take filters (query/filter/normal_form.py), which say so.
DEPTH_MAX: Final = 200
# Values of one list: to convert more costs more than a server takes to leave its segments out.
VALUES_MAX: Final = 10_000
PATTERNS: Final = frozenset(
    {
        Comparison.LIKE,
        Comparison.NOT_LIKE,
        Comparison.REGEXP_LIKE,
        Comparison.TEXT_MATCH,
        Comparison.JSON_MATCH,
    }
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One leaf of the filter. negated: under an odd number of NOTs. num_excluded: segments that it excludes by itself.
    why: why it excludes no more, "" where nothing stands in the way.
    """

    condition: Predicate | ExpressionPredicate | Constant
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
    walk = _Walk(context, table, explains)
    found = None if context.filter is None else walk.visit(context.filter, negated=False, depth=0)
    if table.has_empty:
        empty = np.where(table.num_docs == 0, np.int8(Rule.EMPTY), np.int8(Rule.KEPT))
        found = empty if found is None else _first_of(empty, found)
    rules = np.zeros(len(table), np.int8) if found is None else found
    return Pruning(rules, tuple(walk.findings))


def _first_of(first: Rules, second: Rules) -> Rules:
    rules: Rules = np.where(first != Rule.KEPT, first, second)
    return rules


class _Walk:
    def __init__(self, context: QueryContext, table: Facts, explains: bool) -> None:
        self._context, self._table, self._explains = context, table, explains
        self._columns = {column.name: column for column in context.columns}
        self.findings: list[Finding] = []

    def visit(self, node: Filter, *, negated: bool, depth: int) -> Rules | None:
        """The rules by which `node`, or its negation, excludes segments; None: it excludes none."""
        if depth > DEPTH_MAX:
            return None
        if isinstance(node, Not):
            return self.visit(node.child, negated=not negated, depth=depth + 1)
        if isinstance(node, (And, Or)):
            joins = self._all_of if isinstance(node, And) is not negated else self._any_of
            return joins(node.children, negated, depth + 1)
        outcome = self._leaf(node, negated)
        if self._explains:
            num_excluded = 0 if outcome.rules is None else int(np.count_nonzero(outcome.rules))
            self.findings.append(Finding(node, negated, num_excluded, outcome.why))
        return outcome.rules

    def _all_of(self, children: tuple[Filter, ...], negated: bool, depth: int) -> Rules | None:
        rules: Rules | None = None
        for child in children:
            found = self.visit(child, negated=negated, depth=depth)
            if found is not None:
                rules = found if rules is None else _first_of(rules, found)
        return rules

    def _any_of(self, children: tuple[Filter, ...], negated: bool, depth: int) -> Rules | None:
        rules: Rules | None = None
        for number, child in enumerate(children):
            found = self.visit(child, negated=negated, depth=depth)
            if found is None:
                rules = None
                if not self._explains:
                    return None  # nothing that comes can exclude anything
            elif not number:
                rules = found
            elif rules is not None:
                rules = np.where(found != Rule.KEPT, rules, np.int8(Rule.KEPT))
        return rules

    def _leaf(self, node: Predicate | ExpressionPredicate | Constant, negated: bool) -> Outcome:
        if isinstance(node, Constant):
            if node.value is negated:
                return Outcome(np.full(len(self._table), Rule.NEVER, np.int8))
            return Outcome(None, "it holds for every row")
        if isinstance(node, ExpressionPredicate):
            return Outcome(None, "it is no comparison of a column with constants")
        if len(node.values) > VALUES_MAX:
            return Outcome(None, f"lists of more than {VALUES_MAX} values are left to the servers")
        if not isinstance(node.lhs, Identifier):
            return exclude_by_function(node, negated, self._context, self._table)
        column = self._columns.get(node.lhs.name)
        if column is None or column.name.startswith("$"):
            return Outcome(None, f"records know nothing of column '{node.lhs.name}'")
        if node.comparison in PATTERNS:
            return Outcome(None, "records know nothing of patterns and searches")
        try:
            bound = typed_predicate(node, column, self._context.dialect)
        except PinotError as error:
            return Outcome(None, f"servers refuse it: {error.message[:200]}")
        return exclude(bound.inverse() if negated else bound, column, self._table)
