"""From a mask, of bytes or of bits, to the doc ids where it is set.

With AVX-512 sixteen lanes at a time (compress in a register, then one plain store: the store form of the instruction is
microcoded on some CPUs), elsewhere a branchless loop; chosen once by what the CPU can.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import carray, config, int32, int64, njit, types, uint64
from numba.extending import intrinsic

from pinotpy.kernels.runtime.abi import inner, pointer
from pinotpy.kernels.runtime.bits import lowest_bit, num_bits

_LANES = 16


def _has_avx512() -> bool:
    if config.CPU_NAME or config.CPU_FEATURES:
        return "+avx512f" in (config.CPU_FEATURES or "")
    return bool(llvm.get_host_cpu_features().get("avx512f", False))


HAS_AVX512 = _has_avx512()


def _compress(builder: Any, vector: Any) -> Any:
    # The instruction: (values, what is behind them, mask) → values.
    name = "llvm.x86.avx512.mask.compress.v16i32"
    function_type = ir.FunctionType(vector, [vector, vector, ir.VectorType(ir.IntType(1), _LANES)])
    return builder.module.globals.get(name) or ir.Function(builder.module, function_type, name)


def _vector_store(builder: Any, mask_address: Any, values: Any, out_address: Any) -> Any:
    # Compresses `values` (16 x i32) by the 16 mask bytes and stores them; gives the number of lanes kept.
    byte, word, vector = ir.IntType(8), ir.IntType(64), values.type
    bytes_type = ir.VectorType(byte, _LANES)
    mask_load = builder.load(builder.inttoptr(mask_address, bytes_type.as_pointer()), align=1)
    bits = builder.icmp_unsigned("!=", mask_load, ir.Constant(bytes_type, [0] * _LANES))
    packed = builder.call(_compress(builder, vector), [values, ir.Constant(vector, [0] * _LANES), bits])
    builder.store(packed, builder.inttoptr(out_address, vector.as_pointer()), align=4)
    short = ir.IntType(16)
    return builder.zext(builder.ctpop(builder.bitcast(bits, short)), word)


@intrinsic
def _compress_range(typingctx: Any, mask_address: Any, first: Any, out_address: Any) -> Any:
    signature = types.int64(types.int64, types.int64, types.int64)

    def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        lane = ir.IntType(32)
        vector = ir.VectorType(lane, _LANES)
        start = builder.trunc(arguments[1], lane)
        spread = builder.insert_element(ir.Constant(vector, ir.Undefined), start, ir.Constant(lane, 0))
        spread = builder.shuffle_vector(
            spread, ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(lane, _LANES), [0] * _LANES)
        )
        return _vector_store(
            builder, arguments[0], builder.add(spread, ir.Constant(vector, list(range(_LANES)))), arguments[2]
        )

    return signature, codegen


@intrinsic
def _compress_list(typingctx: Any, mask_address: Any, list_address: Any, out_address: Any) -> Any:
    signature = types.int64(types.int64, types.int64, types.int64)

    def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(ir.IntType(32), _LANES)
        values = builder.load(builder.inttoptr(arguments[1], vector.as_pointer()), align=4)
        return _vector_store(builder, arguments[0], values, arguments[2])

    return signature, codegen


@intrinsic
def _compress_bits(typingctx: Any, bits: Any, first: Any, out_address: Any) -> Any:
    """first + k for every bit k of the lowest sixteen that is set, to the address."""
    signature = types.void(types.uint64, types.int64, types.int64)

    def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        lane = ir.IntType(32)
        vector = ir.VectorType(lane, _LANES)
        spread = builder.insert_element(
            ir.Constant(vector, ir.Undefined), builder.trunc(arguments[1], lane), ir.Constant(lane, 0)
        )
        spread = builder.shuffle_vector(
            spread, ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(lane, _LANES), [0] * _LANES)
        )
        values = builder.add(spread, ir.Constant(vector, list(range(_LANES))))
        bits = builder.bitcast(builder.trunc(arguments[0], ir.IntType(16)), ir.VectorType(ir.IntType(1), _LANES))
        packed = builder.call(_compress(builder, vector), [values, ir.Constant(vector, [0] * _LANES), bits])
        builder.store(packed, builder.inttoptr(arguments[2], vector.as_pointer()), align=4)
        return context.get_dummy_value()

    return signature, codegen


@njit(nogil=True)
def _range_plain(mask: Any, first: int, out: Any) -> Any:
    count = 0
    for i in range(len(mask)):
        out[count] = first + i
        count += mask[i]
    return count


@njit(nogil=True)
def _list_plain(mask: Any, docs: Any, out: Any) -> Any:
    count = 0
    for i in range(len(mask)):
        out[count] = docs[i]
        count += mask[i]
    return count


_LAST_BIT = np.uint64(1 << 63)  # so that there is a lowest one


@inner
def _each_bit(bits: Any, first: int, out: Any, count: int) -> None:
    for i in range(count):
        out[i] = int32(first + int64(lowest_bit(bits)))
        bits &= bits - uint64(1)


if HAS_AVX512:

    @inner
    def docs_of_bits(bits: Any, first: int, out_address: int) -> Any:
        """first + k for every bit k of a uint64 that is set, as int32 to the address, where 80 have room; gives how
        many.
        """
        position = out_address
        for quarter in range(4):
            quarter_bits = (bits >> uint64(quarter * _LANES)) & uint64(0xFFFF)
            _compress_bits(quarter_bits, first + quarter * _LANES, position)
            position += int64(num_bits(quarter_bits)) * 4
        return (position - out_address) >> 2

else:

    @inner
    def docs_of_bits(bits: Any, first: int, out_address: int) -> Any:
        """first + k for every bit k of a uint64 that is set, as int32 to the address, where 80 have room; gives how
        many.
        """
        count = int64(num_bits(bits))
        _each_bit(bits, first, carray(pointer(out_address, types.int32), 64), count)
        return count


_FEW_BITS = 4


@inner
def docs_of_few_bits(bits: Any, first: int, out_address: int) -> Any:
    """The same where there are hardly ever more than four: these are looked for whether they are there or not, since
    asking after each would be guessed wrong.
    """
    count = int64(num_bits(bits))
    if count > _FEW_BITS:
        return docs_of_bits(bits, first, out_address)
    out = carray(pointer(out_address, types.int32), _FEW_BITS)
    for i in range(_FEW_BITS):
        out[i] = int32(first + int64(lowest_bit(bits | _LAST_BIT)))
        bits &= bits - uint64(1)
    return count


if HAS_AVX512:

    @njit(cache=True, nogil=True)
    def compress_range(mask: Any, mask_address: int, first: int, out: Any, out_address: int) -> Any:
        """first + i for every i with mask[i] = 1 into `out` (int32, at least len(mask)); gives how many.

        The addresses are those of `mask` and `out`, which the caller has at hand.
        """
        n, count, i = len(mask), 0, 0
        while i + _LANES <= n:
            count += _compress_range(mask_address + i, first + i, out_address + count * 4)
            i += _LANES
        while i < n:
            if mask[i]:
                out[count] = first + i
                count += 1
            i += 1
        return count

    @njit(cache=True, nogil=True)
    def compress_list(mask: Any, mask_address: int, docs: Any, docs_address: int, out: Any, out_address: int) -> Any:
        """docs[i] for every i with mask[i] = 1 into `out`; gives how many."""
        n, count, i = len(mask), 0, 0
        while i + _LANES <= n:
            count += _compress_list(mask_address + i, docs_address + i * 4, out_address + count * 4)
            i += _LANES
        while i < n:
            if mask[i]:
                out[count] = docs[i]
                count += 1
            i += 1
        return count

else:

    @njit(cache=True, nogil=True)
    def compress_range(mask: Any, mask_address: int, first: int, out: Any, out_address: int) -> Any:
        """first + i for every i with mask[i] = 1 into `out` (int32, at least len(mask)); gives how many."""
        return _range_plain(mask, first, out)

    @njit(cache=True, nogil=True)
    def compress_list(mask: Any, mask_address: int, docs: Any, docs_address: int, out: Any, out_address: int) -> Any:
        """docs[i] for every i with mask[i] = 1 into `out`; gives how many."""
        return _list_plain(mask, docs, out)
