"""Segments that cannot hold a value that is asked for: by their Bloom filters and by their partitions, all segments at
once.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.data_types import DataType
from pinotpy.kernels.codec.bloom import exclude
from pinotpy.kernels.runtime.abi import M_BLOOM
from pinotpy.query.model.predicate import FixedMembers, FixedRange, Test, VarMembers, VarRange
from pinotpy.query.segments.column_metas import ColumnMetas
from pinotpy.query.segments.segment_set import Partitionings
from pinotpy.segment.index.bloom import Stored, stored_hashes
from pinotpy.segment.partition import partition_of, partition_text

# Rules by which a segment is pruned; the statistics count them apart.
NOT_PRUNED: Final = 0
BY_MIN_MAX: Final = 1
BY_BLOOM: Final = 2
BY_PARTITION: Final = 3

# More values than this are looked up in the columns themselves: some segment's filter would let one of them pass
# anyway.
_VALUES_MAX: Final = 256


def excluded_by(test: Test, name: str, metas: ColumnMetas) -> NDArray[np.int8]:
    """For every segment the rule (BY_*) that tells that no value of column `name` passes `test`, or NOT_PRUNED."""
    rules = np.zeros(len(metas.segments), np.int8)
    words, partitionings = metas.planned(name).metas, metas.partitionings(name)
    has_filter = bool(words[:, M_BLOOM].any())
    if not has_filter and partitionings is None:
        return rules
    values = wanted_values(test)
    if values is None:
        return rules
    if has_filter:
        excluded = np.zeros(len(words), np.uint8)
        exclude(words, stored_hashes(values), excluded)
        rules[excluded != 0] = BY_BLOOM
    if partitionings is not None:
        rules[_outside_partitions(values, metas.column(name).data_type, partitionings)] = BY_PARTITION
    return rules


def wanted_values(test: Test) -> list[Stored] | None:
    """The stored values of = and IN; None for other tests and for long lists."""
    match test:
        case FixedRange(low, high):
            return [low] if low == high else None
        case VarRange(low, end):
            return [low] if end == low + b"\0" else None
        case FixedMembers(values):
            return values.tolist() if len(values) <= _VALUES_MAX else None
        case VarMembers(data, offsets):
            if len(offsets) - 1 > _VALUES_MAX:
                return None
            blob, ends = data.tobytes(), offsets.tolist()
            return [blob[first:end] for first, end in pairwise(ends)]
    return None


def _outside_partitions(values: list[Stored], data_type: DataType, partitionings: Partitionings) -> NDArray[np.bool_]:
    outside = np.zeros(len(partitionings.of_segment), np.bool_)
    texts = [partition_text(value, data_type) for value in values]
    if any(text is None for text in texts):
        return outside
    for number, (function, num_partitions) in enumerate(partitionings.functions):
        try:
            wanted = {partition_of(function, num_partitions, text) for text in texts if text is not None}
        except (KeyError, ValueError):
            continue  # not a function that is known here, or not one for these values: nothing is excluded
        at = np.flatnonzero(partitionings.of_segment == number)
        outside[at] = [wanted.isdisjoint(partitionings.held[segment]) for segment in at.tolist()]
    return outside
