"""Inverted index: doc lists of each dict id, one after the other (docs/format/sorted-and-inverted-index.md)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinotpy.kernels.csr import inverted_index
from pinotpy.segment import layout
from pinotpy.segment.buffers import BufferSink, ColumnBuffers, Wrong
from pinotpy.segment.layout import BufferEntry
from pinotpy.segment.metadata import ColumnMetadata


def write_inverted_index(writer: BufferSink, ids: NDArray[Any], cardinality: int, mv_offsets: NDArray[np.uint32] | None) -> list[BufferEntry]:
    """Of dict ids; `mv_offsets` for multi-value columns."""
    offsets, docs = inverted_index(ids, cardinality, mv_offsets)
    return [writer.append(layout.INVERTED_OFFSETS, offsets), writer.append(layout.INVERTED_DOCS, docs)]


def check_inverted_sizes(column: ColumnMetadata, sizes: dict[str, int], wrong: Wrong) -> None:
    """Raises unless both buffers are there, over a dictionary, with sizes that can be, or none is."""
    if layout.INVERTED_OFFSETS not in sizes and layout.INVERTED_DOCS not in sizes:
        return
    if layout.INVERTED_OFFSETS not in sizes or layout.INVERTED_DOCS not in sizes or not column.has_dictionary:
        raise wrong("inverted index", "offsets and docs over a dictionary", sorted(sizes))
    docs = sizes[layout.INVERTED_DOCS]
    if sizes[layout.INVERTED_OFFSETS] != 4 * (column.cardinality + 1) or docs % 4 or docs > 4 * column.num_values:
        raise wrong("inverted index", f"{column.cardinality + 1} offsets, at most {column.num_values} docs", f"{sizes[layout.INVERTED_OFFSETS]}, {docs} bytes")


def check_inverted_index(buffers: ColumnBuffers, num_docs: int, wrong: Wrong) -> None:
    """Raises unless every list lies within the buffer and every doc within the segment."""
    if layout.INVERTED_OFFSETS not in buffers:
        return
    offsets, docs = buffers.view(layout.INVERTED_OFFSETS, np.uint32), buffers.view(layout.INVERTED_DOCS, np.int32)
    if offsets[0] != 0 or int(offsets[-1]) != len(docs) or (offsets[1:] < offsets[:-1]).any():
        raise wrong("offsets of the inverted index", f"ascending from 0 to {len(docs)}", f"{offsets[:1]}…{offsets[-1:]}")
    if len(docs) and (int(docs.min()) < 0 or int(docs.max()) >= num_docs):
        raise wrong("docs of the inverted index", f"in [0, {num_docs})", f"{docs.min()}…{docs.max()}")
