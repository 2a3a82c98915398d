"""ColumnParts: one column of immutable rows as queries read it, in arrays that may lie anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.segment.dictionary_encode import id_dtype


@dataclass(frozen=True, slots=True)
class ColumnParts:
    """The arrays of one column; those that it does not have are None.

    forward: with a dictionary the id of each value, its rank among the distinct ones; without one the values of a fixed
        type, or the bytes of all texts.
    text_ends: texts without a dictionary, int64: text t is forward[text_ends[t]:text_ends[t + 1]].
    dictionary: the distinct values ascending, each of which occurs; of texts their bytes, one behind the other.
    dictionary_ends: of a dictionary of texts, int32, as text_ends.
    value_ends: multi-value only, uint32, shape (rows + 1,): values of row r are [value_ends[r], value_ends[r + 1]).
    nulls: one bit a row, 1 = the row had no value (the default stands in its place); None: no row.
    """

    forward: NDArray[Any]
    text_ends: Int64Array | None = None
    dictionary: NDArray[Any] | None = None
    dictionary_ends: NDArray[np.int32] | None = None
    value_ends: NDArray[np.uint32] | None = None
    nulls: NDArray[np.uint8] | None = None

    @property
    def num_values(self) -> int:
        return len(self.forward) if self.text_ends is None else len(self.text_ends) - 1

    @property
    def cardinality(self) -> int:
        """Of the dictionary."""
        assert self.dictionary is not None
        return len(self.dictionary) if self.dictionary_ends is None else len(self.dictionary_ends) - 1

    def dictionary_texts(self) -> pa.Array:
        """A dictionary of texts as Arrow binary, zero-copy."""
        assert self.dictionary is not None and self.dictionary_ends is not None
        buffers = [None, pa.py_buffer(self.dictionary_ends), pa.py_buffer(self.dictionary)]
        return pa.Array.from_buffers(pa.binary(), self.cardinality, buffers)

    def texts(self) -> pa.Array:
        """Texts without a dictionary as Arrow large_binary, zero-copy."""
        assert self.text_ends is not None
        buffers = [None, pa.py_buffer(self.text_ends), pa.py_buffer(self.forward)]
        return pa.Array.from_buffers(pa.large_binary(), self.num_values, buffers)

    def cut(self, first_row: int, end_row: int) -> ColumnParts:
        """Rows [first_row, end_row); a dictionary has the values that occur in these alone. Copies what it has to."""
        begin, stop, value_ends = first_row, end_row, None
        if self.value_ends is not None:
            begin, stop = int(self.value_ends[first_row]), int(self.value_ends[end_row])
            value_ends = self.value_ends[first_row : end_row + 1] - np.uint32(begin)
        nulls = null_bits(self.null_mask(end_row)[first_row:])
        if self.text_ends is not None:
            low, high = int(self.text_ends[begin]), int(self.text_ends[stop])
            ends = self.text_ends[begin : stop + 1] - low
            return ColumnParts(self.forward[low:high], text_ends=ends, value_ends=value_ends, nulls=nulls)
        if self.dictionary is None:
            return ColumnParts(self.forward[begin:stop], value_ends=value_ends, nulls=nulls)
        ids = self.forward[begin:stop]
        occurring = np.flatnonzero(np.bincount(ids, minlength=self.cardinality))
        ranks = np.zeros(self.cardinality, id_dtype(len(occurring)))
        ranks[occurring] = np.arange(len(occurring), dtype=ranks.dtype)
        return ColumnParts(ranks.take(ids), None, *self._dictionary_of(occurring), value_ends, nulls)

    def _dictionary_of(self, ids: Int64Array) -> tuple[NDArray[Any], NDArray[np.int32] | None]:
        assert self.dictionary is not None
        if self.dictionary_ends is None:
            return self.dictionary[ids], None
        return binary_arrays(self.dictionary_texts().take(pa.array(ids)))

    def null_mask(self, num_rows: int) -> NDArray[np.bool_]:
        """One bool for each of the first rows."""
        if self.nulls is None:
            return np.zeros(num_rows, np.bool_)
        return np.unpackbits(self.nulls, count=num_rows, bitorder="little").view(np.bool_)


def null_bits(is_null: NDArray[Any]) -> NDArray[np.uint8] | None:
    """`ColumnParts.nulls` of one bool, or one byte that is 0 or 1, a row."""
    return np.packbits(is_null, bitorder="little") if is_null.any() else None


def binary_arrays(texts: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """Bytes and ends of Arrow binary that begins at its first value; zero-copy."""
    _, ends_buffer, data = texts.buffers()
    # An array without values has buffers without bytes.
    ends = np.frombuffer(ends_buffer, np.int32, len(texts) + 1) if len(texts) else np.zeros(1, np.int32)
    return np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)[: int(ends[-1])], ends
