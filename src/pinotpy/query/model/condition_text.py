"""Conditions as EXPLAIN shows them: `yearID > '2000'`, `team IN ('A','B')`, literals always in quotes, as the reference
prints.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pinotpy.pql.ast import Dialect
from pinotpy.pql.printer import print_expression
from pinotpy.query.model.context import Comparison, Constant, ExpressionPredicate, LiteralValue, Predicate
from pinotpy.query.model.stored_literals import literal_text

VALUES_SHOWN_MAX: Final = 10
CHARACTERS_SHOWN_MAX: Final = 200
_NEGATIVE: Final = {
    Comparison.EQ: Comparison.NOT_EQ,
    Comparison.IN: Comparison.NOT_IN,
    Comparison.LIKE: Comparison.NOT_LIKE,
    Comparison.IS_NULL: Comparison.IS_NOT_NULL,
}
_OPPOSITE: Final = _NEGATIVE | {negative: positive for positive, negative in _NEGATIVE.items()}


@dataclass(frozen=True, slots=True)
class PredicateText:
    """operator: EQ, RANGE, …, or EXPRESSION; text: how it is written."""

    operator: str
    text: str


def condition_text(
    condition: Predicate | ExpressionPredicate | Constant, dialect: Dialect, *, negated: bool = False
) -> PredicateText:
    """A condition of the filter, or its negation."""
    if isinstance(condition, Constant):
        return PredicateText("CONSTANT", str(condition.value is not negated).lower())
    if isinstance(condition, ExpressionPredicate):
        return negated_text("EXPRESSION", _cut(print_expression(condition.expression, dialect)), negated)
    return _of(condition, dialect, negated)


def is_negative(comparison: Comparison) -> bool:
    """Whether a comparison is the negation of another one."""
    return comparison in _NEGATIVE.values()


def negated_text(operator: str, text: str, negated: bool) -> PredicateText:
    """The text, or that of its negation."""
    return PredicateText(f"NOT_{operator}", f"NOT ({text})") if negated else PredicateText(operator, text)


def _of(predicate: Predicate, dialect: Dialect, negated: bool) -> PredicateText:
    comparison = predicate.comparison
    if negated and comparison in _OPPOSITE:
        comparison, negated = _OPPOSITE[comparison], False
    lhs = print_expression(predicate.lhs, dialect)
    return negated_text(comparison.value, _cut(_body(predicate, comparison, lhs)), negated)


def _body(predicate: Predicate, comparison: Comparison, lhs: str) -> str:
    match comparison:
        case Comparison.EQ | Comparison.NOT_EQ:
            return f"{lhs} {'=' if comparison is Comparison.EQ else '!='} {_quoted(predicate.values[0])}"
        case Comparison.IN | Comparison.NOT_IN:
            shown = [_quoted(value) for value in predicate.values[:VALUES_SHOWN_MAX]]
            more = len(predicate.values) - len(shown)
            return (
                f"{lhs} {'IN' if comparison is Comparison.IN else 'NOT IN'} "
                f"({','.join(shown)}{f',… {more} more' if more else ''})"
            )
        case Comparison.RANGE:
            return _range(predicate, lhs)
        case Comparison.LIKE | Comparison.NOT_LIKE:
            return f"{lhs} {'LIKE' if comparison is Comparison.LIKE else 'NOT LIKE'} {_quoted(predicate.values[0])}"
        case Comparison.REGEXP_LIKE | Comparison.TEXT_MATCH | Comparison.JSON_MATCH:
            flags = f",{_quoted(predicate.flags)}" if predicate.flags else ""
            return f"{comparison.value.lower()}({lhs},{_quoted(predicate.values[0])}{flags})"
        case Comparison.IS_NULL | Comparison.IS_NOT_NULL:
            return f"{lhs} {'IS NULL' if comparison is Comparison.IS_NULL else 'IS NOT NULL'}"


def _range(predicate: Predicate, lhs: str) -> str:
    lower, upper = predicate.lower, predicate.upper
    if lower is not None and upper is not None and lower.inclusive and upper.inclusive:
        return f"{lhs} BETWEEN {_quoted(lower.value)} AND {_quoted(upper.value)}"
    parts = []
    if lower is not None:
        parts.append(f"{lhs} {'>=' if lower.inclusive else '>'} {_quoted(lower.value)}")
    if upper is not None:
        parts.append(f"{lhs} {'<=' if upper.inclusive else '<'} {_quoted(upper.value)}")
    return " AND ".join(parts) if parts else f"{lhs} is any value"


def _quoted(value: LiteralValue) -> str:
    return f"'{literal_text(value)}'"


def _cut(text: str) -> str:
    return text if len(text) <= CHARACTERS_SHOWN_MAX else f"{text[:CHARACTERS_SHOWN_MAX]}…"
