"""The distinct texts of a raw column in one segment, for expressions that are computed once a text
(kernels/text/segment_text_codes.py).
"""

from __future__ import annotations

import ctypes
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.errors import QueryExecutionError
from pinotpy.kernels.runtime import abi
from pinotpy.kernels.text import segment_text_codes as kernels
from pinotpy.query.runtime.control import QueryControl

_CHUNK: Final = 1 << 16
_INDEX_FIRST: Final = 1 << 14
_BYTES_MAX: Final = 2**31 - 1


class SegmentTexts:
    """The distinct texts of some docs of one segment.

    ids: uint32[len(docs)], the number of each doc's text. texts, ends: the distinct texts by number, one behind
    another.
    """

    def __init__(self, meta: Int64Array, docs: Int64Array, control: QueryControl) -> None:
        self.meta, self.docs = meta, docs
        self.ids = np.empty(len(docs), np.uint32)
        self.count = 0
        self._control = control
        # As long as they could become; memory that is not written takes none.
        size = _num_bytes(meta) if len(docs) else 0
        self._hashes, self._ends, self._texts = (
            np.empty(len(docs), np.uint64),
            np.zeros(len(docs) + 1, np.int64),
            np.empty(size, np.uint8),
        )
        self._index = np.zeros(_INDEX_FIRST, np.uint64)
        self._done = 0

    def number(self, most: int | None = None) -> None:
        """Number the next `most` docs, or all that are left; raises what the control raises."""
        end = len(self.docs) if most is None else min(self._done + most, len(self.docs))
        while self._done < end:
            self._control.check()
            last = min(self._done + _CHUNK, end)
            self._grow(self.count + last - self._done)
            self.count = kernels.code_texts(
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
        return pa.Array.from_buffers(
            pa.binary(),
            self.count,
            [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(self._texts[: int(ends[-1])])],
        )


def _num_bytes(meta: Int64Array) -> int:
    """Bytes of all texts of a raw column: the last of its offsets."""
    return int(ctypes.c_int64.from_address(int(meta[abi.M_RAW_OFFSETS] + meta[abi.M_NUM_VALUES] * 8)).value)


def _check_size(size_bytes: int) -> None:
    if size_bytes > _BYTES_MAX:
        raise QueryExecutionError(
            f"the values of the groups take {size_bytes} bytes, more than an answer holds: group by shorter values or "
            "fewer"
        )
