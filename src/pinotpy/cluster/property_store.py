"""PROPERTYSTORE: schemas, table configs, segment records, instance partitions.

Reads go straight to the store, many at a time; writes of what belongs to a table's state (config, segments) go through
`cluster.table_state.apply` and not through here. Documents are handed out as JSON dicts: `config` turns them into
models.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson

from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.records import ZNRecord, damaged_record
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.store import ANY_VERSION, ClusterStore
from pinotpy.errors import AlreadyExistsError, NodeExistsError, NoNodeError, NotFoundError

T = TypeVar("T")
U = TypeVar("U")

_TEXT_SECTIONS = ("tableName", "tableType")


@dataclass(frozen=True, slots=True)
class Versioned(Generic[T]):
    """A value with the version to write it back with, and what tells it from all others of its path, also of a node
    that was deleted and made again (`Stat.modified_id`).
    """

    value: T
    version: int
    modified_id: int = 0

    def read_as(self, value: U) -> Versioned[U]:
        """What this record was decoded to."""
        return Versioned(value, self.version, self.modified_id)


class PropertyStore:
    """Access to the property store of one cluster."""

    def __init__(self, store: ClusterStore, paths: ClusterPaths) -> None:
        self._store = store
        self._paths = paths

    # Schemas

    def schema_names(self) -> list[str]:
        return self._children(self._paths.schemas)

    def schema(self, schema_name: str) -> Versioned[dict[str, Any]] | None:
        """The schema's JSON, or None."""
        record = self._record(self._paths.schema(schema_name))
        return record.read_as(schema_from_record(record.value)) if record else None

    def create_schema(self, schema: dict[str, Any]) -> None:
        """Raises AlreadyExistsError."""
        record = schema_record(schema)
        try:
            self._store.create(self._paths.schema(record.id), record.to_bytes(), make_parents=True)
        except NodeExistsError as error:
            raise AlreadyExistsError(
                f"schema '{record.id}' exists; use PUT or override=true to replace it", schema=record.id
            ) from error

    def replace_schema(self, schema: dict[str, Any], version: int = ANY_VERSION) -> None:
        """Raises NotFoundError, and StaleVersionError when somebody wrote in between."""
        record = schema_record(schema)
        try:
            self._store.set(self._paths.schema(record.id), record.to_bytes(), version)
        except NoNodeError as error:
            raise NotFoundError(f"schema '{record.id}' does not exist", schema=record.id) from error

    def delete_schema(self, schema_name: str) -> None:
        """Raises NotFoundError."""
        try:
            self._store.delete(self._paths.schema(schema_name))
        except NoNodeError as error:
            raise NotFoundError(f"schema '{schema_name}' does not exist", schema=schema_name) from error

    # Table configs

    def table_names(self) -> list[str]:
        """Names with type, sorted."""
        return self._children(self._paths.table_configs)

    def table_config(self, table_name_with_type: str) -> Versioned[dict[str, Any]] | None:
        record = self._record(self._paths.table_config(table_name_with_type))
        return record.read_as(table_config_from_record(record.value)) if record else None

    # Segment records

    def segment_names(self, table_name_with_type: str) -> list[str]:
        return self._children(self._paths.segments(table_name_with_type))

    def segment(self, table_name_with_type: str, segment_name: str) -> Versioned[SegmentZkMetadata] | None:
        record = self._record(self._paths.segment(table_name_with_type, segment_name))
        return record.read_as(SegmentZkMetadata.from_record(record.value, table_name_with_type)) if record else None

    def segments(self, table_name_with_type: str, names: Iterable[str] | None = None) -> dict[str, SegmentZkMetadata]:
        """Records of the named segments, or of all: pipelined, 10 k take about a second. Missing ones are left out."""
        selected: Sequence[str] = list(names) if names is not None else self.segment_names(table_name_with_type)
        paths = [self._paths.segment(table_name_with_type, name) for name in selected]
        nodes = self._store.get_many(paths)
        return {
            name: SegmentZkMetadata.from_record(ZNRecord.from_bytes(node[0], path), table_name_with_type)
            for name, path, node in zip(selected, paths, nodes, strict=True)
            if node is not None and node[0]
        }

    def _children(self, path: str) -> list[str]:
        try:
            return self._store.children(path)
        except NoNodeError:
            return []

    def _record(self, path: str) -> Versioned[ZNRecord] | None:
        try:
            data, stat = self._store.get(path)
        except NoNodeError:
            return None
        return Versioned(ZNRecord.from_bytes(data, path), stat.version, stat.modified_id)


def schema_record(schema: dict[str, Any]) -> ZNRecord:
    """A schema's JSON as its record: one-line text in `schemaJSON`."""
    return ZNRecord(str(schema["schemaName"]), {"schemaJSON": orjson.dumps(schema).decode()})


def schema_from_record(record: ZNRecord) -> dict[str, Any]:
    try:
        document = orjson.loads(record.simple_fields["schemaJSON"])
    except (KeyError, orjson.JSONDecodeError) as error:
        raise damaged_record(f"the record of schema '{record.id}' holds no schemaJSON: {error}", record.id) from error
    if not isinstance(document, dict):
        raise damaged_record(f"the schemaJSON of schema '{record.id}' is no JSON object", record.id)
    return document


def table_config_record(table_name_with_type: str, config: dict[str, Any]) -> ZNRecord:
    """A table config as its record: each section a JSON text, name and type plain."""
    simple = {
        key: value if isinstance(value, str) else orjson.dumps(value).decode()
        for key, value in config.items()
        if value is not None
    }
    return ZNRecord(table_name_with_type, simple | {"tableName": table_name_with_type})


def table_config_from_record(record: ZNRecord) -> dict[str, Any]:
    return {key: value if key in _TEXT_SECTIONS else _section(value) for key, value in record.simple_fields.items()}


def _section(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
