"""Functions of multi-values: ARRAYLENGTH, ARRAYSUM, VALUEIN, MAPVALUE.

Sums and averages are DOUBLE, least and greatest are of the values' type (text by bytes). Rows without values, which
only VALUEIN leaves, have the sum 0, the average NaN, and as least and greatest the ends of the type, as in the
reference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType, FieldType, default_null_value
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.arguments import constant_text, doubles, expect_multi
from pinotpy.functions.scalar.conversions import converted
from pinotpy.functions.scalar.ragged import Ragged
from pinotpy.functions.scalar.spec import MANY, Bound, Example, Operand, ScalarFunction, Value
from pinotpy.pql.ast import Dialect


def element_type(operand: Operand, function: str) -> DataType:
    """The type of a multi-value argument's values; raises InvalidQueryError if it is none."""
    expect_multi(operand, function)
    assert operand.data_type is not None
    return operand.data_type


def constant_of(operand: Operand, data_type: DataType, what: str, function: str) -> pa.Scalar:
    """A constant argument as a value of `data_type`; raises InvalidQueryError for text that is none."""
    text = constant_text(operand, what, function)
    try:
        return converted(pa.scalar(text), DataType.STRING, data_type)
    except QueryExecutionError as error:
        raise InvalidQueryError(f"expected {data_type.value} as {what} of {function.upper()}: {error}") from error


# --- one number of a row ----------------------------------------------------------------------------------------------


