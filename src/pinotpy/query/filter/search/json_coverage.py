"""What of a JSON_MATCH a column's JSON index can answer: one that was told to leave parts of the documents out knows
nothing of them, and would give too few rows (IS NULL and NOT: too many) without a word. Documents are read then.

A path is text, in which a dot may end a key or stand in it; what is left out under any reading counts as left out.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Final

from pinotpy.functions.json.json_records import ELEMENT, NUMBER, SEPARATOR, SKIPPED, JsonIndexing, leads
from pinotpy.pql.ast import Identifier
from pinotpy.query.filter.search.json_query import JsonQuery, path_term
from pinotpy.query.model.context import And, Comparison, Filter, Or, Predicate
from pinotpy.query.model.stored_literals import literal_text

_KEY_END: Final = r"(?=[.\[]|$)"
_STEP: Final = re.compile(r"\.[^.\[]*|\[[^\]]*\]?|[^.\[]+")
_BY_VALUE: Final = (Comparison.EQ, Comparison.IN, Comparison.NOT_EQ, Comparison.NOT_IN)
_BY_PRESENCE: Final = (Comparison.IS_NULL, Comparison.IS_NOT_NULL)


def left_out(indexing: JsonIndexing | None, query: JsonQuery) -> str | None:
    """Why an index built by `indexing` cannot answer: the path and the setting that leaves it out; None if it can.

    `indexing` None: nobody knows, because a release that recorded no settings built it.
    """
    if indexing is None:
        return "it was built by an older release, which did not record what it leaves out: reload the table"
    if indexing.is_plain:
        return None
    predicates = list(_predicates(query.condition))
    for predicate in predicates:
        assert isinstance(predicate.lhs, Identifier)
        why = _path_left_out(path_term(predicate.lhs.name).path, indexing) or _value_left_out(predicate, indexing)
        if why is not None:
            return f"it leaves out '{predicate.lhs.name}' ({why})"
    if not indexing.cross_arrays and _has_and(query.condition):
        paths = sorted(
            {path_term(predicate.lhs.name).path for predicate in predicates if isinstance(predicate.lhs, Identifier)}
        )
        apart = next((pair for pair in itertools.combinations(paths, 2) if _may_lie_apart(*pair)), None)
        if apart is not None:
            return f"it does not combine the arrays of '${apart[0]}' and '${apart[1]}' (disableCrossArrayUnnest)"
    return None


def _predicates(condition: Filter) -> Iterator[Predicate]:
    match condition:
        case And(children) | Or(children):
            for child in children:
                yield from _predicates(child)
        case Predicate():
            yield condition


def _has_and(condition: Filter) -> bool:
    return isinstance(condition, And) or (isinstance(condition, Or) and any(map(_has_and, condition.children)))


def _path_left_out(path: str, indexing: JsonIndexing) -> str | None:
    if path.endswith(NUMBER):
        # An element's number is indexed where something of the element is.
        return "elements of which nothing is indexed have no number"
    if indexing.exclude_array and "[" in path:
        return "excludeArray"
    # One level a key and one an element; keys with dots make fewer.
    if indexing.max_levels and path.count(".") + path.count(ELEMENT) > indexing.max_levels:
        return f"maxLevels {indexing.max_levels}"
    for key in indexing.exclude_fields:
        if re.search(re.escape("." + key.replace(SEPARATOR, "\ufffd")) + _KEY_END, path):
            return f"excludeFields '{key}'"
    for excluded in indexing.exclude_paths:
        if leads(excluded.removeprefix("$"), path):
            return f"excludePaths '{excluded}'"
    included = [wanted.removeprefix("$") for wanted in indexing.include_paths]
    if included and not any(leads(wanted, path) or leads(path, wanted) for wanted in included):
        return f"includePaths {', '.join(map(repr, indexing.include_paths))}"
    return None


def _value_left_out(predicate: Predicate, indexing: JsonIndexing) -> str | None:
    """Values that are too long stand in the index as one other text."""
    longest = indexing.max_value_length
    if not longest or predicate.comparison in _BY_PRESENCE:
        return None
    texts = [literal_text(value) for value in predicate.values] if predicate.comparison in _BY_VALUE else [SKIPPED]
    if any(len(text) > longest or text == SKIPPED for text in texts):
        return f"values of more than {longest} characters: maxValueLength"
    return None


def _may_lie_apart(one: str, other: str) -> bool:
    """Whether values of both paths may lie in different arrays, which then have no record in common: not where one of
    them is a value of an object on the way to the other, for those stand in all of its records.
    """
    steps, others = _STEP.findall(one), _STEP.findall(other)
    shared = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(steps, others, strict=False)))
    return all(len(rest) > 1 or rest[:1] == [ELEMENT] for rest in (steps[shared:], others[shared:]))
