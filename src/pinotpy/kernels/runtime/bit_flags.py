"""Bitmaps as bytes: eight bits become eight flags of 0 and 1 a step. Bit i of a bitmap is bit i % 8 of byte i // 8."""

from __future__ import annotations

from typing import Any

from numba import uint8, uint32, uint64

from pinotpy.kernels.runtime.abi import inner
from pinotpy.kernels.runtime.views import view_u8, view_u64


@inner
def _spread(byte: Any) -> Any:
    # The multiplication puts bit k of the lower seven in front of byte k; the eighth would carry into another's place.
    word = uint64(byte)
    return (((word & uint64(0x7F)) * uint64(0x0002040810204081)) & uint64(0x0001010101010101)) | (
        (word >> uint64(7)) << uint64(56)
    )


@inner
def _spread_aligned(out: Any, bits: Any) -> None:
    for i in range(len(out)):
        out[i] = _spread(bits[i])


@inner
def _spread_shifted(out: Any, bits: Any, following: Any, shift: Any) -> None:
    # `following` is `bits` from its second byte on.
    for i in range(len(out)):
        out[i] = _spread(uint8((bits[i] >> shift) | (following[i] << (uint8(8) - shift))))


@inner
def flags_from(out_address: int, bits: Any, base: int, n: int) -> None:
    """The n bits from bit `base` on as bytes at `out_address`, which has room for n rounded up to 8 (what is beyond n
    is left undefined).
    """
    count = (n + 7) >> 3
    out = view_u64(out_address, count)
    bytes_from = bits[base >> 3 :]
    shift = uint8(base & 7)
    if shift == 0:
        _spread_aligned(out, bytes_from)
        return
    # The last step may need no following byte, and there may be none.
    pairs = min(count, len(bytes_from) - 1)
    _spread_shifted(out[:pairs], bytes_from, bytes_from[1:], shift)
    if pairs < count:
        out[pairs] = _spread(uint8(bytes_from[pairs] >> shift))


@inner
def flags_at(out: Any, bits: Any, positions: Any) -> None:
    """out[i] (u8) = bit positions[i]."""
    for i in range(len(out)):
        position = uint32(positions[i])
        out[i] = (bits[position >> uint32(3)] >> uint8(position & uint32(7))) & uint8(1)


@inner
def _any_word(words: Any) -> Any:
    together = uint64(0)
    for i in range(len(words)):
        together |= words[i]
    return together != uint64(0)


@inner
def any_from(address: int, base: int, n: int) -> Any:
    """Whether a bit is set in the bytes that hold bits base .. base + n - 1 of the bitmap at `address`."""
    first, end = base >> 3, (base + n + 7) >> 3
    num_words = (end - first) >> 3
    has_any = _any_word(view_u64(address + first, num_words))
    for position in range(first + num_words * 8, end):
        has_any |= view_u8(address, end)[position] != uint8(0)
    return has_any
