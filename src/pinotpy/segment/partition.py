"""Partition functions: which partition a value of a partitioned column belongs to.

Producers of streams and batch jobs split data by the same functions, so they must agree with Pinot's bit by bit
(org.apache.pinot.segment.spi.partition: Modulo, Murmur = Kafka's murmur2, HashCode = java.lang.String, ByteArray =
java.util.Arrays over UTF-8 bytes). All but Modulo hash the value's text: integers in decimal, BYTES in hex. Modulo
takes a text that is a LONG as Long.parseLong reads it, of ASCII digits: a sign or none, digits, nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import LONG_MIN, DataType

if TYPE_CHECKING:
    import pyarrow as pa

Stored = int | float | bytes

_INT_MASK: Final = 0xFFFFFFFF
# What may be a LONG: whether it is within 64 bits is seen when it is read.
_WHOLE: Final = "[+-]?0*[0-9]{1,19}"
_WHOLE_TEXT: Final = re.compile(_WHOLE)


def murmur2(data: bytes) -> int:
    """Kafka's murmur2 with seed 0x9747b28c, as an unsigned 32-bit number."""
    m = 0x5BD1E995
    h = 0x9747B28C ^ len(data)
    full = len(data) & ~3
    for i in range(0, full, 4):
        k = int.from_bytes(data[i : i + 4], "little") * m & _INT_MASK
        k = (k ^ k >> 24) * m & _INT_MASK
        h = h * m & _INT_MASK ^ k
    if full < len(data):
        h = (h ^ int.from_bytes(data[full:], "little")) * m & _INT_MASK
    h = (h ^ h >> 13) * m & _INT_MASK
    return h ^ h >> 15


def string_hash_code(text: str) -> int:
    """java.lang.String.hashCode: over UTF-16 code units, signed 32-bit."""
    units = text.encode("utf-16-le", "surrogatepass")
    h = 0
    for i in range(0, len(units), 2):
        h = h * 31 + (units[i] | units[i + 1] << 8) & _INT_MASK
    return _signed(h)


def bytes_hash_code(data: bytes) -> int:
    """java.util.Arrays.hashCode(byte[]): bytes are signed, the start is 1; signed 32-bit."""
    h = 1
    for byte in data:
        h = h * 31 + (byte - 256 if byte > 127 else byte) & _INT_MASK
    return _signed(h)


def _signed(h: int) -> int:
    return h - (1 << 32) if h >> 31 else h


def _absolute(h: int) -> int:
    # Math.abs(Integer.MIN_VALUE) is negative in Java; Pinot answers 0 for it.
    return 0 if h == -(1 << 31) else abs(h)


def _modulo(text: str, num_partitions: int) -> int:
    if not _WHOLE_TEXT.fullmatch(text):
        raise ValueError(f"expected a whole number, found '{text[:80]}'")
    # Python reads no number of thousands of digits, zeros among them.
    number = int(text.lstrip("+-").lstrip("0") or "0") * (-1 if text.startswith("-") else 1)
    if not LONG_MIN <= number < -LONG_MIN:
        raise ValueError(f"expected a number of 64 bits, found '{text[:80]}'")
    # Floor, not Java's remainder: a partition id is never negative (Pinot: toNonNegative).
    return number % num_partitions


def _murmur(text: str, num_partitions: int) -> int:
    return (murmur2(text.encode()) & 0x7FFFFFFF) % num_partitions


def _hash_code(text: str, num_partitions: int) -> int:
    return _absolute(string_hash_code(text)) % num_partitions


def _byte_array(text: str, num_partitions: int) -> int:
    return _absolute(bytes_hash_code(text.encode())) % num_partitions


_FUNCTIONS: Final[dict[str, Callable[[str, int], int]]] = {
    "modulo": _modulo,
    "murmur": _murmur,
    "murmur2": _murmur,
    "hashcode": _hash_code,
    "bytearray": _byte_array,
}


def is_partition_function(name: str) -> bool:
    """Whether there is a partition function of that name; case does not matter."""
    return name.lower() in _FUNCTIONS


def partition_text(value: Stored, data_type: DataType) -> str | None:
    """The text that partition functions hash, or None if the type cannot be partitioned by (floats have no agreed
    text).
    """
    if isinstance(value, bytes):
        if data_type is DataType.BYTES:
            return value.hex()
        return value.decode(errors="replace") if data_type.is_text else None
    return None if isinstance(value, float) or data_type.stored.is_floating else str(value)


def partition_of(function_name: str, num_partitions: int, text: str) -> int:
    """Partition of a value's text. Raises KeyError for an unknown function, ValueError if Modulo gets no integer."""
    return _FUNCTIONS[function_name.lower()](text, num_partitions)


def partitions_of(
    function_name: str, num_partitions: int, values: NDArray[Any] | pa.Array, data_type: DataType
) -> tuple[int, ...] | None:
    """Ascending partition ids of distinct stored values (a numpy array, or Arrow binary or large_binary), or None where
    the function does not apply to one of them: then nothing may be pruned.
    """
    ids = partition_ids(function_name, num_partitions, values, data_type)
    return None if ids is None else tuple(np.unique(ids).tolist())


def partition_ids(
    function_name: str, num_partitions: int, values: NDArray[Any] | pa.Array, data_type: DataType
) -> Int64Array | None:
    """The partition of each of some stored values (a numpy array, or Arrow binary or large_binary), or None where the
    function does not apply to one of them.
    """
    # Imported here: a broker prunes by `partition_of` and needs neither Arrow nor a compiler for it.
    import pyarrow as pa

    from pinotpy.kernels.text.java_hashes import bytes_hash_codes, murmur2_texts, string_hash_codes

    texts = _texts(values, data_type)
    if texts is None:
        return None
    name = function_name.lower()
    if name == "modulo":
        numbers = _longs(texts) if isinstance(values, pa.Array) else values.astype(np.int64)
        return None if numbers is None else numbers % num_partitions
    _, offsets, data = texts.buffers()
    first = texts.offset
    ends = np.frombuffer(offsets, np.int64)[first : first + len(texts) + 1] if len(texts) else np.zeros(1, np.int64)
    hashes: NDArray[np.uint32] = np.empty(len(texts), np.uint32)
    kernel = {"hashcode": string_hash_codes, "bytearray": bytes_hash_codes}.get(name, murmur2_texts)
    kernel(ends, np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8), hashes)
    if name in ("murmur", "murmur2"):
        plain = (hashes & np.uint32(0x7FFFFFFF)).astype(np.int64)
    else:
        plain = np.abs(hashes.view(np.int32).astype(np.int64))
        plain[plain == 1 << 31] = 0
    return plain % num_partitions


def _longs(texts: pa.Array) -> Int64Array | None:
    """The numbers that texts are, by the rule of `_modulo`; None where one is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pc.all(pc.match_substring_regex(texts, f"^{_WHOLE}$"), min_count=0).as_py():
        return None
    try:
        return np.asarray(pc.replace_substring_regex(texts, r"^\+", "").cast(pa.int64()))
    except pa.ArrowInvalid:
        return None  # beyond 64 bits


def _texts(values: NDArray[Any] | pa.Array, data_type: DataType) -> pa.Array | None:
    """`partition_text` of each value, as large_string."""
    import pyarrow as pa

    if isinstance(values, pa.Array):
        if data_type is DataType.BYTES:
            return pa.array([value.as_py().hex() for value in values], pa.large_string())
        return values.cast(pa.large_binary()).cast(pa.large_string()) if data_type.is_text else None
    return None if data_type.stored.is_floating else pa.array(values).cast(pa.large_string())
