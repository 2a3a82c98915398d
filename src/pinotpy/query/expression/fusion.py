"""Arithmetic on doubles on its way to one instruction: a fused program is put together operation by operation and
emitted when somebody needs its values (kernels/vector/fused_program.py, kernels/vector/fused_instruction.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, Union

import numpy as np
from numpy.typing import NDArray

from pinotpy.kernels.vector import arithmetic, comparisons, fetch, fused_instruction, fused_program
from pinotpy.query.runtime.instructions import Word

# Registers that a fused program may need at once; a longer one is cut in two.
OPERANDS_MAX: Final = 4
_STEPS_MAX: Final = fused_instruction.STEPS_MAX - 2  # and the one that writes, and the one that makes values canonical


class FusedTarget(Protocol):
    """Where instructions go; what vectors.Target says."""

    def allocate(self) -> int: ...

    def release(self, register: int) -> None: ...

    def emit(self, function: int, *args: Word) -> None: ...

    def holds(self, column: str) -> bool: ...

    def fetch(self, column: str) -> tuple[int, bool]: ...

    def meta(self, column: str) -> Word: ...

    def keep(self, array: NDArray[Any]) -> int: ...


@dataclass(frozen=True, slots=True)
class Column:
    """Values of a column, integers or doubles."""

    name: str
    is_long: bool


@dataclass(frozen=True, slots=True)
class Register:
    """Values that an instruction computed; owned: the fused program gives the register back."""

    number: int
    is_long: bool
    owned: bool


@dataclass(frozen=True, slots=True)
class Constant:
    """The bits of a double, of a BETWEEN of two."""

    word: int
    other: int = 0


@dataclass(frozen=True, slots=True)
class Slot:
    """What a step kept."""

    number: int


Source = Union[Column, Register, Constant, Slot]
_NOTHING: Final = Constant(0)

# Operations on two values: the step for (a, v) and, where the fused program is the right side, for (v, a).
_BINARY: Final = {
    arithmetic.ADD: (fused_program.ADD, fused_program.ADD),
    arithmetic.SUBTRACT: (fused_program.SUBTRACT, fused_program.SUBTRACT_FROM),
    arithmetic.MULTIPLY: (fused_program.MULTIPLY, fused_program.MULTIPLY),
    arithmetic.DIVIDE: (fused_program.DIVIDE, fused_program.DIVIDE_INTO),
}
_UNARY: Final = {
    arithmetic.ABSOLUTE: fused_program.ABSOLUTE,
    arithmetic.NEGATE: fused_program.NEGATE,
    arithmetic.FLOOR: fused_program.FLOOR,
    arithmetic.CEIL: fused_program.CEIL,
    arithmetic.SQUARE_ROOT: fused_program.SQUARE_ROOT,
}
_COMPARISONS: Final = {
    comparisons.EQUAL: (fused_program.EQUAL, fused_program.EQUAL),
    comparisons.NOT_EQUAL: (fused_program.NOT_EQUAL, fused_program.NOT_EQUAL),
    comparisons.LESS: (fused_program.LESS, fused_program.GREATER),
    comparisons.LESS_OR_EQUAL: (fused_program.LESS_OR_EQUAL, fused_program.GREATER_OR_EQUAL),
    comparisons.GREATER: (fused_program.GREATER, fused_program.LESS),
    comparisons.GREATER_OR_EQUAL: (fused_program.GREATER_OR_EQUAL, fused_program.LESS_OR_EQUAL),
}


@dataclass(frozen=True, slots=True)
class FusedProgram:
    """Steps, each a source and an operation of kernels.vector.fused_program; the first is SET. `slots`: so many are in
    use at once.
    """

    steps: tuple[tuple[Source, int], ...]
    slots: int = 0

    @property
    def is_leaf(self) -> bool:
        """Values as they are, no operation."""
        return len(self.steps) == 1

    @property
    def column(self) -> Column | None:
        """The column, if it is nothing else."""
        first = self.steps[0][0]
        return first if self.is_leaf and isinstance(first, Column) else None

    def operands(self) -> frozenset[Column | Register]:
        """What needs registers: columns, where blocks are not whole, and values that are in them."""
        return frozenset(source for source, _ in self.steps if isinstance(source, Column | Register))

    def then(self, operation: int, source: Source = _NOTHING) -> FusedProgram:
        """One step more."""
        return FusedProgram((*self.steps, (source, operation)), self.slots)

    def with_program(self, operations: tuple[int, int], other: FusedProgram) -> FusedProgram:
        """operations[0] of this and the other: at once if one is a leaf, else of what is kept of this one."""
        if other.is_leaf:
            return self.then(operations[0], other.steps[0][0])
        if self.is_leaf:
            return other.then(operations[1], self.steps[0][0])
        moved = tuple(
            (Slot(source.number + 1) if isinstance(source, Slot) else source, operation)
            for source, operation in other.steps
        )
        steps = (*self.steps, (Slot(0), fused_program.KEEP), *moved, (Slot(0), operations[1]))
        return FusedProgram(steps, max(self.slots, other.slots + 1))

    def fits(self) -> bool:
        """One instruction can run it."""
        return (
            len(self.steps) <= _STEPS_MAX
            and len(self.operands()) <= OPERANDS_MAX
            and self.slots <= fused_instruction.KEPT_MAX
        )


def leaf(source: Column | Register) -> FusedProgram:
    """The fused program that gives values as they are."""
    return FusedProgram(((source, fused_program.SET),))


def unary_step(operation: int) -> int | None:
    """The step of a unary operation of arithmetic.py; None: there is none."""
    return _UNARY.get(operation)


def binary_steps(operation: int) -> tuple[int, int] | None:
    """The steps of a binary operation of arithmetic.py: (fused program, operand) and (operand, fused program); None:
    there are none.
    """
    return _BINARY.get(operation)


def comparing_steps(comparison: int) -> tuple[int, int]:
    """The steps of a comparison of conditions.py."""
    return _COMPARISONS[comparison]


def emit_program(fused: FusedProgram, target: FusedTarget) -> int:
    """Emit the instructions of a fused program that ends with a step that writes; gives the register of the outcome,
    which the caller owns. Registers of operands are given back.
    """
    places: dict[Column | Register, tuple[int, int]] = {}  # source of the planned step, operand
    columns: list[Word] = []
    done: list[int] = []
    for source in sorted(fused.operands(), key=repr):
        if isinstance(source, Column):
            if not target.holds(source.name):
                register = target.allocate()
                meta = target.meta(source.name)
                target.emit(fetch.fetch_unless_in_a_row.address, register, meta, 0)
                places[source] = fused_instruction.COLUMN, len(columns) // 2
                columns += [meta, register]
                done.append(register)
                continue
            number, owned = target.fetch(source.name)
        else:
            number, owned = source.number, source.owned
        places[source] = (
            fused_instruction.LONG_REGISTER if source.is_long else fused_instruction.DOUBLE_REGISTER,
            number,
        )
        if owned:
            done.append(number)
    rows = [_row(source, operation, places) for source, operation in fused.steps]
    steps = target.keep(np.array(rows, np.int64))
    out = target.allocate()
    target.emit(fused_instruction.fused_doubles.address, out, steps, len(rows), len(columns) // 2, *columns)
    for register in done:
        target.release(register)
    return out


def _row(source: Source, operation: int, places: dict[Column | Register, tuple[int, int]]) -> Sequence[int]:
    if isinstance(source, Constant):
        return fused_program.CONSTANT, operation, source.word, source.other
    if isinstance(source, Slot):
        return fused_program.KEPT, operation, source.number, 0
    kind, operand = places[source]
    return kind, operation, operand, 0
