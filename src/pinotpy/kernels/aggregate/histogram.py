"""A select instruction that counts values by bucket; arguments as of those in counts_and_sums.py, one form for both:
without a register of groups (A0 below 0) all goes to row 0. A4 is the address of the buckets:

    word 0              their number n
    word 1              bit 0: the values are doubles, else i64; bit 1: the edges are finite and evenly apart, n over
                        their distance is finite too
    words 2 … n + 2     their edges, doubles in ascending order

Slot contents: word i counts the values of bucket i, from its edge to below the next one, the last one's upper edge
included.
"""

from __future__ import annotations

from typing import Any

from numba import float64, int64, njit, types, uint64

from pinotpy.kernels.aggregate.counts_and_sums import table_of
from pinotpy.kernels.aggregate.result_context import G_ROW_WORDS, context_of
from pinotpy.kernels.runtime.abi import (
    A0,
    E_OK,
    INSTRUCTION_WORDS,
    S_SELECTED,
    STATE_WORDS,
    block_function,
    inner,
    register_i64,
    register_u8,
    register_u32,
    words,
)


@inner
def _bucket(edges: Any, value: float) -> Any:
    """The bucket of a value that lies between the first and the last edge. Every value takes the same steps and no
    branch: which way a search goes can be foreseen for no value.
    """
    low, width = 0, len(edges)
    while width > 1:
        half = width >> 1
        low += half * int64(edges[low + half] <= value)
        width -= half
    return min(low, len(edges) - 2)


@inner
def _even_bucket(edges: Any, value: float, scale: float) -> Any:
    """The same where edges are as far apart as they are rounded to: a product says which, an edge beside it corrects
    the rounding.
    """
    bucket = min(int64((value - edges[0]) * scale), len(edges) - 2)
    while edges[bucket] > value:
        bucket -= 1
    while bucket < len(edges) - 2 and edges[bucket + 1] <= value:
        bucket += 1
    return bucket


@njit(nogil=True)
def _count(
    table: Any,
    width: Any,
    slot: Any,
    groups: Any,
    single: bool,
    values: Any,
    skip: Any,
    flagged: bool,
    edges: Any,
    even: bool,
) -> None:
    last = len(edges) - 1
    scale = last / (edges[last] - edges[0]) if even else 0.0
    for i in range(len(values)):
        value = float64(values[i])
        if edges[0] <= value <= edges[last] and not (flagged and skip[i]):  # NaN is in no bucket
            bucket = _even_bucket(edges, value, scale) if even else _bucket(edges, value)
            table[(slot if single else uint64(groups[i]) * width + slot) + uint64(bucket)] += 1


@block_function
def count_buckets(state_address: int, args_address: int) -> Any:
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, n = context_of(state), state[S_SELECTED]
    single, flagged = args[A0] < 0, args[A0 + 3] >= 0
    groups = register_u32(state, 0 if single else args[A0])[:n]
    skip = register_u8(state, args[A0 + 3] if flagged else 0)[:n]
    head = words(args[A0 + 4], 2)
    edges = words(args[A0 + 4] + 16, head[0] + 1).view(types.float64)
    table, width, slot = table_of(context), uint64(context[G_ROW_WORDS]), uint64(args[A0 + 2])
    values = register_i64(state, args[A0 + 1])[:n]
    even = head[1] & 2 != 0
    if head[1] & 1 != 0:
        _count(table, width, slot, groups, single, values.view(types.float64), skip, flagged, edges, even)
    else:
        _count(table, width, slot, groups, single, values, skip, flagged, edges, even)
    return E_OK
