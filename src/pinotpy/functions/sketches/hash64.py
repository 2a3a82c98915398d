"""The 64-bit hashes of HyperLogLog++ and UltraLogLog, over whole arrays: MurmurHash64A as stream-lib has it, of the
value's text as Java writes it, and wyhash (final version 4) as hash4j has it, of the value's little-endian bytes, of
texts their UTF-16 and its length.

Source: the public definitions of both hashes, and facts about what the libraries feed them (checked against recorded
answers). Integer arithmetic wraps. The kernels hash longs themselves (kernels/sketch/register_hashes.py).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.decimals import decode_decimal
from pinotpy.functions.arguments import java_float_text
from pinotpy.functions.sketches.murmur import byte_strings
from pinotpy.pql.literals import java_double_text

Hashes = NDArray[np.uint64]

MURMUR_SEED: Final = 0xE17A1465
MURMUR_FACTOR: Final = 0xC6A4A7935BD1E995
WYHASH_SECRET: Final = (0xA0761D6478BD642F, 0xE7037ED1A0B428DB, 0x8EBC6AF09C88C6E3, 0x589965CC75374CC3)
_PLAIN_MIN, _PLAIN_MAX = 1e-3, 1e7  # doubles that Java writes without an exponent
_LOW: Final = np.uint64(0xFFFFFFFF)


def murmur64_of_values(values: pa.Array, data_type: DataType) -> Hashes:
    """MurmurHash64A of each value's text (stored form, no nulls); BOOLEAN counts as 0 and 1, −0.0 as 0.0, every NaN as
    one.
    """
    return murmur64(java_texts(values, data_type))


def wyhash_of_values(values: pa.Array, data_type: DataType) -> Hashes:
    """wyhash of each value (stored form, no nulls): INT, BOOLEAN and FLOAT are 4 bytes, other numbers 8; BIG_DECIMAL is
    its text.
    """
    if data_type is DataType.BIG_DECIMAL or not data_type.stored.is_fixed:
        return _wyhash_of_texts(java_texts(values, data_type))
    plain = values.to_numpy(zero_copy_only=False)
    if data_type.stored.is_floating:
        plain = plain + plain.dtype.type(0)
        plain[np.isnan(plain)] = np.nan
    if plain.dtype.itemsize == 4:
        word = plain.view(np.uint32).astype(np.uint64)
        word |= word << np.uint64(32)
        return _wyhash_end(word, word, _wyhash_seeds(len(word)), np.uint64(4))
    words = plain.astype(plain.dtype, copy=False).view(np.uint64)
    turned = (words << np.uint64(32)) | (words >> np.uint64(32))
    return _wyhash_end(turned, words, _wyhash_seeds(len(words)), np.uint64(8))


def java_texts(values: pa.Array, data_type: DataType) -> pa.Array:
    """Binary: the text of each value as Java's toString gives it; texts as they are."""
    if data_type is DataType.BIG_DECIMAL:
        encoded = values.dictionary_encode()
        texts = [format(decode_decimal(data), "f").encode() for data in encoded.dictionary.to_pylist()]
        return pa.array(texts, pa.binary()).take(encoded.indices)
    if not data_type.stored.is_fixed:
        return values
    if not data_type.stored.is_floating:
        return values.cast(pa.string())
    return _texts_of_doubles(values)


def _texts_of_doubles(values: pa.Array) -> pa.Array:
    """The shortest digits, laid out as in Java: those without an exponent by Arrow, others one by one."""
    plain = values.to_numpy(zero_copy_only=False)
    plain = plain + plain.dtype.type(0)
    size = np.abs(plain)
    is_plain = (size >= _PLAIN_MIN) & (size < _PLAIN_MAX)
    texts = pa.array(plain).cast(pa.string())
    whole = pc.invert(pc.match_substring(texts, "."))
    texts = pc.if_else(whole, pc.binary_join_element_wise(texts, ".0", ""), texts)
    if is_plain.all():
        return texts
    spell = java_float_text if plain.dtype == np.float32 else java_double_text
    others = pa.array([spell(float(value)) for value in plain[~is_plain]], pa.string())
    return pc.replace_with_mask(texts, pa.array(~is_plain), others)


# --- MurmurHash64A -------------------------------------------------------------------------------------------------


def murmur64(values: pa.Array) -> Hashes:
    """MurmurHash64A of byte strings with stream-lib's seed."""
    begin, length, data = byte_strings(values)
    words = np.ndarray((len(data) - 7,), "<u8", data.data, strides=(1,))
    factor = np.uint64(MURMUR_FACTOR)
    hashes: Hashes = np.uint64(MURMUR_SEED) ^ (length.astype(np.uint64) * factor)
    active, position = np.arange(len(length)), 0
    while len(active := active[length[active] >= position + 8]):
        word = words[begin[active] + position].astype(np.uint64) * factor
        word = (word ^ (word >> np.uint64(47))) * factor
        hashes[active] = (hashes[active] ^ word) * factor
        position += 8
    tail_sizes = length & 7
    some = np.flatnonzero(tail_sizes)
    tail = words[begin[some] + (length[some] & ~7)].astype(np.uint64) & (
        ~np.uint64(0) >> (np.uint64(8) * (8 - tail_sizes[some]).astype(np.uint64))
    )
    hashes[some] = (hashes[some] ^ tail) * factor
    hashes = (hashes ^ (hashes >> np.uint64(47))) * factor
    return hashes ^ (hashes >> np.uint64(47))


