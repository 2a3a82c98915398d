"""Expressions over columns, evaluated on whole arrays of docs: what is selected, sorted by, or compared beside a kernel.

The value of an expression is an Arrow array in the type that query.result_types gives it; null is null under null
handling and never otherwise. Arithmetic is DOUBLE, or BIG_DECIMAL where an operand of + − × ÷ is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Context, Decimal, DivisionByZero, InvalidOperation
from functools import reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.data_types import DataType
from pinotpy.decimals import decode_decimal, encode_decimal
from pinotpy.errors import InvalidQueryError, PinotError, QueryExecutionError
from pinotpy.pql.ast import Call, Dialect, Expression, Identifier, Literal
from pinotpy.pql.function_names import canonical_function
from pinotpy.query.context import ColumnRef, ExpressionPredicate, Predicate, QueryContext
from pinotpy.query.predicate import FixedMembers, FixedRange, Leg, Nothing, NullTest, TextTest, VarMembers, VarRange, typed_leg
from pinotpy.query.result_types import columns_by_name, result_type
from pinotpy.query.values import Docs, nulls_at, values_at
from pinotpy.segment.data_source import Segment

_DECIMAL = Context(prec=1000)


class Rows:
    """Docs of a segment on which expressions of a query are evaluated."""

    def __init__(self, context: QueryContext, segment: Segment, docs: Docs) -> None:
        self.context = context
        self.columns: Mapping[str, ColumnRef] = columns_by_name(context)
        self.segment = segment
        self.docs = docs
        self._read: dict[str, pa.Array] = {}

    def evaluate(self, expression: Expression) -> pa.Array:
        """Values of `expression`, shape (len(docs),).

        Raises: QueryExecutionError (200) for functions that do not exist and arguments that do not fit; InvalidQueryError (700)
            in SQL where the text alone shows it.
        """
        if isinstance(expression, Identifier):
            if expression.name not in self._read:
                column = self.segment.column(expression.name)
                self._read[expression.name] = values_at(column, self.docs, null_handling=self.context.null_handling)
            return self._read[expression.name]
        if isinstance(expression, Literal):
            return _literal(expression, len(self.docs))
        if isinstance(expression, Call):
            function = _FUNCTIONS.get(canonical_function(expression.name))
            if function is not None:
                return function(self, expression)
            if self.context.dialect is Dialect.SQL:
                raise InvalidQueryError(f"Unsupported function: {expression.name} with {len(expression.args)} arguments")
            raise QueryExecutionError(f"Unsupported function: {expression.name} with {len(expression.args)} parameters")
        raise QueryExecutionError("* is no value: name the columns")

    def type_of(self, expression: Expression) -> DataType | None:
        return result_type(expression, self.columns).data_type

    def is_null(self, expression: Expression) -> NDArray[np.bool_]:
        """Whether the expression has no value, by the null vectors of its columns, in both null modes."""
        if isinstance(expression, Identifier):
            found = nulls_at(self.segment.column(expression.name), self.docs)
            return np.zeros(len(self.docs), np.bool_) if found is None else found
        if isinstance(expression, Call):
            parts = [self.is_null(arg) for arg in expression.args]
            return reduce(np.logical_or, parts, np.zeros(len(self.docs), np.bool_))
        return np.full(len(self.docs), isinstance(expression, Literal) and expression.value is None)

    def doubles(self, expression: Expression) -> pa.Array:
        """Values as DOUBLE; raises QueryExecutionError for values that are no numbers."""
        values = self.evaluate(expression)
        data_type = self.type_of(expression)
        if data_type is DataType.BIG_DECIMAL:
            return pa.array([None if v is None else float(v) for v in _decimals(values)], pa.float64())
        # What the text alone shows is 700 in SQL; what only values show is 200, as everything in PQL.
        fault: type[PinotError] = InvalidQueryError if self.context.dialect is Dialect.SQL else QueryExecutionError
        if pa.types.is_list(values.type):
            raise fault("arithmetic needs single values: a multi-value column was found")
        try:
            return values.cast(pa.float64(), safe=False)  # a LONG beyond 2^53 is rounded, as everywhere in arithmetic
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise (fault if isinstance(expression, Literal) else QueryExecutionError)(f"arithmetic needs numbers: {error}") from error


def condition_mask(condition: Predicate | ExpressionPredicate, context: QueryContext, segment: Segment, docs: Docs, *, negated: bool) -> NDArray[np.uint8]:
    """1 where the condition is true of the doc (`negated`: where it is false); unknown is neither."""
    rows = Rows(context, segment, docs)
    truth = _predicate(rows, condition) if isinstance(condition, Predicate) else rows.evaluate(condition.expression)
    if truth.type != pa.bool_():
        truth = pc.not_equal(rows.doubles(condition.expression if isinstance(condition, ExpressionPredicate) else condition.lhs), 0.0)
    if negated:
        truth = pc.invert(truth)
    return np.asarray(pc.fill_null(truth, False).to_numpy(zero_copy_only=False), np.bool_).view(np.uint8)


def _literal(literal: Literal, count: int) -> pa.Array:
    value = literal.value
    if value is None:
        return pa.nulls(count, pa.string())
    if isinstance(value, (float, Decimal)):
        return pa.array(np.full(count, float(value)))
    if isinstance(value, bool):
        return pa.array(np.full(count, value))
    if isinstance(value, int):
        if -(2**31) <= value < 2**31:
            return pa.array(np.full(count, value, np.int32))
        return pa.array(np.full(count, value, np.int64)) if -(2**63) <= value < 2**63 else pa.array(np.full(count, float(value)))
    return pa.repeat(pa.scalar(literal.text, pa.string()), count)


# --- arithmetic -----------------------------------------------------------------------------------------------------


def _mod(left: Any, right: Any) -> pa.Array:
    # The remainder has the sign of the dividend, as in Java.
    mask = None
    if left.null_count or right.null_count:
        mask = np.asarray(pc.or_(left.is_null(), right.is_null()))
    with np.errstate(invalid="ignore", divide="ignore"):
        return pa.array(np.fmod(left.to_numpy(zero_copy_only=False), right.to_numpy(zero_copy_only=False)), mask=mask)


_DOUBLE_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {"plus": pc.add, "minus": pc.subtract, "times": pc.multiply, "divide": pc.divide, "mod": _mod}


def _arithmetic(rows: Rows, call: Call) -> pa.Array:
    operator = canonical_function(call.name)
    if len(call.args) < 2 or (len(call.args) > 2 and operator not in ("plus", "times")):
        raise QueryExecutionError(f"{call.name} takes two values, found {len(call.args)}")
    if rows.type_of(call) is DataType.BIG_DECIMAL:
        return _decimal_arithmetic(rows, call)
    literals = {arg: rows.doubles(arg) for arg in call.args if isinstance(arg, Literal)}  # their faults come first
    return reduce(_DOUBLE_OPERATORS[operator], [literals[arg] if isinstance(arg, Literal) else rows.doubles(arg) for arg in call.args])


def _decimals(values: pa.Array) -> list[Decimal | None]:
    if pa.types.is_binary(values.type):
        return [None if value is None else decode_decimal(value) for value in values.to_pylist()]
    return [None if value is None else Decimal(str(value)) for value in values.to_pylist()]


def _decimal_arithmetic(rows: Rows, call: Call) -> pa.Array:
    operator = _DECIMAL_OPERATORS[canonical_function(call.name)]
    operands = [_decimals(rows.evaluate(arg)) for arg in call.args]
    out: list[bytes | None] = []
    try:
        for row in zip(*operands, strict=True):
            present = [value for value in row if value is not None]
            out.append(None if len(present) < len(row) else encode_decimal(reduce(operator, present)))
    except DivisionByZero as error:
        raise QueryExecutionError("/ by zero") from error
    except (InvalidOperation, ValueError) as error:
        raise QueryExecutionError(f"{call.name} of BIG_DECIMAL failed: {error}") from error
    return pa.array(out, pa.binary())


def _divide_decimals(left: Decimal, right: Decimal) -> Decimal:
    # The quotient keeps the scale of the dividend, rounded half to even (reference: 0.1 / 4 = 0.0, -12.34 / 4 = -3.08).
    if right == 0:
        raise DivisionByZero("/ by zero")
    exponent = left.as_tuple().exponent
    assert isinstance(exponent, int)
    return _DECIMAL.divide(left, right).quantize(Decimal(1).scaleb(min(exponent, 0)), rounding="ROUND_HALF_EVEN", context=_DECIMAL)


_DECIMAL_OPERATORS: Final[dict[str, Callable[[Decimal, Decimal], Decimal]]] = {
    "plus": _DECIMAL.add,
    "minus": _DECIMAL.subtract,
    "times": _DECIMAL.multiply,
    "divide": _divide_decimals,
}


# --- conditions -----------------------------------------------------------------------------------------------------

_COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "equals": pc.equal,
    "not_equals": pc.not_equal,
    "greater_than": pc.greater,
    "greater_than_or_equal": pc.greater_equal,
    "less_than": pc.less,
    "less_than_or_equal": pc.less_equal,
}


def _comparison(rows: Rows, call: Call) -> pa.Array:
    left, right = rows.evaluate(call.args[0]), rows.evaluate(call.args[1])
    if pa.types.is_list(left.type) or pa.types.is_list(right.type):
        fault: type[PinotError] = InvalidQueryError if rows.context.dialect is Dialect.SQL else QueryExecutionError
        raise fault("comparison of columns needs single values: a multi-value column was found")
    if left.type != right.type or pa.types.is_boolean(left.type):
        left, right = _alike(rows, call, left, right)
    return _COMPARE[call.name](left, right)


def _alike(rows: Rows, call: Call, left: pa.Array, right: pa.Array) -> tuple[pa.Array, pa.Array]:
    types = [rows.type_of(arg) for arg in call.args]
    if DataType.BIG_DECIMAL in types:
        encoded = [pa.array([None if v is None else encode_decimal(v) for v in _decimals(side)], pa.binary()) for side in (left, right)]
        return encoded[0], encoded[1]
    if pa.types.is_integer(left.type) and pa.types.is_integer(right.type):
        return left.cast(pa.int64()), right.cast(pa.int64())
    if pa.types.is_boolean(left.type) and pa.types.is_boolean(right.type):
        return left.cast(pa.int32()), right.cast(pa.int32())
    if pa.types.is_string(left.type) and pa.types.is_string(right.type):
        return left, right
    return rows.doubles(call.args[0]), rows.doubles(call.args[1])


def _truth(rows: Rows, expression: Expression) -> pa.Array:
    values = rows.evaluate(expression)
    return values if values.type == pa.bool_() else pc.not_equal(rows.doubles(expression), 0.0)


def _null_test(rows: Rows, call: Call) -> pa.Array:
    found = rows.is_null(call.args[0])
    return pa.array(found if call.name == "is_null" else ~found)


def _truth_test(rows: Rows, call: Call) -> pa.Array:
    wanted = call.name.endswith("_true")
    same = pc.fill_null(pc.equal(_truth(rows, call.args[0]), wanted), False)
    return pc.invert(same) if "_not_" in call.name else same


def _predicate(rows: Rows, predicate: Predicate) -> pa.Array:
    """A predicate with literals over any expression, by the same typed tests as over columns."""
    found = result_type(predicate.lhs, rows.columns)
    data_type = found.data_type or DataType.STRING
    leg = typed_leg(
        Predicate(Identifier("$expression"), predicate.comparison, predicate.values, predicate.lower, predicate.upper, predicate.flags, predicate.escape),
        ColumnRef("$expression", data_type, found.single_value),
        rows.context.dialect,
    )
    if isinstance(leg.test, NullTest):
        nulls = rows.is_null(predicate.lhs)
        return pa.array(~nulls if leg.negated else nulls)
    values = rows.evaluate(predicate.lhs)
    passed = _passes(values, leg, data_type)
    return pc.invert(passed) if leg.negated else passed


def _passes(values: Any, leg: Leg, data_type: DataType) -> pa.Array:
    test = leg.test
    if isinstance(test, Nothing):
        return pc.if_else(values.is_null(), pa.scalar(None, pa.bool_()), False)
    if isinstance(test, TextTest):
        texts = values if pa.types.is_string(values.type) else values.cast(pa.string())
        return pc.match_substring_regex(texts, test.pattern.regex)
    if isinstance(test, FixedRange):
        plain = values.cast(pa.int64() if isinstance(test.low, int) else pa.float64())
        return pc.and_(pc.greater_equal(plain, test.low), pc.less_equal(plain, test.high))
    if isinstance(test, FixedMembers):
        return _keep_nulls(pc.is_in(values.cast(pa.from_numpy_dtype(test.values.dtype)), value_set=pa.array(test.values)), values)
    stored = values.cast(pa.binary()) if pa.types.is_string(values.type) else values
    if isinstance(test, VarRange):
        above = pc.greater_equal(stored, pa.scalar(test.low, pa.binary()))
        return above if test.end is None else pc.and_(above, pc.less(stored, pa.scalar(test.end, pa.binary())))
    assert isinstance(test, VarMembers)
    members = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(test.offsets) - 1, [None, pa.py_buffer(test.offsets), pa.py_buffer(test.data)])
    return _keep_nulls(pc.is_in(stored, value_set=members.cast(pa.binary())), values)


def _keep_nulls(found: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(values.is_null(), pa.scalar(None, pa.bool_()), found) if values.null_count else found


_FUNCTIONS: Final[dict[str, Callable[[Rows, Call], pa.Array]]] = {
    **dict.fromkeys(_DOUBLE_OPERATORS, _arithmetic),
    **dict.fromkeys(_COMPARE, _comparison),
    "and": lambda rows, call: reduce(pc.and_kleene, [_truth(rows, arg) for arg in call.args]),
    "or": lambda rows, call: reduce(pc.or_kleene, [_truth(rows, arg) for arg in call.args]),
    "not": lambda rows, call: pc.invert(_truth(rows, call.args[0])),
    **dict.fromkeys(("is_null", "is_not_null"), _null_test),
    **dict.fromkeys(("is_true", "is_not_true", "is_false", "is_not_false"), _truth_test),
}
