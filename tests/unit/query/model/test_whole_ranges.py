"""Proves that both ends of a range, written apart, are one condition: where they are of one single-valued column under
AND and each is open at another end; and that every answer and EXPLAIN are what two conditions say, on dictionaries and
raw values.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from built_segments import ask, config_of, count, opened, schema_of

from pinotpy.pql.ast import Dialect
from pinotpy.pql.parser import parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.filter.normal_form import AllOf, AnyOf, Node, normal_form
from pinotpy.query.model.context import QueryOptions
from pinotpy.query.model.predicate import FixedRange, TypedPredicate, VarRange
from pinotpy.segment.immutable import ImmutableSegment

SCHEMA = schema_of({"n": "INT", "x": "DOUBLE", "s": "STRING", "tags": "INT"}, multi=["tags"])
_RNG = random.Random(11)
ROWS: dict[str, list[Any]] = {
    "n": [_RNG.randrange(100) for _ in range(500)],
    "x": [_RNG.randrange(400) / 4 for _ in range(500)],
    "s": [f"s{_RNG.randrange(100):02}" for _ in range(500)],
    "tags": [[_RNG.randrange(100) for _ in range(_RNG.randrange(1, 4))] for _ in range(500)],
}


@pytest.fixture(scope="module", params=[[], ["n", "x", "s"]], ids=["dictionary", "raw"])
def segments(request: pytest.FixtureRequest) -> list[ImmutableSegment]:
    halves = [{name: values[part::2] for name, values in ROWS.items()} for part in range(2)]
    return [
        opened(SCHEMA, config_of({"noDictionaryColumns": request.param}), rows, f"s{number}")
        for number, rows in enumerate(halves)
    ]


def form(condition: str) -> Node:
    context = compile_query(
        parse_sql(f"SELECT COUNT(*) FROM t WHERE {condition}"), SCHEMA, QueryOptions(), null_handling=False
    )
    assert context.dialect is Dialect.SQL
    return normal_form(context.filter, context)


def test_two_ends_of_a_range_are_one_condition() -> None:
    one = form("n >= 5 AND n < 9")
    assert isinstance(one, TypedPredicate) and one.test == FixedRange(5, 8) and one.prunes and not one.negated
    real = form("x <= 2.5 AND s = 'a' AND x > 1")
    assert isinstance(real, AllOf) and len(real.children) == 2
    assert (
        isinstance(real.children[0], TypedPredicate)
        and isinstance(real.children[0].test, FixedRange)
        and real.children[0].test.high == 2.5
    )
    text = form("s > 'a' AND s < 'c'")
    assert isinstance(text, TypedPredicate) and text.test == VarRange(b"a\0", b"c")


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ("tags > 5 AND tags < 3", 2),  # another value may be below
        ("n > 5 AND n > 7", 2),
        ("n > 5 AND x < 7", 2),
        ("n > 9 AND n < 3", 2),  # empty: as two conditions say, and prune
        ("n > 1 AND n < 9 AND n < 7", 2),
        ("n > 1 AND n < 9 AND n > 3 AND n < 7", 2),
        ("n BETWEEN 1 AND 9 AND n < 7", 2),
        ("n = 5 AND n < 7", 2),
        ("NOT (n > 5 OR n < 2)", 2),
    ],
)
def test_other_conditions_are_left_alone(condition: str, count: int) -> None:
    node = form(condition)
    assert len(node.children if isinstance(node, AllOf) else [node]) == count


def test_under_or_nothing_is_joined() -> None:
    node = form("n > 5 OR n < 3")
    assert isinstance(node, AnyOf) and len(node.children) == 2


def test_counts_are_those_of_two_conditions(segments: list[ImmutableSegment]) -> None:
    rng = random.Random(7)
    for _ in range(150):
        column = rng.choice(["n", "x", "s"])
        low, high = rng.randrange(-5, 105), rng.randrange(-5, 105)
        above, below = rng.choice([">", ">="]), rng.choice(["<", "<="])

        def literal(value: int, column: str = column) -> str:
            return f"'s{value:02}'" if column == "s" else str(value)

        def passes(value: Any, low: Any, high: Any, above: str = above, below: str = below) -> bool:
            return (value > low or (above == ">=" and value == low)) and (
                value < high or (below == "<=" and value == high)
            )

        ends = (f"s{low:02}", f"s{high:02}") if column == "s" else (low, high)
        inside = [passes(value, *ends) for value in ROWS[column]]
        parts = [f"{column} {above} {literal(low)}", f"{column} {below} {literal(high)}"]
        rng.shuffle(parts)
        assert count(SCHEMA, segments, " AND ".join(parts)) == sum(inside), parts
        assert count(SCHEMA, segments, f"NOT ({' AND '.join(parts)})") == 500 - sum(inside), parts
        assert count(SCHEMA, segments, f"{parts[0]} AND n <> 7 AND {parts[1]}") == sum(
            i and n != 7 for i, n in zip(inside, ROWS["n"], strict=True)
        ), parts


def test_entries_are_read_once(segments: list[ImmutableSegment]) -> None:
    statistics = ask(SCHEMA, segments, "SELECT COUNT(*) FROM t WHERE n >= 5 AND n < 90").statistics
    assert statistics.num_entries_scanned_in_filter == 500