# --- wyhash --------------------------------------------------------------------------------------------------------


def _wyhash_of_texts(texts: pa.Array) -> Hashes:
    """Of the UTF-16 code units and, as an int, their number."""
    begin, length, data = byte_strings(texts)
    body = data[: int(length.sum())]
    # Code units: one a character, one more where UTF-8 takes four bytes.
    units_before = np.concatenate([[0], np.cumsum(((body & 0xC0) != 0x80).astype(np.int64) + (body >= 0xF0))])
    units = units_before[begin + length] - units_before[begin]
    wide = np.frombuffer(body.tobytes().decode("utf-8", "replace").encode("utf-16-le", "surrogatepass"), np.uint16)
    if len(wide) != units.sum():  # texts that are no UTF-8: each broken one has its own replacement characters
        parts = [
            np.frombuffer(bytes(data[b : b + n]).decode("utf-8", "replace").encode("utf-16-le"), np.uint16)
            for b, n in zip(begin, length, strict=True)
        ]
        units, wide = (
            np.array([len(units_of_text) for units_of_text in parts], np.int64),
            np.concatenate([np.empty(0, np.uint16), *parts]),
        )
    ends = np.cumsum(units + 2)
    out = np.zeros(int(ends[-1]) + 8 if len(ends) else 8, np.uint16)
    out[np.arange(len(wide)) + np.repeat(2 * np.arange(len(units)), units)] = wide
    out[ends - 2], out[ends - 1] = units & 0xFFFF, units >> 16
    return _wyhash(out.view(np.uint8), 2 * (ends - units - 2), 2 * (units + 2))


def _wyhash(data: NDArray[np.uint8], begin: Int64Array, length: Int64Array) -> Hashes:
    """Of byte strings of at least 4 bytes; `data` has 16 more behind the last."""
    words = np.ndarray((len(data) - 7,), "<u8", data.data, strides=(1,))
    halves = np.ndarray((len(data) - 3,), "<u4", data.data, strides=(1,))
    seeds = _wyhash_seeds(len(length))
    first, second = np.zeros(len(length), np.uint64), np.zeros(len(length), np.uint64)
    short = np.flatnonzero(length <= 16)
    if len(short):
        position, end, step = begin[short], begin[short] + length[short] - 4, (length[short] >> 3) << 2
        first[short] = (halves[position].astype(np.uint64) << np.uint64(32)) | halves[position + step].astype(np.uint64)
        second[short] = (halves[end].astype(np.uint64) << np.uint64(32)) | halves[end - step].astype(np.uint64)
    long = np.flatnonzero(length > 16)
    if len(long):
        position, remaining = begin[long], length[long]
        lanes = [seeds[long].copy() for _ in range(3)]
        while len(here := np.flatnonzero(remaining > 48)):
            for lane, (seed, secret) in enumerate(zip(lanes, WYHASH_SECRET[1:], strict=True)):
                low, high = (words[position[here] + 16 * lane + offset].astype(np.uint64) for offset in (0, 8))
                seed[here] = _mix(low ^ np.uint64(secret), high ^ seed[here])
            position[here] += 48
            remaining[here] -= 48
        seed = lanes[0] ^ lanes[1] ^ lanes[2]
        while len(here := np.flatnonzero(remaining > 16)):
            low, high = (words[position[here] + offset].astype(np.uint64) for offset in (0, 8))
            seed[here] = _mix(low ^ np.uint64(WYHASH_SECRET[1]), high ^ seed[here])
            position[here] += 16
            remaining[here] -= 16
        seeds[long] = seed
        end = begin[long] + length[long]
        first[long], second[long] = words[end - 16], words[end - 8]
    return _wyhash_end(first, second, seeds, length.astype(np.uint64))


def _wyhash_seeds(count: int) -> Hashes:
    high, low = divmod(WYHASH_SECRET[0] * WYHASH_SECRET[1], 1 << 64)
    return np.full(count, high ^ low, np.uint64)


def _wyhash_end(first: Hashes, second: Hashes, seeds: Hashes, length: Hashes | np.uint64) -> Hashes:
    secret = np.uint64(WYHASH_SECRET[1])
    high, low = _product(first ^ secret, second ^ seeds)
    return _mix(low ^ np.uint64(WYHASH_SECRET[0]) ^ length, high ^ secret)


def _mix(first: Hashes, second: Hashes) -> Hashes:
    high, low = _product(first, second)
    return high ^ low


def _product(first: Hashes, second: Hashes) -> tuple[Hashes, Hashes]:
    """The high and the low word of the 128-bit products."""
    shift = np.uint64(32)
    a, b, c, d = first >> shift, first & _LOW, second >> shift, second & _LOW
    low, cross, other = b * d, a * d, b * c
    middle = (low >> shift) + (cross & _LOW) + (other & _LOW)
    return a * c + (cross >> shift) + (other >> shift) + (middle >> shift), first * second
