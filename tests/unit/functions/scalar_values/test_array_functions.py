"""Proves functions of multi-values against loops over the rows, on ragged columns with empty rows, on slices of
columns, for every element type; and the edges that the reference recorded.
"""

from __future__ import annotations

import math
import random
from typing import Any

import pyarrow as pa
import pytest

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.scalar.ragged import Ragged
from pinotpy.functions.scalar.spec import Operand, bind, evaluate
from pinotpy.pql.ast import Dialect, Literal

INT, LONG, FLOAT, DOUBLE, STRING, BYTES = (
    DataType.INT,
    DataType.LONG,
    DataType.FLOAT,
    DataType.DOUBLE,
    DataType.STRING,
    DataType.BYTES,
)
VALUES: dict[DataType, list[Any]] = {
    INT: [-5, 0, 3, 7, 2**31 - 1],
    LONG: [-(2**63), 0, 9, 2**40],
    FLOAT: [-1.5, 0.25, 3.0],
    DOUBLE: [-1e300, 0.1, 0.2, 0.3],
    STRING: ["", "a", "b", "é", "日", "😀"],
}
SUFFIX = {INT: "Int", LONG: "Long", FLOAT: "Float", DOUBLE: "Double", STRING: "String"}
TYPES = pytest.mark.parametrize("data_type", VALUES, ids=lambda data_type: data_type.value)


def rows_of(data_type: DataType, seed: int = 1) -> list[list[Any]]:
    chance = random.Random(seed)
    return [[chance.choice(VALUES[data_type]) for _ in range(chance.randrange(5))] for _ in range(200)]


@TYPES
def test_lengths_sums_and_extremes(call: Any, data_type: DataType) -> None:
    rows = rows_of(data_type)
    column = (data_type, rows)
    assert call("arrayLength", column) == [len(row) for row in rows]
    assert call("cardinality", column) == [len(row) for row in rows]
    filled = (data_type, [row or VALUES[data_type][:1] for row in rows])
    assert call("arrayMin", filled) == [min(row, key=order) for row in filled[1]]
    assert call("arrayMax", filled) == [max(row, key=order) for row in filled[1]]
    if data_type is STRING:
        for name in ("arraySum", "arrayAverage"):
            with pytest.raises(QueryExecutionError, match="numeric"):
                call(name, column)
        return

    def total(row: list[Any]) -> float:
        found = 0.0
        for value in row:  # in the order of the row, as Java's loop
            found += float(value)
        return found

    assert call("arraySum", column) == [total(row) for row in rows]
    averages = call("arrayAverage", column)
    assert [value for value, row in zip(averages, rows, strict=True) if row] == [
        total(row) / len(row) for row in rows if row
    ]
    assert all(math.isnan(value) for value, row in zip(averages, rows, strict=True) if not row)


