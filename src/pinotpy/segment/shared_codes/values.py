"""Lists of distinct values, by id: words of fixed types, or bytes. They only grow, by making a longer one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import StoredType
from pinotpy.kernels.group import shared_codes as kernel
from pinotpy.segment.data_source import Dictionary

Ids = NDArray[np.int32]
Integers = NDArray[np.integer[Any]]
# The order of ids that ascend with their values.
NO_ORDER = np.empty(0, np.int32)


class Values(Protocol):
    """Distinct values; a value's id is its position."""

    def __len__(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    def code_map(self, order: Ids, local: Any) -> tuple[Ids, int]:
        """Id of every value of the ascending `local` (-1: not here), and how many are not here; `order` as in
        kernels.group.shared_codes.
        """
        ...

    def extended(self, local: Any, positions: Int64Array) -> Values:
        """These values and, behind them, those of `local` at `positions`."""
        ...

    def picked(self, positions: Int64Array) -> Values:
        """The values at `positions` alone."""
        ...

    def merged_order(self, order: Ids, known: int) -> Ids:
        """The order of all, where `order` is that of the first `known` and the others ascend."""
        ...

    def take(self, ids: Integers) -> pa.Array:
        """The values of `ids` in stored form."""
        ...


@dataclass(frozen=True, slots=True)
class Words:
    """Values of a fixed type as int64 that order like them (kernels.group.shared_codes.words_of)."""

    words: Int64Array
    dtype: np.dtype[Any]

    def __len__(self) -> int:
        return len(self.words)

    @property
    def nbytes(self) -> int:
        return self.words.nbytes

    def code_map(self, order: Ids, local: Words) -> tuple[Ids, int]:
        ids = np.empty(len(local), np.int32)
        return ids, int(kernel.map_words(self.words, order, local.words, ids))

    def extended(self, local: Words, positions: Int64Array) -> Words:
        return Words(np.concatenate([self.words, local.words[positions]]), self.dtype)

    def picked(self, positions: Int64Array) -> Words:
        return Words(self.words[positions], self.dtype)

    def merged_order(self, order: Ids, known: int) -> Ids:
        out = np.empty(len(self), np.int32)
        kernel.merge_order_words(self.words, order, known, out)
        return out

    def take(self, ids: Integers) -> pa.Array:
        return pa.array(kernel.values_of(self.words[ids], self.dtype))


@dataclass(frozen=True, slots=True)
class Bytes:
    """VAR values: int64 offsets, one more than values, and their bytes."""

    offsets: Int64Array
    body: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def nbytes(self) -> int:
        return self.offsets.nbytes + self.body.nbytes

    def code_map(self, order: Ids, local: Bytes) -> tuple[Ids, int]:
        ids = np.empty(len(local), np.int32)
        return ids, int(
            kernel.map_texts(self.offsets, self.body.ctypes.data, order, local.offsets, local.body.ctypes.data, ids)
        )

    def picked(self, positions: Int64Array) -> Bytes:
        return Bytes(*self.gathered(positions))

    def extended(self, local: Bytes, positions: Int64Array) -> Bytes:
        offsets, body = local.gathered(positions)
        return Bytes(
            np.concatenate([self.offsets, offsets[1:] + self.offsets[-1]]),
            np.concatenate([self.body[: self.offsets[-1]], body]),
        )

    def merged_order(self, order: Ids, known: int) -> Ids:
        out = np.empty(len(self), np.int32)
        kernel.merge_order_bytes(self.offsets, self.body.ctypes.data, order, known, out)
        return out

    def take(self, ids: Integers) -> pa.Array:
        offsets, body = self.gathered(np.ascontiguousarray(ids, np.int64))
        kind = pa.binary() if offsets[-1] < 2**31 else pa.large_binary()
        ends = offsets.astype(np.int32) if kind == pa.binary() else offsets
        return pa.Array.from_buffers(kind, len(ids), [None, pa.py_buffer(ends), pa.py_buffer(body)])

    def gathered(self, ids: Int64Array) -> tuple[Int64Array, NDArray[np.uint8]]:
        """Offsets and bytes of the values of these ids."""
        offsets = np.empty(len(ids) + 1, np.int64)
        kernel.lengths_of(self.offsets, ids, offsets)
        body = np.empty(int(offsets[-1]), np.uint8)
        kernel.bytes_of(self.offsets, self.body.ctypes.data, ids, offsets, body)
        return offsets, body


def values_of_dictionary(dictionary: Dictionary, stored: StoredType) -> Words | Bytes:
    """The values of a segment's dictionary, ascending."""
    if stored.is_fixed:
        values = dictionary.values()
        return Words(kernel.words_of(values), values.dtype)
    _, offsets, body = dictionary.arrow().buffers()
    ends = np.frombuffer(offsets, np.int32)[: dictionary.cardinality + 1].astype(np.int64)
    return Bytes(ends, np.frombuffer(body, np.uint8) if body is not None else np.empty(0, np.uint8))


def union(
    parts: Sequence[Words | Bytes], run: Callable[[Sequence[Callable[[], None]]], None] | None = None
) -> Words | Bytes:
    """The distinct values of several ascending lists, ascending; pair by pair, so that n lists are read log n times.
    `run` runs the jobs of one reading; None: in turn.
    """
    while len(parts) > 1:
        united: list[Words | Bytes] = list(parts[::2])

        def unite(place: int, left: Words | Bytes, right: Words | Bytes, out: list[Words | Bytes] = united) -> None:
            out[place] = _union_pair(left, right)

        pairs = enumerate(zip(parts[::2], parts[1::2], strict=False))
        jobs = [partial(unite, place, left, right) for place, (left, right) in pairs]
        if run is None:
            for job in jobs:
                job()
        else:
            run(jobs)
        parts = united
    return parts[0]


def _union_pair(a: Words | Bytes, b: Words | Bytes) -> Words | Bytes:
    if isinstance(a, Words):
        assert isinstance(b, Words)
        words = np.empty(len(a) + len(b), np.int64)
        return Words(words[: kernel.union_words(a.words, b.words, words)].copy(), a.dtype)
    assert isinstance(b, Bytes)
    offsets = np.empty(len(a) + len(b) + 1, np.int64)
    body = np.empty(int(a.offsets[-1] + b.offsets[-1]), np.uint8)
    count = kernel.union_bytes(a.offsets, a.body.ctypes.data, b.offsets, b.body.ctypes.data, offsets, body)
    return Bytes(offsets[: count + 1].copy(), body[: offsets[count]].copy())
