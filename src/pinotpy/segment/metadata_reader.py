"""Reads the `metadata` file of a segment: JSON of unknown origin, each value checked before anything relies on it."""

from __future__ import annotations

from typing import Any, Final

import orjson

from pinotpy.data_types import DataType, FieldType, StoredType
from pinotpy.errors import SegmentCorruptError, UnsupportedVersionError
from pinotpy.segment import layout
from pinotpy.segment.directory.directory import SegmentDirectory
from pinotpy.segment.layout import BufferEntry
from pinotpy.segment.metadata import (
    ENCODINGS,
    RAW_ENCODING,
    ColumnMetadata,
    PartitionMetadata,
    SegmentMetadata,
    Stored,
    TimeRange,
    segment_crc,
)
from pinotpy.segment.star_tree.metadata import FEATURE as STAR_TREE_FEATURE
from pinotpy.segment.star_tree.metadata import VERSION as STAR_TREE_VERSION
from pinotpy.segment.star_tree.metadata import StarTreeMetadata, star_tree_from_json

# Features without which a segment would be read wrong; a segment lists those that it needs.
KNOWN_FEATURES: Final[frozenset[str]] = frozenset({STAR_TREE_FEATURE})


def metadata_of(directory: SegmentDirectory) -> SegmentMetadata:
    """The metadata of the segment in a directory. Raises SegmentCorruptError, UnsupportedVersionError."""
    return read_metadata(
        directory.read(layout.METADATA, size_max=layout.METADATA_MAX_BYTES), f"{directory.location}/{layout.METADATA}"
    )


def read_metadata(data: bytes, file: str) -> SegmentMetadata:
    """Read a metadata file; `file` is for messages. Raises SegmentCorruptError, UnsupportedVersionError."""
    return _Reader(file).segment(layout.metadata_body(data, file))


