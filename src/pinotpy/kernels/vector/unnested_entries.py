"""Lanes: the values of selected docs of a multi-value column side by side, one lane a value, a portion of BLOCK at a
time.

A lane is the entry of its value in the column and the position of its doc in the selection, so that whatever is known
of docs becomes known of lanes by one gather.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import int64, types, uint32
from numba.extending import intrinsic

from pinotpy.kernels.runtime.abi import BLOCK, inner
from pinotpy.kernels.runtime.views import view_u32

# Docs of so many values or fewer are written without asking how many.
_AT_ONCE: Final = 8


def _storing(step: int) -> Any:
    # The stores are spelled out: LLVM's vectoriser makes scatters of a loop, which take five times as long.

    @intrinsic
    def store(typingctx: Any, address: Any, value: Any) -> Any:
        """value + step * k into uint32 lane k at `address`, for _AT_ONCE lanes."""

        def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            lane = ir.IntType(32)
            vector = ir.VectorType(lane, _AT_ONCE)
            nothing = ir.Constant(vector, ir.Undefined)
            first = builder.insert_element(nothing, arguments[1], ir.Constant(lane, 0))
            spread = builder.shuffle_vector(first, nothing, ir.Constant(vector, [0] * _AT_ONCE))
            values = builder.add(spread, ir.Constant(vector, [step * k for k in range(_AT_ONCE)]))
            builder.store(values, builder.inttoptr(arguments[0], vector.as_pointer()), align=4)
            return context.get_dummy_value()

        return types.void(types.int64, types.uint32), codegen

    return store


_store_same = _storing(0)
_store_ascending = _storing(1)


@inner
def _fill_short(
    offsets: Any, docs: Any, skip: Any, flagged: bool, position: int, entries: int, positions: int, n: int
) -> Any:
    # From `position` on until a doc has too many values, or the portion is nearly full. _AT_ONCE lanes are stored
    # whatever the doc has: the next doc overwrites what is too much.
    while position < len(docs) and n <= BLOCK - _AT_ONCE:
        doc = docs[position]
        first = offsets[doc]
        count = offsets[doc + uint32(1)] - first
        if flagged and skip[position] != 0:
            count = uint32(0)
        if count > uint32(_AT_ONCE):
            break
        _store_ascending(entries + n * 4, first)
        _store_same(positions + n * 4, uint32(position))
        n += int64(count)
        position += 1
    return n, position


@inner
def fill_unnested(
    offsets: Any,
    docs: Any,
    skip: Any,
    flagged: bool,
    position: int,
    entry: int,
    entries_address: int,
    positions_address: int,
) -> Any:
    """The next portion of lanes, from value `entry` (−1: the first) of the doc at `position` on.

    Args:
        offsets: of the column (views.mv_offsets); docs: uint32, the selection.
        skip: uint8 by position, 1 = the doc has no lanes, if `flagged`.
        entries_address, positions_address: of uint32[BLOCK], written.

    Returns (number of lanes, position, entry): where the next portion begins; position is len(docs) after the last
    lane.
    """
    entries, positions = view_u32(entries_address, BLOCK), view_u32(positions_address, BLOCK)
    n = int64(0)
    while True:
        if entry < 0:
            n, position = _fill_short(offsets, docs, skip, flagged, position, entries_address, positions_address, n)
        if position == len(docs) or n == BLOCK:
            break
        doc = docs[position]
        entry, end = max(entry, int64(offsets[doc])), int64(offsets[doc + uint32(1)])
        if flagged and skip[position] != 0:
            entry = end
        while entry < end and n < BLOCK:
            entries[n], positions[n] = entry, position
            n += 1
            entry += 1
        if entry < end:
            break
        position += 1
        entry = int64(-1)
    return n, position, entry


@inner
def of_docs(out: Any, values: Any, positions: Any) -> None:
    """out[lane] = values[position of its doc]."""
    for i in range(len(out)):
        out[i] = values[positions[i]]
