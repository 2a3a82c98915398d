"""Functions of vectors, which are multi-values of numbers: COSINEDISTANCE, L2DISTANCE, DOTPRODUCT. Computed in
doubles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.arguments import doubles, expect_single, length_of, spread
from pinotpy.functions.scalar.array_values import rows_of
from pinotpy.functions.scalar.arrays import element_type
from pinotpy.functions.scalar.ragged import Ragged
from pinotpy.functions.scalar.spec import Bound, Example, Operand, ScalarFunction, Value
from pinotpy.pql.ast import Dialect

Doubles = NDArray[np.float64]
SumOfRows = Callable[[Doubles], Doubles]  # of a number for each flat value
OfTwo = Callable[[Doubles, Doubles, SumOfRows], Doubles]


def _numbers(operand: Operand, function: str) -> DataType:
    data_type = element_type(operand, function)
    if not data_type.is_numeric:
        raise InvalidQueryError(f"{function.upper()} takes vectors of numbers, found {operand.name}")
    return data_type


def _flat(rows: Ragged, data_type: DataType) -> Doubles:
    numbers: Doubles = doubles(rows.flat, data_type).to_numpy(zero_copy_only=False).astype(np.float64)
    return numbers


def _sum_of(rows: Ragged) -> SumOfRows:
    # bincount adds in the order of the values, as a loop over each row does.
    return lambda numbers: np.bincount(rows.row_of, weights=numbers, minlength=rows.rows).astype(np.float64)


def _bind_two(name: str, compute: OfTwo, operands: Sequence[Operand], dialect: Dialect) -> Bound:
    types = [_numbers(operand, name) for operand in operands[:2]]
    expect_single(operands[2:], name)

    def evaluate(values: Sequence[Value]) -> pa.Array:
        count = length_of(values)
        left, right = (rows_of(value, count) for value in values[:2])
        apart = np.flatnonzero(left.counts != right.counts)
        if len(apart):
            row = apart[0]
            raise QueryExecutionError(
                f"expected vectors of one length, found {left.counts[row]} and {right.counts[row]} numbers"
            )
        with np.errstate(all="ignore"):
            computed = compute(_flat(left, types[0]), _flat(right, types[1]), _sum_of(left))
        if len(values) < 3:
            return pa.array(computed)
        instead = spread(doubles(values[2], operands[2].data_type), count).to_numpy(zero_copy_only=False)
        without = (_sum_of(left)(_flat(left, types[0]) ** 2) == 0) | (_sum_of(left)(_flat(right, types[1]) ** 2) == 0)
        return pa.array(np.where(without, instead, computed))

    return Bound(DataType.DOUBLE, evaluate)


def _cosine_distance(left: Doubles, right: Doubles, total: SumOfRows) -> Doubles:
    """NaN where a vector has no direction: 0 / 0."""
    cosine: Doubles = total(left * right) / (np.sqrt(total(left * left)) * np.sqrt(total(right * right)))
    return 1.0 - cosine


def _dot_product(left: Doubles, right: Doubles, total: SumOfRows) -> Doubles:
    return total(left * right)


def _l1_distance(left: Doubles, right: Doubles, total: SumOfRows) -> Doubles:
    return total(np.abs(left - right))


def _squared_distance(left: Doubles, right: Doubles, total: SumOfRows) -> Doubles:
    return total((left - right) ** 2)


def _l2_distance(left: Doubles, right: Doubles, total: SumOfRows) -> Doubles:
    distance: Doubles = np.sqrt(_squared_distance(left, right, total))
    return distance


def _bind_dimensions(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    _numbers(operands[0], "vectordims")
    return Bound(DataType.INT, lambda values: pa.array(rows_of(values[0], length_of(values)).counts.astype(np.int32)))


def _bind_norm(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    data_type = _numbers(operands[0], "vectornorm")

    def evaluate(values: Sequence[Value]) -> pa.Array:
        rows = rows_of(values[0], length_of(values))
        with np.errstate(all="ignore"):
            return pa.array(np.sqrt(_sum_of(rows)(_flat(rows, data_type) ** 2)))

    return Bound(DataType.DOUBLE, evaluate)


def _of_two(name: str, summary: str, compute: OfTwo, example: Example, more: str = "") -> ScalarFunction:
    return ScalarFunction(
        name,
        f"{name.upper()}(v, w{more})",
        summary,
        lambda operands, dialect: _bind_two(name, compute, operands, dialect),
        (example,),
        2,
        3 if more else 2,
    )


FUNCTIONS = (
    _of_two(
        "cosinedistance",
        "1 less the cosine of the angle between two vectors; for one of length 0 NaN, or another number.",
        _cosine_distance,
        Example("cosineDistance(array(1, 0), array(0, 2))", 1.0),
        "[, instead]",
    ),
    _of_two("innerproduct", "The sum of the products.", _dot_product, Example("innerProduct(mi, mi)", 14.0)),
    _of_two("dotproduct", "The sum of the products.", _dot_product, Example("dotProduct(ml, md)", 65.0)),
    _of_two("l1distance", "The sum of the absolute differences.", _l1_distance, Example("l1Distance(ml, md)", 26.0)),
    _of_two(
        "l2distance",
        "The root of the sum of the squared differences.",
        _l2_distance,
        Example("l2Distance(array(1, 5), array(4, 1))", 5.0),
    ),
    _of_two(
        "euclideandistance",
        "The sum of the squared differences: no root is taken.",
        _squared_distance,
        Example("euclideanDistance(array(1, 5), array(4, 1))", 25.0),
    ),
    ScalarFunction(
        "vectordims",
        "VECTORDIMS(v)",
        "How many numbers a vector has.",
        _bind_dimensions,
        (Example("vectorDims(md)", 2),),
    ),
    ScalarFunction(
        "vectornorm",
        "VECTORNORM(v)",
        "The length of a vector: the root of the sum of its squares.",
        _bind_norm,
        (Example("vectorNorm(array(3, 4))", 5.0),),
    ),
)
