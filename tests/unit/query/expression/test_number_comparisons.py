"""Proves the rule for numbers of different types (docs/differences.md) with answers written down, on the roads that
random conditions do not take: both dialects, functions that compare to decide, constants, rows of an ingestion; and the
kernel and Arrow comparisons beside exact fractions. tests/property/test_conditions_on_every_road.py asks the rest.
"""

from __future__ import annotations

import itertools
import math
import random
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from built_segments import ask, config_of, opened, schema_of
from number_conditions import OPERATORS, VALUES, compare

from pinotpy.data_types import DataType
from pinotpy.decimals import encode_decimal
from pinotpy.functions.scalar.number_order import beside, compared, compared_with
from pinotpy.functions.scalar.spec import Operand, bind
from pinotpy.pql.ast import Dialect, Literal

NAMES = dict(
    zip(
        OPERATORS,
        ("equals", "not_equals", "less_than", "less_than_or_equal", "greater_than", "greater_than_or_equal"),
        strict=True,
    )
)
SCHEMA = schema_of({"n": "INT", "f": "FLOAT", "l": "LONG", "d": "DOUBLE", "k": "LONG", "b": "BIG_DECIMAL"})
DIGITS = "0.1000000000000000055511151231257827021181583404541015625"  # all that the DOUBLE 0.1 has
ROWS: dict[str, list[Any]] = {
    "n": [0, 1, 2, 3],
    "f": [0.1, 16777216.0, 0.5, -2.5],
    "l": [2**53, 2**53 + 1, 2**63 - 1, 7],
    "d": [0.1, 2.0**53, 2.0**63, 7.0],
    "k": [0, 2**53 + 1, 2**63 - 1, 7],
    "b": [encode_decimal(Decimal(text)) for text in ("0.1", DIGITS, "18446744073709551616", "7")],
}


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("f = 0.1", [0]),
        ("f <> 0.1", [1, 2, 3]),
        ("f >= 16777217", [1]),
        ("0.1 >= f", [0, 3]),
        ("CASE WHEN n < 2 THEN f ELSE f END = 0.1", [0]),
        ("CAST(f AS DOUBLE) = 0.1", []),
        ("CAST(d AS FLOAT) = 0.1", [0]),
        ("f = d", []),
        ("f + 0 = 0.1", []),
        ("f IN (0.1, 0.5)", [0, 2]),
        ("NOT f BETWEEN 0.1 AND 0.5", [1, 3]),
        ("l > 9007199254740992.5", [1, 2]),
        ("l <= 9007199254740992.5", [0, 3]),
        ("l = 9007199254740992.5", []),
        ("l < 9223372036854775807.5", [0, 1, 2, 3]),
        ("k = d", [3]),
        ("k > d", [1]),
        ("d > k", [0, 2]),
        ("CAST(k AS DOUBLE) = d", [1, 2, 3]),
        ("NULLIF(f, 0.1) IS NULL", [0]),
        ("NULLIF(f, '0.1') IS NULL", [0]),
        ("NULLIF(k, d) IS NULL", [3]),
        ("CASE f WHEN 0.1 THEN TRUE ELSE FALSE END", [0]),
        ("5 IN (7, 5.0)", [0, 1, 2, 3]),
        ("5 NOT IN (5.0)", []),
        ("0.1000000000000000055511151231257827 = CAST('0.1' AS DOUBLE)", [0, 1, 2, 3]),
        ("9007199254740993 = 9007199254740992.5", []),
        ("b = 0.1", [0]),
        (f"b = {DIGITS}", [1]),
        (f"-{DIGITS} = -1 * b", [1]),
        (f"b IN ({DIGITS}, 7.0)", [1, 3]),
        (f"b BETWEEN {DIGITS} AND 1", [1]),
        (f"NULLIF(b, {DIGITS}) IS NULL", [1]),
        ("b = 18446744073709551616.0", [2]),
        (f"d = {DIGITS}", [0]),
        (f"f = {DIGITS}", [0]),
    ],
)
def test_conditions_select_the_same_rows_in_where_and_as_values(condition: str, rows: list[int]) -> None:
    for index in ({}, {"noDictionaryColumns": ["f", "l", "d", "k", "b"]}):
        segment = opened(SCHEMA, config_of(index), ROWS)
        for null_handling in (False, True):
            for text in (
                f"SELECT n FROM t WHERE {condition}",
                f"SELECT n FROM t WHERE ({condition}) IS TRUE",
                f"SELECT n FROM t WHERE NOT NOT ({condition})",
            ):
                if "NULLIF" in condition and not null_handling and "NOT" in text:
                    continue  # IS NULL of a function asks null vectors
                found = ask(SCHEMA, [segment], text, null_handling=null_handling).rows
                assert found is not None and sorted(found.column(0).to_pylist()) == rows, text
            found = ask(
                SCHEMA,
                [segment],
                f"SELECT n, CASE WHEN {condition} THEN 1 ELSE 0 END FROM t",
                null_handling=null_handling,
            ).rows
            assert found is not None
            assert [
                n for n, holds in zip(*(column.to_pylist() for column in found.columns), strict=True) if holds
            ] == rows, condition


