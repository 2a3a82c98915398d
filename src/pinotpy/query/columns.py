"""Column metas of all segments of a query, one contiguous array a column, so that kernels and numpy see them at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinotpy.kernels import abi
from pinotpy.segment.data_source import Column, Segment
from pinotpy.segment.metadata import PartitionMetadata

_META_BYTES = abi.META_WORDS * 8


@dataclass(frozen=True, slots=True)
class Partitionings:
    """How the segments are partitioned by one column.

    functions: distinct (function, number of partitions); of_segment: which of them segment s recorded, -1: none;
    held: the partitions of the values of segment s.
    """

    functions: tuple[tuple[str, int], ...]
    of_segment: NDArray[np.int64]
    held: tuple[frozenset[int], ...]


class ColumnMetas:
    """int64[num_segments, META_WORDS] for each column that the query touches, collected when first asked for.

    Encodings that kernels do not read in place (packed ids, compressed raw chunks) are decoded here, and the copies of
    their metas changed to point to the decoded arrays, which live as long as this object.
    """

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.segments = segments
        self._metas: dict[str, NDArray[np.int64]] = {}
        self._partitionings: dict[str, Partitionings | None] = {}
        self._decoded: list[Any] = []

    def of(self, name: str) -> NDArray[np.int64]:
        """Metas of the column in every segment; raises UnknownColumnError."""
        found = self._metas.get(name)
        if found is None:
            found = self._metas[name] = self._collect(name)
        return found

    def addresses(self, name: str) -> NDArray[np.int64]:
        """Address of the column's meta row in every segment."""
        metas = self.of(name)
        return metas.ctypes.data + np.arange(len(metas), dtype=np.int64) * _META_BYTES

    def partitionings(self, name: str) -> Partitionings | None:
        """Partitions of the column's values in every segment; None where no segment recorded any."""
        if name not in self._partitionings:
            self._partitionings[name] = _partitionings([segment.column(name).partitioning for segment in self.segments])
        return self._partitionings[name]

    def column(self, name: str) -> Column:
        """The column in the first segment: for what is the same in all (type, single- or multi-value)."""
        return self.segments[0].column(name)

    def _collect(self, name: str) -> NDArray[np.int64]:
        columns = [segment.column(name) for segment in self.segments]
        metas = np.array([column.meta for column in columns], np.int64).reshape(len(columns), abi.META_WORDS)
        in_place = (metas[:, abi.M_ENCODING] != abi.ENC_PACKED) & (metas[:, abi.M_DATA] != 0)
        for i in np.flatnonzero(~in_place):
            self._decode(columns[i], metas[i])
        return metas

    def _decode(self, column: Column, meta: NDArray[np.int64]) -> None:
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


def _partitionings(recorded: Sequence[PartitionMetadata | None]) -> Partitionings | None:
    if not any(recorded):
        return None
    numbers: dict[tuple[str, int], int] = {}
    of_segment = [-1 if one is None else numbers.setdefault((one.function_name, one.num_partitions), len(numbers)) for one in recorded]
    held = tuple(frozenset[int]() if one is None else frozenset(one.partitions) for one in recorded)
    return Partitionings(tuple(numbers), np.array(of_segment, np.int64), held)


def _var_buffers(values: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    # Arrow binary or large_binary, possibly sliced, as (bytes, int64 offsets).
    wide = np.int64 if "large" in str(values.type) else np.int32
    _, offsets, body = values.buffers()
    ends = np.frombuffer(offsets, wide)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    return np.frombuffer(body, np.uint8) if body is not None else np.zeros(1, np.uint8), ends
