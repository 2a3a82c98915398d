"""Id sets: what IDSET answers and INIDSET reads, serialized as the reference does, in base64.

    00                                           nothing
    01 RoaringBitmap                             INT (and BOOLEAN as 0 and 1), as unsigned 32 bits
    02 00 i32 bitmaps, each: i32 high word,
       RoaringBitmap of the low words            LONG, TIMESTAMP, as unsigned 64 bits
    03 funnel 01 u8 hashes i32 longs, i64 …      Bloom filter: any other type, and sets over the size threshold

Integers outside RoaringBitmaps are big-endian. Funnels, that is what is hashed: 0 INT and bits of FLOAT, 1 LONG and
bits of DOUBLE (both little-endian), 2 STRING (UTF-16, little-endian), 3 BYTES and stored BIG_DECIMAL. The filter is
Guava's: its 64-bit words hold bit j at j // 64, 1 << j % 64; hash i of a value is (first + i * second) & (2^63 − 1)
modulo the bits, of MurmurHash3_x64_128 with seed 0.

−0.0 counts as 0.0 and every NaN as one.
"""

from __future__ import annotations

import base64
import math
import struct
from dataclasses import dataclass
from typing import Any, Final, Union

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.errors import DecodeError, InvalidQueryError
from pinotpy.functions.sketches.murmur import murmur3_bytes, murmur3_ints, murmur3_words
from pinotpy.functions.sketches.roaring import bitmap_of, read_bitmap

