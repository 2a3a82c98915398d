"""CLOCK_MONOTONIC inside nogil code: the C library's clock_gettime, called by address (a ctypes function would not
cache).
"""

from __future__ import annotations

import ctypes
import time
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from pinotpy.kernels.runtime.abi import words

_MONOTONIC = time.CLOCK_MONOTONIC


def clock_address() -> int:
    """Address of clock_gettime in this process."""
    address = ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p).value
    assert address is not None
    return address


@intrinsic
def _clock_gettime(typingctx: Any, address: Any, clock_id: Any, timespec: Any) -> Any:
    signature = types.int64(types.int64, types.int64, types.int64)

    def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        word, short = ir.IntType(64), ir.IntType(32)
        function_type = ir.FunctionType(short, [short, word])
        function = builder.inttoptr(arguments[0], function_type.as_pointer())
        return builder.sext(builder.call(function, [builder.trunc(arguments[1], short), arguments[2]]), word)

    return signature, codegen


@njit(cache=True, nogil=True)
def monotonic_ns(clock: int, timespec: int) -> Any:
    """Nanoseconds of CLOCK_MONOTONIC; `clock` from clock_address(), `timespec` the address of 2 int64 words to write
    to.
    """
    _clock_gettime(clock, _MONOTONIC, timespec)
    pair = words(timespec, 2)
    return pair[0] * 1_000_000_000 + pair[1]
