"""Inverted index: the docs of each dict id, as lists one after the other or as Roaring bitmaps
(docs/format/sorted-and-inverted-index.md).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.kernels.codec.posting_builder import inverted_index
from pinotpy.kernels.codec.roaring import bitmap_offsets, bitmaps_at, first_bad_bitmap
from pinotpy.segment import layout
from pinotpy.segment.buffers import BufferSink, ColumnBuffers, Wrong
from pinotpy.segment.layout import BufferEntry
from pinotpy.segment.metadata import ColumnMetadata

# The two forms, by their buffers.
AS_LISTS: Final = (layout.INVERTED_OFFSETS, layout.INVERTED_DOCS)
AS_BITMAPS: Final = (layout.INVERTED_COUNTS, layout.BITMAP_OFFSETS, layout.BITMAPS)

# Bitmaps are chosen if they take at most so much of the bytes of lists. A list of the index is read where it lies,
# which is worth something; a bitmap of few docs is decoded in a nanosecond a doc, one of many joined eighty times as
# fast as its list.
_SHARE_OF_LISTS: Final = 0.75
# Shorter lists on average: a container a doc takes more than a doc of a list.
_MEAN_DOCS_MIN: Final = 8


def write_inverted_index(
    writer: BufferSink, ids: NDArray[Any], cardinality: int, mv_offsets: NDArray[np.uint32] | None
) -> list[BufferEntry]:
    """Of dict ids; `mv_offsets` for multi-value columns."""
    offsets, docs = inverted_index(ids, cardinality, mv_offsets)
    if len(docs) >= cardinality * _MEAN_DOCS_MIN:
        begins = np.zeros(cardinality + 1, np.int64)
        bitmap_offsets(offsets, docs, begins)
        if int(begins[-1]) + begins.nbytes <= docs.nbytes * _SHARE_OF_LISTS:
            buffers: tuple[NDArray[Any], ...] = (offsets, begins, bitmaps_at(offsets, docs, begins))
            return [writer.append(kind, buffer) for kind, buffer in zip(AS_BITMAPS, buffers, strict=True)]
    return [writer.append(layout.INVERTED_OFFSETS, offsets), writer.append(layout.INVERTED_DOCS, docs)]


def check_inverted_sizes(column: ColumnMetadata, sizes: dict[str, int], wrong: Wrong) -> None:
    """Raises unless all buffers of one form are there, over a dictionary, with sizes that can be, or none is."""
    kinds = [kind for kind in (*AS_LISTS, *AS_BITMAPS) if kind in sizes]
    if not kinds:
        return
    if tuple(kinds) not in (AS_LISTS, AS_BITMAPS) or not column.has_dictionary:
        raise wrong(
            "inverted index", "offsets and docs, or counts, offsets and bitmaps, over a dictionary", sorted(sizes)
        )
    if tuple(kinds) == AS_BITMAPS:
        counts, begins = sizes[layout.INVERTED_COUNTS], sizes[layout.BITMAP_OFFSETS]
        if counts != 4 * (column.cardinality + 1) or begins != 8 * (column.cardinality + 1):
            raise wrong("inverted index", f"{column.cardinality + 1} counts and offsets", f"{counts}, {begins} bytes")
        return
    docs = sizes[layout.INVERTED_DOCS]
    if sizes[layout.INVERTED_OFFSETS] != 4 * (column.cardinality + 1) or docs % 4 or docs > 4 * column.num_values:
        raise wrong(
            "inverted index",
            f"{column.cardinality + 1} offsets, at most {column.num_values} docs",
            f"{sizes[layout.INVERTED_OFFSETS]}, {docs} bytes",
        )


def check_inverted_index(buffers: ColumnBuffers, num_docs: int, num_values: int, wrong: Wrong) -> None:
    """Raises unless every list lies within the buffer and every doc within the segment."""
    if layout.BITMAPS in buffers:
        _check_bitmaps(buffers, num_docs, num_values, wrong)
    if layout.INVERTED_OFFSETS not in buffers:
        return
    offsets, docs = buffers.view(layout.INVERTED_OFFSETS, np.uint32), buffers.view(layout.INVERTED_DOCS, np.int32)
    if offsets[0] != 0 or int(offsets[-1]) != len(docs) or (offsets[1:] < offsets[:-1]).any():
        raise wrong(
            "offsets of the inverted index", f"ascending from 0 to {len(docs)}", f"{offsets[:1]}…{offsets[-1:]}"
        )
    if len(docs) and (int(docs.min()) < 0 or int(docs.max()) >= num_docs):
        raise wrong("docs of the inverted index", f"in [0, {num_docs})", f"{docs.min()}…{docs.max()}")


def _check_bitmaps(buffers: ColumnBuffers, num_docs: int, num_values: int, wrong: Wrong) -> None:
    # Copies: kernels are compiled for arrays that may be written, and maps may not.
    counts, begins = (
        np.array(buffers.view(layout.INVERTED_COUNTS, np.uint32)),
        np.array(buffers.view(layout.BITMAP_OFFSETS, np.int64)),
    )
    for what, table, most in (("counts", counts, num_values), ("offsets", begins, buffers.size(layout.BITMAPS))):
        if table[0] != 0 or int(table[-1]) > most or (table[1:] < table[:-1]).any():
            raise wrong(
                f"{what} of the inverted index", f"ascending from 0 to at most {most}", f"{table[:1]}…{table[-1:]}"
            )
    if int(begins[-1]) != buffers.size(layout.BITMAPS):
        raise wrong("offsets of the inverted index", buffers.size(layout.BITMAPS), int(begins[-1]))
    bad = int(first_bad_bitmap(buffers.address(layout.BITMAPS), begins, counts, num_docs))
    if bad >= 0:
        raise wrong(
            "bitmap of the inverted index",
            f"a Roaring bitmap of {int(counts[bad + 1] - counts[bad])} docs below {num_docs}",
            f"that of dict id {bad}",
        )
