"""RoaringBitmaps in their portable form, read with every length and order checked: they come from queries and columns,
and the C library trusts what it is given. Source: the published RoaringFormatSpec. All integers are little-endian.

    u32 cookie: 12346, then u32 containers; or 12347 | (containers − 1) << 16, then one bit a container: it is one of
        runs
    a container: u16 key, u16 cardinality − 1
    a container: u32 offset (absent with runs and fewer than 4 containers)
    the containers: u16 values ascending (at most 4096) | 1024 u64 of bits | u16 runs, a run: u16 start, u16 length − 1
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from pinotpy.errors import DecodeError

_PLAIN_COOKIE: Final = 12346
_RUN_COOKIE: Final = 12347
_CONTAINERS_MAX: Final = 1 << 16
_ARRAY_VALUES_MAX: Final = 4096
_BITSET_SIZE_BYTES: Final = 8192
_OFFSETS_FROM_CONTAINERS: Final = 4


def bitmap_of(values: NDArray[np.uint32]) -> BitMap:
    """The bitmap of these values."""
    return BitMap(values, optimize=False)


def read_bitmap(data: bytes, begin: int = 0) -> tuple[BitMap, int]:
    """The bitmap that begins at `begin`, and where it ends; raises DecodeError for bytes that are none."""
    reader = _Reader(data, begin)
    cookie = int(reader.take("<u4", 1)[0])
    if cookie & 0xFFFF == _RUN_COOKIE:
        num_containers = (cookie >> 16) + 1
        flags = np.unpackbits(reader.take("u1", (num_containers + 7) // 8), bitorder="little")[:num_containers].astype(
            np.bool_
        )
    elif cookie == _PLAIN_COOKIE:
        num_containers = int(reader.take("<u4", 1)[0])
        flags = np.zeros(min(num_containers, _CONTAINERS_MAX), np.bool_)
    else:
        raise DecodeError(f"expected the cookie of a RoaringBitmap, found {cookie}")
    if num_containers > _CONTAINERS_MAX:
        raise DecodeError(f"expected at most {_CONTAINERS_MAX} containers, found {num_containers}")
    descriptions = reader.take("<u2", 2 * num_containers).reshape(-1, 2).astype(np.int64)
    if (np.diff(descriptions[:, 0]) <= 0).any():
        raise DecodeError("expected ascending keys of containers, found others")
    offsets = None
    if cookie == _PLAIN_COOKIE or num_containers >= _OFFSETS_FROM_CONTAINERS:
        offsets = reader.take("<u4", num_containers)
    for number, cardinality in enumerate((descriptions[:, 1] + 1).tolist()):
        if offsets is not None and int(offsets[number]) != reader.position - begin:
            raise DecodeError(f"expected container {number} at {reader.position - begin}, found {int(offsets[number])}")
        _check_container(reader, cardinality, is_runs=bool(flags[number]))
    try:
        return BitMap.deserialize(data[begin : reader.position]), reader.position
    except (ValueError, IndexError) as error:
        raise DecodeError(f"expected a RoaringBitmap, found bytes that are none: {error}") from error


class _Reader:
    """Arrays out of bytes, one after the other."""

    def __init__(self, data: bytes, position: int) -> None:
        self.data, self.position = data, position

    def take(self, kind: str, count: int) -> NDArray[Any]:
        size_bytes = np.dtype(kind).itemsize * count
        if len(self.data) - self.position < size_bytes:
            raise DecodeError(
                f"expected {size_bytes} bytes of a RoaringBitmap at {self.position}, found "
                f"{len(self.data) - self.position}"
            )
        items = np.frombuffer(self.data, kind, count, self.position)
        self.position += size_bytes
        return items


def _check_container(reader: _Reader, cardinality: int, *, is_runs: bool) -> None:
    if is_runs:
        runs = reader.take("<u2", 2 * int(reader.take("<u2", 1)[0])).reshape(-1, 2).astype(np.int64)
        ends = runs.sum(axis=1)
        good = (
            bool((runs[1:, 0] > ends[:-1]).all())
            and bool((ends < 1 << 16).all())
            and int((runs[:, 1] + 1).sum()) == cardinality
        )
    elif cardinality <= _ARRAY_VALUES_MAX:
        values = reader.take("<u2", cardinality).astype(np.int64)
        good = bool((np.diff(values) > 0).all())
    else:
        good = int(np.unpackbits(reader.take("u1", _BITSET_SIZE_BYTES)).sum()) == cardinality
    if not good:
        raise DecodeError("expected containers of ascending values with their cardinality, found others")
