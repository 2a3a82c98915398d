"""Expressions compiled to instructions on value registers: the same values, types and nulls as interpreter.py gives,
bit for bit (tests/unit/query/expression/test_compiled_expressions.py), at the speed of memory.

What is known: numbers, booleans and timestamps, in columns of any encoding; arithmetic, LEAST and GREATEST, CASE,
COALESCE, casts between numbers, fixed units of time, comparisons and conditions (conditions.py). Everything else is
Unsupported, an expression with one such part as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Final

import pyarrow as pa

from pinotpy.data_types import DataType, FieldType, default_null_value
from pinotpy.errors import PinotError
from pinotpy.functions.scalar.date_trunc import calendar_unit
from pinotpy.functions.scalar.spec import find_scalar_function
from pinotpy.functions.scalar.time_units import NANOS, output_unit, time_unit
from pinotpy.functions.time.civil_time import FIXED_MS
from pinotpy.functions.time.time_zones import UTC, time_zone
from pinotpy.kernels.vector import arithmetic, boolean, conversions
from pinotpy.pql.ast import Call, Dialect, Expression, Identifier, Literal
from pinotpy.query.expression.conditions import condition
from pinotpy.query.expression.interpreter import Rows
from pinotpy.query.expression.vector_ops import VectorOps
from pinotpy.query.expression.vectors import ALWAYS, NEVER, Kind, Probe, Target, Unsupported, Vector
from pinotpy.query.model.context import QueryContext
from pinotpy.query.model.result_types import CONDITIONS, columns_in, is_constant, type_of_literal, types_of

_FIXED: Final = (DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE, DataType.BOOLEAN, DataType.TIMESTAMP)
_LONGS: Final = (DataType.INT, DataType.LONG, DataType.BOOLEAN, DataType.TIMESTAMP)
_NODES_MAX: Final = 200
Compile = Callable[["BlockCompiler", Call], Vector]


class BlockCompiler:
    """Compiles expressions of a query into a target."""

    def __init__(self, context: QueryContext, target: Target) -> None:
        self.context = context
        self.types = types_of(context)
        self.target = target
        self.ops = VectorOps(target)
        self._nodes = 0

    def value(self, expression: Expression) -> Vector:
        """Values of an expression, a condition as FLAGS; raises Unsupported, and what types of expressions raise."""
        return self.ops.emitted(self.operand(expression))

    def operand(self, expression: Expression) -> Vector:
        """The same for operations that know fused programs: columns are not read yet, and arithmetic is not emitted."""
        self._nodes += 1
        if self._nodes > _NODES_MAX:
            raise Unsupported
        if isinstance(expression, Identifier):
            return self._column(expression.name)
        if isinstance(expression, Literal):
            value = expression.value
            if value is None:
                return Vector(Kind.FLAGS, None, nulls=ALWAYS)
            if expression.is_string and expression.data_type is None:
                return Vector(Kind.LONG, DataType.STRING, constant=expression.text)
            data_type = type_of_literal(expression)
            if data_type not in (DataType.INT, DataType.LONG, DataType.DOUBLE, DataType.BOOLEAN) or isinstance(
                value, str
            ):
                raise Unsupported
            if data_type is DataType.DOUBLE:
                return Vector(Kind.DOUBLE, data_type, constant=float(value))
            return Vector(
                Kind.FLAGS if data_type is DataType.BOOLEAN else Kind.LONG,
                data_type,
                constant=value if isinstance(value, bool) else int(value),
            )
        if not isinstance(expression, Call) or not is_constant(expression):
            raise Unsupported
        if not columns_in(expression):
            return self._folded(expression)
        if expression.name in CONDITIONS:
            return condition(self, expression)
        bound = self.types.bound(expression)
        function = find_scalar_function(expression.name)
        compile_call = None if function is None or function.origin is not None else _FUNCTIONS.get(function.name)
        if compile_call is None or not bound.single_value or bound.data_type not in _FIXED:
            raise Unsupported
        vector = compile_call(self, expression)
        if vector.data_type is not bound.data_type:
            raise Unsupported
        if not self.context.null_handling and vector.nulls != NEVER:
            return self.without_null(self.ops.emitted(vector))  # also inside another function
        return vector

    def result(self, expression: Expression) -> Vector:
        """Values as operators see them: conditions are INT in PQL, and where nulls are not handled a function without a
        value gives 0; never FLAGS, never a constant of nulls. Arithmetic may not be emitted yet.
        """
        vector = self.operand(expression)
        kind = self.types.of(expression)
        if kind.data_type not in _FIXED or vector.data_type is None or isinstance(vector.constant, str):
            raise Unsupported
        if not self.context.null_handling and vector.nulls != NEVER:
            vector = self.without_null(self.ops.emitted(vector))  # a bare NULL
        if vector.kind is Kind.FLAGS:
            vector = self.ops.as_long_word(self.ops.materialized(vector))
        vector.data_type = kind.data_type
        return vector

    def without_null(self, vector: Vector, nothing: int | float = 0) -> Vector:
        """`nothing` in the place of null."""
        if vector.kind is Kind.FLAGS:
            return self.ops.holds(vector)
        constant = float(nothing) if vector.kind is Kind.DOUBLE else int(nothing)
        if vector.nulls == ALWAYS:
            self.ops.free(vector)
            return Vector(vector.kind, vector.data_type, constant=constant)
        absent = Vector(Kind.FLAGS, DataType.BOOLEAN, vector.nulls, owned=vector.owned_nulls)
        vector.nulls, vector.owned_nulls = NEVER, False
        return self.ops.choose(absent, Vector(vector.kind, vector.data_type, constant=constant), vector)

    def present(self, expression: Expression) -> Vector:
        """Values as they read without null handling, null where the row has none."""
        if isinstance(expression, Call):
            raise Unsupported  # null as null handling would see it
        vector = self.value(expression)
        nulls = self.target.fetch_nulls(expression.name) if isinstance(expression, Identifier) else None
        if nulls is not None:
            vector.nulls, vector.owned_nulls = nulls
        return vector

    def _column(self, name: str) -> Vector:
        column = self.types.columns[name]
        if not column.single_value or column.data_type not in _FIXED:
            raise Unsupported
        kind = Kind.LONG if column.data_type in _LONGS else Kind.DOUBLE
        return self.ops.column(
            name, kind, column.data_type, self.target.fetch_nulls(name) if self.context.null_handling else None
        )

    def _folded(self, call: Call) -> Vector:
        """A call without columns, computed once."""

        def nothing(name: str) -> pa.Array:
            raise AssertionError(f"no column is read here, found '{name}'")

        try:
            value = Rows(self.context, 1, nothing, nothing).value(call)
        except PinotError as error:  # perhaps no row is asked for it
            raise Unsupported from error
        folded = value.as_py() if isinstance(value, pa.Scalar) else value[0].as_py()
        data_type = DataType.BOOLEAN if call.name in CONDITIONS else self.types.of(call).data_type
        if folded is None or isinstance(folded, list) or data_type not in _FIXED:
            raise Unsupported
        return Vector(
            Kind.FLAGS if data_type is DataType.BOOLEAN else Kind.DOUBLE if isinstance(folded, float) else Kind.LONG,
            data_type,
            constant=folded,
        )


def probe(
    expression: Expression, context: QueryContext, has_nulls: Callable[[str], bool], *, registers: int, filters: bool
) -> Vector | None:
    """What `BlockCompiler.result` of this expression gives, without emitting it; None if blocks cannot compute it in so
    many registers.

    Raises: what types of expressions raise.
    """
    target = Probe(has_nulls, filters=filters)
    try:
        compiler = BlockCompiler(context, target)
        vector = compiler.ops.emitted(compiler.result(expression))
    except Unsupported:
        return None
    return vector if target.most <= registers else None


# --- arithmetic ------------------------------------------------------------------------------------------------------


def _arithmetic(operation: int) -> Compile:
    def run(compiler: BlockCompiler, call: Call) -> Vector:
        result = compiler.ops.as_double(compiler.operand(call.args[0]))
        for arg in call.args[1:]:
            right = compiler.ops.as_double(compiler.operand(arg))
            if result.is_constant and right.is_constant:
                raise Unsupported  # constants that only a long fused program brings together
            result = compiler.ops.binary(operation, result, right, DataType.DOUBLE)
        return result

    return run


def _unary(operation: int) -> Compile:
    def run(compiler: BlockCompiler, call: Call) -> Vector:
        vector = compiler.ops.as_double(compiler.operand(call.args[0]))
        if vector.is_constant:
            raise Unsupported
        return compiler.ops.unary(operation, vector, DataType.DOUBLE)

    return run


def _extreme(operation: int) -> Compile:
    def run(compiler: BlockCompiler, call: Call) -> Vector:
        data_type = compiler.types.bound(call).data_type
        if data_type is DataType.BOOLEAN or len(call.args) > 8:
            raise Unsupported
        ops = [compiler.ops.as_type(compiler.value(arg), data_type) for arg in call.args]
        if sum(vector.is_constant for vector in ops) > 1 or any(vector.nulls == ALWAYS for vector in ops):
            raise Unsupported
        return reduce(lambda one, other: compiler.ops.binary(operation, one, other, data_type), ops)

    return run


# --- one of several --------------------------------------------------------------------------------------------------


def _case(compiler: BlockCompiler, call: Call) -> Vector:
    args, whens = call.args, len(call.args) // 2
    in_order = compiler.context.dialect is Dialect.PQL
    conditions = args[:whens] if in_order else args[: whens * 2 : 2]
    choices = args[whens : whens * 2] if in_order else args[1 : whens * 2 : 2]
    data_type = compiler.types.bound(call).data_type
    chosen = compiler.ops.as_type(compiler.value(args[-1]), data_type)
    for when, then in reversed(list(zip(conditions, choices, strict=True))):
        holds = compiler.ops.truth(compiler.value(when))
        chosen = compiler.ops.choose(holds, compiler.ops.as_type(compiler.value(then), data_type), chosen)
    chosen.data_type = data_type
    return chosen


def _coalesce(compiler: BlockCompiler, call: Call) -> Vector:
    data_type = compiler.types.bound(call).data_type
    if len(call.args) > 8:
        raise Unsupported
    handles_nulls = compiler.context.null_handling
    ops = [
        compiler.ops.as_type(compiler.value(arg) if handles_nulls else compiler.present(arg), data_type)
        for arg in call.args
    ]
    chosen = ops[-1]
    for vector in reversed(ops[:-1]):
        if vector.nulls == NEVER:
            compiler.ops.free(chosen)
            chosen = vector
        elif vector.nulls == ALWAYS:
            compiler.ops.free(vector)
        else:
            # Flags of their own: the choice frees them, the vector still needs its nulls.
            present = compiler.ops.flags(boolean.NOT, vector.nulls, vector.nulls)
            chosen = compiler.ops.choose(present, vector, chosen)
    if not handles_nulls and chosen.nulls != NEVER:
        if data_type is DataType.BOOLEAN:
            raise Unsupported
        default = default_null_value(data_type, FieldType.DIMENSION)
        assert not isinstance(default, bytes)
        chosen = compiler.without_null(chosen, default)
    chosen.data_type = data_type
    return chosen


# --- casts -----------------------------------------------------------------------------------------------------------


def _cast(compiler: BlockCompiler, call: Call) -> Vector:
    target = compiler.types.bound(call).data_type
    vector = compiler.value(call.args[0])
    if vector.is_constant:
        raise Unsupported
    if compiler.context.dialect is Dialect.SQL and target is DataType.INT and vector.kind is Kind.DOUBLE:
        return compiler.ops.convert(conversions.DOUBLE_TO_INT, vector, Kind.LONG, target)
    converted = compiler.ops.as_type(vector, target)
    if converted.data_type is not target and converted.kind is Kind.FLAGS:
        converted.data_type = target
    return converted


# --- times -----------------------------------------------------------------------------------------------------------


def _constant(call: Call, place: int) -> str:
    arg = call.args[place]
    assert isinstance(arg, Literal), "checked when it was bound"
    return arg.text


def _time_argument(compiler: BlockCompiler, argument: Expression) -> Vector:
    vector = compiler.ops.as_long(compiler.value(argument))
    if vector.is_constant:
        raise Unsupported
    return vector


def _units(compiler: BlockCompiler, vector: Vector, source: str, target: str) -> Vector:
    if target not in NANOS:
        raise Unsupported  # weeks, months, years
    have, want = NANOS[source], NANOS[target]
    if have == want:
        return vector
    operation, size = (
        (conversions.SATURATED_MULTIPLY, have // want) if have > want else (conversions.TRUNCATE_DIVIDE, want // have)
    )
    return compiler.ops.time(operation, vector, size)


def _time_convert(compiler: BlockCompiler, call: Call) -> Vector:
    source, target = time_unit(_constant(call, 1), "TIMECONVERT"), output_unit(_constant(call, 2), "TIMECONVERT")
    converted = _units(compiler, _time_argument(compiler, call.args[0]), source, target)
    converted.data_type = DataType.LONG
    return converted


def _date_trunc(compiler: BlockCompiler, call: Call) -> Vector:
    unit, texts = (
        calendar_unit(_constant(call, 0), "datetrunc"),
        [_constant(call, place) for place in range(2, len(call.args))],
    )
    if unit not in FIXED_MS or unit == "WEEK" or (len(texts) > 1 and time_zone(texts[1]) is not UTC):
        raise Unsupported
    source = time_unit(texts[0], "DATETRUNC") if texts else "MILLISECONDS"
    target = output_unit(texts[2], "DATETRUNC") if len(texts) > 2 else source
    millis = _units(compiler, _time_argument(compiler, call.args[1]), source, "MILLISECONDS")
    truncated = _units(
        compiler, compiler.ops.time(conversions.FLOOR_UNIT, millis, FIXED_MS[unit]), "MILLISECONDS", target
    )
    truncated.data_type = compiler.types.bound(call).data_type
    return truncated


def _epoch(operation: int, size_ms: int) -> Compile:
    def run(compiler: BlockCompiler, call: Call) -> Vector:
        return compiler.ops.time(operation, _time_argument(compiler, call.args[0]), size_ms)

    return run


_EPOCH_UNITS: Final = {"seconds": 1_000, "minutes": 60_000, "hours": 3_600_000, "days": 86_400_000}
_FUNCTIONS: Final[dict[str, Compile]] = {
    "plus": _arithmetic(arithmetic.ADD),
    "minus": _arithmetic(arithmetic.SUBTRACT),
    "times": _arithmetic(arithmetic.MULTIPLY),
    "divide": _arithmetic(arithmetic.DIVIDE),
    "mod": _arithmetic(arithmetic.REMAINDER),
    "abs": _unary(arithmetic.ABSOLUTE),
    "negate": _unary(arithmetic.NEGATE),
    "sign": _unary(arithmetic.SIGN),
    "ceil": _unary(arithmetic.CEIL),
    "floor": _unary(arithmetic.FLOOR),
    "sqrt": _unary(arithmetic.SQUARE_ROOT),
    "least": _extreme(arithmetic.LEAST),
    "greatest": _extreme(arithmetic.GREATEST),
    "case": _case,
    "coalesce": _coalesce,
    "cast": _cast,
    "timeconvert": _time_convert,
    "datetrunc": _date_trunc,
    **{f"toepoch{unit}": _epoch(conversions.TRUNCATE_DIVIDE, size) for unit, size in _EPOCH_UNITS.items()},
    **{f"fromepoch{unit}": _epoch(conversions.SATURATED_MULTIPLY, size) for unit, size in _EPOCH_UNITS.items()},
}


def functions() -> Sequence[str]:
    """Names of the scalar functions that blocks compute."""
    return tuple(_FUNCTIONS)
