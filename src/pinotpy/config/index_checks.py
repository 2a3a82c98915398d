"""Indexes of a table config that the types of its columns cannot have: found when a table is created, not when its
first segment is built.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final

from pinotpy.config.document import child_path, describe
from pinotpy.data_types import DataType
from pinotpy.errors import Fault

if TYPE_CHECKING:
    from pinotpy.config.indexing import StarTreeIndexConfig
    from pinotpy.config.schema import Schema
    from pinotpy.config.table_sections import TableSections

_INDEX: Final = "$.tableIndexConfig"
STAR_TREE_DIMENSIONS_MAX: Final = 100
STAR_TREE_PAIRS_MAX: Final = 1000
# BIG_DECIMAL has no bounded sum, and serialized sketches differ in size from column to column.
STAR_TREE_NUMBERS: Final = (
    DataType.INT,
    DataType.LONG,
    DataType.FLOAT,
    DataType.DOUBLE,
    DataType.TIMESTAMP,
    DataType.BOOLEAN,
)
_SKETCHES: Final = ("DISTINCTCOUNTHLL", "DISTINCTCOUNTRAWHLL")

Named = tuple[str, str]  # a column, and the path by which the config names it


def index_faults(config: TableSections, schema: Schema, raw_columns: Collection[str]) -> Iterator[Fault]:
    """Faults of indexes against the types of their columns. `raw_columns`: those that get no dictionary."""
    yield from _json(config, schema)
    yield from _text(config, schema)
    yield from _range(config, schema, raw_columns)
    for index, column in enumerate(config.indexing.sorted_column):
        if not _is_single(schema, column):
            yield Fault(
                f"{_INDEX}.sortedColumn[{index}]",
                f"{describe(column)}, a multi-valued column",
                "a single-valued column",
            )
    for index, tree in enumerate(config.indexing.star_tree_index_configs):
        yield from _star_tree(tree, f"{_INDEX}.starTreeIndexConfigs[{index}]", schema)


def _of_fields(config: TableSections, *names: str) -> Iterator[Named]:
    for index, field in enumerate(config.field_configs):
        if field.all_index_types.intersection(names):
            yield field.name, f"$.fieldConfigList[{index}]"


def _json(config: TableSections, schema: Schema) -> Iterator[Fault]:
    indexing = config.indexing
    named: list[Named] = [
        (column, f"{_INDEX}.jsonIndexColumns[{index}]") for index, column in enumerate(indexing.json_index_columns)
    ]
    named += [
        (column, child_path(f"{_INDEX}.jsonIndexConfigs", column)) for column in indexing.json_index_configs or {}
    ]
    for column, path in (*named, *_of_fields(config, "JSON")):
        spec = schema.field_specs.get(column)
        if spec is not None and not (spec.data_type in (DataType.JSON, DataType.STRING) and spec.single_value):
            kind = "" if spec.single_value else "multi-valued "
            yield Fault(
                path,
                f"a JSON index on the {kind}column {describe(column)} of type {spec.data_type}",
                "single-valued columns of type JSON, STRING",
            )


def _text(config: TableSections, schema: Schema) -> Iterator[Fault]:
    for column, path in _of_fields(config, "TEXT", "FST", "IFST"):
        spec = schema.field_specs.get(column)
        if spec is not None and spec.data_type not in (DataType.STRING, DataType.JSON):
            yield Fault(
                path, f"a text index on {describe(column)} of type {spec.data_type}", "columns of type STRING, JSON"
            )


def _range(config: TableSections, schema: Schema, raw_columns: Collection[str]) -> Iterator[Fault]:
    named: list[Named] = [
        (column, f"{_INDEX}.rangeIndexColumns[{index}]")
        for index, column in enumerate(config.indexing.range_index_columns)
    ]
    for column, path in (*named, *_of_fields(config, "RANGE")):
        spec = schema.field_specs.get(column)
        if spec is not None and column in raw_columns and not spec.data_type.stored.is_fixed:
            request = f"a range index on {describe(column)} of type {spec.data_type} without dictionary"
            yield Fault(path, request, "numbers, or columns with a dictionary")


def _star_tree(tree: StarTreeIndexConfig, path: str, schema: Schema) -> Iterator[Fault]:
    if len(tree.dimensions_split_order) > STAR_TREE_DIMENSIONS_MAX:
        yield Fault(
            f"{path}.dimensionsSplitOrder",
            f"{len(tree.dimensions_split_order)} dimensions",
            f"at most {STAR_TREE_DIMENSIONS_MAX}",
        )
    num_pairs = len(tree.function_column_pairs) + len(tree.aggregation_configs)
    if num_pairs > STAR_TREE_PAIRS_MAX:
        yield Fault(
            f"{path}.functionColumnPairs",
            f"{num_pairs} pairs, those of aggregationConfigs among them",
            f"at most {STAR_TREE_PAIRS_MAX}",
        )
    for position, column in enumerate(tree.dimensions_split_order):
        if not _is_single(schema, column):
            yield Fault(
                f"{path}.dimensionsSplitOrder[{position}]",
                f"{describe(column)}, a multi-valued column",
                "single-valued columns",
            )
    for position, pair in enumerate(tree.function_column_pairs):
        function, _, column = pair.partition("__")
        yield from _pair(function, column, f"{path}.functionColumnPairs[{position}]", schema)
    for position, item in enumerate(tree.aggregation_configs):
        yield from _pair(
            str(item.get("aggregationFunction", "")),
            str(item.get("columnName", "")),
            f"{path}.aggregationConfigs[{position}]",
            schema,
        )


def _pair(function: str, column: str, path: str, schema: Schema) -> Iterator[Fault]:
    """COUNT counts rows whatever column it names; columns that do not exist are another check's."""
    name = function.upper().replace("_", "")
    if name == "COUNT":
        return
    if column == "*":
        yield Fault(path, f"{name} of *", "a column: only COUNT takes *")
        return
    spec = schema.field_specs.get(column)
    if spec is None:
        return
    if not spec.single_value:
        yield Fault(path, f"{name} of {describe(column)}, a multi-valued column", "single-valued columns")
    elif name in _SKETCHES and spec.data_type is DataType.BYTES:
        yield Fault(path, f"{name} of {describe(column)} of type BYTES", "columns of other types than BYTES")
    elif name not in _SKETCHES and spec.data_type not in STAR_TREE_NUMBERS:
        yield Fault(
            path,
            f"{name} of {describe(column)} of type {spec.data_type}",
            "columns of type " + ", ".join(STAR_TREE_NUMBERS),
        )


def _is_single(schema: Schema, column: str) -> bool:
    spec = schema.field_specs.get(column)
    return spec is None or spec.single_value
