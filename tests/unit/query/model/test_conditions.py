"""Proves how conditions become filters: literals right, plain form as the reference's optimizer leaves it, constants
folded, and that the plain form means the same (compared row by row with a direct evaluation of the condition).
"""

from __future__ import annotations

import itertools
import operator
import random
from collections.abc import Callable

import pytest

from pinotpy.data_types import DataType
from pinotpy.pql.ast import Call, Dialect, Identifier, Literal
from pinotpy.pql.parser import parse_sql
from pinotpy.query.model.conditions import FilterCompiler
from pinotpy.query.model.context import (
    And,
    Bound,
    Comparison,
    Constant,
    ExpressionPredicate,
    Filter,
    Not,
    Or,
    Predicate,
)

A, B, S = Identifier("a"), Identifier("b"), Identifier("s")


def compiled(text: str, *, null_handling: bool = False) -> Filter | None:
    condition = parse_sql(f"SELECT a FROM t WHERE {text}").where
    assert condition is not None
    types = {"a": DataType.INT, "b": DataType.INT, "s": DataType.STRING, "flag": DataType.BOOLEAN}
    return FilterCompiler(Dialect.SQL, types.get, null_handling=null_handling).compile(condition)


def eq(column: Identifier, *values: int) -> Predicate:
    return Predicate(column, Comparison.EQ if len(values) == 1 else Comparison.IN, values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 5", eq(A, 5)),
        ("5 >= a", Predicate(A, Comparison.RANGE, upper=Bound(5, True))),
        ("5 < a", Predicate(A, Comparison.RANGE, lower=Bound(5, False))),
        ("a BETWEEN 1 AND 2", Predicate(A, Comparison.RANGE, lower=Bound(1, True), upper=Bound(2, True))),
        ("a IN (5)", eq(A, 5)),
        ("a NOT IN (5, 5)", Predicate(A, Comparison.NOT_EQ, (5,))),
        ("a IN (5, 3, 5)", eq(A, 5, 3)),
        ("a = 1 OR a = 2 OR a IN (2, 3)", eq(A, 1, 2, 3)),
        ("a = 1 OR b = 1 OR a = 2", Or((eq(A, 1, 2), eq(B, 1)))),
        ("a = 1 AND (b = 2 AND a = 3)", And((eq(A, 1), eq(B, 2), eq(A, 3)))),
        (
            "a > 1 AND a > 2",
            And(
                (
                    Predicate(A, Comparison.RANGE, lower=Bound(1, False)),
                    Predicate(A, Comparison.RANGE, lower=Bound(2, False)),
                )
            ),
        ),
        ("a <> 1 AND a <> 2", And((Predicate(A, Comparison.NOT_EQ, (1,)), Predicate(A, Comparison.NOT_EQ, (2,))))),
        ("NOT a = 1", Not(eq(A, 1))),
        ("a = b", ExpressionPredicate(Call("equals", (A, B)))),
        ("flag", Predicate(Identifier("flag"), Comparison.EQ, (True,))),
        ("(a = 1) = FALSE", Not(eq(A, 1))),
        ("a > 1 IS FALSE", Not(Predicate(A, Comparison.RANGE, lower=Bound(1, False)))),
        ("1 = 1", None),
        ("1 = 0", Constant(False)),
        ("TRUE AND a = 5", eq(A, 5)),
        ("FALSE OR a = 5", eq(A, 5)),
        ("a = 5 AND 2 < 1", Constant(False)),
        ("NOT TRUE", Constant(False)),
        ("NULL", Constant(False)),
        ("a = 1999 + 1", eq(A, 2000)),
        ("s LIKE 'a!%' ESCAPE '!'", Predicate(S, Comparison.LIKE, ("a!%",), flags="i", escape="!")),
        ("NOT s LIKE 'a'", Not(Predicate(S, Comparison.LIKE, ("a",), flags="i"))),
        ("regexp_like(s, 'x', 'i')", Predicate(S, Comparison.REGEXP_LIKE, ("x",), flags="i")),
        ("regexp_like(s, 'x')", Predicate(S, Comparison.REGEXP_LIKE, ("x",))),
        ("text_match(s, 'x')", Predicate(S, Comparison.TEXT_MATCH, ("x",))),
        ("a IS NULL", Predicate(A, Comparison.IS_NULL)),
        ("a IS DISTINCT FROM 5", Or((Predicate(A, Comparison.IS_NULL), Predicate(A, Comparison.NOT_EQ, (5,))))),
        ("a IS NOT DISTINCT FROM 5", And((Predicate(A, Comparison.IS_NOT_NULL), eq(A, 5)))),
        ("a IS DISTINCT FROM NULL", Predicate(A, Comparison.IS_NOT_NULL)),
        ("startsWith(s, 'x')", Predicate(Call("startswith", (S, Literal("x", "x", True))), Comparison.EQ, (True,))),
        ("a + 1", Predicate(Call("plus", (A, Literal(1, "1", False))), Comparison.EQ, (True,))),
        ("abs(a) = 5.5", Predicate(Call("abs", (A,)), Comparison.EQ, (5.5,))),
    ],
)
def test_conditions_become_predicates(text: str, expected: Filter | None) -> None:
    assert compiled(text) == expected


