"""Null vector: one bit a doc, 1 where the row had no value (docs/format/forward-index.md)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pinotpy.segment import layout
from pinotpy.segment.buffers import BufferSink, ColumnBuffers, Wrong
from pinotpy.segment.layout import BufferEntry


def write_null_vector(writer: BufferSink, nulls: NDArray[np.bool_]) -> list[BufferEntry]:
    """Of one bool a doc."""
    return [writer.append(layout.NULLS, np.packbits(nulls, bitorder="little"))]


def null_vector_sizes(num_docs: int) -> dict[str, int]:
    """Sizes that the buffers must have."""
    return {layout.NULLS: -(-num_docs // 8)}


def check_null_vector(buffers: ColumnBuffers, num_docs: int, num_nulls: int, wrong: Wrong) -> None:
    """Raises unless there are as many nulls as the metadata says and none behind the last doc."""
    if layout.NULLS not in buffers:
        return
    bits = np.unpackbits(buffers.view(layout.NULLS, np.uint8), bitorder="little")
    if int(bits[:num_docs].sum()) != num_nulls or bits[num_docs:].any():
        raise wrong("null bits", f"{num_nulls} nulls", int(bits.sum()))
