"""Raw columns of text numbered for one query: local numbers in every segment, and over them numbers for all segments, so that
groups are counted by number and only the texts of an answer are read again (kernels/text_numbers.py)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.errors import QueryExecutionError
from pinotpy.kernels import abi
from pinotpy.kernels import text_numbers as kernels
from pinotpy.query.control import QueryControl
from pinotpy.query.jobs import run_jobs

Docs = NDArray[np.int64]
_CHUNK: Final = 1 << 16
_INDEX_FIRST: Final = 1 << 14
_BYTES_MAX: Final = 2**31 - 1


class SegmentTexts:
    """The distinct texts of some docs of one segment.

    ids: uint32[len(docs)], the number of each doc's text. texts, ends: the distinct texts by number, one behind another.
    """

    def __init__(self, meta: NDArray[np.int64], docs: Docs, control: QueryControl) -> None:
        self.meta, self.docs = meta, docs
        self.ids = np.empty(len(docs), np.uint32)
        self.count = 0
        self._control = control
        # As long as they could become; memory that is not written takes none.
        size = _num_bytes(meta) if len(docs) else 0
        self._hashes, self._ends, self._texts = np.empty(len(docs), np.uint64), np.zeros(len(docs) + 1, np.int64), np.empty(size, np.uint8)
        self._index = np.zeros(_INDEX_FIRST, np.uint64)
        self._done = 0

    def number(self, most: int | None = None) -> None:
        """Number the next `most` docs, or all that are left; raises what the control raises."""
        end = len(self.docs) if most is None else min(self._done + most, len(self.docs))
        while self._done < end:
            self._control.check()
            last = min(self._done + _CHUNK, end)
            self._grow(self.count + last - self._done)
            self.count = kernels.number_texts(
                int(self.meta[abi.M_DATA]),
                int(self.meta[abi.M_RAW_OFFSETS]),
                int(self.meta[abi.M_NUM_VALUES]),
                self.docs[self._done : last],
                self.ids[self._done : last],
                self._index,
                self._hashes,
                self._ends,
                self._texts,
                self.count,
            )
            self._done = last
        if self._done == len(self.docs):
            self._index = np.zeros(0, np.uint64)
            self._control.reserve(self.count * 16 + int(self._ends[self.count]))

    def _grow(self, count: int) -> None:
        if count * 2 <= len(self._index):
            return
        # Chunks of texts that repeat ask for room that they do not take: only what is there doubles it again.
        size = len(self._index)
        while count * 2 > size:
            size *= 2
        self._index = np.zeros(size, np.uint64)
        kernels.fill_index(self._hashes[: self.count], self._index)

    @property
    def done(self) -> int:
        """Docs numbered so far."""
        return self._done

    @property
    def hashes(self) -> NDArray[np.uint64]:
        return self._hashes[: self.count]

    @property
    def addresses(self) -> tuple[int, int]:
        """Of the distinct texts and of their ends."""
        return self._texts.ctypes.data, self._ends.ctypes.data

    def dictionary(self) -> pa.Array:
        """The distinct texts by number, binary."""
        ends = self._ends[: self.count + 1]
        _check_size(int(ends[-1]))
        return pa.Array.from_buffers(pa.binary(), self.count, [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(self._texts[: int(ends[-1])])])


class UnitedTexts:
    """Numbers of the distinct texts of several segments together; what global_ids.ColumnIds asks of a numbering.

    num_ids: all numbers are below it, not all of them are used. remaps: of each segment int32[count], local number → number.
    """

    def __init__(self, segments: Sequence[SegmentTexts], control: QueryControl, *, threads: int, executor: Executor | None) -> None:
        self._kept = list(segments)
        self._segments = np.array([one.addresses for one in segments], np.int64).reshape(-1, 2)
        self._bounds = np.zeros(len(segments) + 1, np.int64)
        np.cumsum([one.count for one in segments], out=self._bounds[1:])
        hashes = np.concatenate([one.hashes for one in segments])
        numbers = np.empty(len(hashes), np.uint32)
        self._parts = max(threads, 1) if executor is not None and len(hashes) > _CHUNK else 1
        self._entries: list[NDArray[np.int64]] = [np.zeros(0, np.int64)] * self._parts
        run_jobs([partial(self._unite, part, hashes, numbers, control) for part in range(self._parts)], threads=threads, executor=executor)
        self.num_ids = max(map(len, self._entries)) * self._parts
        control.reserve(numbers.nbytes * 2)
        plain = numbers.view(np.int32)
        self.remaps = [plain[first:end] for first, end in zip(self._bounds[:-1].tolist(), self._bounds[1:].tolist(), strict=True)]

    def _unite(self, part: int, hashes: NDArray[np.uint64], numbers: NDArray[np.uint32], control: QueryControl) -> None:
        size = _INDEX_FIRST
        while size < 2.2 * len(hashes) / self._parts:
            size *= 2
        while True:
            control.check()
            index, entries = np.zeros(size, np.uint64), np.empty(size // 2, np.int64)
            count = kernels.unite_texts(self._segments, self._bounds, hashes, part, self._parts, index, numbers, entries)
            if count >= 0:
                self._entries[part] = entries[:count].copy()
                return
            size *= 2

    def values(self, ids: NDArray[np.integer[Any]]) -> pa.Array:
        """The texts of numbers, binary."""
        number, part = np.divmod(ids.astype(np.int64), self._parts)
        entries = np.empty(len(ids), np.int64)
        for each in range(self._parts):
            own = part == each
            entries[own] = self._entries[each][number[own]]
        offsets = np.empty(len(entries) + 1, np.int64)
        kernels.text_lengths(self._segments, self._bounds, entries, offsets)
        _check_size(int(offsets[-1]))
        body = np.empty(max(int(offsets[-1]), 1), np.uint8)
        kernels.copy_texts(self._segments, self._bounds, entries, offsets, body)
        return pa.Array.from_buffers(pa.binary(), len(entries), [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(body)])


class SharedNumbers:
    """The numbers of a raw column in all segments of a query, made when they are first asked for.

    texts: by segment, those that are read.
    """

    def __init__(self, texts: dict[int, SegmentTexts], num_segments: int) -> None:
        self._texts, self._num_segments = texts, num_segments
        self._united: UnitedTexts | None = None

    def find(self, control: QueryControl, *, threads: int, executor: Executor | None) -> tuple[UnitedTexts, NDArray[np.int64]]:
        """The numbering, and per segment the address of its int32 remap (0 where nothing is read)."""
        if self._united is None:
            self._united = UnitedTexts(list(self._texts.values()), control, threads=threads, executor=executor)
        remaps = np.zeros(self._num_segments, np.int64)
        remaps[list(self._texts)] = [remap.ctypes.data for remap in self._united.remaps]
        return self._united, remaps


def _num_bytes(meta: NDArray[np.int64]) -> int:
    """Bytes of all texts of a raw column: the last of its offsets."""
    return int(ctypes.c_int64.from_address(int(meta[abi.M_RAW_OFFSETS] + meta[abi.M_NUM_VALUES] * 8)).value)


def _check_size(size_bytes: int) -> None:
    if size_bytes > _BYTES_MAX:
        raise QueryExecutionError(f"the values of the groups take {size_bytes} bytes, more than an answer holds: group by shorter values or fewer")