class _Reader:
    """Turns JSON of unknown origin into metadata, or says what is wrong where."""

    def __init__(self, file: str) -> None:
        self._file = file

    def segment(self, body: bytes) -> SegmentMetadata:
        try:
            root = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise self._corrupt("$", "JSON", str(error)) from None
        content = self._object(root, "content", "$")
        unknown = [feature for feature in self._list(content, "requires", "$.content") if feature not in KNOWN_FEATURES]
        if unknown:
            raise UnsupportedVersionError(
                f"segment '{self._file}' needs features of a later build",
                found=unknown,
                supported=sorted(KNOWN_FEATURES),
            )
        crc_text = self._text(root, "segmentCrc", "$")
        if not (crc_text.isascii() and crc_text.isdigit()) or int(crc_text[:20]) >= 1 << 32:
            raise self._corrupt("$.segmentCrc", "a decimal CRC", crc_text[:40])
        num_docs = self._int(content, "numDocs", "$.content", 0, layout.DOCS_MAX)
        files = tuple(
            (
                self._text(item, "name", f"$.content.files[{i}]"),
                self._int(item, "size", f"$.content.files[{i}]", layout.COLUMNS_HEADER_BYTES, 1 << 60),
            )
            for i, item in enumerate(self._list(content, "files", "$.content"))
        )
        if (
            not files
            or any(not layout.is_columns_file(name) for name, _ in files)
            or len({name for name, _ in files}) != len(files)
        ):
            raise self._corrupt("$.content.files", "columns, columns.N", [name for name, _ in files])
        columns = tuple(
            self._column(item, num_docs, len(files), f"$.content.columns[{i}]")
            for i, item in enumerate(self._list(content, "columns", "$.content"))
        )
        if len({column.name for column in columns}) != len(columns):
            raise self._corrupt("$.content.columns", "distinct names", [column.name for column in columns])
        metadata = SegmentMetadata(
            segment_name=self._text(content, "segmentName", "$.content"),
            table_name=self._text(content, "tableName", "$.content"),
            num_docs=num_docs,
            creation_time_ms=self._int(root, "creationTimeMs", "$", 0, 1 << 62),
            time_range=self._time(content),
            columns=columns,
            files=files,
            crc=int(crc_text),
            star_trees=self._star_trees(content, len(files)),
        )
        if (computed := segment_crc(metadata)) != metadata.crc:
            raise self._corrupt("$.segmentCrc", metadata.crc, computed)
        return metadata

    def _star_trees(self, content: dict[str, Any], num_files: int) -> tuple[StarTreeMetadata, ...]:
        trees = []
        for i, item in enumerate(self._list(content, "starTrees", "$.content") if "starTrees" in content else []):
            try:
                trees.append(star_tree_from_json(item, num_files))
            except LookupError as version:
                raise UnsupportedVersionError(
                    f"star-tree {i} of '{self._file}' is of another format; upgrade this server",
                    found=str(version),
                    supported=(STAR_TREE_VERSION,),
                ) from None
            except ValueError as error:
                raise self._corrupt(f"$.content.starTrees[{i}]", "a star-tree", str(error)) from None
        return tuple(trees)

    def _time(self, content: dict[str, Any]) -> TimeRange | None:
        if content.get("time") is None:
            return None
        time = self._object(content, "time", "$.content")
        path = "$.content.time"
        limit = 1 << 63
        return TimeRange(
            self._text(time, "column", path),
            self._int(time, "startMs", path, -limit, limit - 1),
            self._int(time, "endMs", path, -limit, limit - 1),
            self._text(time, "startRaw", path),
            self._text(time, "endRaw", path),
        )

    def _column(self, item: Any, num_docs: int, num_files: int, path: str) -> ColumnMetadata:
        try:
            data_type = DataType(self._text(item, "dataType", path))
            field_type = FieldType(self._text(item, "fieldType", path))
        except ValueError as error:
            raise self._corrupt(path, "a known type", str(error)) from None
        stored = data_type.stored
        single_value = self._bool(item, "singleValue", path)
        encoding = self._text(item, "encoding", path)
        if encoding not in ENCODINGS:
            raise self._corrupt(f"{path}.encoding", "|".join(ENCODINGS), encoding[:40])
        num_values = self._int(item, "numValues", path, num_docs, num_docs if single_value else layout.VALUES_MAX)
        # A dictionary holds only values that occur, or the default alone in a segment without rows.
        cardinality_range = (-1, -1) if encoding == RAW_ENCODING else (min(1, num_values), max(1, num_values))
        codec = item.get("codec")
        if codec is not None and codec not in ("LZ4", "ZSTANDARD", "SNAPPY", "DELTA"):
            raise self._corrupt(f"{path}.codec", "LZ4|ZSTANDARD|SNAPPY|DELTA|null", str(codec)[:40])
        return ColumnMetadata(
            name=self._text(item, "name", path),
            data_type=data_type,
            field_type=field_type,
            single_value=single_value,
            encoding=encoding,
            width=self._int(item, "width", path, 1, 32),
            num_values=num_values,
            cardinality=self._int(item, "cardinality", path, *cardinality_range),
            is_sorted=self._bool(item, "sorted", path),
            min_value=self._stored(item, "min", path, stored, optional=True),
            max_value=self._stored(item, "max", path, stored, optional=True),
            default_null=self._required_stored(item, "defaultNull", path, stored),
            num_nulls=self._int(item, "numNulls", path, 0, num_docs),
            max_values_per_doc=self._int(item, "maxValuesPerDoc", path, 0, layout.VALUES_MAX),
            longest_bytes=self._int(item, "longestBytes", path, 0, 1 << 60),
            codec=codec,
            chunk_bytes=self._int(item, "chunkBytes", path, 0, 1 << 30),
            partition=self._partition(item, path),
            buffers=tuple(
                BufferEntry(
                    self._text(entry, "kind", f"{path}.buffers[{i}]"),
                    self._int(entry, "file", f"{path}.buffers[{i}]", 0, num_files - 1),
                    self._int(entry, "offset", f"{path}.buffers[{i}]", layout.COLUMNS_HEADER_BYTES, 1 << 60),
                    self._int(entry, "size", f"{path}.buffers[{i}]", 0, 1 << 60),
                    self._int(entry, "crc", f"{path}.buffers[{i}]", 0, (1 << 32) - 1),
                    layout.settings_text(self._object(entry, "settings", f"{path}.buffers[{i}]"))
                    if "settings" in entry
                    else "",
                )
                for i, entry in enumerate(self._list(item, "buffers", path))
            ),
        )

    def _partition(self, item: dict[str, Any], path: str) -> PartitionMetadata | None:
        if item.get("partition") is None:
            return None
        partition = self._object(item, "partition", path)
        path += ".partition"
        num_partitions = self._int(partition, "numPartitions", path, 1, 1 << 31)
        ids = self._list(partition, "partitions", path)
        if any(type(i) is not int or not 0 <= i < num_partitions for i in ids):
            raise self._corrupt(f"{path}.partitions", f"ids below {num_partitions}", ids[:20])
        return PartitionMetadata(self._text(partition, "functionName", path), num_partitions, tuple(ids))

    def _required_stored(self, item: dict[str, Any], key: str, path: str, stored: StoredType) -> Stored:
        value = self._stored(item, key, path, stored, optional=False)
        assert value is not None
        return value

    def _stored(
        self, item: dict[str, Any], key: str, path: str, stored: StoredType, *, optional: bool
    ) -> Stored | None:
        value = item.get(key)
        if value is None and optional:
            return None
        try:
            if stored.is_integer:
                bits = 31 if stored is StoredType.INT else 63
                return self._int(item, key, path, -(1 << bits), (1 << bits) - 1)
            text = self._text(item, key, path)
            return float(text) if stored.is_floating else bytes.fromhex(text)
        except ValueError:
            raise self._corrupt(f"{path}.{key}", f"a {stored.value} value", str(value)[:40]) from None

    def _object(self, item: Any, key: str, path: str) -> dict[str, Any]:
        value = self._get(item, key, path)
        if not isinstance(value, dict):
            raise self._corrupt(f"{path}.{key}", "an object", type(value).__name__)
        return value

    def _list(self, item: Any, key: str, path: str) -> list[Any]:
        value = self._get(item, key, path)
        if not isinstance(value, list):
            raise self._corrupt(f"{path}.{key}", "a list", type(value).__name__)
        return value

    def _text(self, item: Any, key: str, path: str) -> str:
        value = self._get(item, key, path)
        if not isinstance(value, str):
            raise self._corrupt(f"{path}.{key}", "a string", type(value).__name__)
        return value

    def _bool(self, item: Any, key: str, path: str) -> bool:
        value = self._get(item, key, path)
        if not isinstance(value, bool):
            raise self._corrupt(f"{path}.{key}", "true or false", type(value).__name__)
        return value

    def _int(self, item: Any, key: str, path: str, low: int, high: int) -> int:
        value = self._get(item, key, path)
        if type(value) is not int or not low <= value <= high:
            raise self._corrupt(f"{path}.{key}", f"an integer in [{low}, {high}]", str(value)[:40])
        return value

    def _get(self, item: Any, key: str, path: str) -> Any:
        if not isinstance(item, dict) or key not in item:
            raise self._corrupt(path, f"an object with '{key}'", type(item).__name__)
        return item[key]

    def _corrupt(self, path: str, expected: object, found: object) -> SegmentCorruptError:
        return SegmentCorruptError(f"metadata is wrong at {path}", file=self._file, expected=expected, found=found)