def _bind_length(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    element_type(operands[0], "arraylength")
    return Bound(DataType.INT, lambda values: pa.array(Ragged.of(values[0]).counts.astype(np.int32)))


def _bind_sum(name: str, operands: Sequence[Operand], dialect: Dialect) -> Bound:
    data_type = element_type(operands[0], name)
    if not data_type.is_numeric:
        raise InvalidQueryError(
            f"The argument of {name.upper()} transform function must be numeric, found {operands[0].name}"
        )

    def evaluate(values: Sequence[Value]) -> pa.Array:
        rows = Ragged.of(values[0])
        numbers = doubles(rows.flat, data_type).to_numpy(zero_copy_only=False)
        # bincount adds in the order of the values, as a loop over each row does.
        sums = np.bincount(rows.row_of, weights=numbers, minlength=rows.rows)
        if name == "arraysum":
            return pa.array(sums.astype(np.float64))
        with np.errstate(invalid="ignore"):
            return pa.array(sums / rows.counts)

    return Bound(DataType.DOUBLE, evaluate)


_GREATEST: Final[dict[DataType, Any]] = {
    DataType.INT: 2**31 - 1,
    DataType.LONG: 2**63 - 1,
    DataType.FLOAT: float("inf"),
    DataType.DOUBLE: float("inf"),
}


def _bind_extreme(name: str, reduce_rows: np.ufunc, operands: Sequence[Operand], dialect: Dialect) -> Bound:
    data_type = element_type(operands[0], name)
    if data_type is DataType.BIG_DECIMAL or not (
        data_type.is_numeric or data_type in (DataType.STRING, DataType.BYTES, DataType.TIMESTAMP)
    ):
        raise InvalidQueryError(f"{name.upper()} takes numbers or text, found {operands[0].name}")
    of_nothing = _GREATEST.get(data_type, _default(data_type)) if name == "arraymin" else _default(data_type)

    def evaluate(values: Sequence[Value]) -> pa.Array:
        rows = Ragged.of(values[0])
        filled = np.flatnonzero(rows.counts)
        if not len(filled):
            return pa.repeat(pa.scalar(of_nothing, data_type.arrow), rows.rows)
        best = reduce_rows.reduceat(rows.ranks, rows.starts[filled])
        if data_type in (DataType.STRING, DataType.BYTES):
            extremes = rows.flat.take(pa.array(_position_of_rank(rows)[best]))
        else:
            extremes = pa.array(best, data_type.arrow)
        if len(filled) == rows.rows:
            return extremes
        where = np.full(rows.rows, len(filled), np.int64)
        where[filled] = np.arange(len(filled))
        return pa.concat_arrays([extremes, pa.array([of_nothing], data_type.arrow)]).take(pa.array(where))

    return Bound(data_type, evaluate)


def _position_of_rank(rows: Ragged) -> Int64Array:
    position = np.zeros(int(rows.ranks.max()) + 1, np.int64)
    position[rows.ranks] = np.arange(len(rows.ranks))
    return position


def _default(data_type: DataType) -> Any:
    """The value that stands for null in a dimension, as Arrow takes it."""
    stored = default_null_value(data_type, FieldType.DIMENSION)
    if isinstance(stored, bytes) and data_type.is_text:
        return stored.decode()
    return bool(stored) if data_type is DataType.BOOLEAN else stored


# --- values of a row that match ---------------------------------------------------------------------------------------


def _bind_value_in(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    data_type = element_type(operands[0], "valuein")
    listed = [constant_of(operand, data_type, "value", "valuein") for operand in operands[1:]]
    members = pa.array([value.as_py() for value in listed], data_type.arrow)

    def evaluate(values: Sequence[Value]) -> pa.Array:
        rows = Ragged.of(values[0])
        return rows.kept(pc.is_in(rows.flat, value_set=members).to_numpy(zero_copy_only=False)).lists()

    return Bound(data_type, evaluate, single_value=False)


def _bind_map_value(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    key_type, data_type = element_type(operands[0], "mapvalue"), element_type(operands[2], "mapvalue")
    key = constant_of(operands[1], key_type, "key", "mapvalue")
    absent = pa.array([_default(data_type)], data_type.arrow)

    def evaluate(values: Sequence[Value]) -> pa.Array:
        keys, rows = Ragged.of(values[0]), Ragged.of(values[2])
        first = keys.first(pc.equal(keys.flat, key).to_numpy(zero_copy_only=False))
        within = first - keys.starts
        has_value = (first >= 0) & (within < rows.counts)
        positions = np.where(has_value, rows.starts + within, len(rows.flat))
        return pa.concat_arrays([rows.flat, absent]).take(pa.array(positions))

    return Bound(data_type, evaluate)


def _of_rows(
    name: str,
    summary: str,
    bind: Callable[[Sequence[Operand], Dialect], Bound],
    *examples: Example,
    aliases: tuple[str, ...] = (),
) -> ScalarFunction:
    return ScalarFunction(name, f"{name.upper()}(mv)", summary, bind, examples, aliases=aliases)


FUNCTIONS = (
    _of_rows(
        "arraylength",
        "How many values there are.",
        _bind_length,
        Example("arrayLength(mi)", 3),
        aliases=("cardinality",),
    ),
    _of_rows(
        "arraysum",
        "The sum of the values.",
        lambda operands, dialect: _bind_sum("arraysum", operands, dialect),
        Example("arraySum(ml)", 30.0),
    ),
    _of_rows(
        "arrayaverage",
        "The average of the values.",
        lambda operands, dialect: _bind_sum("arrayaverage", operands, dialect),
        Example("arrayAverage(md)", 2.0),
    ),
    _of_rows(
        "arraymin",
        "The least value; text by its bytes.",
        lambda operands, dialect: _bind_extreme("arraymin", np.minimum, operands, dialect),
        Example("arrayMin(mi)", 1),
        Example("arrayMin(ms)", "a"),
    ),
    _of_rows(
        "arraymax",
        "The greatest value; text by its bytes.",
        lambda operands, dialect: _bind_extreme("arraymax", np.maximum, operands, dialect),
        Example("arrayMax(ml)", 20),
        Example("arrayMax(ms)", "b"),
    ),
    ScalarFunction(
        "valuein",
        "VALUEIN(mv, value, …)",
        "The values that are among the constants; may leave none.",
        _bind_value_in,
        (
            Example("valueIn(mi, 1, 3, 5)", [1, 3]),
            Example("valueIn(ms, 'a')", ["a", "a"]),
            Example("valueIn(ms, 'z')", []),
        ),
        2,
        MANY,
    ),
    ScalarFunction(
        "mapvalue",
        "MAPVALUE(keys, 'key', values)",
        "The value at the first position of the key; the default null value of its type where the key is absent.",
        _bind_map_value,
        (Example("mapValue(ks, 'b', vs)", 2), Example("mapValue(ks, 'z', vs)", -(2**31))),
        3,
        3,
    ),
)
