"""The operations of an expression that kernels compute, on lanes (vectors.py).

`Lanes` emits instructions of kernels (arithmetic, conversions, conditions, choice; chains of arithmetic as one) into a
`Target`: the select section of a shape, the program of a filter leg, or nothing at all (to find out whether an
expression can be computed so, and in how many registers). What block expressions do not know raises `Unsupported`; such
expressions are computed on Arrow arrays (interpreter.py).
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
from pinotpy.query.expression.vector_registers import LaneRegisters
from pinotpy.query.expression.vectors import (
    ALWAYS,
    INTEGERS,
    NEVER,
    Kind,
    Lane,
    Unsupported,
    constant_word,
    kind_of,
    word_of,
)
from pinotpy.query.runtime.instructions import Word


class Lanes(LaneRegisters):
    """Operations on lanes; each gives a new lane and frees the registers of those that it took."""

    # --- types -------------------------------------------------------------------------------------------------------

    def as_double(self, lane: Lane) -> Lane:
        """Values as DOUBLE, as functions.arguments.doubles."""
        if lane.kind is Kind.DOUBLE:
            return lane
        if lane.is_constant:
            return self._constant_as(lane, Kind.DOUBLE, lambda value: doubles(value, lane.data_type))
        if lane.chain is not None:
            return Lane(Kind.DOUBLE, DataType.DOUBLE, nulls=lane.nulls, owned_nulls=lane.owned_nulls, chain=lane.chain)
        whole = self.as_long_word(lane)
        return self._made(
            Kind.DOUBLE,
            DataType.DOUBLE,
            [whole],
            conversions.convert.address,
            whole.register,
            conversions.LONG_TO_DOUBLE,
        )

    def as_long_word(self, lane: Lane) -> Lane:
        """Flags as 0 and 1 in 64 bits; others as they are."""
        if lane.kind is not Kind.FLAGS or lane.is_constant:
            return lane
        assert lane.data_type is not None
        return self._made(Kind.LONG, lane.data_type, [lane], boolean.widen_flags.address, lane.register)

    def as_long(self, lane: Lane) -> Lane:
        """Values as LONG, as functions.arguments.longs."""
        return self.as_type(lane, DataType.LONG)

    def as_type(self, lane: Lane, target: DataType) -> Lane:
        """Values as another type, as functions.scalar.conversions.converted; nulls stay."""
        if lane.data_type is target:
            return lane
        if lane.data_type is None:
            return Lane(kind_of(target), target, constant=0, nulls=ALWAYS)
        if lane.is_constant:
            return self._constant_as(
                lane, kind_of(target), lambda value: converted(value, lane.data_type, target), target
            )
        if target is DataType.DOUBLE:
            wide = self.as_double(lane)
            wide.data_type = target  # a FLOAT is in its register as a double already
            return wide
        if target is DataType.BOOLEAN:
            return self.truth(lane)
        if target is DataType.FLOAT:
            wide = self.as_double(lane)
            return self._made(
                Kind.DOUBLE, target, [wide], conversions.convert.address, wide.register, conversions.DOUBLE_TO_FLOAT
            )
        if target not in INTEGERS:
            raise Unsupported
        whole = self.as_long_word(lane)
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
        self, lane: Lane, kind: Kind, convert: Callable[[pa.Scalar], Any], data_type: DataType = DataType.DOUBLE
    ) -> Lane:
        if lane.constant is None:
            raise Unsupported
        value = lane.constant
        scalar = (
            pa.scalar(value)
            if isinstance(value, str | bool | float)
            else pa.scalar(value, (lane.data_type or DataType.LONG).arrow)
        )
        try:
            found = convert(scalar).as_py()
        except PinotError as error:  # the arrays know whether a row asks for it, and say it in their words
            raise Unsupported from error
        return Lane(kind, data_type, constant=found, nulls=lane.nulls, owned_nulls=lane.owned_nulls)

    def truth(self, lane: Lane) -> Lane:
        """Values as a condition: numbers are true unless they are 0."""
        if lane.kind is Kind.FLAGS:
            return lane
        if lane.is_constant:
            value = self.as_double(lane)
            return Lane(Kind.FLAGS, DataType.BOOLEAN, constant=value.constant != 0.0, nulls=value.nulls)
        zero = Lane(lane.kind, lane.data_type, constant=0)
        if lane.kind is Kind.DOUBLE:
            # Not equal as IEEE has it: NaN is true.
            return self.invert(self.between(lane, 0.0, 0.0))
        return self.compare(comparisons.NOT_EQUAL, lane, zero)

    # --- operations --------------------------------------------------------------------------------------------------

    def binary(self, operation: int, left: Lane, right: Lane, data_type: DataType) -> Lane:
        """Two lanes of one kind, doubles or integers."""
        assert left.kind is right.kind and left.kind is not Kind.FLAGS
        assert not (left.is_constant and right.is_constant), "constants are folded"
        steps = binary_steps(operation) if left.kind is Kind.DOUBLE else None
        if steps is not None:
            return self._chained(self._joined(steps, left, right), data_type, [left, right])
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

    def unary(self, operation: int, lane: Lane, data_type: DataType) -> Lane:
        """An operation on doubles."""
        assert lane.kind is Kind.DOUBLE and not lane.is_constant
        step = unary_step(operation)
        if step is not None:
            return self._chained(self._fitting(lane).then(step), data_type, [lane])
        lane = self.emitted(lane)
        return self._made(Kind.DOUBLE, data_type, [lane], arithmetic.unary_doubles.address, lane.register, operation)

    def convert(self, conversion: int, lane: Lane, kind: Kind, data_type: DataType) -> Lane:
        assert not lane.is_constant
        return self._made(kind, data_type, [lane], conversions.convert.address, lane.register, conversion)

    def time(self, operation: int, lane: Lane, size: int) -> Lane:
        """An operation on times, i64."""
        assert lane.kind is Kind.LONG and not lane.is_constant
        return self._made(
            Kind.LONG, DataType.LONG, [lane], conversions.time_longs.address, lane.register, operation, size
        )

    def compare(self, comparison: int, left: Lane, right: Lane) -> Lane:
        """Flags of a comparison of two lanes of one kind."""
        assert left.kind is right.kind and left.kind is not Kind.FLAGS
        assert not (left.is_constant and right.is_constant), "constants are folded"
        if left.chain is not None or right.chain is not None:
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

    def compare_mixed(self, comparison: int, left: Lane, right: Lane) -> Lane:
        """Flags of a comparison of 64-bit integers with doubles by value; neither is a constant."""
        if left.kind is Kind.DOUBLE:
            left, right, comparison = right, left, SWAPPED[comparison]
        assert left.kind is Kind.LONG and right.kind is Kind.DOUBLE
        left, right = self.emitted(left), self.emitted(right)
        function = mixed_comparisons.compare_long_double.address
        return self._made(
            Kind.FLAGS, DataType.BOOLEAN, [left, right], function, left.register, right.register, comparison
        )

    def between(self, lane: Lane, low: int | float, high: int | float) -> Lane:
        """Flags: low <= value <= high."""
        if lane.chain is not None and lane.kind is Kind.DOUBLE:
            bounds = Constant(word_of(low, Kind.DOUBLE), word_of(high, Kind.DOUBLE))
            return self._written(self._fitting(lane).then(fused_program.BETWEEN, bounds), [lane])
        lane = self.emitted(lane)
        function = comparisons.between_doubles if lane.kind is Kind.DOUBLE else comparisons.between_longs
        return self._made(
            Kind.FLAGS,
            DataType.BOOLEAN,
            [lane],
            function.address,
            lane.register,
            word_of(low, lane.kind),
            word_of(high, lane.kind),
        )

    def among(self, lane: Lane, members: NDArray[Any]) -> Lane:
        """Flags: the value is one of `members`, sorted, int64 or float64."""
        lane = self.emitted(lane)
        function = comparisons.among_doubles if lane.kind is Kind.DOUBLE else comparisons.among_longs
        kept = np.ascontiguousarray(members, np.float64 if lane.kind is Kind.DOUBLE else np.int64)
        return self._made(
            Kind.FLAGS, DataType.BOOLEAN, [lane], function.address, lane.register, self.target.keep(kept), len(kept)
        )

    def invert(self, lane: Lane) -> Lane:
        """NOT: unknown stays unknown."""
        if lane.is_constant:
            return Lane(
                Kind.FLAGS, DataType.BOOLEAN, constant=not lane.constant, nulls=lane.nulls, owned_nulls=lane.owned_nulls
            )
        return self._made(
            Kind.FLAGS,
            DataType.BOOLEAN,
            [lane],
            boolean.combine_flags.address,
            lane.register,
            lane.register,
            boolean.NOT,
        )

    def kleene(self, operation: int, left: Lane, right: Lane) -> Lane:
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
        truths = [self._certain(lane, deciding) for lane in (left, right)]
        decided = self.flags(boolean.OR, truths[0].register, truths[1].register)
        self.free(*truths)
        unknown = self._either_null(left, right)
        nulls = self.flags(boolean.AND_NOT, unknown, decided.register)
        self.target.release(unknown)
        truth = decided if deciding else self.flags(boolean.NOT, decided.register, decided.register)
        if not deciding:
            self.free(decided)
        self.free(left, right)
        return Lane(Kind.FLAGS, DataType.BOOLEAN, truth.register, nulls=nulls.register, owned=True, owned_nulls=True)

    def _certain(self, lane: Lane, wanted: bool) -> Lane:
        """Flags: known to be `wanted`."""
        truth = lane.register
        straight = self.flags(boolean.OR if wanted else boolean.NOT, truth, truth)
        if lane.nulls == NEVER:
            return straight
        found = self.flags(boolean.AND_NOT, straight.register, lane.nulls)
        self.free(straight)
        return found

    def _either_null(self, left: Lane, right: Lane) -> int:
        registers = [lane.nulls for lane in (left, right) if lane.nulls != NEVER]
        return self.flags(boolean.OR, registers[0], registers[-1]).register

    def holds(self, lane: Lane) -> Lane:
        """Flags: the condition is known to be true; never null."""
        if lane.nulls == ALWAYS or lane.is_constant:
            self.free(lane)
            return Lane(Kind.FLAGS, DataType.BOOLEAN, constant=lane.nulls != ALWAYS and bool(lane.constant))
        if lane.nulls == NEVER:
            return lane
        found = self.flags(boolean.AND_NOT, lane.register, lane.nulls)
        self.free(lane)
        return found

    def choose(self, condition: Lane, left: Lane, right: Lane) -> Lane:
        """left where the condition is known to be true, else right: lanes of one type."""
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
            found = self._made(
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
            found = self._made(
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
        return found

    def _chosen_nulls(self, certain: Lane, left: Lane, right: Lane) -> Lane:
        out = Lane(Kind.FLAGS, None)
        if left.nulls == right.nulls and left.nulls in (NEVER, ALWAYS):
            out.nulls = left.nulls
            return out
        sides = [self._null_register(lane) for lane in (left, right)]
        out.nulls, out.owned_nulls = self.target.allocate(), True
        self.target.emit(boolean.choose_flags.address, out.nulls, sides[0][0], sides[1][0], certain.register)
        for register, owned in sides:
            if owned:
                self.target.release(register)
        return out

    def _null_register(self, lane: Lane) -> tuple[int, bool]:
        if lane.nulls not in (NEVER, ALWAYS):
            return lane.nulls, False
        return self.constant_flags(lane.nulls == ALWAYS), True

    def materialized(self, lane: Lane) -> Lane:
        """Flags in a register, also of a constant; null flags too unless nothing is null."""
        if lane.is_constant:
            lane.register, lane.owned = self.constant_flags(bool(lane.constant) and lane.nulls != ALWAYS), True
        if lane.nulls == ALWAYS:
            lane.nulls, lane.owned_nulls = self.constant_flags(True), True
        return lane


SWAPPED: Final = {
    comparisons.EQUAL: comparisons.EQUAL,
    comparisons.NOT_EQUAL: comparisons.NOT_EQUAL,
    comparisons.LESS: comparisons.GREATER,
    comparisons.LESS_OR_EQUAL: comparisons.GREATER_OR_EQUAL,
    comparisons.GREATER: comparisons.LESS,
    comparisons.GREATER_OR_EQUAL: comparisons.LESS_OR_EQUAL,
}


def _operands(left: Lane, right: Lane) -> tuple[Word, Word]:
    found = [constant_word(lane) if lane.is_constant else lane.register for lane in (left, right)]
    return found[0], found[1]


def _form(left: Lane, right: Lane) -> int:
    return (
        operands.FORM_LEFT
        if left.is_constant
        else operands.FORM_RIGHT
        if right.is_constant
        else operands.FORM_REGISTERS
    )
