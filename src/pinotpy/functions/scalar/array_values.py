"""Functions that make multi-values of values and texts of multi-values, and that compare two: ARRAY, GENERATEINTARRAY,
ARRAYSOVERLAP.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.arguments import constant_text, doubles, expect_single, length_of, longs, spread, texts
from pinotpy.functions.scalar.array_edits import joined_rows
from pinotpy.functions.scalar.arrays import element_type
from pinotpy.functions.scalar.conversions import common_type, converted
from pinotpy.functions.scalar.ragged import Ragged, ranges
from pinotpy.functions.scalar.spec import MANY, Bound, Example, Operand, ScalarFunction, Value
from pinotpy.pql.ast import Dialect

_TYPES: Final = {
    "int": DataType.INT,
    "long": DataType.LONG,
    "float": DataType.FLOAT,
    "double": DataType.DOUBLE,
    "string": DataType.STRING,
}
_COLUMNS: Final = {"int": "mi", "long": "ml", "float": "md", "double": "md", "string": "ms"}  # of the demo row
_VALUES: Final[dict[str, list[Any]]] = {
    "int": [1, 2, 3],
    "long": [10, 20],
    "float": [1.5, 2.5],
    "double": [1.5, 2.5],
    "string": ["a", "b", "a"],
}
_GENERATED_MAX: Final = 1 << 20  # values of one list
_BATCH_MAX: Final = 1 << 25  # values of all lists of a batch


def rows_of(value: Value, count: int) -> Ragged:
    """A multi-value argument as ranges; a constant stands in every row."""
    return Ragged.of(spread(value, count))


def _of_singles(values: pa.Array) -> Ragged:
    """One value a row."""
    return Ragged(values, np.arange(len(values) + 1))


# --- made of single values --------------------------------------------------------------------------------------------


def _bind_array(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    expect_single(operands, "array")
    types = [operand.data_type for operand in operands]
    data_type = common_type(types, "array")

    def evaluate(values: Sequence[Value]) -> pa.Array:
        count, width = length_of(values), len(values)
        columns = [
            spread(converted(value, source, data_type), count) for value, source in zip(values, types, strict=True)
        ]
        by_row = np.arange(count * width).reshape(width, count).T.ravel()  # the columns lie one behind the other
        return (
            Ragged(pa.concat_arrays(columns), np.arange(0, count * width + 1, width))
            .taken(by_row, np.full(count, width, np.int64))
            .lists()
        )

    return Bound(data_type, evaluate, single_value=False)


def _bind_generate(data_type: DataType, operands: Sequence[Operand], dialect: Dialect) -> Bound:
    expect_single(operands, f"generate{data_type.value}array")
    types = [operand.data_type for operand in operands]
    taken = longs if data_type in (DataType.INT, DataType.LONG) else doubles

    def evaluate(values: Sequence[Value]) -> pa.Array:
        count = length_of(values)
        start, end, step = (
            spread(taken(value, source), count).to_numpy(zero_copy_only=False)
            for value, source in zip(values, types, strict=True)
        )
        counts = _steps(start.astype(np.float64), end.astype(np.float64), step.astype(np.float64))
        numbers = np.repeat(start, counts) + ranges(np.zeros(count, np.int64), counts) * np.repeat(step, counts)
        flat = converted(pa.array(numbers), DataType.LONG if taken is longs else DataType.DOUBLE, data_type)
        return Ragged(flat, np.concatenate(([0], np.cumsum(counts)))).lists()

    return Bound(data_type, evaluate, single_value=False)


def _steps(start: NDArray[np.float64], end: NDArray[np.float64], step: NDArray[np.float64]) -> Int64Array:
    """How many values lie from start to end; raises QueryExecutionError for steps of nothing and lists too long."""
    with np.errstate(all="ignore"):
        counts = np.maximum(np.floor((end - start) / step) + 1, 0)
    if not np.all(np.isfinite(start) & np.isfinite(end) & np.isfinite(step) & (step != 0)):
        raise QueryExecutionError("expected finite numbers and a step that is not 0")
    longest = counts.max(initial=0)
    if longest > _GENERATED_MAX or counts.sum() > _BATCH_MAX:
        raise QueryExecutionError(
            f"expected at most {_GENERATED_MAX} values in a list and {_BATCH_MAX} in a batch, found {longest:.0f} in "
            "one"
        )
    whole: Int64Array = counts.astype(np.int64)
    return whole


# --- one multi-value and a value --------------------------------------------------------------------------------------


def _bind_push(name: str, target: DataType, operands: Sequence[Operand], dialect: Dialect) -> Bound:
    source = _like(operands[0], target, name)
    expect_single(operands[1:], name)

    def evaluate(values: Sequence[Value]) -> pa.Array:
        count = length_of(values)
        rows = rows_of(values[0], count)
        rows = Ragged(converted(rows.flat, source, target), rows.offsets)
        single = _of_singles(spread(converted(values[1], operands[1].data_type, target), count))
        return (joined_rows(rows, single) if name.startswith("arraypushback") else joined_rows(single, rows)).lists()

    return Bound(target, evaluate, single_value=False)


def _bind_indexes(name: str, target: DataType, operands: Sequence[Operand], dialect: Dialect) -> Bound:
    source = _like(operands[0], target, name)
    expect_single(operands[1:], name)

    def evaluate(values: Sequence[Value]) -> pa.Array:
        count = length_of(values)
        rows = rows_of(values[0], count)
        needles = spread(converted(values[1], operands[1].data_type, target), count).take(pa.array(rows.row_of))
        hits = pc.equal(converted(rows.flat, source, target), needles).to_numpy(zero_copy_only=False)
        positions = np.arange(len(rows.flat)) - rows.starts[rows.row_of]
        return Ragged(pa.array(positions.astype(np.int32)), rows.offsets).kept(hits).lists()

    return Bound(DataType.INT, evaluate, single_value=False)


def _like(operand: Operand, target: DataType, name: str) -> DataType:
    source = element_type(operand, name)
    if (source is DataType.STRING) != (target is DataType.STRING) or source in (
        DataType.BYTES,
        DataType.BIG_DECIMAL,
        DataType.JSON,
    ):
        raise InvalidQueryError(f"{name.upper()} takes {target.value} values, found {operand.name}")
    return source


# --- one multi-value --------------------------------------------------------------------------------------------------


def _bind_sum(name: str, data_type: DataType, operands: Sequence[Operand], dialect: Dialect) -> Bound:
    source = element_type(operands[0], name)
    if not source.is_numeric:
        raise InvalidQueryError(f"{name.upper()} takes numbers, found {operands[0].name}")

    def evaluate(values: Sequence[Value]) -> pa.Array:
        rows = rows_of(values[0], length_of(values))
        numbers = converted(rows.flat, source, data_type).to_numpy(zero_copy_only=False).astype(np.int64)
        before = np.concatenate(([0], np.cumsum(numbers)))  # wraps as Java's sums do, and the difference is right again
        return pa.array(
            (before[rows.offsets[1:]] - before[rows.offsets[:-1]]).astype(data_type.arrow.to_pandas_dtype())
        )

    return Bound(data_type, evaluate)


def _bind_to_text(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    source = element_type(operands[0], "arraytostring")
    separator = constant_text(operands[1], "the separator", "arraytostring")
    instead = constant_text(operands[2], "the text of empty values", "arraytostring") if len(operands) > 2 else ""

    def evaluate(values: Sequence[Value]) -> pa.Array:
        rows = rows_of(values[0], length_of(values))
        shown = texts(rows.flat, source)
        if instead:
            shown = pc.if_else(pc.equal(shown, ""), instead, shown)
        try:
            return pc.binary_join(Ragged(shown, rows.offsets).lists(), separator)
        except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
            raise QueryExecutionError(f"the texts are too long together: {error}") from error

    return Bound(DataType.STRING, evaluate)


# --- two multi-values -------------------------------------------------------------------------------------------------


def _found_in(left: Ragged, right: Ragged) -> NDArray[np.bool_]:
    """Whether each value of the left rows is in the right row beside it."""
    both = Ragged(pa.concat_arrays([left.flat, right.flat]), np.array([0, len(left.flat) + len(right.flat)]))
    distinct, codes = np.unique(both.ranks, return_inverse=True)
    keys = np.concatenate((left.row_of, right.row_of)) * len(distinct) + codes
    return np.isin(keys[: len(left.flat)], keys[len(left.flat) :])


def _bind_overlap(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    types = [element_type(operand, "arraysoverlap") for operand in operands]
    data_type = common_type(types, "arraysoverlap")
    if (DataType.STRING in types and types[0] is not types[1]) or data_type in (DataType.BIG_DECIMAL, DataType.JSON):
        raise InvalidQueryError(
            f"ARRAYSOVERLAP takes two lists of one type, found {operands[0].name} and {operands[1].name}"
        )

    def evaluate(values: Sequence[Value]) -> pa.Array:
        left, right = _pair(values, types, data_type)
        return pa.array(left.first(_found_in(left, right)) >= 0)

    return Bound(DataType.BOOLEAN, evaluate)


def _bind_intersect(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    types = [element_type(operand, "intersectindices") for operand in operands]
    for data_type, operand in zip(types, operands, strict=True):
        if data_type not in (DataType.INT, DataType.LONG):
            raise InvalidQueryError(f"INTERSECTINDICES takes INT values, found {operand.name}")

    def evaluate(values: Sequence[Value]) -> pa.Array:
        left, right = _pair(values, types, DataType.INT)
        return left.kept(_found_in(left, right)).lists()

    return Bound(DataType.INT, evaluate, single_value=False)


def _pair(values: Sequence[Value], types: Sequence[DataType], data_type: DataType) -> tuple[Ragged, Ragged]:
    count = length_of(values)
    left, right = (rows_of(value, count) for value in values)
    return (
        Ragged(converted(left.flat, types[0], data_type), left.offsets),
        Ragged(converted(right.flat, types[1], data_type), right.offsets),
    )


# --- the functions ----------------------------------------------------------------------------------------------------


def _function(
    name: str, arguments: str, summary: str, bind: Callable[[Sequence[Operand], Dialect], Bound], *examples: Example
) -> ScalarFunction:
    most = arguments.count(",") + 1
    return ScalarFunction(
        name, f"{name.upper()}({arguments})", summary, bind, examples, most - arguments.count("["), most
    )


def _literal(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


def _of_type(suffix: str) -> tuple[ScalarFunction, ...]:
    target, column, values = _TYPES[suffix], _COLUMNS[suffix], _VALUES[suffix]
    back, front, indexes, generate = (
        f"arraypushback{suffix}",
        f"arraypushfront{suffix}",
        f"arrayindexesof{suffix}",
        f"generate{suffix}array",
    )
    first = values[0]
    column_and_value = f"{column}, {_literal(first)}"
    functions = (
        _function(
            back,
            "mv, value",
            "The values, then one more.",
            lambda operands, dialect: _bind_push(back, target, operands, dialect),
            Example(f"{back}({column_and_value})", [*values, first]),
        ),
        _function(
            front,
            "mv, value",
            "One more, then the values.",
            lambda operands, dialect: _bind_push(front, target, operands, dialect),
            Example(f"{front}({column_and_value})", [first, *values]),
        ),
        _function(
            indexes,
            "mv, value",
            "All positions of the value, from 0.",
            lambda operands, dialect: _bind_indexes(indexes, target, operands, dialect),
            Example(f"{indexes}({column_and_value})", [index for index, value in enumerate(values) if value == first]),
        ),
    )
    if target is DataType.STRING:
        return functions
    shown = [1, 3, 5] if suffix in ("int", "long") else [1.0, 3.0, 5.0]
    summary = "The numbers from start to end, which is among them if a step meets it."
    return (
        *functions,
        _function(
            generate,
            "start, end, step",
            summary,
            lambda operands, dialect: _bind_generate(target, operands, dialect),
            Example(f"{generate}(1, 6, 2)", shown),
        ),
    )


FUNCTIONS = (
    ScalarFunction(
        "array",
        "ARRAY(value, …)",
        "The values as a list, in their common type; also written ARRAY[value, …] in SQL.",
        _bind_array,
        (Example("array(i, 8)", [7, 8]), Example("array(s, 'x')", ["Hello, World", "x"])),
        1,
        MANY,
        ("arrayvalueconstructor",),
    ),
    *(function for suffix in _TYPES for function in _of_type(suffix)),
    _function(
        "arraysumint",
        "mv",
        "The sum as INT; beyond its range it wraps.",
        lambda operands, dialect: _bind_sum("arraysumint", DataType.INT, operands, dialect),
        Example("arraySumInt(mi)", 6),
    ),
    _function(
        "arraysumlong",
        "mv",
        "The sum as LONG, to the last digit.",
        lambda operands, dialect: _bind_sum("arraysumlong", DataType.LONG, operands, dialect),
        Example("arraySumLong(ml)", 30),
    ),
    _function(
        "arraytostring",
        "mv, separator[, instead]",
        "The values as one text with the separator between them, and something instead of empty ones.",
        _bind_to_text,
        Example("arrayToString(ms, '-')", "a-b-a"),
        Example("arrayToString(mi, ', ')", "1, 2, 3"),
    ),
    _function(
        "arraysoverlap",
        "mv, mv2",
        "Whether any value is in both.",
        _bind_overlap,
        Example("arraysOverlap(ms, ks)", True),
        Example("arraysOverlap(mi, ml)", False),
    ),
    _function(
        "intersectindices",
        "mv, mv2",
        "The positions that are in both.",
        _bind_intersect,
        Example("intersectIndices(mi, vs)", [1, 2]),
    ),
)
