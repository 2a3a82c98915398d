"""Words and single bits as the CPU has instructions for them, which numba does not name."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def _reading(bits: int) -> Any:
    @intrinsic
    def read(typingctx: Any, address: Any) -> Any:
        """The unsigned number at an address that need not be aligned."""

        def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            number = ir.IntType(bits)
            loaded = builder.load(builder.inttoptr(arguments[0], number.as_pointer()), align=1)
            return loaded if bits == 64 else builder.zext(loaded, ir.IntType(64))

        return (types.uint64 if bits == 64 else types.int64)(types.int64), codegen

    return read


word_at = _reading(64)  # as uint64
u32_at = _reading(32)  # as int64, as is
u16_at = _reading(16)


@intrinsic
def lowest_bit(typingctx: Any, word: Any) -> Any:
    """Number of the lowest set bit of a uint64 that is not 0."""

    def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), codegen


@intrinsic
def num_bits(typingctx: Any, word: Any) -> Any:
    """Number of set bits of a uint64."""

    def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), codegen


@intrinsic
def bits_of_bytes(typingctx: Any, address: Any) -> Any:
    """64 bytes as 64 bits: bit k is set if byte k is not 0."""

    def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(ir.IntType(8), 64)
        loaded = builder.load(builder.inttoptr(arguments[0], vector.as_pointer()), align=1)
        return builder.bitcast(builder.icmp_unsigned("!=", loaded, ir.Constant(vector, [0] * 64)), ir.IntType(64))

    return types.uint64(types.int64), codegen
