"""One column of a chunk: where values are appended, and which parts of it are read.

One thread appends; what stands behind the rows that the log has published is not read by anybody else, and what stands
before it never changes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.kernels.text.segment_text_codes import code_texts
from pinotpy.segment.build.arrow_values import ColumnValues
from pinotpy.segment.build.column_writer import var_parts
from pinotpy.segment.consuming.chunk_layout import Area, ColumnLayout


def view(block: NDArray[np.uint8], area: Area) -> NDArray[Any]:
    """The array of an area."""
    return block[area.start : area.start + area.count * area.dtype.itemsize].view(area.dtype)


class ChunkColumn:
    """Views over the areas of one column.

    num_values, num_texts: how many are written; of the writer alone.
    """

    def __init__(self, layout: ColumnLayout, block: NDArray[np.uint8]) -> None:
        self.layout = layout
        self.nulls = view(block, layout.nulls)
        self.values: NDArray[Any] | None = None if layout.values is None else view(block, layout.values)
        self.value_ends: NDArray[np.uint32] | None = (
            None if layout.value_ends is None else view(block, layout.value_ends)
        )
        self._text_ends: Int64Array | None = None if layout.text_ends is None else view(block, layout.text_ends)
        self._text_bytes: NDArray[np.uint8] | None = (
            None if layout.text_bytes is None else view(block, layout.text_bytes)
        )
        self._index: _TextIndex | None = None
        self.num_values = 0
        self.num_texts = 0

    @property
    def text_ends(self) -> Int64Array:
        assert self._text_ends is not None, f"column '{self.layout.spec.name}' has no texts"
        return self._text_ends

    @property
    def text_bytes(self) -> NDArray[np.uint8]:
        assert self._text_bytes is not None, f"column '{self.layout.spec.name}' has no texts"
        return self._text_bytes

    def texts(self, begin: int, stop: int) -> pa.Array:
        """Texts [begin, stop) as Arrow large_binary, zero-copy."""
        ends = self.text_ends[begin : stop + 1]
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(self.text_bytes[: int(ends[-1])])]
        return pa.Array.from_buffers(pa.large_binary(), stop - begin, buffers)

    def texts_of(self, numbers: NDArray[np.uint32]) -> pa.Array:
        """All texts that interned values may name: the first ones, up to the greatest of `numbers`."""
        return self.texts(0, int(numbers.max()) + 1 if len(numbers) else 0)

    def rows_that_fit(self, incoming: IncomingColumn, first: int, end: int) -> int:
        """How many of the incoming rows [first, end) there is room for, whatever their texts have in common."""
        num_rows = end - first
        if incoming.value_ends is not None:
            ends = incoming.value_ends
            room = self.layout.room.values - self.num_values
            num_rows = int(np.searchsorted(ends[first : end + 1], int(ends[first]) + room, "right")) - 1
        if incoming.text_ends is not None:
            starts = incoming.text_ends
            used = int(self.text_ends[self.num_texts])
            begin = incoming.first_value(first)
            limit = int(starts[begin]) + self.layout.room.text_bytes - used
            values = int(np.searchsorted(starts[begin : incoming.first_value(end) + 1], limit, "right")) - 1
            num_rows = min(num_rows, incoming.whole_rows(first, values))
        return num_rows

    def append(self, incoming: IncomingColumn, first: int, end: int, row: int) -> None:
        """Write the incoming rows [first, end) as rows `row` and following; there is room for them."""
        begin, stop = incoming.first_value(first), incoming.first_value(end)
        num_values = stop - begin
        if incoming.nulls is not None:
            self.nulls[row : row + end - first] = incoming.nulls[first:end]
        if self.value_ends is not None:
            assert incoming.value_ends is not None
            self.value_ends[row + 1 : row + 1 + end - first] = (
                incoming.value_ends[first + 1 : end + 1] - incoming.value_ends[first] + np.uint32(self.num_values)
            )
        if incoming.text_ends is None:
            assert self.values is not None and incoming.fixed is not None
            self.values[self.num_values : self.num_values + num_values] = incoming.fixed[begin:stop]
        elif self.layout.is_interned:
            self._intern(incoming, begin, stop)
        else:
            self._append_texts(incoming, begin, stop)
        self.num_values += num_values

    def _intern(self, incoming: IncomingColumn, begin: int, stop: int) -> None:
        assert self.values is not None and incoming.text_ends is not None and incoming.text_bytes is not None
        if self._index is None:
            self._index = _TextIndex(self.layout.room.values)
        self.num_texts = code_texts(
            incoming.text_bytes.ctypes.data,
            incoming.text_ends.ctypes.data,
            len(incoming.text_ends) - 1,
            np.arange(begin, stop, dtype=np.int64),
            self.values[self.num_values : self.num_values + stop - begin],
            self._index.slots,
            self._index.hashes,
            self.text_ends,
            self.text_bytes,
            self.num_texts,
        )

    def _append_texts(self, incoming: IncomingColumn, begin: int, stop: int) -> None:
        assert incoming.text_ends is not None and incoming.text_bytes is not None
        low, high = int(incoming.text_ends[begin]), int(incoming.text_ends[stop])
        used = int(self.text_ends[self.num_texts])
        self.text_bytes[used : used + high - low] = incoming.text_bytes[low:high]
        ends = self.text_ends[self.num_texts + 1 : self.num_texts + 1 + stop - begin]
        np.add(incoming.text_ends[begin + 1 : stop + 1], used - low, out=ends)
        self.num_texts += stop - begin

    def close(self) -> None:
        """Nothing is appended any more: what only that needs goes."""
        self._index = None


class IncomingColumn:
    """One column of a batch in the form in which chunks take it.

    fixed: values of a fixed type. text_ends, text_bytes: of VAR, int64 and uint8. value_ends: of a multi-value. nulls:
    one bool a row, None: no null.
    """

    __slots__ = ("fixed", "nulls", "text_bytes", "text_ends", "value_ends")

    def __init__(self, column: ColumnValues) -> None:
        self.nulls = column.nulls
        self.value_ends = column.mv_offsets
        self.fixed: NDArray[Any] | None = None
        self.text_ends: Int64Array | None = None
        self.text_bytes: NDArray[np.uint8] | None = None
        if isinstance(column.values, np.ndarray):
            self.fixed = column.values
        else:
            self.text_ends, self.text_bytes = whole_texts(column.values)

    def first_value(self, row: int) -> int:
        """The number of the row's first value."""
        return row if self.value_ends is None else int(self.value_ends[row])

    def whole_rows(self, first: int, num_values: int) -> int:
        """How many rows from `first` on have all their values among the first `num_values`."""
        if self.value_ends is None:
            return num_values
        return int(np.searchsorted(self.value_ends[first:], int(self.value_ends[first]) + num_values, "right")) - 1


class _TextIndex:
    """The hash index of the texts of a column, of the writer alone. Memory that is not touched is not taken."""

    __slots__ = ("hashes", "slots")

    def __init__(self, texts_max: int) -> None:
        self.slots = np.zeros(1 << (2 * texts_max - 1).bit_length(), np.uint64)
        self.hashes = np.zeros(texts_max, np.uint64)


def whole_texts(column: pa.ChunkedArray) -> tuple[Int64Array, NDArray[np.uint8]]:
    """Offsets from 0 on, shape (n + 1,), and bytes of binary values of any making, without nulls."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(pa.binary())
    offsets, parts = var_parts(column)
    return offsets, parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, np.uint8), *parts])
