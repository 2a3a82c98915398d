"""Checks of a table config across its keys, and against the schema. Each returns faults; nothing raises here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from pinotpy.config.document import Document, child_path, collect, describe, name_fault
from pinotpy.config.index_checks import index_faults
from pinotpy.config.indexing import (
    STAR_TREE_FUNCTIONS,
    BloomFilterConfig,
    DictIdEncoding,
    EncodingType,
    JsonIndexConfig,
)
from pinotpy.config.stream_checks import stream_faults
from pinotpy.data_types import FieldType
from pinotpy.errors import MISSING, Fault
from pinotpy.names import TableType, check_table_name, split_table_name

if TYPE_CHECKING:
    from pinotpy.config.indexing import FieldConfig, StarTreeIndexConfig
    from pinotpy.config.schema import Schema
    from pinotpy.config.table_sections import TableSections

TASK_TYPES: Final = (
    "MergeRollupTask", "RealtimeToOfflineSegmentsTask", "PurgeTask", "SegmentGenerationAndPushTask",
    "UpsertCompactionTask",
    "UpsertCompactMergeTask", "RefreshSegmentTask", "ConvertToRawIndexTask",
)  # fmt: skip
_ASSIGNMENT_KINDS: Final = ("OFFLINE", "CONSUMING", "COMPLETED")
_INDEX: Final = "$.tableIndexConfig"
# key of tableIndexConfig with a list of columns → name of the field
_COLUMN_LISTS: Final = {
    "noDictionaryColumns": "no_dictionary_columns",
    "invertedIndexColumns": "inverted_index_columns",
    "sortedColumn": "sorted_column",
    "bloomFilterColumns": "bloom_filter_columns",
    "rangeIndexColumns": "range_index_columns",
    "jsonIndexColumns": "json_index_columns",
    "onHeapDictionaryColumns": "on_heap_dictionary_columns",
    "varLengthDictionaryColumns": "var_length_dictionary_columns",
}
# Indexes of fieldConfigList[].indexes whose settings are checked.
_INDEX_MODELS: Final[dict[str, type[Document]]] = {"BLOOM": BloomFilterConfig, "JSON": JsonIndexConfig}
_COLUMN_MAPS: Final = {
    "noDictionaryConfig": "no_dictionary_config",
    "bloomFilterConfigs": "bloom_filter_configs",
    "jsonIndexConfigs": "json_index_configs",
}


def faults_of(config: TableSections, raw: dict[str, Any]) -> list[Fault]:
    """Faults across the keys of one document. `raw` tells what was written where a faulty part fell to its default."""
    return [
        *_name(config, raw),
        *_segments(config, raw),
        *_indexes(config),
        *_star_trees(config),
        *_assignment(config, raw),
        *_expressions(config),
        *_tasks(config),
        *(stream_faults(raw) if config.table_type is TableType.REALTIME else ()),
        *_primary_keys(config),
    ]


def _name(config: TableSections, raw: dict[str, Any]) -> Iterator[Fault]:
    name, written_type = split_table_name(config.table_name)
    if "tableName" not in raw:
        return
    if written_type is not None and isinstance(raw.get("tableType"), str) and written_type is not config.table_type:
        yield Fault(
            "$.tableName",
            describe(config.table_name),
            f"a name that does not end with the other type: this is a {config.table_type} table",
        )
    fault = name_fault(check_table_name, name, "$.tableName")
    if fault is not None:
        yield fault
    elif split_table_name(name)[1] is not None:
        yield Fault("$.tableName", describe(config.table_name), "a name with one type at its end at most")


def _segments(config: TableSections, raw: dict[str, Any]) -> Iterator[Fault]:
    segments = config.segments
    written = raw.get("segmentsConfig")
    if not isinstance(written, dict):
        return
    is_realtime = config.table_type is TableType.REALTIME
    if is_realtime and segments.time_column_name is None and written.get("timeColumnName") is None:
        yield Fault("$.segmentsConfig.timeColumnName", MISSING, "the time column: a REALTIME table needs one")
    has_unit, has_value = written.get("retentionTimeUnit") is not None, written.get("retentionTimeValue") is not None
    if has_unit != has_value:
        missing = "retentionTimeValue" if has_unit else "retentionTimeUnit"
        yield Fault(f"$.segmentsConfig.{missing}", MISSING, "both retentionTimeUnit and retentionTimeValue, or neither")


def _indexes(config: TableSections) -> Iterator[Fault]:
    indexing = config.indexing
    for key, field in _COLUMN_LISTS.items():
        yield from _repeated(getattr(indexing, field), f"{_INDEX}.{key}")
    raw_columns = _raw_columns(config)
    for index, column in enumerate(indexing.inverted_index_columns):
        if column in raw_columns:
            yield Fault(
                f"{_INDEX}.invertedIndexColumns[{index}]",
                f"{describe(column)}, which has no dictionary",
                "columns with a dictionary",
            )
    for index, column in enumerate(indexing.sorted_column):
        if column in raw_columns:
            yield Fault(
                f"{_INDEX}.sortedColumn[{index}]",
                f"{describe(column)}, which has no dictionary",
                "a column with a dictionary",
            )
    yield from _repeated([field.name for field in config.field_configs], "$.fieldConfigList", suffix=".name")
    yield from _field_configs(config, raw_columns)


def _raw_columns(config: TableSections) -> set[str]:
    """Columns that get no dictionary."""
    named = set(config.indexing.no_dictionary_columns) | set(config.indexing.no_dictionary_config or {})
    return named | {field.name for field in config.field_configs if field.encoding_type is EncodingType.RAW}


def _field_configs(config: TableSections, raw_columns: set[str]) -> Iterator[Fault]:
    for index, field in enumerate(config.field_configs):
        path = f"$.fieldConfigList[{index}]"
        if "INVERTED" in field.all_index_types and field.name in raw_columns:
            yield Fault(
                path,
                f"an inverted index on {describe(field.name)}, which has no dictionary",
                "a column with a dictionary",
            )
        for key, raw in (
            ("noDictionaryColumns", config.indexing.no_dictionary_columns),
            ("noDictionaryConfig", config.indexing.no_dictionary_config or ()),
        ):
            if field.encoding_type is EncodingType.DICTIONARY and field.name in raw:
                yield Fault(f"{path}.encodingType", f"DICTIONARY for a column of {key}", "one of both")
        yield from _index_settings(field, path)
        encoding = (field.properties or {}).get("dictIdEncoding")
        if encoding is not None and encoding.upper() not in DictIdEncoding.__members__:
            yield Fault(f"{path}.properties.dictIdEncoding", describe(encoding), "one of " + ", ".join(DictIdEncoding))


def _index_settings(field: FieldConfig, path: str) -> Iterator[Fault]:
    for name, settings in (field.indexes or {}).items():
        if not isinstance(settings, dict):
            yield Fault(
                child_path(f"{path}.indexes", name), describe(settings), "an object with the settings of the index"
            )
    for name, settings in field.index_settings.items():
        model = _INDEX_MODELS.get(name)
        if model is not None:
            faults: list[Fault] = []
            collect(model, settings, child_path(f"{path}.indexes", name.lower()), faults)
            yield from faults


def _repeated(names: Iterable[str], path: str, suffix: str = "") -> Iterator[Fault]:
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            yield Fault(f"{path}[{index}]{suffix}", f"{describe(name)} again", "each column once")
        seen.add(name)


def _star_trees(config: TableSections) -> Iterator[Fault]:
    raw_columns = _raw_columns(config)
    for index, tree in enumerate(config.indexing.star_tree_index_configs):
        path = f"{_INDEX}.starTreeIndexConfigs[{index}]"
        yield from _repeated(tree.dimensions_split_order, f"{path}.dimensionsSplitOrder")
        yield from _repeated(tree.skip_star_node_creation_for_dimensions, f"{path}.skipStarNodeCreationForDimensions")
        for position, column in enumerate(tree.dimensions_split_order):
            if column in raw_columns:
                yield Fault(
                    f"{path}.dimensionsSplitOrder[{position}]",
                    f"{describe(column)}, which has no dictionary",
                    "columns with a dictionary",
                )
        for position, column in enumerate(tree.skip_star_node_creation_for_dimensions):
            if column not in tree.dimensions_split_order:
                yield Fault(
                    f"{path}.skipStarNodeCreationForDimensions[{position}]",
                    describe(column),
                    "a dimension of dimensionsSplitOrder",
                )
        if not tree.function_column_pairs and not tree.aggregation_configs:
            yield Fault(f"{path}.functionColumnPairs", MISSING, "at least one pair such as SUM__price")
        for position, pair in enumerate(tree.function_column_pairs):
            function, separator, column = pair.partition("__")
            if not separator or not column or function.upper().replace("_", "") not in STAR_TREE_FUNCTIONS:
                allowed = "FUNCTION__column with a function of " + ", ".join(STAR_TREE_FUNCTIONS)
                yield Fault(f"{path}.functionColumnPairs[{position}]", describe(pair), allowed)
        for position, item in enumerate(tree.aggregation_configs):
            function = str(item.get("aggregationFunction", "")).upper().replace("_", "")
            if function not in STAR_TREE_FUNCTIONS or not isinstance(item.get("columnName"), str):
                expected = "columnName, and as aggregationFunction one of " + ", ".join(STAR_TREE_FUNCTIONS)
                yield Fault(f"{path}.aggregationConfigs[{position}]", describe(item), expected)
            elif item.get("functionParameters"):
                yield Fault(
                    f"{path}.aggregationConfigs[{position}].functionParameters",
                    describe(item["functionParameters"]),
                    "none: sketches have their usual size",
                )


def _expressions(config: TableSections) -> Iterator[Fault]:
    ingestion = config.ingestion
    if ingestion is None:
        return
    expressions = [
        (f"$.ingestionConfig.transformConfigs[{i}].transformFunction", t.transform_function)
        for i, t in enumerate(ingestion.transform_configs)
    ]
    if ingestion.filter_config is not None and ingestion.filter_config.filter_function is not None:
        expressions.append(("$.ingestionConfig.filterConfig.filterFunction", ingestion.filter_config.filter_function))
    for path, expression in expressions:
        if expression.strip().lower().startswith("groovy("):
            yield Fault(path, describe(expression), "an expression of the query language: scripts are not run")


def _assignment(config: TableSections, raw: dict[str, Any]) -> Iterator[Fault]:
    for kind in config.instance_assignment_config_map or {}:
        if kind.upper() not in _ASSIGNMENT_KINDS:
            yield Fault(
                child_path("$.instanceAssignmentConfigMap", kind),
                describe(kind),
                "one of " + ", ".join(_ASSIGNMENT_KINDS),
            )
    for index, tier in enumerate(config.tiers):
        written = raw["tierConfigs"][index].get("segmentAge")
        if tier.segment_selector_type == "time" and written is None:
            yield Fault(f"$.tierConfigs[{index}].segmentAge", MISSING, "a period such as 7d for a tier by time")
    yield from _repeated([tier.name for tier in config.tiers], "$.tierConfigs", suffix=".name")


def _tasks(config: TableSections) -> Iterator[Fault]:
    for name, settings in (config.task.task_type_configs_map if config.task is not None else {}).items():
        path = child_path("$.task.taskTypeConfigsMap", name)
        if name not in TASK_TYPES:
            yield Fault(path, describe(name), "one of " + ", ".join(TASK_TYPES))
        schedule = settings.get("schedule")
        # Quartz: seconds, minutes, hours, day of month, month, day of week and, if given, the year.
        if schedule is not None and len(schedule.split()) not in (6, 7):
            yield Fault(
                f"{path}.schedule",
                describe(schedule),
                "a Quartz cron expression of 6 or 7 fields, such as 0 */10 * * * ?",
            )


def _primary_keys(config: TableSections) -> Iterator[Fault]:
    upserts = config.upsert is not None and config.upsert.mode != "NONE"
    if upserts and config.dedup is not None and config.dedup.dedup_enabled:
        yield Fault("$.dedupConfig", "dedup beside upsert", "one of both")
    if upserts and config.table_type is TableType.REALTIME:
        selector = config.routing.instance_selector_type if config.routing is not None else None
        if selector not in ("strictReplicaGroup", "multiStageReplicaGroup"):
            named = MISSING if selector is None else describe(selector)
            yield Fault(
                "$.routing.instanceSelectorType",
                named,
                "strictReplicaGroup: an upsert table answers each partition from one server",
            )
        if config.indexing.star_tree_index_configs:
            yield Fault(
                f"{_INDEX}.starTreeIndexConfigs",
                "star-trees on an upsert table",
                "none: replaced rows would stay in the sums",
            )
    if config.is_dim_table and config.table_type is TableType.REALTIME:
        yield Fault("$.isDimTable", "true on a REALTIME table", "OFFLINE tables only")


def faults_against_schema(config: TableSections, schema: Schema) -> list[Fault]:
    """Faults that only the schema shows."""
    faults: list[Fault] = []
    if schema.schema_name != config.raw_table_name:
        faults.append(
            Fault("$.tableName", describe(config.raw_table_name), f"'{schema.schema_name}', the name of the schema")
        )
    faults.extend(_missing_columns(config, schema))
    faults.extend(_time_column(config, schema))
    faults.extend(index_faults(config, schema, _raw_columns(config)))
    needs_key = config.is_dim_table or (config.upsert is not None and config.upsert.mode != "NONE")
    needs_key = needs_key or (config.dedup is not None and config.dedup.dedup_enabled)
    if needs_key and not schema.primary_key_columns:
        faults.append(
            Fault(
                "$",
                "a schema without primaryKeyColumns",
                "primaryKeyColumns: upsert, dedup and dimension tables need them",
            )
        )
    return faults


def _named_columns(config: TableSections) -> Iterator[tuple[str, str]]:
    """Every column that the config names, with its path."""
    indexing = config.indexing
    for key, field in _COLUMN_LISTS.items():
        for index, column in enumerate(getattr(indexing, field)):
            yield column, f"{_INDEX}.{key}[{index}]"
    for key, field in _COLUMN_MAPS.items():
        for column in getattr(indexing, field) or {}:
            yield column, child_path(f"{_INDEX}.{key}", column)
    if indexing.segment_partition_config is not None:
        for column in indexing.segment_partition_config.column_partition_map:
            yield column, child_path(f"{_INDEX}.segmentPartitionConfig.columnPartitionMap", column)
    for index, tree in enumerate(indexing.star_tree_index_configs):
        yield from _star_tree_columns(tree, f"{_INDEX}.starTreeIndexConfigs[{index}]")
    for index, field_config in enumerate(config.field_configs):
        yield field_config.name, f"$.fieldConfigList[{index}].name"
    if config.upsert is not None:
        for index, column in enumerate(config.upsert.comparison_columns):
            yield column, f"$.upsertConfig.comparisonColumns[{index}]"
        for key in ("comparison_column", "delete_record_column"):
            column = getattr(config.upsert, key)
            if column is not None:
                yield (
                    column,
                    "$.upsertConfig." + {"comparison_column": "comparisonColumn"}.get(key, "deleteRecordColumn"),
                )
        for column in config.upsert.partial_upsert_strategies or {}:
            yield column, child_path("$.upsertConfig.partialUpsertStrategies", column)
    if config.dedup is not None and config.dedup.dedup_time_column is not None:
        yield config.dedup.dedup_time_column, "$.dedupConfig.dedupTimeColumn"
    for index, transform in enumerate(config.ingestion.transform_configs if config.ingestion is not None else ()):
        yield transform.column_name, f"$.ingestionConfig.transformConfigs[{index}].columnName"


def _star_tree_columns(tree: StarTreeIndexConfig, path: str) -> Iterator[tuple[str, str]]:
    for position, column in enumerate(tree.dimensions_split_order):
        yield column, f"{path}.dimensionsSplitOrder[{position}]"
    for position, pair in enumerate(tree.function_column_pairs):
        column = pair.partition("__")[2]
        if column not in ("*", ""):
            yield column, f"{path}.functionColumnPairs[{position}]"
    for position, item in enumerate(tree.aggregation_configs):
        if isinstance(item.get("columnName"), str) and item["columnName"] != "*":
            yield item["columnName"], f"{path}.aggregationConfigs[{position}].columnName"


def _missing_columns(config: TableSections, schema: Schema) -> Iterator[Fault]:
    for column, path in _named_columns(config):
        if column not in schema.field_specs:
            yield Fault(path, describe(column), "a column of the schema")


def _time_column(config: TableSections, schema: Schema) -> Iterator[Fault]:
    column, path = config.segments.time_column_name, "$.segmentsConfig.timeColumnName"
    if column is None:
        return
    spec = schema.field_specs.get(column)
    if spec is None or spec.field_type not in (FieldType.TIME, FieldType.DATE_TIME):
        yield Fault(path, describe(column), "a time column of the schema: timeFieldSpec or one of dateTimeFieldSpecs")
    elif spec.date_time_format is not None and not spec.date_time_format.is_lexicographic:
        yield Fault(
            path,
            f"{describe(column)} with the format '{spec.format}'",
            "a format whose texts order as their times do, such as yyyy-MM-dd",
        )
