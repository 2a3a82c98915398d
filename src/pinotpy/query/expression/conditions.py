"""Conditions inside block expressions: comparisons, logic with unknown, null tests, and predicates with literals as
WHERE reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final, Protocol

import numpy as np

from pinotpy.data_types import DataType
from pinotpy.functions.scalar.number_order import FLIPPED, beside, literal_beside
from pinotpy.kernels.vector import boolean, comparisons
from pinotpy.pql.ast import Call, Dialect, Expression, Identifier, Literal
from pinotpy.query.expression.vector_ops import VectorOps
from pinotpy.query.expression.vectors import ALWAYS, NEVER, Kind, Target, Unsupported, Vector
from pinotpy.query.model.conditions import FilterCompiler
from pinotpy.query.model.context import (
    And,
    ColumnRef,
    Constant,
    ExpressionPredicate,
    Filter,
    Not,
    Or,
    Predicate,
    QueryContext,
)
from pinotpy.query.model.predicate import FixedMembers, FixedRange, Nothing, NullTest, typed_predicate, with_truths
from pinotpy.query.model.result_types import PREDICATES, ExpressionTypes

_COMPARISONS: Final = {
    "equals": comparisons.EQUAL,
    "not_equals": comparisons.NOT_EQUAL,
    "less_than": comparisons.LESS,
    "less_than_or_equal": comparisons.LESS_OR_EQUAL,
    "greater_than": comparisons.GREATER,
    "greater_than_or_equal": comparisons.GREATER_OR_EQUAL,
}
_TRUTH_TESTS: Final = ("is_true", "is_not_true", "is_false", "is_not_false")


class Compiler(Protocol):
    """What conditions need of the compiler of the expressions in them (`block_expression.BlockCompiler`)."""

    context: QueryContext
    types: ExpressionTypes
    target: Target
    ops: VectorOps

    def value(self, expression: Expression) -> Vector: ...

    def operand(self, expression: Expression) -> Vector: ...

    def result(self, expression: Expression) -> Vector: ...


def condition(compiler: Compiler, call: Call) -> Vector:
    """The condition as FLAGS, null where it is unknown; raises Unsupported."""
    name, args = call.name, call.args
    if name in _COMPARISONS:
        return _comparison(compiler, call)
    if name in ("and", "or") and args:
        operation = boolean.AND if name == "and" else boolean.OR
        return reduce(
            lambda one, other: compiler.ops.kleene(operation, one, other), (_truth(compiler, arg) for arg in args)
        )
    if name == "not" and len(args) == 1:
        return compiler.ops.invert(_truth(compiler, args[0]))
    if name in ("is_null", "is_not_null") and len(args) == 1:
        missing = _is_null(compiler, args[0])
        return missing if name == "is_null" else compiler.ops.invert(missing)
    if name in _TRUTH_TESTS and len(args) == 1:
        truth = _truth(compiler, args[0])
        flags = compiler.ops.holds(truth if name.endswith("_true") else compiler.ops.invert(truth))
        return compiler.ops.invert(flags) if "_not_" in name else flags
    if name in PREDICATES:
        return _written(compiler, call)
    raise Unsupported


def filter_vector(compiler: Compiler, condition: Filter) -> Vector:
    """A compiled filter as FLAGS; raises Unsupported."""
    match condition:
        case And(children=children) | Or(children=children) if children:
            operation = boolean.AND if isinstance(condition, And) else boolean.OR
            return reduce(
                lambda one, other: compiler.ops.kleene(operation, one, other),
                (filter_vector(compiler, child) for child in children),
            )
        case Not(child=child):
            return compiler.ops.invert(filter_vector(compiler, child))
        case Constant(value=value):
            return Vector(Kind.FLAGS, DataType.BOOLEAN, constant=value)
        case ExpressionPredicate(expression=expression):
            return _truth(compiler, expression)
        case Predicate():
            return _predicate(compiler, condition)
    raise Unsupported


def _truth(compiler: Compiler, expression: Expression) -> Vector:
    vector = compiler.value(expression)
    if vector.data_type is None or isinstance(vector.constant, str):
        raise Unsupported
    return compiler.ops.truth(vector)


def _is_null(compiler: Compiler, expression: Expression) -> Vector:
    """By the null vectors of columns, in both null modes."""
    if isinstance(expression, Identifier):
        null_flags = compiler.target.fetch_nulls(expression.name)
        if null_flags is None:
            return _everywhere(compiler, False)
        return Vector(Kind.FLAGS, DataType.BOOLEAN, null_flags[0], owned=null_flags[1])
    if not compiler.context.null_handling:
        raise Unsupported  # as null handling would see it
    vector = compiler.value(expression)
    nulls, owned = vector.nulls, vector.owned_nulls
    vector.owned_nulls = False
    compiler.ops.free(vector)
    if nulls in (NEVER, ALWAYS):
        return _everywhere(compiler, nulls == ALWAYS)
    return Vector(Kind.FLAGS, DataType.BOOLEAN, nulls, owned=owned)


def _everywhere(compiler: Compiler, value: bool) -> Vector:
    """Flags of their own, no constant: whether blocks compute an expression must not depend on which segments have
    nulls.
    """
    return Vector(Kind.FLAGS, DataType.BOOLEAN, compiler.ops.constant_flags(value), owned=True)


# --- comparisons -----------------------------------------------------------------------------------------------------


def _comparison(compiler: Compiler, call: Call) -> Vector:
    if len(call.args) != 2:
        raise Unsupported
    types = [_type_of(compiler, arg) for arg in call.args]
    literals = [arg for arg in call.args if isinstance(arg, Literal)]
    if any(data_type is not None and (data_type.is_text or data_type is DataType.BYTES) for data_type in types):
        return _text_comparison(compiler, call, literals)
    if DataType.BIG_DECIMAL in types or None in types:
        raise Unsupported
    call = with_truths(call, types, compiler.context.dialect)
    beside_number = _beside_number(compiler, call, types)
    if beside_number is not None:
        return beside_number
    left, right = compiler.operand(call.args[0]), compiler.operand(call.args[1])
    if left.is_constant and right.is_constant:
        raise Unsupported
    ops, comparison = compiler.ops, _COMPARISONS[call.name]
    whole = left if left.kind is Kind.LONG else right
    if {left.kind, right.kind} == {Kind.LONG, Kind.DOUBLE} and whole.data_type in (DataType.LONG, DataType.TIMESTAMP):
        if left.is_constant or right.is_constant:
            raise Unsupported
        column = None if whole.fused is None else whole.fused.column
        if column is None or not compiler.target.within_doubles(column.name):
            return ops.compare_mixed(comparison, left, right)
    if left.kind is Kind.LONG and right.kind is Kind.LONG and DataType.BOOLEAN not in types:
        return ops.compare(comparison, left, right)
    return ops.compare(comparison, ops.as_double(left), ops.as_double(right))


def _beside_number(compiler: Compiler, call: Call, types: Sequence[DataType | None]) -> Vector | None:
    """Numbers beside a constant, by value (functions/scalar/number_order.py); None if it is no such comparison."""
    for name, this, other in ((call.name, 0, 1), (FLIPPED[call.name], 1, 0)):
        found_number = literal_beside(call.args[other], types[this], compiler.context.dialect)
        if found_number is None or types[this] is DataType.BOOLEAN or isinstance(call.args[this], Literal):
            continue
        number, data_type = found_number
        vector = compiler.operand(call.args[this])
        if vector.is_constant:
            raise Unsupported
        if vector.kind is Kind.FLAGS or (data_type is DataType.INT and isinstance(number, float)):
            vector, data_type = (
                compiler.ops.as_double(vector),
                DataType.DOUBLE,
            )  # which holds every INT, and is compared where the column lies
        side = beside(name, number, data_type)
        if isinstance(side, bool):
            raise Unsupported  # so it is of every value
        return compiler.ops.compare(_COMPARISONS[side[0]], vector, Vector(vector.kind, data_type, constant=side[1]))
    return None


def _type_of(compiler: Compiler, expression: Expression) -> DataType | None:
    data_type = compiler.types.of(expression)
    if not data_type.single_value:
        raise Unsupported
    return data_type.data_type


def _text_comparison(compiler: Compiler, call: Call, literals: list[Literal]) -> Vector:
    """A column of text beside a constant text is what WHERE compares; a number beside one, in PQL, is compared as
    numbers.
    """
    texts = [arg for arg in call.args if isinstance(arg, Identifier)]
    if len(literals) == 1 and literals[0].is_string and len(texts) == 1:
        data_type = compiler.types.columns[texts[0].name].data_type
        if data_type is DataType.STRING:
            return _written(compiler, call)
        if compiler.context.dialect is Dialect.PQL and data_type in (
            DataType.INT,
            DataType.LONG,
            DataType.FLOAT,
            DataType.DOUBLE,
        ):
            beside_number = _beside_number(compiler, call, [_type_of(compiler, arg) for arg in call.args])
            if beside_number is not None:
                return beside_number
    raise Unsupported


# --- predicates with literals ----------------------------------------------------------------------------------------


def _written(compiler: Compiler, call: Call) -> Vector:
    def type_of(name: str) -> DataType | None:
        column = compiler.types.columns.get(name)
        return None if column is None else column.data_type

    context = compiler.context
    compiled = FilterCompiler(context.dialect, type_of, null_handling=context.null_handling, as_value=True).compile(
        call
    )
    return (
        Vector(Kind.FLAGS, DataType.BOOLEAN, constant=True) if compiled is None else filter_vector(compiler, compiled)
    )


def _predicate(compiler: Compiler, predicate: Predicate) -> Vector:
    operand_type = compiler.types.of(predicate.lhs)
    if not operand_type.single_value or operand_type.data_type is None:
        raise Unsupported
    plain = Predicate(
        Identifier("$expression"),
        predicate.comparison,
        predicate.values,
        predicate.lower,
        predicate.upper,
        predicate.flags,
        predicate.escape,
    )
    typed = typed_predicate(plain, ColumnRef("$expression", operand_type.data_type), compiler.context.dialect)
    test = typed.test
    if isinstance(test, NullTest):
        missing = _is_null(compiler, predicate.lhs)
        return compiler.ops.invert(missing) if typed.negated else missing
    if isinstance(predicate.lhs, Identifier) and not operand_type.data_type.stored.is_fixed:
        return _column_predicate(compiler, predicate, predicate.lhs.name)
    vector = compiler.result(predicate.lhs)
    if vector.is_constant:
        raise Unsupported
    passed = _passed(compiler, vector, test)
    return compiler.ops.invert(passed) if typed.negated else passed


def _passed(compiler: Compiler, vector: Vector, test: object) -> Vector:
    if isinstance(test, FixedRange):
        if (vector.kind is Kind.LONG) is not isinstance(test.low, int):
            raise Unsupported
        return compiler.ops.between(vector, test.low, test.high)
    if isinstance(test, FixedMembers):
        members = test.values
        if (vector.kind is Kind.LONG) is not np.issubdtype(members.dtype, np.integer) or np.isnan(
            members.astype(np.float64)
        ).any():
            raise Unsupported
        return compiler.ops.among(vector, members)
    if isinstance(test, Nothing):
        nulls, owned = vector.nulls, vector.owned_nulls
        vector.owned_nulls = False
        compiler.ops.free(vector)
        return Vector(
            Kind.FLAGS,
            DataType.BOOLEAN,
            compiler.ops.constant_flags(False),
            nulls=nulls,
            owned=True,
            owned_nulls=owned,
        )
    raise Unsupported


def _column_predicate(compiler: Compiler, predicate: Predicate, name: str) -> Vector:
    """A predicate on a column of text: the predicates of filters answer it, from the dictionary where there is one."""
    register, owned = compiler.target.fetch_filter(predicate)
    vector = Vector(Kind.FLAGS, DataType.BOOLEAN, register, owned=owned)
    nulls = compiler.target.fetch_nulls(name) if compiler.context.null_handling else None
    if nulls is not None:
        vector.nulls, vector.owned_nulls = nulls
    return vector
