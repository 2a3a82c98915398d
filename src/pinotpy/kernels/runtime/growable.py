"""Memory that kernels grow by themselves: buffers of the C library, charged to the query's control block.

A *vector* is three words (address, used words, capacity in words) inside a context. A *pool* is POOL_WORDS words: a
vector with the addresses and sizes of its blocks, and the first and last free address of the newest; what is taken from
it never moves, so that growing copies nothing and the pages of a large one are mapped once. Everything here charges
what it takes to C_MEMORY_USED with an atomic add, because threads of one query share the control block, and to the word
that all queries of the process share; it answers E_MEMORY instead of allocating when either budget would be passed.
Python changes these words through `add_used` alone.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from llvmlite import ir
from numba import int64, njit, types
from numba.extending import intrinsic

from pinotpy.kernels.runtime.abi import (
    C_MEMORY_MAX,
    C_MEMORY_USED,
    C_PROCESS_MAX,
    C_PROCESS_USED,
    C_REFUSED_BYTES,
    CONTROL_WORDS,
    E_MEMORY,
    E_OK,
    block_function,
    words,
)

VECTOR_WORDS: Final = 3
V_ADDRESS: Final = 0
V_USED: Final = 1
V_CAPACITY: Final = 2
P_BLOCKS: Final = 0  # vector: (address, bytes) of every block
P_NEXT: Final = 3
P_END: Final = 4
P_BYTES: Final = 5  # of all blocks
POOL_WORDS: Final = 6
_BLOCK_BYTES_MIN: Final = 1 << 18
_BLOCK_BYTES_MAX: Final = 1 << 25

_calloc = types.ExternalFunction("calloc", types.intp(types.intp, types.intp))
_realloc = types.ExternalFunction("realloc", types.intp(types.intp, types.intp))
_free = types.ExternalFunction("free", types.void(types.intp))
_aligned_alloc = types.ExternalFunction("aligned_alloc", types.intp(types.intp, types.intp))
_madvise = types.ExternalFunction("madvise", types.int32(types.intp, types.intp, types.int32))
_HAS_HUGE_PAGES: Final = sys.platform == "linux"
_MADV_HUGEPAGE: Final = 14
_HUGE_BYTES: Final = 1 << 21
_PAGE_BYTES: Final = 1 << 12


@intrinsic
def _atomic_add(typingctx: Any, address: Any, amount: Any) -> Any:
    """Add to the int64 word at `address`; gives the value before."""
    signature = types.int64(types.int64, types.int64)

    def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        word = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        return builder.atomic_rmw("add", word, arguments[1], "monotonic")

    return signature, codegen


@njit(nogil=True)
def charge(control_address: int, size_bytes: int) -> Any:
    """Account for `size_bytes` more (or less, when negative); E_MEMORY if that passes the query's budget or the
    process' (nothing is charged then).
    """
    control = words(control_address, CONTROL_WORDS)
    before = _atomic_add(control_address + C_MEMORY_USED * 8, size_bytes)
    if size_bytes > 0 and control[C_MEMORY_MAX] != 0 and before + size_bytes > control[C_MEMORY_MAX]:
        _atomic_add(control_address + C_MEMORY_USED * 8, -size_bytes)
        return E_MEMORY
    if control[C_PROCESS_USED] != 0:
        before = _atomic_add(control[C_PROCESS_USED], size_bytes)
        if size_bytes > 0 and before + size_bytes > words(control[C_PROCESS_MAX], 1)[0]:
            _atomic_add(control[C_PROCESS_USED], -size_bytes)
            _atomic_add(control_address + C_MEMORY_USED * 8, -size_bytes)
            control[C_REFUSED_BYTES] = size_bytes
            return E_MEMORY
    return E_OK


@block_function
def add_used(control_address: int, size_bytes: int) -> Any:
    """Account for `size_bytes` more (or less, when negative) whatever the budgets; gives the query's bytes after it.

    For Python, which calls it by its address: an `+=` there loses what kernels charge at the same time.
    """
    control = words(control_address, CONTROL_WORDS)
    if control[C_PROCESS_USED] != 0:
        _atomic_add(control[C_PROCESS_USED], size_bytes)
    return _atomic_add(control_address + C_MEMORY_USED * 8, size_bytes) + size_bytes


@njit(nogil=True)
def _use_huge_pages(address: int, size_bytes: int) -> None:
    """Ask for pages of 2 MiB where the memory holds some: the first touch of 4 KiB pages costs more than most
    kernels.
    """
    if _HAS_HUGE_PAGES and size_bytes >= 2 * _HUGE_BYTES:
        first = (address + _PAGE_BYTES - 1) & -_PAGE_BYTES
        _madvise(first, (address + size_bytes - first) & -_PAGE_BYTES, _MADV_HUGEPAGE)


@njit(nogil=True)
def reserve(control_address: int, vector: Any, extra: int) -> Any:
    """Make room for `extra` more words behind the used ones of `vector` (int64[VECTOR_WORDS]); contents are kept.

    Capacity grows by half. Returns E_OK or E_MEMORY.
    """
    needed = vector[V_USED] + extra
    if needed <= vector[V_CAPACITY]:
        return E_OK
    capacity = max(needed, vector[V_CAPACITY] + (vector[V_CAPACITY] >> 1), 512)
    if charge(control_address, (capacity - vector[V_CAPACITY]) * 8) != E_OK:
        return E_MEMORY
    address = _realloc(vector[V_ADDRESS], capacity * 8)
    if address == 0:
        charge(control_address, (vector[V_CAPACITY] - capacity) * 8)
        return E_MEMORY
    _use_huge_pages(address, capacity * 8)
    vector[V_ADDRESS], vector[V_CAPACITY] = address, capacity
    return E_OK


@njit(nogil=True)
def reserve_zeroed(control_address: int, vector: Any, capacity: int) -> Any:
    """Make `vector` hold at least `capacity` words, all zero where it had to grow; contents are NOT kept then.

    Fresh memory comes from calloc, so pages that are never touched cost nothing. Returns E_OK or E_MEMORY.
    """
    if capacity <= vector[V_CAPACITY]:
        return E_OK
    if charge(control_address, (capacity - vector[V_CAPACITY]) * 8) != E_OK:
        return E_MEMORY
    _free(vector[V_ADDRESS])
    address = _calloc(capacity, 8)
    vector[V_ADDRESS], vector[V_USED] = address, 0
    if address == 0:
        charge(control_address, -capacity * 8)
        vector[V_CAPACITY] = 0
        return E_MEMORY
    _use_huge_pages(address, capacity * 8)
    vector[V_CAPACITY] = capacity
    return E_OK


@njit(nogil=True)
def grow_zeroed(control_address: int, vector: Any, needed: int) -> Any:
    """Make `vector` hold at least `needed` words, keeping its contents; new words are zero. Returns E_OK or
    E_MEMORY.
    """
    old = vector[V_CAPACITY]
    if needed <= old:
        return E_OK
    vector[V_USED] = old
    code = reserve(control_address, vector, needed - old)
    if code == E_OK:
        fresh = words(vector[V_ADDRESS] + old * 8, vector[V_CAPACITY] - old)
        fresh[:] = 0
    return code


@njit(cache=True, nogil=True)
def release(control_address: int, vector: Any) -> None:
    """Free the memory of `vector` (int64[VECTOR_WORDS]) and give back its charge; it may be used again."""
    _free(vector[V_ADDRESS])
    charge(control_address, -vector[V_CAPACITY] * 8)
    vector[:] = 0


@njit(nogil=True)
def take(control_address: int, pool: Any, size_words: int) -> Any:
    """(code, address) of so many words of a pool (int64[POOL_WORDS]); they are not cleared."""
    size_bytes = size_words * 8
    if pool[P_NEXT] + size_bytes > pool[P_END] or pool[P_NEXT] == 0:
        # Blocks grow with the pool: half of it at most is not used.
        block_bytes = max(size_bytes, min(max(pool[P_BYTES], _BLOCK_BYTES_MIN), _BLOCK_BYTES_MAX))
        alignment = _HUGE_BYTES if block_bytes >= 2 * _HUGE_BYTES else _PAGE_BYTES
        block_bytes = (block_bytes + alignment - 1) & -alignment
        code = reserve(control_address, pool[P_BLOCKS : P_BLOCKS + VECTOR_WORDS], 2)
        if code == E_OK:
            code = charge(control_address, block_bytes)
        if code != E_OK:
            return code, int64(0)
        address = _aligned_alloc(alignment, block_bytes)
        if address == 0:
            charge(control_address, -block_bytes)
            return E_MEMORY, int64(0)
        _use_huge_pages(address, block_bytes)
        block = words(pool[P_BLOCKS + V_ADDRESS] + pool[P_BLOCKS + V_USED] * 8, 2)
        block[0], block[1] = address, block_bytes
        pool[P_BLOCKS + V_USED] += 2
        pool[P_NEXT], pool[P_END] = address, address + block_bytes
        pool[P_BYTES] += block_bytes
    address = pool[P_NEXT]
    pool[P_NEXT] = address + size_bytes
    return E_OK, int64(address)


@njit(cache=True, nogil=True)
def release_pool(control_address: int, pool: Any) -> None:
    """Free all blocks of `pool` and give back their charge; it may be used again."""
    blocks = words(pool[P_BLOCKS + V_ADDRESS], pool[P_BLOCKS + V_USED])
    for i in range(0, len(blocks), 2):
        _free(blocks[i])
        charge(control_address, -blocks[i + 1])
    release(control_address, pool[P_BLOCKS : P_BLOCKS + VECTOR_WORDS])
    pool[:] = 0
