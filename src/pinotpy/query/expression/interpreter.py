"""Expressions over columns, evaluated on whole arrays: what is selected, sorted by, grouped by, aggregated or compared
beside a kernel.

Scalar functions come from functions/scalar; conditions are evaluated here, because null vectors and predicates with
literals decide them. The value of an expression is an Arrow array in the type that query.model.result_types gives it;
without null handling none is null but a bare NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.data_types import DataType, FieldType, default_null_value
from pinotpy.decimals import encode_decimal
from pinotpy.errors import InvalidQueryError, PinotError, QueryExecutionError
from pinotpy.functions.arguments import doubles, spread, texts
from pinotpy.functions.scalar.number_order import (
    COMPARE,
    FLIPPED,
    compared,
    compared_alike,
    compared_with,
    is_number_type,
    literal_beside,
)
from pinotpy.functions.scalar.spec import Value
from pinotpy.functions.scalar.spec import evaluate as evaluate_function
from pinotpy.functions.scalar.text_arguments import expect_batch
from pinotpy.functions.stopping import check_stopped
from pinotpy.pql.ast import Call, Dialect, Expression, Identifier, Literal
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
from pinotpy.query.model.predicate import (
    FixedMembers,
    FixedRange,
    Nothing,
    NullTest,
    TextTest,
    TypedPredicate,
    VarMembers,
    VarRange,
    typed_predicate,
    with_truths,
)
from pinotpy.query.model.result_types import CONDITIONS, PREDICATES, is_fixed, types_of

Read = Callable[[str], pa.Array]
Nulls = Callable[[str], "NDArray[np.bool_] | None"]


class Rows:
    """Rows on which expressions of a query are evaluated.

    Args:
        read: values of a column by name, shape (count,), in DataType.arrow (lists of it for multi-values).
        nulls: its null flags; None: nothing is null.
    """

    def __init__(self, context: QueryContext, count: int, read: Read, nulls: Nulls) -> None:
        self.context = context
        self.types = types_of(context)
        self.count = count
        self._read, self._nulls = read, nulls
        self._columns: dict[str, pa.Array] = {}

    def evaluate(self, expression: Expression) -> pa.Array:
        """Values of `expression`, shape (count,), in the Arrow form of its result type.

        Raises: QueryExecutionError (200) for functions that do not exist and arguments that do not fit;
            InvalidQueryError (700) in SQL where the text alone shows it.
        """
        values = spread(self.value(expression), self.count)
        if pa.types.is_boolean(values.type) and self.types.of(expression).data_type is DataType.INT:
            values = values.cast(pa.int32())  # a condition in PQL
        return values

    def value(self, expression: Expression) -> Value:
        """Like `evaluate`, with a pa.Scalar for a constant and BOOLEAN for a condition."""
        if isinstance(expression, Identifier):
            if expression.name not in self._columns:
                self._columns[expression.name] = self._read(expression.name)
            return self._columns[expression.name]
        if isinstance(expression, Literal):
            return literal_scalar(expression)
        if isinstance(expression, Call):
            condition = _CONDITIONS.get(expression.name)
            return self._call(expression) if condition is None else self._known(condition(self, expression))
        raise QueryExecutionError("* is no value: name the columns")

    def _call(self, call: Call) -> pa.Array:
        """A scalar function. Where nulls read as defaults, null vectors still decide COALESCE, a function without a
        value gives '', 0, 0.0 or false, also inside another, and a key that a MAP lacks the default null value of its
        type.
        """
        check_stopped()
        values = self._repeated(call) if self.count > 1 and is_fixed(call) else self.computed(call)
        if self.context.null_handling or not values.null_count:
            return values
        data_type = self.types.bound(call).data_type
        if call.name in ("coalesce", "item"):
            return pc.fill_null(values, pa.scalar(default_null_value(data_type, FieldType.DIMENSION)).cast(values.type))
        return _without_null(values, data_type)

    def _repeated(self, call: Call) -> pa.Array:
        """A call over constants alone, computed once however many rows show it."""
        once = Rows(self.context, 1, self._read, self._nulls).computed(call)
        expect_batch(once.nbytes * self.count)
        return once.take(pa.array(np.zeros(self.count, np.int64)))

    def computed(self, call: Call) -> pa.Array:
        """What a scalar function makes of its arguments, null where it has no value, in both null modes."""
        by_nulls = call.name == "coalesce" and not self.context.null_handling
        return evaluate_function(
            self.types.bound(call),
            [self._present(arg) if by_nulls else self.value(arg) for arg in call.args],
            self.count,
        )

    def _present(self, expression: Expression) -> Value:
        """Values as they read without null handling, null where the row has none."""
        values, missing = self.value(expression), self.is_null(expression)
        if not missing.any():
            return values
        return pc.if_else(pa.array(missing), pa.scalar(None, values.type), spread(values, self.count))

    def type_of(self, expression: Expression) -> DataType | None:
        return (
            DataType.BOOLEAN
            if isinstance(expression, Call) and expression.name in CONDITIONS
            else self.types.of(expression).data_type
        )

    def is_null(self, expression: Expression) -> NDArray[np.bool_]:
        """Whether the expression has no value, by the null vectors of its columns, in both null modes; a condition is
        unknown only where nulls are handled.
        """
        if isinstance(expression, Identifier):
            nulls = self._nulls(expression.name)
            return np.zeros(self.count, np.bool_) if nulls is None else nulls
        if isinstance(expression, Call) and (self.context.null_handling or expression.name not in CONDITIONS):
            missing: NDArray[np.bool_] = (
                spread(self._with_nulls().value(expression), self.count).is_null().to_numpy(zero_copy_only=False)
            )
            return missing
        return np.full(self.count, isinstance(expression, Literal) and expression.value is None)

    def _with_nulls(self) -> Rows:
        """The same rows as null handling sees them."""
        if self.context.null_handling:
            return self

        def read(name: str) -> pa.Array:
            values, null = self._read(name), self._nulls(name)
            return values if null is None else pc.if_else(pa.array(null), pa.scalar(None, values.type), values)

        return Rows(replace(self.context, null_handling=True), self.count, read, self._nulls)

    def truth(self, expression: Expression) -> pa.Array:
        """The expression as a condition, BOOLEAN with null for unknown: numbers are true unless they are 0."""
        values = spread(self.value(expression), self.count)
        return self._known(
            values
            if pa.types.is_boolean(values.type)
            else pc.not_equal(spread(self.doubles(expression), self.count), 0.0)
        )

    def _known(self, condition: pa.Array) -> pa.Array:
        """A condition, false where it is unknown unless nulls are handled: its negation is true there."""
        return condition if self.context.null_handling or not condition.null_count else pc.fill_null(condition, False)

    def doubles(self, expression: Expression) -> Value:
        """Values as DOUBLE; raises for values that are no numbers."""
        values = self.value(expression)
        # What the text alone shows is 700 in SQL; what only values show is 200, as everything in PQL.
        fault: type[PinotError] = InvalidQueryError if self.context.dialect is Dialect.SQL else QueryExecutionError
        if pa.types.is_list(values.type):
            raise fault("arithmetic needs single values: a multi-value column was found")
        try:
            return doubles(values, self.type_of(expression))
        except QueryExecutionError as error:
            raise (fault if isinstance(expression, Literal) else QueryExecutionError)(
                f"arithmetic needs numbers: {error}"
            ) from error

    def filter(self, condition: Filter) -> pa.Array:
        """Where a filter is true, false or (null) unknown."""
        match condition:
            case And(children=children):
                return reduce(pc.and_kleene, [self.filter(child) for child in children])
            case Or(children=children):
                return reduce(pc.or_kleene, [self.filter(child) for child in children])
            case Not(child=child):
                return pc.invert(self.filter(child))
            case Constant(value=value):
                return pa.array(np.full(self.count, value))
            case ExpressionPredicate(expression=expression):
                return self.truth(expression)
            case Predicate():
                return self._known(_predicate(self, condition))


def _without_null(values: pa.Array, data_type: DataType) -> pa.Array:
    """Where nothing is null, a function without a value gives '', 0, 0.0 or false (reference: CASE without ELSE)."""
    if pa.types.is_list(values.type):
        return pc.if_else(values.is_null(), pa.scalar([], values.type), values)
    if data_type is DataType.BIG_DECIMAL:
        return pc.fill_null(values, pa.scalar(encode_decimal(Decimal(0)), values.type))
    nothing = "" if pa.types.is_string(values.type) else b"" if pa.types.is_binary(values.type) else 0
    return pc.fill_null(
        values, pa.scalar(nothing, pa.int8()).cast(values.type) if nothing == 0 else pa.scalar(nothing, values.type)
    )


def value_rows(context: QueryContext, values: pa.Array) -> Rows:
    """Distinct values of the only column that an expression reads as rows, none of them null."""
    return Rows(context, len(values), lambda name: values, lambda name: None)


def condition_mask(condition: Predicate | ExpressionPredicate, rows: Rows, *, negated: bool) -> NDArray[np.uint8]:
    """1 where the condition is true of the row (`negated`: where it is false); unknown is neither."""
    truth = rows.filter(condition)
    if negated:
        truth = pc.invert(truth)
    return np.asarray(pc.fill_null(truth, False).to_numpy(zero_copy_only=False), np.bool_).view(np.uint8)


def literal_scalar(literal: Literal) -> pa.Scalar:
    """A constant in the Arrow form of its type."""
    value, data_type = literal.value, literal.data_type
    if value is None:
        return pa.scalar(None, pa.string())
    if data_type is DataType.BYTES:
        return pa.scalar(bytes.fromhex(literal.text), pa.binary())
    if data_type is DataType.BIG_DECIMAL:
        return pa.scalar(encode_decimal(Decimal(literal.text)), pa.binary())
    if data_type is not None:
        return pa.scalar(value, data_type.arrow)
    if isinstance(value, bool):
        return pa.scalar(value)
    if isinstance(value, (float, Decimal)):
        return pa.scalar(float(value))
    if isinstance(value, int):
        if -(2**63) <= value < 2**63:
            return pa.scalar(value, pa.int32() if -(2**31) <= value < 2**31 else pa.int64())
        return pa.scalar(encode_decimal(Decimal(value)), pa.binary())
    return pa.scalar(literal.text, pa.string())


# --- conditions -----------------------------------------------------------------------------------------------------


def _comparison(rows: Rows, call: Call) -> pa.Array:
    if len(call.args) != 2:
        raise QueryExecutionError(f"{call.name} compares two values, found {len(call.args)}")
    if _reads_literal(rows, call):
        return _written_predicate(rows, call)
    types = [rows.type_of(arg) for arg in call.args]
    call = with_truths(call, types, rows.context.dialect)
    left, right = rows.value(call.args[0]), rows.value(call.args[1])
    if pa.types.is_list(left.type) or pa.types.is_list(right.type):
        fault: type[PinotError] = InvalidQueryError if rows.context.dialect is Dialect.SQL else QueryExecutionError
        raise fault("comparison of columns needs single values: a multi-value column was found")
    types = [rows.type_of(arg) for arg in call.args]
    for name, this, other in ((call.name, 0, 1), (FLIPPED[call.name], 1, 0)):
        number = literal_beside(call.args[other], types[this], rows.context.dialect)
        if number is not None and not isinstance(call.args[this], Literal):
            return compared_with(name, spread((left, right)[this], rows.count), *number)
    if left.type == right.type and not pa.types.is_boolean(left.type):
        return compared_alike(call.name, spread(left, rows.count), spread(right, rows.count))
    for place, arg in enumerate(call.args):
        if not is_number_type(types[place]) and DataType.BIG_DECIMAL not in types:
            left, right = (rows.doubles(arg), right) if place == 0 else (left, rows.doubles(arg))
            types[place] = DataType.DOUBLE
    return compared(call.name, spread(left, rows.count), types[0], spread(right, rows.count), types[1])


def _reads_literal(rows: Rows, call: Call) -> bool:
    """Whether a literal is read as the other side's type, as in WHERE: b = 'true', ts > '2001-01-01'. PQL's functions
    compare numbers with text as numbers (recorded), so there it is so only for types that are no numbers.
    """
    literals = [arg for arg in call.args if isinstance(arg, Literal) and arg.value is not None]
    if len(literals) != 1:
        return False
    other = rows.type_of(next(arg for arg in call.args if arg is not literals[0]))
    if other is None or literals[0].is_string is other.is_text:
        return False
    return rows.context.dialect is Dialect.SQL or other in (DataType.BOOLEAN, DataType.BYTES, DataType.TIMESTAMP)


def _null_test(rows: Rows, call: Call) -> pa.Array:
    nulls = rows.is_null(call.args[0])
    return pa.array(nulls if call.name == "is_null" else ~nulls)


def _truth_test(rows: Rows, call: Call) -> pa.Array:
    wanted = call.name.endswith("_true")
    same = pc.fill_null(pc.equal(rows.truth(call.args[0]), wanted), False)
    return pc.invert(same) if "_not_" in call.name else same


def _written_predicate(rows: Rows, call: Call) -> pa.Array:
    """IN, BETWEEN, LIKE … as values: as WHERE reads them."""

    def type_of(name: str) -> DataType | None:
        column = rows.types.columns.get(name)
        return None if column is None else column.data_type

    compiled = FilterCompiler(
        rows.context.dialect, type_of, null_handling=rows.context.null_handling, as_value=True
    ).compile(call)
    return pa.array(np.ones(rows.count, np.bool_)) if compiled is None else rows.filter(compiled)


_CONDITIONS: Final[dict[str, Callable[[Rows, Call], pa.Array]]] = {
    **dict.fromkeys(COMPARE, _comparison),
    "and": lambda rows, call: reduce(pc.and_kleene, [rows.truth(arg) for arg in call.args]),
    "or": lambda rows, call: reduce(pc.or_kleene, [rows.truth(arg) for arg in call.args]),
    "not": lambda rows, call: pc.invert(rows.truth(call.args[0])),
    **dict.fromkeys(("is_null", "is_not_null"), _null_test),
    **dict.fromkeys(("is_true", "is_not_true", "is_false", "is_not_false"), _truth_test),
    **dict.fromkeys(PREDICATES, _written_predicate),
}


# --- predicates with literals ---------------------------------------------------------------------------------------


def _predicate(rows: Rows, predicate: Predicate) -> pa.Array:
    """A predicate with literals over any expression, by the same typed tests as over columns. Of a multi-value any
    value passes a positive test, all pass a negative one.
    """
    operand_type = rows.types.of(predicate.lhs)
    data_type, single_value = operand_type.data_type or DataType.STRING, operand_type.single_value
    typed = typed_predicate(
        Predicate(
            Identifier("$expression"),
            predicate.comparison,
            predicate.values,
            predicate.lower,
            predicate.upper,
            predicate.flags,
            predicate.escape,
        ),
        ColumnRef("$expression", data_type, single_value),
        rows.context.dialect,
    )
    if isinstance(typed.test, NullTest):
        nulls = rows.is_null(predicate.lhs)
        return pa.array(~nulls if typed.negated else nulls)
    values = rows.evaluate(predicate.lhs)
    passed = _passes(values, typed, data_type) if single_value else _any_passes(values, typed, data_type)
    return pc.invert(passed) if typed.negated else passed


def _any_passes(values: Any, typed: TypedPredicate, data_type: DataType) -> pa.Array:
    flat = _passes(values.flatten(), typed, data_type).to_numpy(zero_copy_only=False)
    # Not list_parent_indices: it counts what lies below null lists, which flatten leaves out.
    parents = np.repeat(
        np.arange(len(values)), pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    )
    passes = np.zeros(len(values), np.bool_)
    passes[parents[flat]] = True
    return pa.array(passes, mask=values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None)


def _passes(values: Any, typed: TypedPredicate, data_type: DataType) -> pa.Array:
    test = typed.test
    if isinstance(test, Nothing):
        return pc.if_else(values.is_null(), pa.scalar(None, pa.bool_()), False)
    if isinstance(test, TextTest):
        return pc.match_substring_regex(texts(values, data_type), test.pattern.regex)
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int32())
    if isinstance(test, FixedRange):
        plain = values.cast(pa.int64() if isinstance(test.low, int) else pa.float64())
        return pc.and_(pc.greater_equal(plain, test.low), pc.less_equal(plain, test.high))
    if isinstance(test, FixedMembers):
        if pa.types.is_floating(values.type):
            values = pc.add(values, pa.scalar(0, values.type))  # −0.0 is 0.0, also where bits are hashed
        return _keep_nulls(
            pc.is_in(values.cast(pa.from_numpy_dtype(test.values.dtype)), value_set=pa.array(test.values + 0)), values
        )
    stored = values.cast(pa.binary()) if pa.types.is_string(values.type) else values
    if isinstance(test, VarRange):
        above = pc.greater_equal(stored, pa.scalar(test.low, pa.binary()))
        return above if test.end is None else pc.and_(above, pc.less(stored, pa.scalar(test.end, pa.binary())))
    assert isinstance(test, VarMembers)
    members = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(test.offsets) - 1, [None, pa.py_buffer(test.offsets), pa.py_buffer(test.data)]
    )
    return _keep_nulls(pc.is_in(stored, value_set=members.cast(pa.binary())), values)


def _keep_nulls(computed: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(values.is_null(), pa.scalar(None, pa.bool_()), computed) if values.null_count else computed
