"""The operations of an expression that kernels compute, on vectors (vectors.py).

`VectorOps` emits instructions of kernels (arithmetic, conversions, conditions, choice; fused programs of arithmetic as
one) into a `Target`: the select section of a shape, the program of a filter predicate, or nothing at all (to find out
whether an expression can be computed so, and in how many registers). What block expressions do not know raises
`Unsupported`; such expressions are computed on Arrow arrays (interpreter.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.data_types import DataType
from pinotpy.errors import PinotError
from pinotpy.functions.arguments import doubles
from pinotpy.functions.scalar.conversions import converted
from pinotpy.kernels.vector import (
    arithmetic,
    boolean,
    comparisons,
    conversions,
    fused_program,
    mixed_comparisons,
    operands,
)
from pinotpy.query.expression.fusion import Constant, binary_steps, comparing_steps, unary_step
from pinotpy.query.expression.vector_registers import VectorRegisters
from pinotpy.query.expression.vectors import (
    ALWAYS,
    INTEGERS,
    NEVER,
    Kind,
    Unsupported,
    Vector,
    constant_word,
    kind_of,
    word_of,
)
from pinotpy.query.runtime.instructions import Word


class VectorOps(VectorRegisters):
    """Operations on vectors; each gives a new vector and frees the registers of those that it took."""

    # --- types -------------------------------------------------------------------------------------------------------

    def as_double(self, vector: Vector) -> Vector:
        """Values as DOUBLE, as functions.arguments.doubles."""
        if vector.kind is Kind.DOUBLE:
            return vector
        if vector.is_constant:
            return self._constant_as(vector, Kind.DOUBLE, lambda value: doubles(value, vector.data_type))
        if vector.fused is not None:
            return Vector(
                Kind.DOUBLE, DataType.DOUBLE, nulls=vector.nulls, owned_nulls=vector.owned_nulls, fused=vector.fused
            )
        whole = self.as_long_word(vector)
        return self._made(
            Kind.DOUBLE,
            DataType.DOUBLE,
            [whole],
            conversions.convert.address,
            whole.register,
            conversions.LONG_TO_DOUBLE,
        )

    def as_long_word(self, vector: Vector) -> Vector:
        """Flags as 0 and 1 in 64 bits; others as they are."""
        if vector.kind is not Kind.FLAGS or vector.is_constant:
            return vector
        assert vector.data_type is not None
        return self._made(Kind.LONG, vector.data_type, [vector], boolean.widen_flags.address, vector.register)

    def as_long(self, vector: Vector) -> Vector:
        """Values as LONG, as functions.arguments.longs."""
        return self.as_type(vector, DataType.LONG)

    def as_type(self, vector: Vector, target: DataType) -> Vector:
        """Values as another type, as functions.scalar.conversions.converted; nulls stay."""
        if vector.data_type is target:
            return vector
        if vector.data_type is None:
            return Vector(kind_of(target), target, constant=0, nulls=ALWAYS)
        if vector.is_constant:
            return self._constant_as(
                vector, kind_of(target), lambda value: converted(value, vector.data_type, target), target
            )
        if target is DataType.DOUBLE:
            wide = self.as_double(vector)
            wide.data_type = target  # a FLOAT is in its register as a double already
            return wide
        if target is DataType.BOOLEAN:
            return self.truth(vector)
        if target is DataType.FLOAT:
            wide = self.as_double(vector)
            return self._made(
                Kind.DOUBLE, target, [wide], conversions.convert.address, wide.register, conversions.DOUBLE_TO_FLOAT
            )
        if target not in INTEGERS:
            raise Unsupported
        whole = self.as_long_word(vector)
        if whole.kind is Kind.DOUBLE:
            how = conversions.DOUBLE_TO_WRAPPED_INT if target is DataType.INT else conversions.DOUBLE_TO_LONG
            return self._made(Kind.LONG, target, [whole], conversions.convert.address, whole.register, how)
        if target is DataType.INT and whole.data_type in (DataType.LONG, DataType.TIMESTAMP):
            return self._made(
                Kind.LONG, target, [whole], conversions.convert.address, whole.register, conversions.LONG_TO_INT
            )
        whole.data_type = target
        return whole

    def _constant_as(
        self, vector: Vector, kind: Kind, convert: Callable[[pa.Scalar], Any], data_type: DataType = DataType.DOUBLE
    ) -> Vector:
        if vector.constant is None:
            raise Unsupported
        value = vector.constant
        scalar = (
            pa.scalar(value)
            if isinstance(value, str | bool | float)
            else pa.scalar(value, (vector.data_type or DataType.LONG).arrow)
        )
        try:
            converted = convert(scalar).as_py()
        except PinotError as error:  # the arrays know whether a row asks for it, and say it in their words
            raise Unsupported from error
        return Vector(kind, data_type, constant=converted, nulls=vector.nulls, owned_nulls=vector.owned_nulls)

    def truth(self, vector: Vector) -> Vector:
        """Values as a condition: numbers are true unless they are 0."""
        if vector.kind is Kind.FLAGS:
            return vector
        if vector.is_constant:
            value = self.as_double(vector)
            return Vector(Kind.FLAGS, DataType.BOOLEAN, constant=value.constant != 0.0, nulls=value.nulls)
        zero = Vector(vector.kind, vector.data_type, constant=0)
        if vector.kind is Kind.DOUBLE:
            # Not equal as IEEE has it: NaN is true.
            return self.invert(self.between(vector, 0.0, 0.0))
        return self.compare(comparisons.NOT_EQUAL, vector, zero)

    # --- operations --------------------------------------------------------------------------------------------------

    def binary(self, operation: int, left: Vector, right: Vector, data_type: DataType) -> Vector:
        """Two vectors of one kind, doubles or integers."""
        assert left.kind is right.kind and left.kind is not Kind.FLAGS
        assert not (left.is_constant and right.is_constant), "constants are folded"
        steps = binary_steps(operation) if left.kind is Kind.DOUBLE else None
        if steps is not None:
            return self._fused(self._joined(steps, left, right), data_type, [left, right])
        left, right = self.emitted(left), self.emitted(right)
        if left.is_constant and operation != arithmetic.REMAINDER:
            left, right = right, left
        function = arithmetic.binary_doubles if left.kind is Kind.DOUBLE else arithmetic.binary_longs
        return self._made(
            left.kind,
            data_type,
            [left, right],
            function.address,
            *_operands(left, right),
            operation,
            _form(left, right),
        )

    def unary(self, operation: int, vector: Vector, data_type: DataType) -> Vector:
        """An operation on doubles."""
        assert vector.kind is Kind.DOUBLE and not vector.is_constant
        step = unary_step(operation)
        if step is not None:
            return self._fused(self._fitting(vector).then(step), data_type, [vector])
        vector = self.emitted(vector)
        return self._made(
            Kind.DOUBLE, data_type, [vector], arithmetic.unary_doubles.address, vector.register, operation
        )

    def convert(self, conversion: int, vector: Vector, kind: Kind, data_type: DataType) -> Vector:
        assert not vector.is_constant
        return self._made(kind, data_type, [vector], conversions.convert.address, vector.register, conversion)

    def time(self, operation: int, vector: Vector, size: int) -> Vector:
        """An operation on times, i64."""
        assert vector.kind is Kind.LONG and not vector.is_constant
        return self._made(
            Kind.LONG, DataType.LONG, [vector], conversions.time_longs.address, vector.register, operation, size
        )

    def compare(self, comparison: int, left: Vector, right: Vector) -> Vector:
        """Flags of a comparison of two vectors of one kind."""
        assert left.kind is right.kind and left.kind is not Kind.FLAGS
        assert not (left.is_constant and right.is_constant), "constants are folded"
        if left.fused is not None or right.fused is not None:
            if left.kind is Kind.DOUBLE:
                return self._written(self._joined(comparing_steps(comparison), left, right), [left, right])
            left, right = self.emitted(left), self.emitted(right)
        if left.is_constant:
            left, right, comparison = right, left, SWAPPED[comparison]
        function = comparisons.compare_doubles if left.kind is Kind.DOUBLE else comparisons.compare_longs
        return self._made(
            Kind.FLAGS,
            DataType.BOOLEAN,
            [left, right],
            function.address,
            *_operands(left, right),
            comparison,
            _form(left, right),
        )

    def compare_mixed(self, comparison: int, left: Vector, right: Vector) -> Vector:
        """Flags of a comparison of 64-bit integers with doubles by value; neither is a constant."""
        if left.kind is Kind.DOUBLE:
            left, right, comparison = right, left, SWAPPED[comparison]
        assert left.kind is Kind.LONG and right.kind is Kind.DOUBLE
        left, right = self.emitted(left), self.emitted(right)
        function = mixed_comparisons.compare_long_double.address
        return self._made(
            Kind.FLAGS, DataType.BOOLEAN, [left, right], function, left.register, right.register, comparison
        )

    def between(self, vector: Vector, low: int | float, high: int | float) -> Vector:
        """Flags: low <= value <= high."""
        if vector.fused is not None and vector.kind is Kind.DOUBLE:
            bounds = Constant(word_of(low, Kind.DOUBLE), word_of(high, Kind.DOUBLE))
            return self._written(self._fitting(vector).then(fused_program.BETWEEN, bounds), [vector])
        vector = self.emitted(vector)
        function = comparisons.between_doubles if vector.kind is Kind.DOUBLE else comparisons.between_longs
        return self._made(
            Kind.FLAGS,
            DataType.BOOLEAN,
            [vector],
            function.address,
            vector.register,
            word_of(low, vector.kind),
            word_of(high, vector.kind),
        )

    def among(self, vector: Vector, members: NDArray[Any]) -> Vector:
        """Flags: the value is one of `members`, sorted, int64 or float64."""
        vector = self.emitted(vector)
        function = comparisons.among_doubles if vector.kind is Kind.DOUBLE else comparisons.among_longs
        values = np.ascontiguousarray(members, np.float64 if vector.kind is Kind.DOUBLE else np.int64)
        return self._made(
            Kind.FLAGS,
            DataType.BOOLEAN,
            [vector],
            function.address,
            vector.register,
            self.target.keep(values),
            len(values),
        )

    def invert(self, vector: Vector) -> Vector:
        """NOT: unknown stays unknown."""
        if vector.is_constant:
            return Vector(
                Kind.FLAGS,
                DataType.BOOLEAN,
                constant=not vector.constant,
                nulls=vector.nulls,
                owned_nulls=vector.owned_nulls,
            )
        return self._made(
            Kind.FLAGS,
            DataType.BOOLEAN,
            [vector],
            boolean.combine_flags.address,
            vector.register,
            vector.register,
            boolean.NOT,
        )

    def kleene(self, operation: int, left: Vector, right: Vector) -> Vector:
        """AND or OR of conditions in three-valued logic; `operation` is choice.AND or choice.OR."""
        deciding = operation == boolean.OR  # the truth value that decides alone
        for one, other in ((left, right), (right, left)):
            if one.is_constant and one.nulls != ALWAYS:
                if bool(one.constant) is deciding:
                    self.free(other)
                    return one
                return other
        left, right = self.materialized(left), self.materialized(right)
        if left.nulls == NEVER and right.nulls == NEVER:
            return self._made(
                Kind.FLAGS,
                DataType.BOOLEAN,
                [left, right],
                boolean.combine_flags.address,
                left.register,
                right.register,
                operation,
            )
        # Certainly the deciding value on either side, else unknown if either is unknown.
        truths = [self._certain(vector, deciding) for vector in (left, right)]
        decided = self.flags(boolean.OR, truths[0].register, truths[1].register)
        self.free(*truths)
        unknown = self._either_null(left, right)
        nulls = self.flags(boolean.AND_NOT, unknown, decided.register)
        self.target.release(unknown)
        truth = decided if deciding else self.flags(boolean.NOT, decided.register, decided.register)
        if not deciding:
            self.free(decided)
        self.free(left, right)
        return Vector(Kind.FLAGS, DataType.BOOLEAN, truth.register, nulls=nulls.register, owned=True, owned_nulls=True)

    def _certain(self, vector: Vector, wanted: bool) -> Vector:
        """Flags: known to be `wanted`."""
        truth = vector.register
        straight = self.flags(boolean.OR if wanted else boolean.NOT, truth, truth)
        if vector.nulls == NEVER:
            return straight
        certain = self.flags(boolean.AND_NOT, straight.register, vector.nulls)
        self.free(straight)
        return certain

    def _either_null(self, left: Vector, right: Vector) -> int:
        registers = [vector.nulls for vector in (left, right) if vector.nulls != NEVER]
        return self.flags(boolean.OR, registers[0], registers[-1]).register

    def holds(self, vector: Vector) -> Vector:
        """Flags: the condition is known to be true; never null."""
        if vector.nulls == ALWAYS or vector.is_constant:
            self.free(vector)
            return Vector(Kind.FLAGS, DataType.BOOLEAN, constant=vector.nulls != ALWAYS and bool(vector.constant))
        if vector.nulls == NEVER:
            return vector
        certain = self.flags(boolean.AND_NOT, vector.register, vector.nulls)
        self.free(vector)
        return certain

    def choose(self, condition: Vector, left: Vector, right: Vector) -> Vector:
        """left where the condition is known to be true, else right: vectors of one type."""
        certain = self.holds(condition)
        if certain.is_constant:
            kept, dropped = (left, right) if certain.constant else (right, left)
            self.free(dropped)
            return kept
        data_type = left.data_type
        assert data_type is not None
        flags = left.kind is Kind.FLAGS or right.kind is Kind.FLAGS
        if flags:
            left, right = self.materialized(self.truth(left)), self.materialized(self.truth(right))
        nulls = self._chosen_nulls(certain, left, right)
        if flags:
            chosen = self._made(
                Kind.FLAGS,
                data_type,
                [],
                boolean.choose_flags.address,
                left.register,
                right.register,
                certain.register,
                nulls=nulls,
            )
        else:
            form = operands.FORM_CONSTANTS if left.is_constant and right.is_constant else _form(left, right)
            chosen = self._made(
                left.kind,
                data_type,
                [],
                boolean.choose.address,
                *_operands(left, right),
                certain.register,
                form,
                nulls=nulls,
            )
        self.free(left, right, certain)
        return chosen

    def _chosen_nulls(self, certain: Vector, left: Vector, right: Vector) -> Vector:
        out = Vector(Kind.FLAGS, None)
        if left.nulls == right.nulls and left.nulls in (NEVER, ALWAYS):
            out.nulls = left.nulls
            return out
        sides = [self._null_register(vector) for vector in (left, right)]
        out.nulls, out.owned_nulls = self.target.allocate(), True
        self.target.emit(boolean.choose_flags.address, out.nulls, sides[0][0], sides[1][0], certain.register)
        for register, owned in sides:
            if owned:
                self.target.release(register)
        return out

    def _null_register(self, vector: Vector) -> tuple[int, bool]:
        if vector.nulls not in (NEVER, ALWAYS):
            return vector.nulls, False
        return self.constant_flags(vector.nulls == ALWAYS), True

    def materialized(self, vector: Vector) -> Vector:
        """Flags in a register, also of a constant; null flags too unless nothing is null."""
        if vector.is_constant:
            vector.register, vector.owned = self.constant_flags(bool(vector.constant) and vector.nulls != ALWAYS), True
        if vector.nulls == ALWAYS:
            vector.nulls, vector.owned_nulls = self.constant_flags(True), True
        return vector


SWAPPED: Final = {
    comparisons.EQUAL: comparisons.EQUAL,
    comparisons.NOT_EQUAL: comparisons.NOT_EQUAL,
    comparisons.LESS: comparisons.GREATER,
    comparisons.LESS_OR_EQUAL: comparisons.GREATER_OR_EQUAL,
    comparisons.GREATER: comparisons.LESS,
    comparisons.GREATER_OR_EQUAL: comparisons.LESS_OR_EQUAL,
}


def _operands(left: Vector, right: Vector) -> tuple[Word, Word]:
    operands = [constant_word(vector) if vector.is_constant else vector.register for vector in (left, right)]
    return operands[0], operands[1]


def _form(left: Vector, right: Vector) -> int:
    return (
        operands.FORM_LEFT
        if left.is_constant
        else operands.FORM_RIGHT
        if right.is_constant
        else operands.FORM_REGISTERS
    )
