"""Typed views of memory at an address, and of one column's buffers from the addresses in its meta row (abi.M_*)."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic

from pinotpy.kernels.runtime.abi import M_MV_OFFSETS, M_NUM_DOCS, inner, pointer


@inner
def view_u8(address: int, count: int) -> Any:
    return carray(pointer(address, types.uint8), count)


@inner
def view_u16(address: int, count: int) -> Any:
    return carray(pointer(address, types.uint16), count)


@inner
def view_u32(address: int, count: int) -> Any:
    return carray(pointer(address, types.uint32), count)


@inner
def view_i32(address: int, count: int) -> Any:
    return carray(pointer(address, types.int32), count)


@inner
def view_i64(address: int, count: int) -> Any:
    return carray(pointer(address, types.int64), count)


@inner
def view_u64(address: int, count: int) -> Any:
    return carray(pointer(address, types.uint64), count)


@inner
def view_f32(address: int, count: int) -> Any:
    return carray(pointer(address, types.float32), count)


@inner
def view_f64(address: int, count: int) -> Any:
    return carray(pointer(address, types.float64), count)


@inner
def mv_offsets(meta: Any) -> Any:
    """Offsets of a multi-value column: uint32[num_docs + 1]; doc d has entries [offsets[d], offsets[d + 1])."""
    return carray(pointer(meta[M_MV_OFFSETS], types.uint32), meta[M_NUM_DOCS] + 1)


@intrinsic
def double_of_bits(typingctx: Any, bits: Any) -> Any:
    """The double with these 64 bits."""

    def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), codegen
