"""From a byte mask to the doc ids where it is set.

With AVX-512 sixteen lanes at a time (compress in a register, then one plain store: the store form of the instruction is
microcoded on some CPUs), elsewhere a branchless loop; chosen once by what the CPU can.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import config, njit, types
from numba.extending import intrinsic

_LANES = 16


def _has_avx512() -> bool:
    if config.CPU_NAME or config.CPU_FEATURES:
        return "+avx512f" in (config.CPU_FEATURES or "")
    return bool(llvm.get_host_cpu_features().get("avx512f", False))


HAS_AVX512 = _has_avx512()


def _vector_store(builder: Any, mask_address: Any, values: Any, out_address: Any) -> Any:
    # Compresses `values` (16 x i32) by the 16 mask bytes and stores them; gives the number of lanes kept.
    byte, word, vector = ir.IntType(8), ir.IntType(64), values.type
    bytes_type = ir.VectorType(byte, _LANES)
    mask_load = builder.load(builder.inttoptr(mask_address, bytes_type.as_pointer()), align=1)
    bits = builder.icmp_unsigned("!=", mask_load, ir.Constant(bytes_type, [0] * _LANES))
    bit_type = ir.VectorType(ir.IntType(1), _LANES)
    compress_type = ir.FunctionType(vector, [vector, vector, bit_type])
    compress = builder.module.globals.get("llvm.x86.avx512.mask.compress.v16i32") or ir.Function(
        builder.module, compress_type, "llvm.x86.avx512.mask.compress.v16i32"
    )
    kept = builder.call(compress, [values, ir.Constant(vector, [0] * _LANES), bits])
    builder.store(kept, builder.inttoptr(out_address, vector.as_pointer()), align=4)
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
        spread = builder.shuffle_vector(spread, ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(lane, _LANES), [0] * _LANES))
        return _vector_store(builder, arguments[0], builder.add(spread, ir.Constant(vector, list(range(_LANES)))), arguments[2])

    return signature, codegen


@intrinsic
def _compress_list(typingctx: Any, mask_address: Any, list_address: Any, out_address: Any) -> Any:
    signature = types.int64(types.int64, types.int64, types.int64)

    def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(ir.IntType(32), _LANES)
        values = builder.load(builder.inttoptr(arguments[1], vector.as_pointer()), align=4)
        return _vector_store(builder, arguments[0], values, arguments[2])

    return signature, codegen


@njit(nogil=True)
def _range_plain(mask: Any, first: int, out: Any) -> Any:
    kept = 0
    for i in range(len(mask)):
        out[kept] = first + i
        kept += mask[i]
    return kept


@njit(nogil=True)
def _list_plain(mask: Any, docs: Any, out: Any) -> Any:
    kept = 0
    for i in range(len(mask)):
        out[kept] = docs[i]
        kept += mask[i]
    return kept


if HAS_AVX512:

    @njit(cache=True, nogil=True)
    def compress_range(mask: Any, mask_address: int, first: int, out: Any, out_address: int) -> Any:
        """first + i for every i with mask[i] = 1 into `out` (int32, at least len(mask)); gives how many.

        The addresses are those of `mask` and `out`, which the caller has at hand.
        """
        n, kept, i = len(mask), 0, 0
        while i + _LANES <= n:
            kept += _compress_range(mask_address + i, first + i, out_address + kept * 4)
            i += _LANES
        while i < n:
            if mask[i]:
                out[kept] = first + i
                kept += 1
            i += 1
        return kept

    @njit(cache=True, nogil=True)
    def compress_list(mask: Any, mask_address: int, docs: Any, docs_address: int, out: Any, out_address: int) -> Any:
        """docs[i] for every i with mask[i] = 1 into `out`; gives how many."""
        n, kept, i = len(mask), 0, 0
        while i + _LANES <= n:
            kept += _compress_list(mask_address + i, docs_address + i * 4, out_address + kept * 4)
            i += _LANES
        while i < n:
            if mask[i]:
                out[kept] = docs[i]
                kept += 1
            i += 1
        return kept

else:

    @njit(cache=True, nogil=True)
    def compress_range(mask: Any, mask_address: int, first: int, out: Any, out_address: int) -> Any:
        """first + i for every i with mask[i] = 1 into `out` (int32, at least len(mask)); gives how many."""
        return _range_plain(mask, first, out)

    @njit(cache=True, nogil=True)
    def compress_list(mask: Any, mask_address: int, docs: Any, docs_address: int, out: Any, out_address: int) -> Any:
        """docs[i] for every i with mask[i] = 1 into `out`; gives how many."""
        return _list_plain(mask, docs, out)
