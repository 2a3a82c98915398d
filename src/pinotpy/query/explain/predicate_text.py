"""Predicates of the filter, bound to segments, as EXPLAIN shows them (query/model/condition_text.py)."""

from __future__ import annotations

from pinotpy.pql.ast import Dialect
from pinotpy.query.filter.bound_predicate import BoundPredicate
from pinotpy.query.filter.interpreted import InterpretedPredicate
from pinotpy.query.model.condition_text import PredicateText, condition_text, is_negative, negated_text
from pinotpy.query.model.context import ExpressionPredicate
from pinotpy.query.model.predicate import TypedPredicate


def predicate_text(bound: BoundPredicate | TypedPredicate | InterpretedPredicate, dialect: Dialect) -> PredicateText:
    """The predicate that a predicate of the filter, bound to segments or not, stands for."""
    if isinstance(bound, InterpretedPredicate):
        return condition_text(bound.condition.condition, dialect, negated=bound.condition.negated)
    typed = bound.typed if isinstance(bound, BoundPredicate) else bound
    source = typed.source
    if source is None:
        return negated_text("RANGE", f"{typed.column} within its literals", typed.negated)
    if isinstance(source, ExpressionPredicate):
        return condition_text(source, dialect, negated=typed.negated)
    return condition_text(source, dialect, negated=typed.negated is not is_negative(source.comparison))
