"""JSON objects of plain values, many at once: what the kernel reads of a batch, as input form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.ingest.readers.spec import InputBatch, ReaderColumn
from pinotpy.kernels.ingest import json_objects as kernel

# Columns whose values are taken as JSON has them; what else they may hold, the kernel leaves out.
_KINDS: Final = {
    DataType.INT: kernel.WHOLE,
    DataType.LONG: kernel.WHOLE,
    DataType.TIMESTAMP: kernel.WHOLE,
    DataType.FLOAT: kernel.DOUBLE,
    DataType.DOUBLE: kernel.DOUBLE,
    DataType.BOOLEAN: kernel.TRUTH,
    DataType.STRING: kernel.TEXT,
}
_NO_BYTES: Final = np.frombuffer(b"\0", np.uint8)  # read-only, as those of Arrow: one compiled kernel serves both


class PlainObjects:
    """Reads payloads of one table; of one thread at a time."""

    def __init__(self, columns: Sequence[ReaderColumn]) -> None:
        self._names = [column.name for column in columns]
        self._kinds = [
            _KINDS.get(column.data_type, kernel.OTHER) if column.single_value and not column.nested else kernel.OTHER
            for column in columns
        ]
        self._table = kernel.new_columns([name.encode() for name in self._names], self._kinds)

    def read(self, payloads: pa.Array, numbers: Int64Array) -> tuple[InputBatch, Int64Array]:
        """What could be read, and the numbers of the other payloads.

        Args:
            payloads: Arrow binary. numbers: which ones are read, int64.
        """
        ends = np.frombuffer(payloads.buffers()[1], np.int32)[payloads.offset :].astype(np.int64)
        begins, ends = ends[numbers], ends[numbers + 1]
        count = len(numbers)
        buffer = payloads.buffers()[2]
        data = np.frombuffer(buffer, np.uint8) if buffer is not None and buffer.size else _NO_BYTES
        words = np.empty((len(self._names), count), np.int64)
        lengths = np.empty((len(self._names), count), np.int32)
        rows, left_out = np.empty(count, np.int64), np.empty(count, np.int64)
        num_rows = kernel.read_objects(data, begins, ends, self._table, words, lengths, rows, left_out)
        arrays = [
            self._array(number, data, words[number, :num_rows], lengths[number, :num_rows])
            for number in range(len(self._names))
        ]
        batch = pa.RecordBatch.from_arrays(arrays, self._names)
        return InputBatch(batch, numbers[rows[:num_rows]] + 1), numbers[left_out[: count - num_rows]]

    def _array(self, column: int, data: NDArray[Any], words: Int64Array, lengths: NDArray[np.int32]) -> pa.Array:
        num_rows, kind = len(words), self._kinds[column]
        is_null: NDArray[np.bool_] = lengths < 0
        num_nulls = int(np.count_nonzero(is_null))
        if num_nulls == num_rows:
            return pa.nulls(num_rows)
        if kind == kernel.TRUTH:
            return pa.array(words != 0, mask=is_null)
        validity = pa.array(~is_null).buffers()[1] if num_nulls else None
        if kind == kernel.TEXT:
            offsets = np.empty(num_rows + 1, np.int32)
            texts = np.empty(int(lengths.sum(dtype=np.int64)) + num_nulls, np.uint8)
            kernel.gather_texts(data, words, lengths, offsets, texts)
            buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(texts)]
            return pa.Array.from_buffers(pa.string(), num_rows, buffers, num_nulls)
        arrow = pa.int64() if kind == kernel.WHOLE else pa.float64()
        return pa.Array.from_buffers(arrow, num_rows, [validity, pa.py_buffer(words)], num_nulls)
