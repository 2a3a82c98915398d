"""Range index: docs dealt to buckets by value, for ranges that select little (docs/format/range-index.md)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.data_types import StoredType
from pinotpy.kernels.codec.posting_builder import inverted_index
from pinotpy.kernels.filter.posting_bitmaps import assign_buckets
from pinotpy.segment import layout
from pinotpy.segment.buffers import BufferSink, ColumnBuffers, Wrong
from pinotpy.segment.layout import BufferEntry
from pinotpy.segment.metadata import ColumnMetadata

# Entries of a bucket: few, because those of two buckets are compared one by one; not fewer, because every bucket costs
# 12 bytes.
BUCKET_VALUES: Final = 256
_KINDS: Final = (layout.RANGE_BOUNDS, layout.RANGE_OFFSETS, layout.RANGE_DOCS)


def write_range_index(
    writer: BufferSink, values: NDArray[Any], mv_offsets: NDArray[np.uint32] | None
) -> list[BufferEntry]:
    """Of dict ids (unsigned) or raw values of a fixed type; `mv_offsets` for multi-value columns."""
    if values.dtype.kind == "u":
        values = values.astype(np.uint32, copy=False)  # one kernel for ids of all widths
    bounds = _bounds(values)
    buckets = np.empty(len(values), np.uint32)
    assign_buckets(values, bounds, buckets)
    offsets, docs = inverted_index(buckets, len(bounds), mv_offsets)
    return [
        writer.append(layout.RANGE_BOUNDS, bounds),
        writer.append(layout.RANGE_OFFSETS, offsets),
        writer.append(layout.RANGE_DOCS, docs),
    ]


def _bounds(values: NDArray[Any]) -> NDArray[Any]:
    """Least values of buckets of about equal size. A value that fills a bucket has one of its own."""
    ordered = np.sort(values)
    sampled = ordered[::BUCKET_VALUES]
    heavy = np.unique(sampled[1:][sampled[1:] == sampled[:-1]])
    behind = ordered.searchsorted(heavy, side="right")
    return np.unique(np.concatenate([sampled, ordered[behind[behind < len(ordered)]]]))


def check_range_sizes(column: ColumnMetadata, sizes: dict[str, int], wrong: Wrong) -> None:
    """Raises unless all three buffers are there, over a dictionary or raw numbers, with sizes that fit together, or
    none is.
    """
    present = [sizes[kind] for kind in _KINDS if kind in sizes]
    if not present:
        return
    if len(present) != len(_KINDS) or not (column.has_dictionary or column.data_type.stored.is_fixed):
        raise wrong("range index", f"{', '.join(_KINDS)} over a dictionary or raw numbers", sorted(sizes))
    bounds, offsets, docs = present
    width = _bound_type(column).itemsize
    if (
        bounds % width
        or offsets != bounds // width * 4 + 4
        or docs % 4
        or docs > 4 * column.num_values
        or (bounds == 0) != (column.num_values == 0)
    ):
        raise wrong("range index", f"{width} bytes a bucket, 4 an offset, at most {column.num_values} docs", present)


def _bound_type(column: ColumnMetadata) -> np.dtype[Any]:
    return np.dtype("<u4") if column.has_dictionary else np.dtype(column.data_type.stored.numpy)


def check_range_index(column: ColumnMetadata, buffers: ColumnBuffers, num_docs: int, wrong: Wrong) -> None:
    """Raises unless bounds and docs of a bucket ascend, lists lie within the buffer and docs within the segment."""
    if layout.RANGE_DOCS not in buffers:
        return
    bounds, offsets = (
        buffers.view(layout.RANGE_BOUNDS, _bound_type(column)),
        buffers.view(layout.RANGE_OFFSETS, np.uint32),
    )
    docs = buffers.view(layout.RANGE_DOCS, np.int32)
    if not (bounds[1:] > bounds[:-1]).all() or (
        column.data_type.stored is not StoredType.VAR and bounds.dtype.kind == "f" and np.isnan(bounds).any()
    ):
        raise wrong("bounds of the range index", "strictly ascending ones", "unordered ones")
    if offsets[0] != 0 or int(offsets[-1]) != len(docs) or (offsets[1:] < offsets[:-1]).any():
        raise wrong("offsets of the range index", f"ascending from 0 to {len(docs)}", f"{offsets[:1]}…{offsets[-1:]}")
    if len(docs) and (int(docs.min()) < 0 or int(docs.max()) >= num_docs):
        raise wrong("docs of the range index", f"in [0, {num_docs})", f"{docs.min()}…{docs.max()}")
