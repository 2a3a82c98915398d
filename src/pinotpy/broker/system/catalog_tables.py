"""information_schema.tables and .columns (SQL's standard names), as far as they say something here."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pinotpy.broker.system.system_table import Column, Known, SystemTable, Viewer
from pinotpy.cluster.spectator import ClusterView
from pinotpy.config.field_spec import FieldSpec, json_from_stored
from pinotpy.config.schema import Schema
from pinotpy.data_types import DataType
from pinotpy.errors import InvalidConfigError
from pinotpy.functions.scalar.conversions import timestamp_text
from pinotpy.names import raw_table_name

log = logging.getLogger(__name__)

CATALOG: Final = "pinotpy"
# Of users' tables: FROM default.flights is FROM flights.
USER_SCHEMA: Final = "default"
_TEXT, _NUMBER, _TRUTH = DataType.STRING, DataType.LONG, DataType.BOOLEAN

Row = tuple[Any, ...]


def visible_tables(view: ClusterView, viewer: Viewer) -> list[str]:
    """Names without type of the tables that the caller may see, sorted."""
    return [name for name in sorted({raw_table_name(name) for name in view.table_names()}) if viewer.may_see(name)]


class Schemas:
    """Schemas of the cluster, read once per document. Threads may read one twice."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[object, Schema | None, str]] = {}

    def of(self, view: ClusterView, table: str) -> tuple[Schema | None, str]:
        """A table's schema, or None and why there is none."""
        document: Mapping[str, Any] | None = view.schemas.get(table)
        if (cause := view.unreadable.get(("schemas", table))) is not None:
            return None, cause
        if document is None:
            return None, "the cluster has no schema of the table's name"
        known = self._known.get(table)
        if known is None or known[0] is not document:
            try:
                known = document, Schema.from_json(document, is_stored=True), ""
            except InvalidConfigError as error:
                known = document, None, error.message
            self._known[table] = known
        return known[1], known[2]


def catalog_tables(schemas: Schemas, others: list[SystemTable]) -> tuple[SystemTable, SystemTable]:
    """information_schema.tables and .columns. others: the system tables that they list, to which they are added."""

    def tables(known: Known, viewer: Viewer) -> Iterator[Row]:
        for name in visible_tables(known.view, viewer):
            yield CATALOG, USER_SCHEMA, name, "BASE TABLE"
        for table in others:
            yield CATALOG, table.schema_name, table.name.partition(".")[2], "SYSTEM VIEW"

    def columns(known: Known, viewer: Viewer) -> Iterator[Row]:
        for name in visible_tables(known.view, viewer):
            schema, _ = schemas.of(known.view, name)
            if schema is not None:
                yield from _columns_of(schema, USER_SCHEMA, name)
        for table in others:
            yield from _columns_of(table.schema, table.schema_name, table.name.partition(".")[2])

    listed = (
        SystemTable(
            "information_schema.tables",
            (
                Column("table_catalog", _TEXT),
                Column("table_schema", _TEXT),
                Column("table_name", _TEXT),
                Column("table_type", _TEXT),
            ),
            tables,
        ),
        SystemTable(
            "information_schema.columns",
            (
                Column("table_catalog", _TEXT),
                Column("table_schema", _TEXT),
                Column("table_name", _TEXT),
                Column("column_name", _TEXT),
                Column("ordinal_position", DataType.INT),
                Column("column_default", _TEXT),
                Column("is_nullable", _TEXT),
                Column("data_type", _TEXT),
                Column("character_maximum_length", _NUMBER),
                Column("field_type", _TEXT),
                Column("is_multi_value", _TRUTH),
                Column("format", _TEXT),
                Column("transform_function", _TEXT),
            ),
            columns,
        ),
    )
    others.extend(listed)
    return listed


def _columns_of(schema: Schema, schema_name: str, table: str) -> Iterator[Row]:
    for position, spec in enumerate(schema.field_specs.values(), 1):
        is_never_null = schema.enable_column_based_null_handling and spec.not_null
        has_length = spec.data_type in (DataType.STRING, DataType.JSON, DataType.BYTES)
        yield (
            CATALOG,
            schema_name,
            table,
            spec.name,
            position,
            _default_text(spec) if schema_name == USER_SCHEMA and (is_never_null or _names_default(spec)) else None,
            "NO" if is_never_null else "YES",
            spec.data_type.value,
            spec.max_length if has_length else None,
            spec.field_type.value,
            not spec.single_value,
            spec.format,
            spec.transform_function,
        )


def _names_default(spec: FieldSpec) -> bool:
    """Whether it is the schema that says what a row without a value has. The default of a type, -2147483648 of INT, is
    what nulls are stored as and no value that anybody meant.
    """
    return spec.default_null_value is not None


def _default_text(spec: FieldSpec) -> str:
    """What is stored where the input has no value, as a query shows it."""
    stored = spec.default_null_stored
    if spec.data_type is DataType.TIMESTAMP and isinstance(stored, int):
        return timestamp_text(stored)
    return str(json_from_stored(stored, spec.data_type))
