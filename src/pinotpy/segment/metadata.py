"""The metadata of a segment: what it holds and where each buffer lies. Writes the `metadata` file; metadata_reader.py
reads it.

Values are in stored form; in JSON integers are numbers, floats the shortest text that reads back equal (also "inf"),
and bytes are hex (docs/format/segment.md).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from pinotpy.data_types import DataType, FieldType
from pinotpy.segment import layout
from pinotpy.segment.checksum import crc32c
from pinotpy.segment.layout import BufferEntry
from pinotpy.segment.star_tree.metadata import FEATURE as STAR_TREE_FEATURE
from pinotpy.segment.star_tree.metadata import StarTreeMetadata

Stored = int | float | bytes

DICTIONARY_ENCODING: Final = "DICTIONARY"
PACKED_ENCODING: Final = "PACKED"
RAW_ENCODING: Final = "RAW"
ENCODINGS: Final = (DICTIONARY_ENCODING, PACKED_ENCODING, RAW_ENCODING)


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """Which partitions the values of a column fall into."""

    function_name: str
    num_partitions: int
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ColumnMetadata:
    """One column. `width` is bytes of one id or value, or bits when packed; `cardinality` is -1 for raw columns."""

    name: str
    data_type: DataType
    field_type: FieldType
    single_value: bool
    encoding: str
    width: int
    num_values: int
    cardinality: int
    is_sorted: bool
    min_value: Stored | None
    max_value: Stored | None
    default_null: Stored
    num_nulls: int
    max_values_per_doc: int
    longest_bytes: int  # of one VAR value, else the width of the stored type
    codec: str | None  # LZ4, ZSTANDARD, SNAPPY, DELTA: raw values in compressed chunks
    chunk_bytes: int  # decompressed size of all chunks but the last; 0 without codec
    partition: PartitionMetadata | None
    buffers: tuple[BufferEntry, ...]

    def buffer(self, kind: str) -> BufferEntry | None:
        """The buffer of that kind, or None."""
        return next((entry for entry in self.buffers if entry.kind == kind), None)

    @property
    def has_dictionary(self) -> bool:
        return self.encoding != RAW_ENCODING


@dataclass(frozen=True, slots=True)
class TimeRange:
    """First and last value of the time column: milliseconds since the epoch, and as they stand in the column."""

    column: str
    start_ms: int
    end_ms: int
    start_raw: str
    end_raw: str


@dataclass(frozen=True, slots=True)
class SegmentMetadata:
    """A whole segment. `crc` is a function of the content alone; `creation_time_ms` stands outside of it."""

    segment_name: str
    table_name: str
    num_docs: int
    creation_time_ms: int
    time_range: TimeRange | None
    columns: tuple[ColumnMetadata, ...]
    files: tuple[tuple[str, int], ...]  # name, size in bytes
    crc: int
    star_trees: tuple[StarTreeMetadata, ...] = ()

    @property
    def crc_text(self) -> str:
        """As Pinot writes it: a decimal string."""
        return str(self.crc)

    @property
    def size_bytes(self) -> int:
        """Of all columns files."""
        return sum(size for _, size in self.files)

    def buffers(self) -> Iterator[BufferEntry]:
        """Of all columns and star-trees."""
        for column in self.columns:
            yield from column.buffers
        for tree in self.star_trees:
            yield from tree.buffers

    def column(self, name: str) -> ColumnMetadata | None:
        """The column of that name, or None."""
        return next((column for column in self.columns if column.name == name), None)

    def to_bytes(self) -> bytes:
        """The metadata file. Equal metadata gives equal bytes."""
        body = {"creationTimeMs": self.creation_time_ms, "segmentCrc": self.crc_text, "content": _content(self)}
        return layout.metadata_bytes(orjson.dumps(body, option=orjson.OPT_INDENT_2))


def segment_crc(metadata: SegmentMetadata) -> int:
    """CRC over the content and the CRCs of the buffers that the build wrote; buffers appended by reloads do not
    count.
    """
    built = [column for column in metadata.columns if any(entry.file == 0 for entry in column.buffers)]
    content = {
        "segmentName": metadata.segment_name,
        "tableName": metadata.table_name,
        "numDocs": metadata.num_docs,
        "time": _time_json(metadata.time_range),
        "columns": [
            {key: value for key, value in _column_json(column).items() if key != "buffers"} for column in built
        ],
    }
    crc = crc32c(orjson.dumps(content, option=orjson.OPT_SORT_KEYS))
    for column in built:
        for entry in column.buffers:
            if entry.file == 0:
                crc = crc32c(struct.pack("<QI", entry.size_bytes, entry.crc), crc)
    for tree in metadata.star_trees:
        if all(entry.file == 0 for entry in tree.buffers):
            crc = crc32c(orjson.dumps(tree.content_json(), option=orjson.OPT_SORT_KEYS), crc)
            for entry in tree.buffers:
                crc = crc32c(struct.pack("<QI", entry.size_bytes, entry.crc), crc)
    return crc


def original_metadata(metadata: SegmentMetadata) -> SegmentMetadata:
    """As the build wrote it: with the first columns file alone, and kinds as they were before reloads dropped them.

    The segment's CRC is the same: what reloads append does not count (docs/format/segment.md).
    """
    columns = []
    for column in metadata.columns:
        buffers = tuple(
            replace(entry, kind=layout.built_kind(entry.kind)) for entry in column.buffers if entry.file == 0
        )
        if buffers:
            columns.append(replace(column, buffers=buffers))
    trees = tuple(tree for tree in metadata.star_trees if all(entry.file == 0 for entry in tree.buffers))
    return replace(metadata, columns=tuple(columns), files=metadata.files[:1], star_trees=trees)


def stored_json(value: Stored | None) -> int | str | None:
    """A stored value as it stands in metadata."""
    if isinstance(value, bytes):
        return value.hex()
    return repr(value) if isinstance(value, float) else value


def _content(metadata: SegmentMetadata) -> dict[str, Any]:
    content = {
        "requires": [STAR_TREE_FEATURE] if metadata.star_trees else [],
        "segmentName": metadata.segment_name,
        "tableName": metadata.table_name,
        "numDocs": metadata.num_docs,
        "time": _time_json(metadata.time_range),
        "files": [{"name": name, "size": size} for name, size in metadata.files],
        "columns": [_column_json(column) for column in metadata.columns],
    }
    if metadata.star_trees:
        content["starTrees"] = [tree.to_json() for tree in metadata.star_trees]
    return content


def _time_json(time_range: TimeRange | None) -> dict[str, Any] | None:
    if time_range is None:
        return None
    return {
        "column": time_range.column,
        "startMs": time_range.start_ms,
        "endMs": time_range.end_ms,
        "startRaw": time_range.start_raw,
        "endRaw": time_range.end_raw,
    }


def _column_json(column: ColumnMetadata) -> dict[str, Any]:
    partition = column.partition
    return {
        "name": column.name,
        "dataType": column.data_type.value,
        "fieldType": column.field_type.value,
        "singleValue": column.single_value,
        "encoding": column.encoding,
        "width": column.width,
        "numValues": column.num_values,
        "cardinality": column.cardinality,
        "sorted": column.is_sorted,
        "min": stored_json(column.min_value),
        "max": stored_json(column.max_value),
        "defaultNull": stored_json(column.default_null),
        "numNulls": column.num_nulls,
        "maxValuesPerDoc": column.max_values_per_doc,
        "longestBytes": column.longest_bytes,
        "codec": column.codec,
        "chunkBytes": column.chunk_bytes,
        "partition": None
        if partition is None
        else {
            "functionName": partition.function_name,
            "numPartitions": partition.num_partitions,
            "partitions": list(partition.partitions),
        },
        "buffers": [_buffer_json(entry) for entry in column.buffers],
    }


def _buffer_json(entry: BufferEntry) -> dict[str, Any]:
    plain = {"kind": entry.kind, "file": entry.file, "offset": entry.offset, "size": entry.size_bytes, "crc": entry.crc}
    return plain | {"settings": orjson.loads(entry.settings)} if entry.settings else plain
