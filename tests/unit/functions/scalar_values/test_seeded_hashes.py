"""Proves the hashes of seeded_hashes.py against published check values, the values that the reference's own tests
expect, and their definitions written down byte by byte.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError, QueryExecutionError

BYTES, STRING = DataType.BYTES, DataType.STRING
DATA = [random.Random(size).randbytes(size) for size in range(70)]


def _signed(number: int, bits: int) -> int:
    number %= 2**bits
    return number - 2**bits if number >= 2 ** (bits - 1) else number


@pytest.mark.parametrize(
    ("name", "bits", "value"),
    [
        ("fnv1Hash32", 32, 0x31F0B262),
        ("fnv1aHash32", 32, 0xBF9CF968),
        ("fnv1Hash64", 64, 0x340D8765A4DDA9C2),
        ("fnv1aHash64", 64, 0x85944171F73967E8),
    ],
)
def test_fnv_of_foobar_is_as_published(call: Any, name: str, bits: int, value: int) -> None:
    assert call(name, (BYTES, [b"foobar"])) == call(f"{name}UTF8", (STRING, ["foobar"])) == [_signed(value, bits)]


@pytest.mark.parametrize(
    ("bits", "first", "prime"), [(32, 0x811C9DC5, 0x01000193), (64, 0xCBF29CE484222325, 0x100000001B3)]
)
def test_fnv_byte_by_byte(call: Any, bits: int, first: int, prime: int) -> None:
    one, one_a = [], []
    for data in DATA:
        h = a = first
        for byte in data:
            h, a = h * prime % 2**bits ^ byte, (a ^ byte) * prime % 2**bits
        one.append(_signed(h, bits))
        one_a.append(_signed(a, bits))
    assert call(f"fnv1Hash{bits}", (BYTES, DATA)) == call(f"fnv1_{bits}", (BYTES, DATA)) == one
    assert call(f"fnv1aHash{bits}", (BYTES, DATA)) == call(f"fnv1a_{bits}", (BYTES, DATA)) == one_a


def test_crc32c(call: Any) -> None:
    assert call("crc32c", (BYTES, [b"123456789", b"", b"\0" * 32])) == [
        _signed(0xE3069283, 32),
        0,
        _signed(0x8A9136AA, 32),
    ]  # RFC 3720
    assert call("crc32c", (BYTES, [b"testString"])) == [-1608760557]


def _murmur3_32(data: bytes, seed: int) -> int:
    def rotated(word: int, bits: int) -> int:
        return (word << bits | word >> (32 - bits)) % 2**32

    h = seed % 2**32
    for at in range(0, len(data), 4):
        part = data[at : at + 4]
        h ^= rotated(int.from_bytes(part, "little") * 0xCC9E2D51 % 2**32, 15) * 0x1B873593 % 2**32
        if len(part) == 4:
            h = (rotated(h, 13) * 5 + 0xE6546B64) % 2**32
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B % 2**32
    h = (h ^ h >> 13) * 0xC2B2AE35 % 2**32
    return _signed(h ^ h >> 16, 32)


def test_murmur3_of_32_bits(call: Any) -> None:
    assert (
        call("murmurHash3Bit32", (BYTES, [b"testString"]), 0)
        == call("murmur3_32", (BYTES, [b"testString"]))
        == [-1435605585]
    )
    assert call("murmurHash3Bit32", (BYTES, [b""]), 1) == [0x514E28B7]
    for seed in (0, 1, -1, 2**31 - 1, -(2**31)):
        assert call("murmurHash3Bit32", (BYTES, DATA), seed) == [_murmur3_32(data, seed) for data in DATA]


def test_murmur3_of_128_bits_and_its_first_64(call: Any) -> None:
    expected = bytes(
        value % 256 for value in (82, -103, -23, 15, -90, -39, 80, -51, 15, 73, -81, -28, 111, -21, -78, 108)
    )
    assert call("murmurHash3Bit128", (BYTES, [b"testString"]), 0) == [expected]
    assert call("murmurHash3Bit64", (BYTES, [b"testString"]), 0) == [-3652179990542706350]
    for seed in (0, 7, -1):
        whole = call("murmurHash3Bit128", (BYTES, DATA), seed)
        assert [int.from_bytes(value[:8], "little", signed=True) for value in whole] == call(
            "murmurHash3Bit64", (BYTES, DATA), seed
        )


def test_what_cannot_be_hashed_is_refused(call: Any) -> None:
    with pytest.raises(QueryExecutionError, match="CRC32C takes BYTES, found STRING: convert text with toUtf8"):
        call("crc32c", (STRING, ["a"]))
    with pytest.raises(
        (InvalidQueryError, QueryExecutionError), match="expected an INT as the seed of MURMURHASH3BIT32"
    ):
        call("murmurHash3Bit32", (BYTES, [b"a"]), 2**31)