def order(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


@pytest.mark.parametrize(
    ("data_type", "least", "greatest"),
    [(INT, 2**31 - 1, -(2**31)), (LONG, 2**63 - 1, -(2**63)), (DOUBLE, math.inf, -math.inf), (STRING, "null", "null")],
)
def test_the_extremes_of_nothing(call: Any, data_type: DataType, least: Any, greatest: Any) -> None:
    one = VALUES[data_type][1]
    assert call("arrayMin", (data_type, [[], [one]])) == [least, one]
    assert call("arrayMax", (data_type, [[], [one]])) == [greatest, one]
    assert call("arrayMax", (data_type, [[]])) == [greatest]


@TYPES
def test_value_in_keeps_what_is_wanted(call: Any, data_type: DataType) -> None:
    rows, wanted = rows_of(data_type), VALUES[data_type][1:3]
    assert call("valueIn", (data_type, rows), *wanted) == [[value for value in row if value in wanted] for row in rows]


@pytest.mark.parametrize(
    "arguments", [((STRING, ["NL"]), "NL"), ((INT, [[1]]), "abc"), ((INT, [[1]]), 1.5), ((LONG, [[1]]), 2**63)]
)
def test_value_in_refuses_single_values_and_constants_of_another_type(call: Any, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(QueryExecutionError):
        call("valueIn", *arguments)
    with pytest.raises(InvalidQueryError):
        call("valueIn", *arguments, dialect=Dialect.SQL)


@TYPES
def test_map_value_is_at_the_first_position_of_the_key(call: Any, data_type: DataType) -> None:
    chance = random.Random(3)
    keys = [[chance.choice("abc") for _ in range(chance.randrange(4))] for _ in range(200)]
    values = [[chance.choice(VALUES[data_type]) for _ in row] for row in keys]
    default = {INT: -(2**31), LONG: -(2**63), FLOAT: -math.inf, DOUBLE: -math.inf, STRING: "null"}[data_type]
    expected = [found[row.index("a")] if "a" in row else default for row, found in zip(keys, values, strict=True)]
    assert call("mapValue", (STRING, keys), "a", (data_type, values)) == expected


def test_map_value_of_columns_that_do_not_fit(call: Any) -> None:
    assert call("mapValue", (STRING, [["x", "a"], ["a"]]), "a", (INT, [[1], [2, 3]])) == [-(2**31), 2]
    assert call("mapValue", (INT, [[7, 8]]), 8, (STRING, [["x", "y"]])) == ["y"]
    with pytest.raises(QueryExecutionError):
        call("mapValue", (STRING, ["a"]), "a", (INT, [[1]]))


@TYPES
def test_edits_are_those_of_loops(call: Any, data_type: DataType) -> None:
    rows, others = rows_of(data_type), rows_of(data_type, seed=2)
    one = VALUES[data_type][1]
    suffix, column = SUFFIX[data_type], (data_type, rows)
    assert call(f"arrayReverse{suffix}", column) == [row[::-1] for row in rows]
    assert call(f"arraySort{suffix}", column) == [sorted(row, key=order) for row in rows]
    assert call(f"arrayDistinct{suffix}", column) == [list(dict.fromkeys(row)) for row in rows]
    assert call(f"arrayRemove{suffix}", column, one) == [without(row, one) for row in rows]
    assert call(f"arraySlice{suffix}", column, 1, 3) == [row[1:3] for row in rows]
    assert call(f"arraySlice{suffix}", column, 3, 1) == [[] for _ in rows]
    assert call(f"arrayContains{suffix}", column, one) == [one in row for row in rows]
    assert call(f"arrayIndexOf{suffix}", column, one) == [row.index(one) if one in row else -1 for row in rows]
    assert call(f"arrayElementAt{suffix}", column, 2) == [
        row[1] if len(row) > 1 else "" if data_type is STRING else 0 for row in rows
    ]
    assert call(f"arrayElementAt{suffix}", column, 0) == ["" if data_type is STRING else 0 for _ in rows]
    assert call(f"arrayConcat{suffix}", column, (data_type, others)) == [
        a + b for a, b in zip(rows, others, strict=True)
    ]
    assert call(f"arrayUnion{suffix}", column, (data_type, others)) == [
        list(dict.fromkeys(a + b)) for a, b in zip(rows, others, strict=True)
    ]


def without(row: list[Any], value: Any) -> list[Any]:
    found = list(row)
    if value in found:
        found.remove(value)
    return found


def test_an_edit_takes_values_of_its_type(call: Any) -> None:
    assert call("arraySortDouble", (INT, [[3, 1]])) == [[1.0, 3.0]]
    with pytest.raises(QueryExecutionError):
        call("arraySortInt", (STRING, [["b"]]))
    with pytest.raises(QueryExecutionError):
        call("arraySortString", (INT, [[1]]))


def test_a_slice_of_a_column_is_its_rows_only() -> None:
    lists = pa.array([[1], [2, 3], [], [4, 5, 6], [7]], pa.list_(pa.int32()))[1:4]
    assert Ragged.of(lists).lists().to_pylist() == [[2, 3], [], [4, 5, 6]]
    wanted = (Operand(INT, False), Operand(INT, True, Literal(5, "5")))
    assert evaluate(bind("valuein", wanted, Dialect.PQL), [lists, pa.scalar(5)], 3).to_pylist() == [[], [], [5]]
    assert evaluate(bind("arraysum", (Operand(INT, False),), Dialect.PQL), [lists], 3).to_pylist() == [5.0, 0.0, 15.0]


def test_no_rows_give_no_rows() -> None:
    lists = pa.array([], pa.list_(pa.string()))
    for name in ("arraylength", "arraymin", "arraymax", "arraysortstring", "arraydistinctstring"):
        assert evaluate(bind(name, (Operand(STRING, False),), Dialect.PQL), [lists], 0).to_pylist() == []