_EMPTY, _BITMAP, _BITMAP_64, _BLOOM = range(4)
_FUNNEL_INT, _FUNNEL_LONG, _FUNNEL_STRING, _FUNNEL_BYTES = range(4)
_FUNNEL_NAMES: Final = ("INT or FLOAT", "LONG or DOUBLE", "STRING", "BYTES")
_GUAVA_STRATEGY: Final = 1
FILTER_SIZE_BYTES_MAX: Final = 1 << 27
_FILTER_HASHES_MAX: Final = 255  # one byte says how many
_MASK_32: Final = np.int64(0xFFFFFFFF)
_HASHED_AT_ONCE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class IdSetOptions:
    """When a set becomes a Bloom filter, and how large that is."""

    size_threshold_bytes: int = 8 * 1024 * 1024
    expected_insertions: int = 5_000_000
    false_positive_rate: float = 0.03

    @property
    def filter_longs(self) -> int:
        """64-bit words of the Bloom filter."""
        bits = int(-self.expected_insertions * math.log(self.false_positive_rate) / (math.log(2) * math.log(2)))
        return max(1, -(-bits // 64))

    @property
    def filter_hashes(self) -> int:
        """Hashes of each value."""
        bits = int(-self.expected_insertions * math.log(self.false_positive_rate) / (math.log(2) * math.log(2)))
        return max(1, math.floor(bits / self.expected_insertions * math.log(2) + 0.5))


def parse_options(text: str) -> IdSetOptions:
    """`sizeThresholdInBytes=1000;expectedInsertions=10000;fpp=0.03`, any of them, any letter case; raises
    InvalidQueryError.
    """
    settings: dict[str, float] = {}
    for pair in filter(None, text.replace(" ", "").split(";")):
        key, _, value = pair.partition("=")
        if key.lower() not in ("sizethresholdinbytes", "expectedinsertions", "fpp"):
            raise InvalidQueryError(
                f"expected sizeThresholdInBytes, expectedInsertions or fpp as parameters of IDSET, found '{pair[:60]}'"
            )
        try:
            settings[key.lower()] = float(value) if key.lower() == "fpp" else int(value)
        except ValueError as error:
            raise InvalidQueryError(f"expected a number as {key} of IDSET, found '{value[:40]}'") from error
    options = IdSetOptions()
    threshold = int(settings.get("sizethresholdinbytes", options.size_threshold_bytes))
    insertions = int(settings.get("expectedinsertions", options.expected_insertions))
    rate = settings.get("fpp", options.false_positive_rate)
    if not 0 < insertions < 2**31 or not 0 < rate < 1:
        raise InvalidQueryError(
            f"expected expectedInsertions above 0 and fpp between 0 and 1, found {insertions} and {rate}"
        )
    options = IdSetOptions(threshold, insertions, rate)
    if 8 * options.filter_longs > FILTER_SIZE_BYTES_MAX:
        raise InvalidQueryError(
            f"a Bloom filter of {insertions} values with fpp {rate} takes {8 * options.filter_longs} bytes, more than "
            f"{FILTER_SIZE_BYTES_MAX}: "
            "lower expectedInsertions or raise fpp"
        )
    if options.filter_hashes > _FILTER_HASHES_MAX:
        raise InvalidQueryError(
            f"a Bloom filter with fpp {rate} takes {options.filter_hashes} hashes of each value, more than "
            f"{_FILTER_HASHES_MAX}: raise fpp"
        )
    return options


# --- writing -------------------------------------------------------------------------------------------------------


def write_id_set(values: pa.Array, options: IdSetOptions) -> bytes:
    """The id set of distinct values. Their Arrow type says what they are: int32, int64, float32, float64, string,
    binary.
    """
    if not len(values):
        return bytes([_EMPTY])
    if options.size_threshold_bytes > 0 and pa.types.is_integer(values.type):
        plain = values.to_numpy(zero_copy_only=False)
        exact = _write_bitmap(plain) if pa.types.is_int32(values.type) else _write_bitmap_64(plain)
        if len(exact) <= options.size_threshold_bytes:
            return exact
    return _write_bloom(values, options)


def _write_bitmap(values: NDArray[np.int32]) -> bytes:
    serialized: bytes = bitmap_of(np.sort(values.view(np.uint32))).serialize()
    return bytes([_BITMAP]) + serialized


def _write_bitmap_64(values: Int64Array) -> bytes:
    words = np.sort(values.view(np.uint64))
    highs, starts = np.unique(words >> np.uint64(32), return_index=True)
    parts = [struct.pack(">BBi", _BITMAP_64, 0, len(highs))]
    for high, low in zip(highs.astype(np.uint32).tolist(), np.split(words.astype(np.uint32), starts[1:]), strict=True):
        parts += [struct.pack(">I", high), bitmap_of(low).serialize()]
    return b"".join(parts)


def _write_bloom(values: pa.Array, options: IdSetOptions) -> bytes:
    words = np.zeros(options.filter_longs, np.uint64)
    for first in range(0, len(values), _HASHED_AT_ONCE):
        for bits in _bits_of(values.slice(first, _HASHED_AT_ONCE), 64 * len(words), options.filter_hashes):
            np.bitwise_or.at(words, bits >> 6, np.uint64(1) << (bits & 63).astype(np.uint64))
    return (
        struct.pack(">BBBBi", _BLOOM, _funnel(values.type), _GUAVA_STRATEGY, options.filter_hashes, len(words))
        + words.astype(">u8").tobytes()
    )


def _funnel(kind: pa.DataType) -> int:
    if pa.types.is_int32(kind) or pa.types.is_float32(kind):
        return _FUNNEL_INT
    if pa.types.is_int64(kind) or pa.types.is_float64(kind):
        return _FUNNEL_LONG
    return _FUNNEL_STRING if pa.types.is_string(kind) else _FUNNEL_BYTES


def _bits_of(values: pa.Array, num_bits: int, num_hashes: int) -> list[Int64Array]:
    """For every hash the bit of each value."""
    if pa.types.is_string(values.type):
        first, second = murmur3_bytes(_utf16(values), 0)
    elif pa.types.is_binary(values.type):
        first, second = murmur3_bytes(values, 0)
    else:
        plain = _canonical(values.to_numpy(zero_copy_only=False))
        first, second = (
            murmur3_ints(plain.view(np.uint32), 0)
            if plain.dtype.itemsize == 4
            else murmur3_words(plain.view(np.uint64), 0)
        )
    return [
        (((first + np.uint64(i) * second) & np.uint64(2**63 - 1)) % np.uint64(num_bits)).astype(np.int64)
        for i in range(num_hashes)
    ]


def _canonical(values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype.kind == "f":
        values = values + values.dtype.type(0)
        values[np.isnan(values)] = np.nan
    return np.ascontiguousarray(values)


def _utf16(values: pa.Array) -> pa.Array:
    return pa.array([text.encode("utf-16-le") for text in values.to_pylist()], pa.binary())


# --- reading -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EmptyIdSet:
    """Nothing is in it."""

    def check(self, data_type: DataType | None) -> None:
        """Any type may be looked up."""

    def contains(self, values: pa.Array) -> NDArray[np.bool_]:
        return np.zeros(len(values), np.bool_)


@dataclass(frozen=True, slots=True)
class BitmapIdSet:
    """Integers, exactly. `bitmaps`: by the high word; `is_int`: the values are INT, their high word is −1 or 0."""

    bitmaps: dict[int, BitMap]
    is_int: bool

    def check(self, data_type: DataType | None) -> None:
        """Numbers may be looked up; raises InvalidQueryError for other types."""
        if data_type is DataType.BIG_DECIMAL or (data_type is not None and not data_type.stored.is_fixed):
            raise InvalidQueryError(
                f"expected numbers for an id set of {'INT' if self.is_int else 'LONG'} values, found {data_type.value}"
            )

    def contains(self, values: pa.Array) -> NDArray[np.bool_]:
        plain = values.to_numpy(zero_copy_only=False)
        possible = np.ones(len(plain), np.bool_)
        if plain.dtype.kind == "f":
            with np.errstate(invalid="ignore"):
                possible = (plain == np.floor(plain)) & (np.abs(plain) < 2.0**63)
        numbers = np.where(possible, plain, 0).astype(np.int64)
        highs = (numbers >> np.int64(32)) & _MASK_32
        if self.is_int:
            possible &= (numbers >= -(2**31)) & (numbers < 2**31)
            highs = np.zeros(len(numbers), np.int64)
        lows = (numbers & _MASK_32).astype(np.uint32)
        contained = np.zeros(len(numbers), np.bool_)
        for high in np.unique(highs).tolist():
            bitmap = self.bitmaps.get(high)
            if bitmap is not None:
                here = np.flatnonzero(highs == high)
                common = np.array((bitmap_of(np.sort(lows[here])) & bitmap).to_array(), np.uint32)
                contained[here] = np.isin(lows[here], common)
        return contained & possible


@dataclass(frozen=True, slots=True)
class BloomIdSet:
    """Values that were added, and by chance a few others."""

    funnel: int
    num_hashes: int
    words: NDArray[np.uint64]

    def check(self, data_type: DataType | None) -> None:
        """Only types that hash like the values may be looked up; raises InvalidQueryError for others."""
        if data_type is not None and _funnel(_lookup_type(data_type)) != self.funnel:
            raise InvalidQueryError(
                f"expected {_FUNNEL_NAMES[self.funnel]} values for this id set, a Bloom filter, found {data_type.value}"
            )

    def contains(self, values: pa.Array) -> NDArray[np.bool_]:
        contained = np.ones(len(values), np.bool_)
        for first in range(0, len(values), _HASHED_AT_ONCE):
            piece = contained[first : first + _HASHED_AT_ONCE]
            for bits in _bits_of(values.slice(first, _HASHED_AT_ONCE), 64 * len(self.words), self.num_hashes):
                piece &= (self.words[bits >> 6] >> (bits & 63).astype(np.uint64)) & np.uint64(1) != 0
        return contained


IdSet = Union[EmptyIdSet, BitmapIdSet, BloomIdSet]


def lookup_values(values: pa.Array) -> pa.Array:
    """Values of a scalar function's argument as `contains` takes them: BOOLEAN as 0 and 1."""
    return values.cast(pa.int32()) if pa.types.is_boolean(values.type) else values


def _lookup_type(data_type: DataType) -> pa.DataType:
    return pa.int32() if data_type is DataType.BOOLEAN else data_type.arrow


def read_id_set(text: str) -> IdSet:
    """The id set of a base64 text; raises InvalidQueryError for text that is none."""
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise InvalidQueryError(
            f"expected an id set in base64, as IDSET answers it, found '{text[:40]}', which is no base64"
        ) from error
    try:
        return _read(data)
    except DecodeError as error:
        raise InvalidQueryError(
            f"expected an id set in base64, as IDSET answers it, found '{text[:40]}': {error}"
        ) from error


def _read(data: bytes) -> IdSet:
    kind = data[0] if data else -1
    if kind == _EMPTY and len(data) == 1:
        return EmptyIdSet()
    if kind == _BITMAP:
        bitmap, end = read_bitmap(data, 1)
        _expect_end(data, end)
        return BitmapIdSet({0: bitmap}, is_int=True)
    if kind == _BITMAP_64:
        return _read_bitmap_64(data)
    if kind == _BLOOM:
        return _read_bloom(data)
    raise DecodeError(f"it has {len(data)} bytes, the first is {kind}, and id sets begin with 0 to 3")


def _unpacked(form: str, data: bytes, position: int) -> tuple[int, ...]:
    end = position + struct.calcsize(form)
    if len(data) < end:
        raise DecodeError(f"expected at least {end} bytes, found {len(data)}")
    return struct.unpack_from(form, data, position)


def _expect_end(data: bytes, end: int) -> None:
    if end != len(data):
        raise DecodeError(f"it ends after {end} bytes, and there are {len(data)}")


def _read_bitmap_64(data: bytes) -> IdSet:
    signed, count = _unpacked(">Bi", data, 1)
    if signed != 0 or count < 0:
        raise DecodeError(f"expected unsigned longs and a number of bitmaps, found {signed} and {count}")
    bitmaps, position = {}, 6
    for _ in range(count):
        (high,) = _unpacked(">I", data, position)
        bitmaps[high], position = read_bitmap(data, position + 4)
    _expect_end(data, position)
    return BitmapIdSet(bitmaps, is_int=False)


def _read_bloom(data: bytes) -> IdSet:
    funnel, strategy, num_hashes, longs = _unpacked(">BBBi", data, 1)
    if funnel > _FUNNEL_BYTES or strategy != _GUAVA_STRATEGY or num_hashes < 1 or longs < 1:
        raise DecodeError(
            f"expected a Bloom filter, found funnel {funnel}, strategy {strategy}, {num_hashes} hashes, {longs} longs"
        )
    _expect_end(data, 8 + 8 * longs)
    return BloomIdSet(funnel, num_hashes, np.frombuffer(data, ">u8", longs, 8).astype(np.uint64))
