"""What a segment lacks of what its table's config asks for: decided from its record and its metadata alone.

A record is complete if it has ranges of the content that the segment has, and the partitions of the config's scheme. A
file is complete if its metadata have the partitions: then the record can be completed by them, else partitions are
computed of the values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pinotpy.cluster.column_ranges import SegmentRanges, read_ranges
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.config.indexing import ColumnPartitionConfig
from pinotpy.config.table import TableConfig
from pinotpy.errors import DecodeError
from pinotpy.segment.build.partition_gaps import NO_COLUMN, has_partitions, partitioned_columns, why_unpartitioned
from pinotpy.segment.build.partitions_later import is_by_scheme
from pinotpy.segment.metadata import PartitionMetadata, SegmentMetadata


@dataclass(frozen=True, slots=True)
class RecordSays:
    """What a record says of its segment. ranges: None where it has none that hold, `why_no_ranges` then says why.
    partitions: of the columns of the config's scheme that it has by that scheme. others: columns with partitions by
    another scheme, or that the scheme does not have.
    """

    ranges: SegmentRanges | None
    why_no_ranges: str
    partitions: Mapping[str, tuple[int, ...]]
    others: Mapping[str, str]
    is_complete: bool


def read_record(record: SegmentZkMetadata, config: TableConfig) -> RecordSays:
    """What the record of a segment has of what brokers leave segments out by."""
    ranges, why = _ranges(record)
    wanted = partitioned_columns(config)
    partitions, others = {}, {}
    for name, entry in _entries(record).items():
        recorded = _recorded(entry)
        if name in wanted and recorded is not None and is_by_scheme(recorded, wanted[name]):
            partitions[name] = recorded.partitions
        elif wanted:
            others[name] = "partitions that cannot be read" if recorded is None else _other(recorded)
    is_complete = ranges is not None and not others and partitions.keys() == wanted.keys()
    return RecordSays(ranges, why, partitions, others, is_complete)


@dataclass(frozen=True, slots=True)
class FileLacks:
    """What a segment's metadata lack. computable: columns whose partitions can be computed of its values, with what the
    metadata say of them. gaps: columns that can have no partitions, with the reason. surplus: columns with partitions
    that the scheme does not have: with them the record has two partitioned columns, and prunes by neither.
    """

    computable: Mapping[str, str] = field(default_factory=dict)
    gaps: Mapping[str, str] = field(default_factory=dict)
    surplus: tuple[str, ...] = ()

    @property
    def asks_for_rewriting(self) -> bool:
        return bool(self.computable or self.surplus)


def file_lacks(metadata: SegmentMetadata, config: TableConfig) -> FileLacks:
    """What metadata lack of the config's scheme. A config without one asks for nothing, and takes nothing away."""
    wanted = partitioned_columns(config)
    computable, gaps = {}, {}
    for name, scheme in wanted.items():
        column = metadata.column(name)
        if column is None:
            gaps[name] = NO_COLUMN
        elif not is_by_scheme(column.partition, scheme):
            if scheme.function_name.is_built and has_partitions(column.data_type):
                computable[name] = "no partitions" if column.partition is None else _other(column.partition)
            else:
                gaps[name] = why_unpartitioned(column, scheme)
    partitioned = [column.name for column in metadata.columns if column.partition is not None]
    surplus = [name for name in partitioned if wanted and name not in wanted]
    return FileLacks(computable, gaps, tuple(surplus))


def scheme_text(scheme: ColumnPartitionConfig | PartitionMetadata) -> str:
    """`Murmur of 8`"""
    return f"{scheme.function_name} of {scheme.num_partitions}"


def _other(recorded: PartitionMetadata) -> str:
    return f"partitions by {scheme_text(recorded)}"


def _ranges(record: SegmentZkMetadata) -> tuple[SegmentRanges | None, str]:
    if not record.column_ranges:
        return None, "no ranges of columns"
    try:
        ranges = read_ranges(record.column_ranges)
    except DecodeError as error:
        return None, f"ranges that cannot be read: {error.message}"
    if (ranges.crc, ranges.num_docs) != (record.crc, record.total_docs):
        return None, "ranges of other content"
    return ranges, ""


def _entries(record: SegmentZkMetadata) -> Mapping[str, Any]:
    entries = (record.partition_metadata or {}).get("columnPartitionMap", {})
    return entries if isinstance(entries, dict) else {}


def _recorded(entry: Any) -> PartitionMetadata | None:
    """An entry of the record, None where it does not have the form that is written."""
    try:
        function, count, partitions = entry["functionName"], entry["numPartitions"], entry["partitions"]
    except (KeyError, TypeError):
        return None
    if not (isinstance(function, str) and type(count) is int and isinstance(partitions, list)):
        return None
    if not all(type(partition) is int for partition in partitions):
        return None
    return PartitionMetadata(function, count, tuple(partitions))
