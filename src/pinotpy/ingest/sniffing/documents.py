"""Schema and table config of what was sniffed.

Originals are remembered in the table: a field that is called otherwise than its column, or whose texts stand for
something, has a transformConfig, and the reader's settings stand in batchConfigMaps.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig, check_against_schema
from pinotpy.data_types import DataType
from pinotpy.ingest.sniffing.guess import ColumnGuess
from pinotpy.ingest.sniffing.sniff import Sniffed
from pinotpy.ingest.time_values import VALID_TIME_MS
from pinotpy.ingest.transform_checks import check_expressions

# Nothing of a text is cut: the reference's limit is 512 characters.
TEXT_CHARACTERS_MAX: Final = 2**31 - 1
_LIMITED: Final = (DataType.STRING, DataType.JSON, DataType.BYTES)


def schema_document(table: str, columns: Sequence[ColumnGuess]) -> dict[str, Any]:
    """The schema: times in dateTimeFieldSpecs, everything else is a dimension."""
    document: dict[str, Any] = {"schemaName": table, "enableColumnBasedNullHandling": True}
    dimensions, times = [], []
    for column in columns:
        spec: dict[str, Any] = {"name": column.name, "dataType": str(column.data_type)}
        if column.data_type is DataType.TIMESTAMP and column.single_value:
            times.append(spec | {"format": "TIMESTAMP", "granularity": "1:MILLISECONDS"})
            continue
        if not column.single_value:
            spec["singleValueField"] = False
        if column.data_type in _LIMITED:
            spec["maxLength"] = TEXT_CHARACTERS_MAX
        dimensions.append(spec)
    return document | {"dimensionFieldSpecs": dimensions} | ({"dateTimeFieldSpecs": times} if times else {})


def table_document(table: str, sniffed: Sniffed, time_column: str | None, *, replication: int = 1) -> dict[str, Any]:
    """The table config: nulls are kept, and its ingestionConfig says how the file's fields become columns."""
    ingestion = ingestion_document(sniffed)
    return {
        "tableName": table,
        "tableType": "OFFLINE",
        "segmentsConfig": {
            "replication": str(replication),
            "segmentPushType": "APPEND",
            **({"timeColumnName": time_column} if time_column is not None else {}),
        },
        "tenants": {},
        "tableIndexConfig": {"nullHandlingEnabled": True},
        "ingestionConfig": ingestion,
        "metadata": {},
    }


def ingestion_document(sniffed: Sniffed) -> dict[str, Any]:
    """How fields of the file become columns."""
    transforms = [
        {"columnName": column.name, "transformFunction": column.expression}
        for column in sniffed.columns
        if column.expression is not None
    ]
    reader = {f"recordReader.prop.{name}": _text(value) for name, value in sniffed.reader_config.items()}
    document: dict[str, Any] = {
        "batchIngestionConfig": {
            "segmentIngestionType": "APPEND",
            "segmentIngestionFrequency": "DAILY",
            "batchConfigMaps": [{"inputFormat": str(sniffed.file_format), **reader}],
        }
    }
    if transforms:
        document["transformConfigs"] = transforms
    if sniffed.has_nested:
        document["complexTypeConfig"] = {"delimiter": sniffed.field_delimiter}
    return document


def time_column_of(columns: Sequence[ColumnGuess], wished: str | None) -> str | None:
    """The first column of times that segments may be kept and pruned by: every row of the sample has a value, all
    in 1971 to 2071.

    wished: its name, or "" for none.
    """
    if wished is not None:
        return wished or None
    low, high = VALID_TIME_MS
    for column in columns:
        known = column.time_range_ms
        is_time = column.data_type is DataType.TIMESTAMP and column.single_value and not column.has_nulls
        if is_time and known is not None and low <= known[0] and known[1] <= high:
            return column.name
    return None


def why_no_time_column(columns: Sequence[ColumnGuess]) -> str:
    """Why `time_column_of` finds none among columns of times, and what would be times but for some texts."""
    times = [column for column in columns if column.data_type is DataType.TIMESTAMP]
    if not times:
        near = next((column for column in columns if "dates" in column.why), None)
        return "no column of times" if near is None else f"column '{near.name}' is text: {near.why}"
    first = times[0]
    if not first.single_value:
        return f"column '{first.name}' has lists of times"
    if first.has_nulls:
        return f"column '{first.name}' has rows without a time"
    if time_column_of(columns, None) is None:
        return f"column '{first.name}' has times outside of 1971 to 2071"
    return ""  # none was asked for


def checked_documents(schema: dict[str, Any], table: dict[str, Any]) -> tuple[Schema, TableConfig]:
    """Both as every other command checks them. Raises InvalidConfigError."""
    parsed_schema, parsed_table = Schema.from_json(schema), TableConfig.from_json(table)
    check_against_schema(parsed_table, parsed_schema)
    check_expressions(parsed_schema, parsed_table)
    return parsed_schema, parsed_table


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
