"""Which encodings and indexes a column gets: the table config, resolved per column."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pinotpy.data_types import FieldType
from pinotpy.errors import Fault, InvalidConfigError
from pinotpy.segment.chunk_codec import CODECS
from pinotpy.segment.partition import FUNCTION_NAMES, is_partition_function

if TYPE_CHECKING:
    from pinotpy.config.schema import Schema
    from pinotpy.config.table import TableConfig

# property of a fieldConfigList entry: FIXED_BIT packs dict ids to the bit, BYTE_ALIGNED (default) scans 3x faster.
FORWARD_INDEX_ENCODING: Final = "forwardIndexEncoding"
_PLAIN_CODECS: Final = ("PASS_THROUGH", "NONE")


@dataclass(frozen=True, slots=True)
class ColumnIndexing:
    """What is built for one column.

    Attributes:
        dictionary: sorted dictionary and dict ids; else raw values.
        packed: dict ids fixed-bit instead of byte-aligned.
        codec: raw values in compressed chunks (LZ4, ZSTANDARD, SNAPPY).
        inverted: inverted index (needs the dictionary; a sorted column has one for free).
        partition_function, num_partitions: record the partitions of the values; 0 = not partitioned.
    """

    dictionary: bool = True
    packed: bool = False
    codec: str | None = None
    inverted: bool = False
    partition_function: str = ""
    num_partitions: int = 0


def resolve_indexing(schema: Schema, table_config: TableConfig | None) -> dict[str, ColumnIndexing]:
    """Indexing of every column of the schema; raises InvalidConfigError with all faults."""
    plan = {name: ColumnIndexing() for name in schema.field_specs}
    if table_config is None:
        return plan
    faults: list[Fault] = []
    indexing = table_config.indexing

    def change(name: str, path: str, **values: Any) -> None:
        if name in plan:
            plan[name] = replace(plan[name], **values)
        else:
            faults.append(Fault(path, f"'{name}'", "a column of the schema"))

    for name in indexing.no_dictionary_columns or ():
        change(name, "$.tableIndexConfig.noDictionaryColumns", dictionary=False)
    for name, codec in (indexing.no_dictionary_config or {}).items():
        change(name, path := f"$.tableIndexConfig.noDictionaryConfig.{name}", dictionary=False, codec=_codec(codec, path, faults))
    for name in indexing.inverted_index_columns or ():
        change(name, "$.tableIndexConfig.invertedIndexColumns", inverted=True)
    for i, field in enumerate(table_config.field_configs or ()):
        _apply_field_config(field, f"$.fieldConfigList[{i}]", plan, faults)
    for name, config in _partition_map(indexing.segment_partition_config).items():
        path = f"$.tableIndexConfig.segmentPartitionConfig.columnPartitionMap.{name}"
        if not is_partition_function(config.function_name):
            faults.append(Fault(f"{path}.functionName", f"'{config.function_name}'", ", ".join(FUNCTION_NAMES)))
        elif config.num_partitions < 1:
            faults.append(Fault(f"{path}.numPartitions", str(config.num_partitions), "a whole number from 1 on"))
        else:
            change(name, path, partition_function=config.function_name, num_partitions=config.num_partitions)
    for name, column in plan.items():
        if schema.field_specs[name].field_type is FieldType.COMPLEX:
            faults.append(Fault(f"$.complexFieldSpecs.{name}", "a MAP column", "types of which segments can be built: all but MAP"))
        elif column.inverted and not column.dictionary:
            # As the reference: an inverted index without a dictionary cannot be; refused here, not skipped in silence.
            faults.append(Fault("$.tableIndexConfig.invertedIndexColumns", f"'{name}', a column without dictionary", "columns with a dictionary"))
    if faults:
        raise InvalidConfigError("table config cannot be built", tuple(faults))
    return plan


def _apply_field_config(field: Any, path: str, plan: dict[str, ColumnIndexing], faults: list[Fault]) -> None:
    if field.name not in plan:
        faults.append(Fault(f"{path}.name", f"'{field.name}'", "a column of the schema"))
        return
    column = plan[field.name]
    if _name_of(field.encoding_type) == "RAW":
        column = replace(column, dictionary=False)
    codec = _name_of(field.compression_codec)
    if codec:
        # Pinot ignores a codec on a dictionary column.
        column = replace(column, codec=_codec(codec, f"{path}.compressionCodec", faults))
    index_types = {_name_of(field.index_type), *(_name_of(kind) for kind in field.index_types or ())}
    if "INVERTED" in index_types:
        column = replace(column, inverted=True)
    encoding = (field.properties or {}).get(FORWARD_INDEX_ENCODING, "BYTE_ALIGNED")
    if encoding not in ("FIXED_BIT", "BYTE_ALIGNED"):
        faults.append(Fault(f"{path}.properties.{FORWARD_INDEX_ENCODING}", f"'{encoding}'", "FIXED_BIT, BYTE_ALIGNED"))
    plan[field.name] = replace(column, packed=encoding == "FIXED_BIT")


def _name_of(value: Any) -> str:
    return "" if value is None else str(getattr(value, "value", value)).upper()


def _codec(text: Any, path: str, faults: list[Fault]) -> str | None:
    name = _name_of(text)
    if name in CODECS or name in _PLAIN_CODECS:
        return name if name in CODECS else None
    faults.append(Fault(path, f"'{name}'", ", ".join((*CODECS, *_PLAIN_CODECS))))
    return None


def _partition_map(config: Any) -> dict[str, Any]:
    return {} if config is None else dict(config.column_partition_map or {})
