"""Real segments in memory from plain Python columns, and queries over them without broker or network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.pql.parser import parse_pql, parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.execute import execute
from pinotpy.query.model.context import QueryOptions
from pinotpy.query.model.options import with_columns_without_nulls
from pinotpy.query.result.partial import PartialResult
from pinotpy.query.runtime.control import QueryControl
from pinotpy.segment.build.builder import build_segment_into
from pinotpy.segment.directory.memory_directory import MemoryDirectory
from pinotpy.segment.immutable import ImmutableSegment, open_segment


def schema_of(types: Mapping[str, str], *, multi: Sequence[str] = (), metrics: Sequence[str] = ()) -> Schema:
    """Columns by name and type; `multi` are multi-valued."""
    dimensions = [
        {"name": n, "dataType": t, "singleValueField": n not in multi} for n, t in types.items() if n not in metrics
    ]
    return Schema.from_json(
        {
            "schemaName": "t",
            "dimensionFieldSpecs": dimensions,
            "metricFieldSpecs": [{"name": n, "dataType": types[n]} for n in metrics],
        }
    )


def config_of(index: Mapping[str, Any] | None = None, **changes: Any) -> TableConfig:
    """A table config with these keys of tableIndexConfig."""
    document = {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "metadata": {},
    }
    return TableConfig.from_json(document | {"tableIndexConfig": dict(index or {})} | changes)


def batch_of(schema: Schema, columns: Mapping[str, Sequence[Any]]) -> pa.RecordBatch:
    """Rows in storage form."""
    arrays = {}
    for name, values in columns.items():
        spec = schema.field_specs[name]
        kind = spec.data_type.arrow
        arrays[name] = pa.array(values, kind if spec.single_value else pa.list_(kind))
    return pa.record_batch(arrays)


def build(
    schema: Schema, config: TableConfig, columns: Mapping[str, Sequence[Any]], name: str = "s0"
) -> MemoryDirectory:
    """A committed segment."""
    directory = MemoryDirectory(name)
    build_segment_into(directory, schema, config, [batch_of(schema, columns)], name)
    return directory


def opened(
    schema: Schema, config: TableConfig, columns: Mapping[str, Sequence[Any]], name: str = "s0"
) -> ImmutableSegment:
    """A segment, fully checked."""
    return open_segment(build(schema, config, columns, name))


def ask(
    schema: Schema,
    segments: Sequence[ImmutableSegment],
    text: str,
    *,
    pql: bool = False,
    null_handling: bool = False,
    without_nulls: Iterable[str] = (),
) -> PartialResult:
    """What a server answers to a query. `without_nulls`: columns of which the table keeps no nulls."""
    statement = parse_pql(text) if pql else parse_sql(text)
    options = with_columns_without_nulls(QueryOptions(), sorted(without_nulls))
    return execute(compile_query(statement, schema, options, null_handling=null_handling), segments, QueryControl())


def count(schema: Schema, segments: Sequence[ImmutableSegment], condition: str, **how: Any) -> int:
    """Rows for which the condition is true."""
    partial = ask(schema, segments, f"SELECT COUNT(*) FROM t WHERE {condition}", **how)
    return 0 if partial.rows is None else int(partial.rows.column(0)[0].as_py())