def test_truth_tests_know_unknown_under_null_handling() -> None:
    flag = Identifier("flag")
    is_null, present = Predicate(flag, Comparison.IS_NULL), Predicate(flag, Comparison.IS_NOT_NULL)
    assert compiled("flag IS NOT TRUE", null_handling=True) == Or(
        (is_null, Predicate(flag, Comparison.NOT_EQ, (True,)))
    )
    assert compiled("flag IS FALSE", null_handling=True) == And((present, Predicate(flag, Comparison.EQ, (False,))))
    assert compiled("a > 1 IS NOT TRUE", null_handling=True) == ExpressionPredicate(
        Call("is_not_true", (Call("greater_than", (A, Literal(1, "1"))),))
    )


def _holds(node: Filter | None, row: dict[str, int]) -> bool:
    if node is None:
        return True
    if isinstance(node, And):
        return all(_holds(child, row) for child in node.children)
    if isinstance(node, Or):
        return any(_holds(child, row) for child in node.children)
    if isinstance(node, Not):
        return not _holds(node.child, row)
    if isinstance(node, Constant):
        return node.value
    assert isinstance(node, Predicate)
    assert isinstance(node.lhs, Identifier)
    value = row[node.lhs.name]
    if node.comparison in (Comparison.EQ, Comparison.IN):
        return value in node.values
    if node.comparison in (Comparison.NOT_EQ, Comparison.NOT_IN):
        return value not in node.values
    low = node.lower is None or value > node.lower.value or (node.lower.inclusive and value == node.lower.value)  # type: ignore[operator]
    return low and (
        node.upper is None or value < node.upper.value or (node.upper.inclusive and value == node.upper.value)
    )  # type: ignore[operator]


Check = Callable[[dict[str, int]], bool]


def _random_condition(chance: random.Random, depth: int) -> tuple[str, Check]:
    """A condition in SQL, and what it means."""
    if depth == 0 or chance.random() < 0.3:
        return _random_leaf(chance)
    if chance.random() < 0.2:
        sql, check = _random_condition(chance, depth - 1)
        return f"NOT ({sql})", lambda row: not check(row)
    parts = [_random_condition(chance, depth - 1) for _ in range(chance.randrange(2, 4))]
    checks = [check for _, check in parts]
    if chance.random() < 0.5:
        return " AND ".join(f"({sql})" for sql, _ in parts), lambda row: all(check(row) for check in checks)
    return " OR ".join(f"({sql})" for sql, _ in parts), lambda row: any(check(row) for check in checks)


def _random_leaf(chance: random.Random) -> tuple[str, Check]:
    column, value = chance.choice("ab"), chance.randrange(4)
    kind = chance.randrange(5)
    if kind == 0:
        sign, compare = chance.choice(
            [("=", operator.eq), ("<>", operator.ne), ("<", operator.lt), (">=", operator.ge)]
        )
        if chance.random() < 0.5:
            return f"{column} {sign} {value}", lambda row: bool(compare(row[column], value))
        return f"{value} {sign} {column}", lambda row: bool(compare(value, row[column]))
    if kind == 1:
        values = [chance.randrange(4) for _ in range(chance.randrange(1, 4))]
        listed = ", ".join(map(str, values))
        if chance.random() < 0.5:
            return f"{column} IN ({listed})", lambda row: row[column] in values
        return f"{column} NOT IN ({listed})", lambda row: row[column] not in values
    if kind == 2:
        low, high = chance.randrange(4), chance.randrange(4)
        return f"{column} BETWEEN {low} AND {high}", lambda row: low <= row[column] <= high
    if kind == 3:
        truth = chance.random() < 0.5
        return ("TRUE" if truth else "FALSE"), lambda row: truth
    return f"{value} = 2", lambda row: value == 2


def test_the_plain_form_selects_the_same_rows() -> None:
    chance = random.Random(7)
    for _ in range(400):
        sql, check = _random_condition(chance, 3)
        node = compiled(sql)
        for a, b in itertools.product(range(-1, 5), repeat=2):
            assert _holds(node, {"a": a, "b": b}) is check({"a": a, "b": b}), sql


def test_numbers_and_their_kinds_are_kept_apart_when_merged() -> None:
    node = compiled("s = '1' OR s = 1 OR s = TRUE OR s = '1'")
    assert isinstance(node, Predicate)
    assert [(type(value), value) for value in node.values] == [(str, "1"), (int, 1), (bool, True)]
