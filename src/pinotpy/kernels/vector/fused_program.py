"""Fused programs: several steps of arithmetic on doubles in one pass, without registers of a block between them.

A fused program is a list of **steps** on an accumulator, which holds the values of CHUNK docs in registers of the CPU:
each takes an operand (a column as it lies on disk, a value register, a constant, or what was kept) and does one
operation. The steps are data, read by one loop that was compiled once: which step comes next costs a few cycles for
CHUNK docs. Columns are read once, where they lie, and what is between two operations never sees memory. Every operation
rounds as its instruction in arithmetic.py does.

    step: int64[STEP_WORDS] = source, operation, operand (address, or the bits of a constant), other

`other` is the integer that ids and integers are read with (added to each), of BETWEEN the bits of the upper bound. The
last step writes: STORE the values, a comparison the flags, a byte a doc, or with AS_BITS added to its number a bit a
doc. The block function around this loop: fused_instruction.py; the predicate of a filter: filter/bitmap_arithmetic.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pinotpy.kernels.runtime.prefetch import AHEAD_OF_SEVERAL_BYTES, LINE_BYTES, TO_FIRST_CACHE
from pinotpy.kernels.runtime.selection import HAS_AVX512

# Docs of an accumulator: eight vector registers, as many as the latency of an addition needs.
CHUNK: Final = 64 if HAS_AVX512 else 32
STEP_WORDS: Final = 4
_STEP_BYTES: Final = STEP_WORDS * 8

# Sources: where the operand of a step comes from.
CONSTANT: Final = 0  # the bits of a double
KEPT: Final = 1  # double[CHUNK] at the operand, the same for every chunk
DOUBLES: Final = 2
FLOATS: Final = 3
LONGS: Final = 4  # from here on integers: with the added one they become doubles
INTS: Final = 5
IDS_1: Final = 6  # unsigned, of one, two or four bytes
IDS_2: Final = 7
IDS_4: Final = 8

# Operations on the accumulator a and the operand v.
SET: Final = 0
ADD: Final = 1
SUBTRACT: Final = 2
SUBTRACT_FROM: Final = 3  # v - a
MULTIPLY: Final = 4
DIVIDE: Final = 5
DIVIDE_INTO: Final = 6  # v / a
KEEP: Final = 7  # a → v, whose source is KEPT
ABSOLUTE: Final = 8
NEGATE: Final = 9
FLOOR: Final = 10
CEIL: Final = 11
SQUARE_ROOT: Final = 12
CANONICAL: Final = 13  # −0.0 is 0.0, and NaN one value
STORE: Final = 14
EQUAL: Final = 15  # flags from here on, as comparisons.py has them
NOT_EQUAL: Final = 16
LESS: Final = 17
LESS_OR_EQUAL: Final = 18
GREATER: Final = 19
GREATER_OR_EQUAL: Final = 20
BETWEEN: Final = 21  # v <= a <= the double of `other`
AS_BITS: Final = 8  # added to a comparison

_I1, _I8, _I32, _I64, _DOUBLE = ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.DoubleType()
_DOUBLES: Final = ir.VectorType(_DOUBLE, CHUNK)
_WORDS: Final = ir.VectorType(_I64, CHUNK)


def _spread(builder: Any, value: Any) -> Any:
    # The same value in every place.
    vector = ir.VectorType(value.type, CHUNK)
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(_I32, 0))
    return builder.shuffle_vector(
        one, ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(_I32, CHUNK), [0] * CHUNK)
    )


def _load(builder: Any, address: Any, element: Any) -> Any:
    return builder.load(builder.inttoptr(address, ir.VectorType(element, CHUNK).as_pointer()), align=1)


def _ask_ahead(builder: Any, address: Any, num_bytes: int) -> None:
    byte = _I8.as_pointer()
    name = "llvm.prefetch.p0"
    function = builder.module.globals.get(name) or ir.Function(
        builder.module, ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32]), name
    )
    for line in range(0, num_bytes, LINE_BYTES):
        ahead = builder.inttoptr(builder.add(address, ir.Constant(_I64, AHEAD_OF_SEVERAL_BYTES + line)), byte)
        builder.call(function, [ahead, ir.Constant(_I32, 0), ir.Constant(_I32, TO_FIRST_CACHE), ir.Constant(_I32, 1)])


def _stream(element: Any, num_bytes: int) -> Callable[[Any, Any, Any, Any], Any]:
    # Values in a row: doubles, or integers to which `added` is added.
    def read(builder: Any, operand: Any, chunk: Any, added: Any) -> Any:
        address = builder.add(operand, builder.mul(chunk, ir.Constant(_I64, CHUNK * num_bytes)))
        _ask_ahead(builder, address, CHUNK * num_bytes)
        values = _load(builder, address, element)
        if isinstance(element, ir.DoubleType):
            return values
        if isinstance(element, ir.FloatType):
            return builder.fpext(values, _DOUBLES)
        if num_bytes == 4 and added is None:
            return builder.sitofp(values, _DOUBLES)
        if num_bytes < 8:
            values = builder.zext(values, _WORDS)
        return builder.sitofp(builder.add(values, _spread(builder, added)), _DOUBLES)

    return read


def _constant(builder: Any, operand: Any, _chunk: Any, _added: Any) -> Any:
    return _spread(builder, builder.bitcast(operand, _DOUBLE))


def _kept(builder: Any, operand: Any, _chunk: Any, _added: Any) -> Any:
    return _load(builder, operand, _DOUBLE)


def _ints(builder: Any, operand: Any, chunk: Any, _added: Any) -> Any:
    return _stream(_I32, 4)(builder, operand, chunk, None)


_SOURCES: Final = {
    CONSTANT: _constant,
    KEPT: _kept,
    DOUBLES: _stream(_DOUBLE, 8),
    FLOATS: _stream(ir.FloatType(), 4),
    LONGS: _stream(_I64, 8),
    INTS: _ints,
    IDS_1: _stream(_I8, 1),
    IDS_2: _stream(ir.IntType(16), 2),
    IDS_4: _stream(_I32, 4),
}


def _of_vector(name: str) -> Callable[[Any, Any, Any], Any]:
    def run(builder: Any, a: Any, _v: Any) -> Any:
        full = f"llvm.{name}.v{CHUNK}f64"
        function = builder.module.globals.get(full) or ir.Function(
            builder.module, ir.FunctionType(_DOUBLES, [_DOUBLES]), full
        )
        return builder.call(function, [a])

    return run


def _canonical(builder: Any, a: Any, _v: Any) -> Any:
    zero, nan = ir.Constant(_DOUBLES, [0.0] * CHUNK), _spread(builder, ir.Constant(_DOUBLE, float("nan")))
    return builder.select(builder.fcmp_unordered("uno", a, a), nan, builder.fadd(a, zero))


def _equal(builder: Any, a: Any, v: Any, _other: Any) -> Any:
    both_nan = builder.and_(builder.fcmp_unordered("uno", a, a), builder.fcmp_unordered("uno", v, v))
    return builder.or_(builder.fcmp_ordered("==", a, v), both_nan)


def _compared(comparison: str) -> Callable[[Any, Any, Any, Any], Any]:
    return lambda builder, a, v, _other: builder.fcmp_ordered(comparison, a, v)


def _between(builder: Any, a: Any, v: Any, other: Any) -> Any:
    upper = _spread(builder, builder.bitcast(other, _DOUBLE))
    return builder.and_(builder.fcmp_ordered(">=", a, v), builder.fcmp_ordered("<=", a, upper))


# New accumulators.
_OPERATIONS: Final[dict[int, Callable[[Any, Any, Any], Any]]] = {
    SET: lambda _builder, _a, v: v,
    ADD: lambda builder, a, v: builder.fadd(a, v),
    SUBTRACT: lambda builder, a, v: builder.fsub(a, v),
    SUBTRACT_FROM: lambda builder, a, v: builder.fsub(v, a),
    MULTIPLY: lambda builder, a, v: builder.fmul(a, v),
    DIVIDE: lambda builder, a, v: builder.fdiv(a, v),
    DIVIDE_INTO: lambda builder, a, v: builder.fdiv(v, a),
    ABSOLUTE: _of_vector("fabs"),
    NEGATE: lambda builder, a, _v: builder.fneg(a),
    FLOOR: _of_vector("floor"),
    CEIL: _of_vector("ceil"),
    SQUARE_ROOT: _of_vector("sqrt"),
    CANONICAL: _canonical,
}
# Flags that are written.
_COMPARISONS: Final[dict[int, Callable[[Any, Any, Any, Any], Any]]] = {
    EQUAL: _equal,
    NOT_EQUAL: lambda builder, a, v, other: builder.not_(_equal(builder, a, v, other)),
    LESS: _compared("<"),
    LESS_OR_EQUAL: _compared("<="),
    GREATER: _compared(">"),
    GREATER_OR_EQUAL: _compared(">="),
    BETWEEN: _between,
}


@intrinsic
def run_steps(typingctx: Any, steps: Any, num_steps: Any, first_chunk: Any, end_chunk: Any, out: Any) -> Any:
    """Run int64[num_steps, STEP_WORDS] at address `steps` over chunks first_chunk .. end_chunk - 1; the last step
    writes to its place from address `out` on, double[CHUNK], uint8[CHUNK] or CHUNK bits a chunk.
    """

    def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        first_step, count, first_chunk, end_chunk, target = arguments
        zero, one = ir.Constant(_I64, 0), ir.Constant(_I64, 1)
        before = builder.block
        chunk_head, step_head, read_done, step_done, chunk_done, end = (
            builder.append_basic_block(f"chain.{name}")
            for name in ("chunk", "step", "read", "next_step", "next_chunk", "end")
        )
        builder.cbranch(builder.icmp_signed("<", first_chunk, end_chunk), chunk_head, end)

        builder.position_at_end(chunk_head)
        chunk = builder.phi(_I64, "chunk")
        chunk.add_incoming(first_chunk, before)
        builder.branch(step_head)

        builder.position_at_end(step_head)
        step, a = builder.phi(_I64, "step"), builder.phi(_DOUBLES, "a")
        step.add_incoming(zero, chunk_head)
        a.add_incoming(ir.Constant(_DOUBLES, ir.Undefined), chunk_head)
        row = builder.inttoptr(
            builder.add(first_step, builder.mul(step, ir.Constant(_I64, _STEP_BYTES))), _I64.as_pointer()
        )
        source, operation, operand, other = (
            builder.load(builder.gep(row, [ir.Constant(_I64, k)])) for k in range(STEP_WORDS)
        )
        sources = builder.switch(source, end)

        builder.position_at_end(read_done)
        v = builder.phi(_DOUBLES, "v")
        operations = builder.switch(operation, end)

        for number, read in _SOURCES.items():
            block = builder.append_basic_block(f"chain.source_{number}")
            sources.add_case(ir.Constant(_I64, number), block)
            builder.position_at_end(block)
            v.add_incoming(read(builder, operand, chunk, other), builder.block)
            builder.branch(read_done)

        builder.position_at_end(step_done)
        new = builder.phi(_DOUBLES, "new")
        following = builder.add(step, one)
        step.add_incoming(following, step_done)
        a.add_incoming(new, step_done)
        builder.cbranch(builder.icmp_signed("<", following, count), step_head, chunk_done)

        for number, operate in _OPERATIONS.items():
            block = builder.append_basic_block(f"chain.operation_{number}")
            operations.add_case(ir.Constant(_I64, number), block)
            builder.position_at_end(block)
            new.add_incoming(operate(builder, a, v), builder.block)
            builder.branch(step_done)

        def writes(number: int, write: Callable[[], None]) -> None:
            block = builder.append_basic_block(f"chain.operation_{number}")
            operations.add_case(ir.Constant(_I64, number), block)
            builder.position_at_end(block)
            write()
            new.add_incoming(a, builder.block)
            builder.branch(step_done)

        def store(values: Any, address: Any) -> None:
            builder.store(values, builder.inttoptr(address, values.type.as_pointer()), align=1)

        def place(num_bits: int) -> Any:
            return builder.add(target, builder.mul(chunk, ir.Constant(_I64, CHUNK * num_bits // 8)))

        def flags(compare: Callable[[Any, Any, Any, Any], Any]) -> None:
            store(builder.zext(compare(builder, a, v, other), ir.VectorType(_I8, CHUNK)), place(8))

        def bits(compare: Callable[[Any, Any, Any, Any], Any]) -> None:
            store(builder.bitcast(compare(builder, a, v, other), ir.IntType(CHUNK)), place(1))

        writes(KEEP, lambda: store(a, operand))
        writes(STORE, lambda: store(a, place(64)))
        for number, compare in _COMPARISONS.items():
            writes(number, partial(flags, compare))
            writes(number + AS_BITS, partial(bits, compare))

        builder.position_at_end(chunk_done)
        next_chunk = builder.add(chunk, one)
        chunk.add_incoming(next_chunk, chunk_done)
        builder.cbranch(builder.icmp_signed("<", next_chunk, end_chunk), chunk_head, end)

        builder.position_at_end(end)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, types.int64, types.int64), codegen
