"""Hashes of bytes that spread values and check transfers, computed for all rows at once: MURMURHASH3BIT32, FNV1AHASH64,
CRC32C.

Numbers are Java's, with a sign. Those called …UTF8 take text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError
from pinotpy.functions.arguments import constant_int, length_of, spread
from pinotpy.functions.scalar.spec import Bound, Example, Operand, ScalarFunction, Value
from pinotpy.functions.scalar.text_arguments import BYTES, TEXT, argument, expect_single_texts
from pinotpy.functions.sketches.murmur import byte_strings, murmur3_bytes
from pinotpy.pql.ast import Dialect

_CRC32C: Final = 0x82F63B78  # Castagnoli's polynomial, its lowest power first
_FNV: Final[dict[int, tuple[Any, Any]]] = {
    32: (np.uint32(0x811C9DC5), np.uint32(0x01000193)),  # first value and prime
    64: (np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)),
}

Hashes = NDArray[Any]
HashOf = Callable[[pa.Array, int], pa.Array]


def _by_position(values: pa.Array) -> Iterator[tuple[Int64Array, NDArray[np.uint8]]]:
    """For the first, second, … byte: the rows that have it, and it."""
    begin, length, data = byte_strings(values)
    rows = np.arange(len(length))
    position = 0
    while len(rows := rows[length[rows] > position]):
        yield rows, data[begin[rows] + position]
        position += 1


def _signed(hashes: Hashes) -> pa.Array:
    return pa.array(hashes.view(np.int32 if hashes.itemsize == 4 else np.int64))


def _fnv(bits: int, is_a: bool) -> HashOf:
    """FNV-1 multiplies, then takes a byte in; FNV-1a does so the other way round."""
    first, prime = _FNV[bits]

    def compute(values: pa.Array, seed: int) -> pa.Array:
        hashes = np.full(len(values), first)
        for rows, byte in _by_position(values):
            hashes[rows] = (hashes[rows] ^ byte) * prime if is_a else hashes[rows] * prime ^ byte
        return _signed(hashes)

    return compute


def _crc_table() -> NDArray[np.uint32]:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ np.uint32(_CRC32C), table >> 1)
    return table.astype(np.uint32)


def _crc32c(values: pa.Array, seed: int) -> pa.Array:
    table = _crc_table()
    hashes = np.full(len(values), 0xFFFFFFFF, np.uint32)
    for rows, byte in _by_position(values):
        hashes[rows] = table[(hashes[rows] ^ byte) & 0xFF] ^ hashes[rows] >> np.uint32(8)
    return _signed(~hashes)


# --- MurmurHash3 ------------------------------------------------------------------------------------------------------


def _murmur3_32(values: pa.Array, seed: int) -> pa.Array:
    """MurmurHash3_x86_32."""
    begin, length, data = byte_strings(values)
    hashes = np.full(len(length), seed % 2**32, np.uint32)
    rows = np.arange(len(length))
    for position in range(0, int(length.max(initial=0)), 4):
        rows = rows[length[rows] > position]
        count = np.minimum(length[rows] - position, 4)
        word = np.zeros(len(rows), np.uint32)
        for place in range(4):
            word |= np.where(place < count, data[begin[rows] + position + place], 0).astype(np.uint32) << np.uint32(
                8 * place
            )
        mixed = hashes[rows] ^ _rotated(word * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        whole = _rotated(mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        hashes[rows] = np.where(count == 4, whole, mixed)  # an incomplete word at the end is only taken in
    hashes ^= length.astype(np.uint32)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        hashes = (hashes ^ hashes >> np.uint32(shift)) * np.uint32(factor)
    return _signed(hashes ^ hashes >> np.uint32(16))


def _rotated(words: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return words << np.uint32(bits) | words >> np.uint32(32 - bits)


def _murmur3_64(values: pa.Array, seed: int) -> pa.Array:
    """The first half of MurmurHash3_x64_128."""
    return _signed(np.ascontiguousarray(murmur3_bytes(values, seed % 2**64)[0]))


def _murmur3_128(values: pa.Array, seed: int) -> pa.Array:
    halves = np.stack(murmur3_bytes(values, seed % 2**64), axis=1).astype("<u8")
    return pa.Array.from_buffers(pa.binary(16), len(halves), [None, pa.py_buffer(halves)]).cast(pa.binary())


# --- the functions ----------------------------------------------------------------------------------------------------


def _bind(
    name: str, compute: HashOf, kind: str, gives: DataType, operands: Sequence[Operand], dialect: Dialect
) -> Bound:
    expect_single_texts(operands[:1], name)
    if kind == BYTES and operands[0].data_type is not DataType.BYTES and operands[0].literal is None:
        raise InvalidQueryError(
            f"{name.upper()} takes BYTES, found {operands[0].name}: convert text with toUtf8 or hexToBytes"
        )
    seed = constant_int(operands[1], "the seed", name) if len(operands) > 1 else 0
    if not -(2**31) <= seed < 2**31:
        raise InvalidQueryError(f"expected an INT as the seed of {name.upper()}, found {seed}")

    def evaluate(values: Sequence[Value]) -> pa.Array:
        taken = spread(argument(values[0], operands[0], kind, dialect), length_of(values))
        with np.errstate(over="ignore"):
            return compute(taken, seed)

    return Bound(gives, evaluate)


def _hash(
    name: str,
    summary: str,
    compute: HashOf,
    value: Any,
    gives: DataType,
    kind: str = BYTES,
    *,
    seeded: bool = False,
    aliases: tuple[str, ...] = (),
) -> ScalarFunction:
    shown = f"{'bytes' if kind == BYTES else 'text'}{', seed' if seeded else ''}"
    example = Example(f"{name}({'toUtf8(s)' if kind == BYTES else 's'}{', 0' if seeded else ''})", value)
    count = 2 if seeded else 1
    return ScalarFunction(
        name,
        f"{name.upper()}({shown})",
        summary,
        lambda operands, dialect: _bind(name, compute, kind, gives, operands, dialect),
        (example,),
        count,
        count,
        aliases,
    )


def _fnv_pair(bits: int, is_a: bool, value: int) -> tuple[ScalarFunction, ScalarFunction]:
    letter = "a" if is_a else ""
    name, gives = f"fnv1{letter}hash{bits}", DataType.INT if bits == 32 else DataType.LONG
    title = f"FNV-1{letter} of {bits} bits"
    return (
        _hash(name, f"{title} of bytes.", _fnv(bits, is_a), value, gives, aliases=(f"fnv1{letter}{bits}",)),
        _hash(f"{name}utf8", f"{title} of the bytes of a text in UTF-8.", _fnv(bits, is_a), value, gives, TEXT),
    )


FUNCTIONS = (
    _hash("murmurhash3bit32", "MurmurHash3 of 32 bits.", _murmur3_32, 1798448400, DataType.INT, seeded=True),
    _hash(
        "murmur332",
        "MurmurHash3 of 32 bits with the seed 0, written murmur3_32.",
        _murmur3_32,
        1798448400,
        DataType.INT,
    ),
    _hash(
        "murmurhash3bit64",
        "The first 64 bits of MurmurHash3 of 128 bits.",
        _murmur3_64,
        8569019306160813795,
        DataType.LONG,
        seeded=True,
    ),
    _hash(
        "murmurhash3bit128",
        "MurmurHash3 of 128 bits, as bytes.",
        _murmur3_128,
        bytes.fromhex("e3f62d89a845eb7654d5d54c19d24a5c"),
        DataType.BYTES,
        seeded=True,
    ),
    *_fnv_pair(32, False, 1472297245),
    *_fnv_pair(32, True, 1725135965),
    *_fnv_pair(64, False, 8899073654770441021),
    *_fnv_pair(64, True, -6733440510855765891),
    _hash("crc32c", "CRC-32C, Castagnoli's, of bytes, a number of 32 bits.", _crc32c, 1080205678, DataType.INT),
)
