"""CASE, COALESCE and NULLIF: one of several values.

A call is case(condition1[, condition2 …], value1[, value2 …], else) in PQL, as in 0.6.0, and in SQL, as the parser
writes CASE WHEN, case(condition1, value1[, condition2, value2 …], else). The result has the common type of the values;
a missing ELSE is null, which the reference shows as the default of the type unless nulls are handled.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.arguments import expect_single, length_of, spread
from pinotpy.functions.scalar.comparisons import expect_condition, truths
from pinotpy.functions.scalar.conversions import common_type, converted, converted_present
from pinotpy.functions.scalar.spec import MANY, Bound, Example, Operand, ScalarFunction, Value, bind
from pinotpy.pql.ast import Dialect


def _bind_case(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    if len(operands) % 2 == 0:
        raise InvalidQueryError(
            f"expected conditions, as many values and one value for else in CASE, found {len(operands)} arguments"
        )
    whens = len(operands) // 2
    positions = range(whens * 2)
    conditions = list(positions[:whens] if dialect is Dialect.PQL else positions[::2])
    choices = [*(positions[whens:] if dialect is Dialect.PQL else positions[1::2]), whens * 2]
    for position in conditions:
        expect_condition(operands[position], "case")
    expect_single([operands[position] for position in choices], "case")
    data_type = _type_of_choices([operands[position] for position in choices], dialect)
    types = [operand.data_type for operand in operands]

    def evaluate(values: Sequence[Value]) -> pa.Array:
        count = length_of(values)
        result = spread(converted_present(values[choices[-1]], types[choices[-1]], data_type), count)
        for condition, choice in reversed(list(zip(conditions, choices[:-1], strict=True))):
            holds = pc.fill_null(spread(truths(values[condition], types[condition]), count), False)
            result = pc.if_else(holds, converted_present(values[choice], types[choice], data_type), result)
        return result

    return Bound(data_type, evaluate, handles_nulls=True)


def _type_of_choices(choices: Sequence[Operand], dialect: Dialect) -> DataType:
    texts = [choice for choice in choices if choice.literal is not None and choice.literal.is_string]
    others = [choice.data_type for choice in choices if choice.data_type not in (None, DataType.STRING)]
    if dialect is Dialect.PQL or not texts or not others:
        return common_type([choice.data_type for choice in choices], "case")
    # In SQL a quoted constant beside typed values must be one of them: CASE … THEN 'a' ELSE 1 END is refused.
    data_type = common_type([choice.data_type for choice in choices if choice not in texts], "case")
    for text in texts:
        try:
            converted(pa.scalar(text.literal.text if text.literal else ""), DataType.STRING, data_type)
        except QueryExecutionError as error:
            raise InvalidQueryError(f"Invalid literal: {text.name} for {data_type.value} in CASE: {error}") from error
    return data_type


def _bind_coalesce(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    expect_single(operands, "coalesce")
    types = [operand.data_type for operand in operands]
    data_type = common_type(types, "coalesce")

    def evaluate(values: Sequence[Value]) -> pa.Array:
        count = length_of(values)
        return pc.coalesce(
            *(
                spread(converted_present(value, source, data_type), count)
                for value, source in zip(values, types, strict=True)
            )
        )

    return Bound(data_type, evaluate, handles_nulls=True)


def _bind_nullif(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    expect_single(operands, "nullif")
    data_type = operands[0].data_type or DataType.STRING
    same = bind("equals", tuple(operands), dialect)

    def evaluate(values: Sequence[Value]) -> pa.Array:
        count = length_of(values)
        arrays = [spread(value, count) for value in values]
        both = pc.and_(arrays[0].is_valid(), arrays[1].is_valid())
        equal = same.evaluate([array.filter(both) for array in arrays]).cast(pa.bool_())
        where = pc.subtract(pc.cumulative_sum(both.cast(pa.int64())), 1)
        is_equal = pc.fill_null(equal.take(pc.if_else(both, where, pa.scalar(None, pa.int64()))), False)
        return pc.if_else(is_equal, pa.scalar(None, arrays[0].type), arrays[0])

    return Bound(data_type, evaluate, handles_nulls=True)


FUNCTIONS = (
    ScalarFunction(
        "case",
        "CASE(condition, …, value, …, else)",
        "The value of the first condition that holds, else the last. In SQL: CASE WHEN condition THEN value … ELSE "
        "value END.",
        _bind_case,
        (Example("CASE WHEN i > 5 THEN 'many' ELSE 'few' END", "many"), Example("CASE WHEN b THEN i ELSE d END", 7.0)),
        3,
        MANY,
    ),
    ScalarFunction(
        "coalesce",
        "COALESCE(x, y, …)",
        "The first value that is not null.",
        _bind_coalesce,
        (Example("coalesce(i, 1.5)", 7.0),),
        1,
        MANY,
    ),
    ScalarFunction(
        "nullif",
        "NULLIF(x, y)",
        "null where x equals y, else x.",
        _bind_nullif,
        (Example("nullif(i, 8)", 7), Example("nullif(i, 7)", None)),
        2,
        2,
    ),
)
