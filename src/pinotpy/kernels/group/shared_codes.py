"""Merging sorted dictionaries: of two the union, and where the values of one stand in a larger one.

Values of fixed types come as *words*: int64 that order like the values (`words_of`). VAR values come as int64 offsets
and the address of their bytes. A *directory* is a list of distinct values by id, in any order, with `order`: the ids in
the order of their values (empty where the ids themselves are in that order, as after a union).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int32, njit, types
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array

# A dictionary that is so many times smaller than the directory is looked up value by value instead of walked along.
SEEK_RATIO: Final = 16

_memcmp = types.ExternalFunction("memcmp", types.int32(types.intp, types.intp, types.intp))
_memcpy = types.ExternalFunction("memcpy", types.intp(types.intp, types.intp, types.intp))
_MAGNITUDE: Final = np.int64(0x7FFFFFFFFFFFFFFF)


def words_of(values: NDArray[Any]) -> Int64Array:
    """int64 that order like the values, integers as they are; of floats (no NaN, −0.0 = 0.0) the bits of the double
    with the magnitude of negative ones turned. A copy.
    """
    if values.dtype.kind != "f":
        return values.astype(np.int64)
    bits = (values.astype(np.float64) + 0.0).view(np.int64)
    return np.where(bits < 0, bits ^ _MAGNITUDE, bits)


def values_of(words: Int64Array, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Inverse of `words_of`."""
    if dtype.kind != "f":
        return words.astype(dtype)
    return np.where(words < 0, words ^ _MAGNITUDE, words).view(np.float64).astype(dtype)


# --- fixed types ---------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def union_words(a: Any, b: Any, out: Any) -> Any:
    """Distinct words of two ascending arrays into `out`, ascending; gives how many."""
    i = j = count = 0
    while i < len(a) and j < len(b):
        x, y = a[i], b[j]
        out[count] = min(x, y)
        count += 1
        i += x <= y
        j += y <= x
    while i < len(a):
        out[count] = a[i]
        count += 1
        i += 1
    while j < len(b):
        out[count] = b[j]
        count += 1
        j += 1
    return count


@njit(nogil=True)
def _word(words: Any, order: Any, rank: int) -> Any:
    return words[order[rank]] if len(order) > 0 else words[rank]


@njit(cache=True, nogil=True)
def map_words(words: Any, order: Any, local: Any, out: Any) -> Any:
    """out[i] (int32) = id of local[i] in the directory, -1 if it is not there; gives how many are not.

    Args:
        words, order: the directory (int64, int32). local: int64, ascending.
    """
    size, missing, rank = len(words), 0, 0
    seeks = len(local) * SEEK_RATIO < size
    for i in range(len(local)):
        value = local[i]
        if seeks:
            high = size
            while rank < high:
                middle = (rank + high) >> 1
                if _word(words, order, middle) < value:
                    rank = middle + 1
                else:
                    high = middle
        while rank < size and _word(words, order, rank) < value:
            rank += 1
        if rank < size and _word(words, order, rank) == value:
            out[i] = order[rank] if len(order) > 0 else int32(rank)
        else:
            out[i] = -1
            missing += 1
    return missing


@njit(cache=True, nogil=True)
def merge_order_words(words: Any, order: Any, known: int, out: Any) -> None:
    """The order of a directory that grew: ids 0 .. known-1 have `order`, those after it ascend by value.

    Args:
        words: int64, all values by id. order: int32[known] or empty. out: int32[len(words)], written.
    """
    rank, new = 0, known
    for i in range(len(words)):
        if new == len(words) or (rank < known and _word(words, order, rank) < words[new]):
            out[i] = order[rank] if len(order) > 0 else int32(rank)
            rank += 1
        else:
            out[i] = int32(new)
            new += 1


# --- VAR -----------------------------------------------------------------------------------------------------------


@njit(nogil=True)
def _compare(a: int, a_length: int, b: int, b_length: int) -> Any:
    # < 0, 0, > 0 as the bytes at address a are below, equal to, above those at b.
    order = _memcmp(a, b, min(a_length, b_length))
    return int(order) if order != 0 else a_length - b_length


@njit(nogil=True)
def _append(offsets: Any, count: int, out: int, source: int, length: int) -> None:
    position = offsets[count]
    _memcpy(out + position, source, length)
    offsets[count + 1] = position + length


