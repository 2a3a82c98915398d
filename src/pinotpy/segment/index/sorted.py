"""Sorted index: doc ranges of each dict id of a column that ascends (docs/format/sorted-and-inverted-index.md)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinotpy.kernels.codec.posting_builder import sorted_starts
from pinotpy.segment import layout
from pinotpy.segment.buffers import BufferSink, ColumnBuffers, Wrong
from pinotpy.segment.layout import BufferEntry


def write_sorted_index(writer: BufferSink, ids: NDArray[Any], cardinality: int) -> list[BufferEntry]:
    """Of ascending ids that use every value."""
    return [writer.append(layout.SORTED_STARTS, sorted_starts(ids, cardinality))]


def sorted_index_sizes(cardinality: int) -> dict[str, int]:
    """Sizes that the buffers must have."""
    return {layout.SORTED_STARTS: 4 * (cardinality + 1)}


def check_sorted_index(buffers: ColumnBuffers, num_docs: int, wrong: Wrong) -> None:
    """Raises unless the ranges lie within the segment."""
    starts = buffers.view(layout.SORTED_STARTS, np.uint32)
    if starts[0] != 0 or int(starts[-1]) != num_docs or (starts[1:] < starts[:-1]).any():
        raise wrong("doc ranges of the sorted index", f"ascending from 0 to {num_docs}", f"{starts[:1]}…{starts[-1:]}")
