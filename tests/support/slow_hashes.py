"""Hashes computed one value at a time, from their published definitions, to compare with."""

from __future__ import annotations

MASK = (1 << 64) - 1
C1, C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F


def _rotate(x: int, bits: int) -> int:
    return (x << bits | x >> 64 - bits) & MASK


def _avalanche(x: int) -> int:
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        x = (x ^ x >> 33) * factor & MASK
    return x ^ x >> 33


def slow_murmur3(data: bytes, seed: int) -> tuple[int, int]:
    first = second = seed
    blocks = len(data) // 16
    for i in range(blocks):
        one, two = (int.from_bytes(data[16 * i + k : 16 * i + k + 8], "little") for k in (0, 8))
        first ^= _rotate(one * C1 & MASK, 31) * C2 & MASK
        first = ((_rotate(first, 27) + second) * 5 + 0x52DCE729) & MASK
        second ^= _rotate(two * C2 & MASK, 33) * C1 & MASK
        second = ((_rotate(second, 31) + first) * 5 + 0x38495AB5) & MASK
    one, two = (int.from_bytes(data[16 * blocks + k : 16 * blocks + k + 8], "little") for k in (0, 8))
    first ^= _rotate(one * C1 & MASK, 31) * C2 & MASK
    second ^= _rotate(two * C2 & MASK, 33) * C1 & MASK
    first, second = first ^ len(data), second ^ len(data)
    first = (first + second) & MASK
    second = (second + first) & MASK
    first, second = _avalanche(first), _avalanche(second)
    first = (first + second) & MASK
    return first, (second + first) & MASK