@njit(cache=True, nogil=True)
def union_bytes(a: Any, a_bytes: int, b: Any, b_bytes: int, offsets: Any, out: Any) -> Any:
    """Distinct values of two ascending lists; gives how many.

    Args:
        a, b: int64 offsets; a_bytes, b_bytes: addresses. offsets: int64, room for all; out: uint8, room for all bytes.
    """
    i = j = count = 0
    offsets[0] = 0
    target = out.ctypes.data
    while i < len(a) - 1 or j < len(b) - 1:
        if i == len(a) - 1:
            order = 1
        elif j == len(b) - 1:
            order = -1
        else:
            order = _compare(a_bytes + a[i], a[i + 1] - a[i], b_bytes + b[j], b[j + 1] - b[j])
        if order <= 0:
            _append(offsets, count, target, a_bytes + a[i], a[i + 1] - a[i])
        else:
            _append(offsets, count, target, b_bytes + b[j], b[j + 1] - b[j])
        count += 1
        i += order <= 0
        j += order >= 0
    return count


@njit(nogil=True)
def _compare_at(offsets: Any, data: int, order: Any, rank: int, value: int, length: int) -> Any:
    position = int(order[rank]) if len(order) > 0 else rank
    return _compare(data + offsets[position], offsets[position + 1] - offsets[position], value, length)


@njit(cache=True, nogil=True)
def map_texts(offsets: Any, data: int, order: Any, local: Any, local_bytes: int, out: Any) -> Any:
    """`map_words` of VAR values: int64 offsets and address of the directory and of the dictionary."""
    size, missing, rank = len(offsets) - 1, 0, 0
    seeks = (len(local) - 1) * SEEK_RATIO < size
    for i in range(len(local) - 1):
        value, length = local_bytes + local[i], local[i + 1] - local[i]
        if seeks:
            high = size
            while rank < high:
                middle = (rank + high) >> 1
                if _compare_at(offsets, data, order, middle, value, length) < 0:
                    rank = middle + 1
                else:
                    high = middle
        order_of = 1
        while rank < size:
            order_of = _compare_at(offsets, data, order, rank, value, length)
            if order_of >= 0:
                break
            rank += 1
        if rank < size and order_of == 0:
            out[i] = order[rank] if len(order) > 0 else int32(rank)
        else:
            out[i] = -1
            missing += 1
    return missing


@njit(cache=True, nogil=True)
def merge_order_bytes(offsets: Any, data: int, order: Any, known: int, out: Any) -> None:
    """`merge_order_words` of VAR values."""
    rank, new, count = 0, known, len(offsets) - 1
    for i in range(count):
        takes_known = new == count
        if not takes_known and rank < known:
            takes_known = (
                _compare_at(offsets, data, order, rank, data + offsets[new], offsets[new + 1] - offsets[new]) < 0
            )
        if takes_known:
            out[i] = order[rank] if len(order) > 0 else int32(rank)
            rank += 1
        else:
            out[i] = int32(new)
            new += 1


@njit(cache=True, nogil=True)
def lengths_of(offsets: Any, ids: Any, out: Any) -> None:
    """out (int64[len(ids) + 1]) = offsets of the values of `ids` behind each other."""
    total = 0
    out[0] = 0
    for i in range(len(ids)):
        total += offsets[ids[i] + 1] - offsets[ids[i]]
        out[i + 1] = total


@njit(cache=True, nogil=True)
def bytes_of(offsets: Any, data: int, ids: Any, ends: Any, out: Any) -> None:
    """The bytes of the values of `ids` behind each other; `ends` from `lengths_of`."""
    target = out.ctypes.data
    for i in range(len(ids)):
        _memcpy(target + ends[i], data + offsets[ids[i]], ends[i + 1] - ends[i])


@njit(cache=True, nogil=True)
def is_ascending(code_map: Any) -> Any:
    """Whether every id is above the one before."""
    falls = 0
    for i in range(1, len(code_map)):
        falls += code_map[i] <= code_map[i - 1]
    return falls == 0


def warm() -> None:
    """Compile for the argument types that are used."""
    one, none = np.zeros(1, np.int64), np.empty(0, np.int32)
    ids, ends, data = np.zeros(1, np.int32), np.zeros(2, np.int64), np.zeros(1, np.uint8)
    union_words(one, one, np.zeros(2, np.int64))
    map_words(one, none, one, ids)
    merge_order_words(one, none, 1, ids)
    union_bytes(ends, 0, ends, 0, np.zeros(3, np.int64), data)
    map_texts(ends, data.ctypes.data, none, ends, data.ctypes.data, ids)
    merge_order_bytes(ends, data.ctypes.data, none, 1, ids)
    lengths_of(ends, one, ends.copy())
    bytes_of(ends, data.ctypes.data, one, ends, data)
    is_ascending(ids)
