"""Which encodings and indexes a column gets: the table config, resolved per column."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from pinotpy.config.indexing import (
    CompressionCodec,
    DictIdEncoding,
    EncodingType,
    FieldConfig,
    JsonIndexConfig,
    MinMaxMode,
)
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.data_types import DataType, FieldType
from pinotpy.errors import Fault, InvalidConfigError
from pinotpy.functions.json.json_records import JsonIndexing
from pinotpy.segment.index.bloom import DEFAULT_FPP
from pinotpy.segment.partition import is_partition_function

# A codec is about size, never about answers: those that we do not have become the nearest that we do.
_CODECS: Final[dict[CompressionCodec, str | None]] = {
    CompressionCodec.PASS_THROUGH: None,
    CompressionCodec.LZ4: "LZ4",
    CompressionCodec.ZSTANDARD: "ZSTANDARD",
    CompressionCodec.SNAPPY: "SNAPPY",
    CompressionCodec.GZIP: "ZSTANDARD",
    CompressionCodec.CLP: "ZSTANDARD",
    CompressionCodec.DELTA: "DELTA",
    CompressionCodec.DELTADELTA: "DELTA",
    CompressionCodec.MV_ENTRY_DICT: "LZ4",
}


@dataclass(frozen=True, slots=True)
class ColumnIndexing:
    """What is built for one column.

    Attributes:
        dictionary: sorted dictionary and dict ids; else raw values.
        packed: dict ids fixed-bit instead of byte-aligned.
        codec: raw values in compressed chunks (LZ4, ZSTANDARD, SNAPPY, DELTA); without effect on a dictionary column,
            as in Pinot.
        inverted: inverted index (needs the dictionary; a sorted column has one for free).
        range_index: range index, over a dictionary or raw numbers (a sorted column has one for free).
        text: text index, for TEXT_MATCH; over a dictionary or raw values.
        json: what of the documents the JSON index holds, for JSON_MATCH; None = no index.
        bloom_fpp: rate of false positives of the bloom filter; 0 = no filter. bloom_max_bytes: its largest size, 0 = no
            limit.
        min_max: record the least and the greatest value of raw columns, which prune segments. (A dictionary's ends are
            known.)
        null_vector: remember which rows had no value. Without it they hold the default like any other value, as in the
            reference: IS NULL finds none.
        partition_function, num_partitions: record the partitions of the values; 0 = not partitioned.
    """

    dictionary: bool = True
    packed: bool = False
    codec: str | None = None
    inverted: bool = False
    range_index: bool = False
    text: bool = False
    json: JsonIndexing | None = None
    bloom_fpp: float = 0.0
    bloom_max_bytes: int = 0
    min_max: bool = True
    null_vector: bool = True
    partition_function: str = ""
    num_partitions: int = 0


def resolve_indexing(schema: Schema, table_config: TableConfig | None) -> dict[str, ColumnIndexing]:
    """Indexing of every column of the schema; raises InvalidConfigError with all faults.

    `sortedColumn` has no part in it: every column whose values ascend is stored as a sorted one, and no other is.
    """
    plan = {name: ColumnIndexing() for name in schema.field_specs}
    faults: list[Fault] = []
    if table_config is not None:
        _apply(schema, table_config, plan, faults)
        if not table_config.indexing.null_handling_enabled:
            for name in schema.columns_without_nulls:
                plan[name] = replace(plan[name], null_vector=False)
    if faults:
        raise InvalidConfigError("segments of this table cannot be built", tuple(faults))
    return plan


def _apply(schema: Schema, table_config: TableConfig, plan: dict[str, ColumnIndexing], faults: list[Fault]) -> None:
    indexing = table_config.indexing

    def change(name: str, path: str, **values: Any) -> None:
        if name in plan:
            plan[name] = replace(plan[name], **values)
        else:
            faults.append(Fault(path, f"'{name}'", "a column of the schema"))

    for name in indexing.no_dictionary_columns:
        change(name, "$.tableIndexConfig.noDictionaryColumns", dictionary=False)
    for name, codec in (indexing.no_dictionary_config or {}).items():
        change(name, "$.tableIndexConfig.noDictionaryConfig", dictionary=False, codec=_CODECS[codec])
    for name in indexing.inverted_index_columns:
        change(name, "$.tableIndexConfig.invertedIndexColumns", inverted=True)
    for name in indexing.range_index_columns:
        change(name, "$.tableIndexConfig.rangeIndexColumns", range_index=True)
    for name in indexing.json_index_columns:
        change(name, "$.tableIndexConfig.jsonIndexColumns", json=JsonIndexing())
    for name, settings in (indexing.json_index_configs or {}).items():
        change(name, "$.tableIndexConfig.jsonIndexConfigs", json=_json_indexing(settings))
    for name in indexing.bloom_filter_columns:
        change(name, "$.tableIndexConfig.bloomFilterColumns", bloom_fpp=DEFAULT_FPP)
    for name, bloom in (indexing.bloom_filter_configs or {}).items():
        change(
            name, "$.tableIndexConfig.bloomFilterConfigs", bloom_fpp=bloom.fpp, bloom_max_bytes=bloom.max_size_in_bytes
        )
    for i, field in enumerate(table_config.field_configs):
        change(field.name, f"$.fieldConfigList[{i}]", **_field_changes(field))
    for name in _without_min_max(schema, table_config):
        plan[name] = replace(plan[name], min_max=False)
    partitioned = (
        indexing.segment_partition_config.column_partition_map if indexing.segment_partition_config is not None else {}
    )
    for name, partition in partitioned.items():
        path = f"$.tableIndexConfig.segmentPartitionConfig.columnPartitionMap.{name}"
        # Of another function none are recorded, and `partition_gaps` says so.
        if is_partition_function(partition.function_name):
            change(name, path, partition_function=str(partition.function_name), num_partitions=partition.num_partitions)
    faults.extend(
        Fault(
            "$.tableIndexConfig.invertedIndexColumns",
            f"'{name}', a column without dictionary",
            "columns with a dictionary",
        )
        for name, column in plan.items()
        if column.inverted and not column.dictionary
    )
    faults.extend(
        Fault(
            "$.tableIndexConfig.rangeIndexColumns",
            f"'{name}', a {spec.data_type} column without dictionary",
            "numbers, or columns with a dictionary",
        )
        for name, spec in schema.field_specs.items()
        if plan[name].range_index and not plan[name].dictionary and not spec.data_type.stored.is_fixed
    )
    faults.extend(
        Fault(
            "$.tableIndexConfig.jsonIndexColumns",
            f"'{name}', a {'' if spec.single_value else 'multi-valued '}{spec.data_type} column",
            "single-valued STRING or JSON columns",
        )
        for name, spec in schema.field_specs.items()
        if plan[name].json is not None
        and not (spec.data_type in (DataType.STRING, DataType.JSON) and spec.single_value)
    )
    for i, field in enumerate(table_config.field_configs):
        spec = schema.field_specs.get(field.name)
        if spec is not None and plan[field.name].text and not spec.data_type.is_text:
            faults.append(
                Fault(
                    f"$.fieldConfigList[{i}]",
                    f"a text index on '{field.name}' of type {spec.data_type}",
                    "columns of type STRING, JSON",
                )
            )


def _without_min_max(schema: Schema, table_config: TableConfig) -> list[str]:
    """Columns of which columnMinMaxValueGeneratorMode (ALL where it is not given) leaves min and max out."""
    mode, time_column = (
        table_config.indexing.column_min_max_value_generator_mode,
        table_config.segments.time_column_name,
    )
    match mode:
        case MinMaxMode.NONE:
            return list(schema.field_specs)
        case MinMaxMode.TIME:
            return [name for name in schema.field_specs if name != time_column]
        case MinMaxMode.NON_METRIC:
            return [name for name, spec in schema.field_specs.items() if spec.field_type is FieldType.METRIC]
    return []


def _json_indexing(settings: JsonIndexConfig) -> JsonIndexing:
    return JsonIndexing(
        max_levels=max(settings.max_levels, 0),
        exclude_array=settings.exclude_array,
        cross_arrays=not settings.disable_cross_array_unnest,
        include_paths=settings.include_paths,
        exclude_paths=settings.exclude_paths,
        exclude_fields=settings.exclude_fields,
        max_value_length=settings.max_value_length,
    )


def _field_changes(field: FieldConfig) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if field.encoding_type is EncodingType.RAW:
        changes["dictionary"] = False
    if field.compression_codec is not None:
        changes["codec"] = _CODECS[field.compression_codec]
    if "INVERTED" in field.all_index_types:
        changes["inverted"] = True
    if "RANGE" in field.all_index_types:
        changes["range_index"] = True
    if "TEXT" in field.all_index_types:
        changes["text"] = True
    if "JSON" in field.all_index_types:
        changes["json"] = _json_indexing(JsonIndexConfig.model_validate(field.index_settings.get("JSON", {})))
    bloom = field.bloom_filter
    if bloom is not None:
        changes["bloom_fpp"], changes["bloom_max_bytes"] = bloom.fpp, bloom.max_size_in_bytes
    # AUTO is byte-aligned: filters on it are 3x cheaper than on the best packed form, as measured.
    if field.dict_id_encoding is DictIdEncoding.FIXED_BIT:
        changes["packed"] = True
    return changes
