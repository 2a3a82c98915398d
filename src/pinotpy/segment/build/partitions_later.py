"""Partitions of a segment that was built without them, or by another scheme: computed of its values, written into its
metadata.

The buffers stay as they are; the metadata are new, and with them the segment's CRC.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import distinct
from pinotpy.config.indexing import ColumnPartitionConfig
from pinotpy.segment import layout
from pinotpy.segment.build.partition_gaps import has_partitions
from pinotpy.segment.column import ImmutableColumn
from pinotpy.segment.directory.file_directory import FileDirectory
from pinotpy.segment.immutable import ImmutableSegment
from pinotpy.segment.metadata import PartitionMetadata, SegmentMetadata, segment_crc
from pinotpy.segment.partition import is_partition_function, partitions_of


def with_partitions(segment: ImmutableSegment, wanted: Mapping[str, ColumnPartitionConfig]) -> SegmentMetadata:
    """The metadata that a build with the scheme `wanted` would have written: partitions of its columns, of those whose
    values all have one, and of no others. The same metadata, CRC included, where nothing is new.
    """
    columns = tuple(
        replace(column, partition=_partition(segment.column(column.name), wanted.get(column.name)))
        for column in segment.metadata.columns
    )
    if columns == segment.metadata.columns:
        return segment.metadata
    changed = replace(segment.metadata, columns=columns)
    return replace(changed, crc=segment_crc(changed))


def write_metadata(folder: Path, metadata: SegmentMetadata) -> None:
    """Put other metadata in the place of those of the segment in `folder`, in one step."""
    draft = FileDirectory(folder).amend()
    try:
        draft.append(layout.METADATA, metadata.to_bytes())
        draft.commit()
    finally:
        draft.abort()


def is_by_scheme(partition: PartitionMetadata | None, wanted: ColumnPartitionConfig) -> bool:
    """Whether recorded partitions are those of a table's scheme."""
    return (
        partition is not None
        and _plain(partition.function_name) == _plain(str(wanted.function_name))
        and partition.num_partitions == wanted.num_partitions
    )


def _plain(function_name: str) -> str:
    # Two names of one function.
    return function_name.lower().replace("murmur2", "murmur")


def _partition(column: ImmutableColumn, wanted: ColumnPartitionConfig | None) -> PartitionMetadata | None:
    if wanted is None:
        return None
    recorded, function = column.metadata.partition, str(wanted.function_name)
    if is_by_scheme(recorded, wanted):
        return recorded
    if not is_partition_function(function) or not has_partitions(column.data_type):
        return None
    partitions = partitions_of(function, wanted.num_partitions, _distinct(column), column.data_type)
    return None if partitions is None else PartitionMetadata(function, wanted.num_partitions, partitions)


def _distinct(column: ImmutableColumn) -> NDArray[Any] | pa.Array:
    """All stored values of a column, each once, also those that stand for nulls."""
    dictionary = column.dictionary
    if dictionary is not None:
        return np.array(dictionary.values()) if column.data_type.stored.is_fixed else dictionary.arrow()
    raw = column.raw_values()
    return distinct(raw) if isinstance(raw, np.ndarray) else raw.unique()