@pytest.mark.parametrize(
    ("condition", "rows"),
    [("f = 0.1", [0]), ("equals(f, 0.1) = 1", []), ("greater_than(l, 9007199254740992.5) = 1", [1, 2])],
)
def test_functions_of_pql_widen_float_as_recorded_and_compare_the_rest_exactly(condition: str, rows: list[int]) -> None:
    segment = opened(SCHEMA, config_of(), ROWS)
    found = ask(SCHEMA, [segment], f"SELECT n FROM t WHERE {condition} LIMIT 10", pql=True).rows
    assert found is not None and found.column(0).to_pylist() == rows


def test_a_condition_is_never_unknown_where_nulls_read_as_defaults() -> None:
    segment = opened(SCHEMA, config_of({"nullHandlingEnabled": True}), {**ROWS, "f": [0.1, None, None, 0.5]})
    for text, plain, nulls in (
        ("(f = 0.1) IS NULL", [], [1, 2]),
        ("(f = 0.1) IS NOT NULL", [0, 1, 2, 3], [0, 3]),
        ("f IS NULL", [1, 2], [1, 2]),
    ):
        for null_handling, rows in ((False, plain), (True, nulls)):
            found = ask(SCHEMA, [segment], f"SELECT n FROM t WHERE {text}", null_handling=null_handling).rows
            assert ([] if found is None else found.column(0).to_pylist()) == rows, (text, null_handling)


def test_arrays_of_any_two_types_are_compared_as_fractions_are() -> None:
    rng = random.Random(7)
    kinds = {"INT": DataType.INT, "LONG": DataType.LONG, "FLOAT": DataType.FLOAT, "DOUBLE": DataType.DOUBLE}
    for left, right in itertools.product(kinds, kinds):
        pairs = [
            (one, other)
            for one in [*VALUES[left], None]
            for other in [*VALUES[right], None, *([math.nan] if right == "DOUBLE" else [])]
        ]
        rng.shuffle(pairs)
        arrays = [
            pa.array([pair[side] for pair in pairs], kinds[kind].arrow) for side, kind in enumerate((left, right))
        ]
        for sign, name in NAMES.items():
            found = compared(name, arrays[0], kinds[left], arrays[1], kinds[right]).to_pylist()
            assert found == [compare(sign, one, other) for one, other in pairs], (left, sign, right)
            whole = bind(name, (Operand(kinds[left]), Operand(kinds[right])), Dialect.SQL)
            present = [array.filter(pa.array([None not in pair for pair in pairs])) for array in arrays]
            assert whole.evaluate(present).to_pylist() == [truth for truth in found if truth is not None]


def test_whole_numbers_beside_any_literal_are_compared_as_fractions_are() -> None:
    literals = [5, 5.5, -0.5, 2**53 + 0.0, 2**63, -(2**63) - 1, 1e300, math.inf, -math.inf, *VALUES["BIG_DECIMAL"]]
    array = pa.array(VALUES["LONG"], pa.int64())
    for literal, (sign, name) in itertools.product(literals, NAMES.items()):
        expected = [compare(sign, value, literal) for value in VALUES["LONG"]]
        assert compared_with(name, array, literal, DataType.LONG).to_pylist() == expected, (sign, literal)
        found = beside(name, literal, DataType.LONG)
        assert isinstance(found, bool) or Fraction(found[1]).denominator == 1
    assert (
        beside("equals", math.nan, DataType.LONG) is False and beside("not_equals", math.nan, DataType.DOUBLE) is True
    )
    operands = (Operand(DataType.FLOAT), Operand(DataType.DOUBLE, True, Literal(0.1, "0.1")))
    floats = pa.array([0.1, 0.2], pa.float32())
    assert bind("equals", operands, Dialect.SQL).evaluate([floats, pa.scalar(0.1)]).to_pylist() == [True, False]
    assert bind("equals", operands, Dialect.PQL).evaluate([floats, pa.scalar(0.1)]).to_pylist() == [0, 0]
