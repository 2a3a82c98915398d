"""Proves that random expressions over columns with nulls have the values that DuckDB gives them, as computed columns
and as filters: three-valued logic, CASE, IN, BETWEEN, patterns and arithmetic, nested. Deterministic: the seed is the
test's number.
"""

from __future__ import annotations

import random
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from pinotpy.ingest.expressions import evaluate, parse_record_expression
from pinotpy.ingest.typed_values import from_input

ROWS = 120
EXPRESSIONS = 60


def table(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)

    def with_nulls(values: Any) -> pa.Array:
        return pa.array(values, mask=rng.random(ROWS) < 0.2)

    return pa.table(
        {
            "i": with_nulls(rng.integers(-3, 4, ROWS).astype(np.int32)),
            "l": with_nulls(rng.integers(-(2**40), 2**40, ROWS)),
            "d": with_nulls(rng.integers(-6, 7, ROWS) / 2),
            "s": with_nulls(rng.choice(["", "a", "ab", "Abc", "b%", "c_d"], ROWS)),
            "b": with_nulls(rng.random(ROWS) < 0.5),
        }
    )


class Writer:
    """Random expressions as text."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def number(self, depth: int) -> str:
        if depth == 0 or self.random.random() < 0.3:
            return self.random.choice(["i", "l", "d", str(self.random.randint(-3, 3)), "2.5"])
        left, right = self.number(depth - 1), self.number(depth - 1)
        forms = [
            f"({left} + {right})",
            f"({left} - {right})",
            f"({left} * {self.random.randint(-3, 3)})",
            f"abs({left})",
            f"(- ({left}))",
        ]
        return self.random.choice([*forms, f"CASE WHEN {self.condition(depth - 1)} THEN {left} ELSE {right} END"])

    def text(self, depth: int) -> str:
        if depth == 0 or self.random.random() < 0.5:
            return self.random.choice(["s", "'a'", "'Abc'"])
        return f"CASE WHEN {self.condition(depth - 1)} THEN {self.text(depth - 1)} ELSE {self.text(depth - 1)} END"

    def condition(self, depth: int) -> str:
        if depth == 0 or self.random.random() < 0.15:
            return self.random.choice(["b", "i > 0", "s = 'a'", "d IS NULL", "TRUE", "FALSE"])
        one, two, three = (self.condition(depth - 1) for _ in range(3))
        x, y, z = (self.number(depth - 1) for _ in range(3))
        operator = self.random.choice(["=", "<>", "<", "<=", ">", ">="])
        negation = self.random.choice(["", "NOT "])
        return self.random.choice(
            [
                f"({one} AND {two} AND {three})",
                f"({one} OR {two})",
                f"(NOT {one})",
                f"({x} {operator} {y})",
                f"({self.text(depth - 1)} {operator} {self.text(depth - 1)})",
                f"({x} {negation}BETWEEN {y} AND {z})",
                f"({x} {negation}IN ({y}, {z}, 1))",
                f"(i {negation}IN (1, 2, 99))",
                f"({self.text(depth - 1)} {negation}IN ('a', 'ab', 'zz'))",
                f"({self.text(depth - 1)} {negation}ILIKE '{self.random.choice(['a%', '%b%', '_', ''])}')",
                f"({one} IS {negation}{self.random.choice(['TRUE', 'FALSE'])})",
                f"({x} IS {negation}NULL)",
                f"({x} IS {negation}DISTINCT FROM {y})",
                f"CASE WHEN {one} THEN {two} ELSE {three} END",
            ]
        )


@pytest.mark.parametrize("seed", range(5))
def test_random_expressions_have_duckdbs_values(seed: int) -> None:
    rows = table(seed)
    inputs = {name: from_input(rows.column(name).combine_chunks()) for name in rows.column_names}
    writer = Writer(seed)
    connection = duckdb.connect()
    connection.register("rows", rows)
    for number in range(EXPRESSIONS):
        text = (writer.condition if number % 2 else writer.number)(3)
        expected = [value for (value,) in connection.execute(f"SELECT {text} FROM rows").fetchall()]
        values = evaluate(parse_record_expression(text, "$"), inputs, ROWS).values
        found = [values.as_py()] * ROWS if isinstance(values, pa.Scalar) else values.to_pylist()
        plain = [float(value) if value is not None and not isinstance(value, bool) else value for value in expected]
        found = [float(value) if value is not None and not isinstance(value, bool) else value for value in found]
        assert found == plain, text
