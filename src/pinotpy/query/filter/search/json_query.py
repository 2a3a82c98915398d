"""The condition inside JSON_MATCH: `"$.name" = 'adam' AND "$.addresses[*].city" IN ('a', 'b')`, read as a filter of
SQL.

A path stands in double quotes, with or without `$` at its beginning; `[*]` is any element of an array, `[2]` the third,
and only leaves have values. All of a condition holds of one record (functions/json/json_records.py). `<>`, NOT IN,
LIKE, REGEXP_LIKE and ranges hold of values that are there; IS NULL holds of documents without the path, and only by
itself. Ranges beside numbers compare numbers, beside text, TRUE and FALSE texts, as = and IN do. Inside there is no
NOT: `NOT JSON_MATCH(…)` negates the whole.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from pinotpy.errors import InvalidQueryError, ParseError, QueryExecutionError
from pinotpy.functions.json.json_records import ELEMENT, NUMBER
from pinotpy.pql.ast import Dialect, Identifier
from pinotpy.pql.parser import parse_expression
from pinotpy.query.model.conditions import FilterCompiler
from pinotpy.query.model.context import And, Comparison, Filter, Not, Or, Predicate

JSON_QUERY_CHARACTERS_MAX: Final = 16_384
_INDEX = re.compile(r"\[([0-9]{1,1000})\]")  # Python reads no number of thousands of digits, and no array is so long


@dataclass(frozen=True, slots=True)
class JsonQuery:
    """A checked condition: And, Or and predicates on identifiers; `text` as it was written."""

    text: str
    condition: Filter


@dataclass(frozen=True, slots=True)
class JsonPathTerm:
    """A path as terms have it, and the numbers that elements on the way must have: (path of the number, number)."""

    path: str
    numbers: tuple[tuple[str, str], ...]


@lru_cache(maxsize=256)
def parse_json_query(text: str) -> JsonQuery:
    """Read the condition.

    Raises:
        InvalidQueryError: (700) it is no condition over paths.
        QueryExecutionError: (200) NOT inside of it, or IS NULL beside other conditions.
    """
    if len(text) > JSON_QUERY_CHARACTERS_MAX:
        raise InvalidQueryError(
            f"a condition in JSON_MATCH has at most {JSON_QUERY_CHARACTERS_MAX} characters, found {len(text)}"
        )
    try:
        condition = FilterCompiler(Dialect.SQL, lambda _: None, null_handling=False).compile(parse_expression(text))
    except (ParseError, InvalidQueryError) as error:
        raise _invalid(text, error.message) from error
    if condition is None:
        raise _invalid(text, "expected a condition over paths, found one that is always true")
    if not _is_null_test(condition):
        _check(condition, text)
    return JsonQuery(text, condition)


def path_term(name: str) -> JsonPathTerm:
    """The path of an identifier such as `$.a[1].b` or `a[*].b`."""
    path = name[1:] if name.startswith("$") else f".{name}"
    numbers = []
    while (match := _INDEX.search(path)) is not None:
        numbers.append((path[: match.start()] + NUMBER, str(int(match.group(1)))))
        path = path[: match.start()] + ELEMENT + path[match.end() :]
    return JsonPathTerm(path, tuple(numbers))


def _is_null_test(condition: Filter) -> bool:
    return (
        isinstance(condition, Predicate)
        and isinstance(condition.lhs, Identifier)
        and condition.comparison is Comparison.IS_NULL
    )


def _check(condition: Filter, text: str) -> None:
    match condition:
        case And(children) | Or(children):
            for child in children:
                _check(child, text)
        case Not():
            raise QueryExecutionError(
                "NOT stands inside of JSON_MATCH: negate the whole, NOT JSON_MATCH(…), or write <>, NOT IN; found "
                f"'{text[:200]}'"
            )
        case Predicate(lhs=Identifier(), comparison=Comparison.IS_NULL):
            raise QueryExecutionError(
                "IS NULL stands beside other conditions inside of JSON_MATCH: give it a JSON_MATCH of its own; found "
                f"'{text[:200]}'"
            )
        case Predicate(lhs=Identifier(), comparison=comparison) if (
            comparison is not Comparison.TEXT_MATCH and comparison is not Comparison.JSON_MATCH
        ):
            return
        case _:
            raise _invalid(text, "expected comparisons of paths in double quotes with literals, joined by AND and OR")


def _invalid(text: str, why: str) -> InvalidQueryError:
    return InvalidQueryError(
        f"Invalid json match filter: {text[:200]}: {why}; example: '\"$.a.b\" = ''x'' AND \"$.c[*].d\" > 3'"
    )
