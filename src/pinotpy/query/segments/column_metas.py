"""Column metas of all segments of a query, one contiguous array a column, so that kernels and numpy see them at
once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.kernels.runtime import abi
from pinotpy.query.segments.segment_set import ColumnRows, Partitionings, SegmentSet
from pinotpy.segment.data_source import Column, Segment

_WHOLE_DOUBLES_MAX: Final = 1 << 53


class ColumnMetas:
    """int64[num_segments, META_WORDS] for each column that the query touches: those that the set of segments keeps.

    Encodings that kernels do not read in place (packed ids, compressed raw chunks) are decoded here, and the copies of
    their metas changed to point to the decoded arrays, which live as long as this object. Planning asks for metas
    without values (`planned`), and decodes where a scan will read them (`ready`): segments that are pruned are never
    decoded.
    """

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.segments = SegmentSet.of(segments)
        self._columns: dict[str, ColumnRows] = {}
        # Columns that are not read in place: the segments where the values are still missing.
        self._pending: dict[str, NDArray[np.bool_]] = {}
        self._decoded: list[Any] = []

    def of(self, name: str) -> Int64Array:
        """Metas of the column in every segment, not to be written to; raises UnknownColumnError."""
        return self.rows(name).metas

    def addresses(self, name: str) -> Int64Array:
        """Address of the column's meta row in every segment."""
        return self.rows(name).addresses

    def partitionings(self, name: str) -> Partitionings | None:
        """Partitions of the column's values in every segment; None where no segment recorded any."""
        return self.segments.partitionings(name)

    def column(self, name: str) -> Column:
        """The column in the first segment: for what is the same in all (type, single- or multi-value)."""
        return self.segments[0].column(name)

    def rows(self, name: str) -> ColumnRows:
        """All that is known of the column in every segment, its values as kernels read them."""
        rows = self.planned(name)
        if name in self._pending:
            self.ready(name, np.arange(len(self.segments)))
        return rows

    def within_doubles(self, name: str) -> bool:
        """Whether the segments' smallest and largest integers of a column tell that doubles hold all of them."""
        ranges = self.segments.ranges(name)
        return bool(
            ranges.known.all()
            and (ranges.least >= -_WHOLE_DOUBLES_MAX).all()
            and (ranges.most <= _WHOLE_DOUBLES_MAX).all()
        )

    def planned(self, name: str) -> ColumnRows:
        """The same but for the values of columns that must be decoded: M_DATA (and M_RAW_OFFSETS) are those of `ready`
        segments only. All other words are as they will be.
        """
        rows = self._columns.get(name)
        if rows is None:
            rows = self.segments.column(name)
            if not rows.in_place:
                metas = rows.metas.copy()
                packed = metas[:, abi.M_ENCODING] == abi.ENC_PACKED
                self._pending[name] = packed | (metas[:, abi.M_DATA] == 0)
                cardinalities = metas[packed, abi.M_CARDINALITY]
                metas[packed, abi.M_ENCODING], metas[packed, abi.M_DATA] = abi.ENC_DICT, 0
                metas[packed, abi.M_WIDTH] = np.where(
                    cardinalities <= 1 << 8, 1, np.where(cardinalities <= 1 << 16, 2, 4)
                )
                rows = rows.decoded(metas)
            self._columns[name] = rows
        return rows

    def is_ready(self, name: str) -> bool:
        """Whether nothing of a column that is planned must be decoded."""
        return name not in self._pending

    def ready(self, name: str, segments: Int64Array) -> None:
        """Have the values of a column that is planned in these segments, where kernels read them."""
        pending = self._pending.get(name)
        if pending is None:
            return
        wanted = np.zeros(len(pending), np.bool_)
        wanted[segments] = True
        rows = np.flatnonzero(wanted & pending)
        metas = self._columns[name].metas
        for row in rows.tolist():
            self._decode(self.segments[row].column(name), metas[row])
        pending[rows] = False
        if not pending.any():
            del self._pending[name]

    def _decode(self, column: Column, meta: Int64Array) -> None:
        if meta[abi.M_CARDINALITY] >= 0:
            data: NDArray[Any] = np.ascontiguousarray(column.ids())
            meta[abi.M_ENCODING] = abi.ENC_DICT
        else:
            values = column.raw_values()
            meta[abi.M_ENCODING] = abi.ENC_RAW
            if not isinstance(values, np.ndarray):
                data, offsets = _var_buffers(values)
                meta[abi.M_RAW_OFFSETS] = offsets.ctypes.data
                self._decoded.append(offsets)
            else:
                data = np.ascontiguousarray(values)
        if not data.size:
            data = np.zeros(1, data.dtype)
        meta[abi.M_WIDTH] = data.itemsize
        meta[abi.M_DATA] = data.ctypes.data
        self._decoded.append(data)


def _var_buffers(values: Any) -> tuple[NDArray[np.uint8], Int64Array]:
    # Arrow binary or large_binary, possibly sliced, as (bytes, int64 offsets).
    wide = np.int64 if "large" in str(values.type) else np.int32
    _, offsets, body = values.buffers()
    ends = np.frombuffer(offsets, wide)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    return np.frombuffer(body, np.uint8) if body is not None else np.zeros(1, np.uint8), ends
