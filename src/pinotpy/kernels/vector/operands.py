"""What instructions on value registers have in common: where their operands come from, and the loops over them.

A binary instruction takes its operands as registers or constants:

    A0 out   A1 left   A2 right   A3 operation
    A4 form: FORM_REGISTERS, FORM_RIGHT (A2 is a constant) or FORM_LEFT (A1 is one; not of operations that commute, nor
       of comparisons)

Constants are 64-bit words: an integer, or the bits of a double. Every operation has loops of its own: given as an
argument it would compile as well, but could not be cached.
"""

from __future__ import annotations

from typing import Any, Final

from pinotpy.kernels.runtime.abi import inner

FORM_REGISTERS: Final = 0
FORM_RIGHT: Final = 1
FORM_LEFT: Final = 2
FORM_CONSTANTS: Final = 3  # of choices only


def sketch_with(operation: Any) -> Any:
    """out[i] = operation(left[i], right[i])"""

    @inner
    def run(out: Any, left: Any, right: Any) -> None:
        for i in range(len(out)):
            out[i] = operation(left[i], right[i])

    return run


def right_with(operation: Any) -> Any:
    """out[i] = operation(left[i], constant)"""

    @inner
    def run(out: Any, left: Any, constant: Any) -> None:
        for i in range(len(out)):
            out[i] = operation(left[i], constant)

    return run


def left_with(operation: Any) -> Any:
    """out[i] = operation(constant, right[i])"""

    @inner
    def run(out: Any, constant: Any, right: Any) -> None:
        for i in range(len(out)):
            out[i] = operation(constant, right[i])

    return run


def commuting(operation: Any) -> Any:
    """Loops for operations whose operands may change places, so that the planner puts a constant on the right:
    FORM_REGISTERS and FORM_RIGHT.
    """
    registers, right_constant = sketch_with(operation), right_with(operation)

    @inner
    def run(out: Any, left: Any, right: Any, _a: Any, b: Any, form: int) -> None:
        if form == FORM_REGISTERS:
            registers(out, left, right)
        else:
            right_constant(out, left, b)

    return run


def forms_of(operation: Any) -> Any:
    """Loops for all three forms."""
    registers, right_constant, left_constant = sketch_with(operation), right_with(operation), left_with(operation)

    @inner
    def run(out: Any, left: Any, right: Any, a: Any, b: Any, form: int) -> None:
        if form == FORM_REGISTERS:
            registers(out, left, right)
        elif form == FORM_RIGHT:
            right_constant(out, left, b)
        else:
            left_constant(out, a, right)

    return run


def map_with(operation: Any) -> Any:
    """out[i] = operation(values[i])"""

    @inner
    def run(out: Any, values: Any) -> None:
        for i in range(len(out)):
            out[i] = operation(values[i])

    return run


@inner
def operand(args: Any, place: int, is_constant: bool) -> Any:
    """Register of an operand: of a constant register 0, which is not read."""
    return 0 if is_constant else args[place]
