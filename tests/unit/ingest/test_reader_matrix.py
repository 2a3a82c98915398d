"""Proves that what files hold is what segments hold: every reader by every column type, with dictionaries and without,
of no row to many, of values that repeat and that do not, as time column, partition column and sorted column.
"""

from __future__ import annotations

import io
import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from matrix_files import KINDS, Kind, file_of, stored, values_of

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.data_types import DataType
from pinotpy.ingest.batch import segment_facts
from pinotpy.ingest.held_rows import hold_rows
from pinotpy.ingest.ledger import RowLedger
from pinotpy.ingest.pipeline import RowPipeline, read_rows
from pinotpy.ingest.readers.spec import FileFormat, InputFile
from pinotpy.ingest.row_groups import row_groups
from pinotpy.ingest.row_order import sort_rows
from pinotpy.ingest.time_buckets import Bucket
from pinotpy.segment.build.builder import build_segment_into
from pinotpy.segment.directory.memory_directory import MemoryDirectory
from pinotpy.segment.immutable import open_segment
from pinotpy.segment.metadata import SegmentMetadata
from pinotpy.segment.partition import partition_of
from pinotpy.segment.to_arrow import column_to_arrow

NO_PARTITIONS = ("FLOAT", "DOUBLE", "BIG_DECIMAL")  # no agreed text


def documents(kind: Kind, *, dictionary: bool) -> tuple[Schema, TableConfig]:
    """A table whose column `v` is all that it can be at once."""
    column = {"name": "v", "dataType": kind.data_type, "singleValueField": not kind.is_list}
    time_column = [{**column, "format": kind.time_format, "granularity": "1:DAYS"}] if kind.time_format else []
    schema = {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "n", "dataType": "INT"}, *([] if time_column else [column])],
        "dateTimeFieldSpecs": time_column,
    }
    indexing: dict[str, Any] = {"nullHandlingEnabled": True, "noDictionaryColumns": [] if dictionary else ["v"]}
    if not kind.is_list and kind.data_type not in NO_PARTITIONS:
        indexing["segmentPartitionConfig"] = {
            "columnPartitionMap": {"v": {"functionName": "Murmur", "numPartitions": 4}}
        }
    segments = {"replication": 1, **({"timeColumnName": "v"} if kind.time_format else {})}
    config = {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": segments,
        "tenants": {},
        "metadata": {},
        "tableIndexConfig": indexing,
    }
    return Schema.from_json(schema), TableConfig.from_json(config)


def check(file_format: FileFormat, kind: Kind, num_rows: int, *, dictionary: bool, repeated: bool) -> None:
    schema, config = documents(kind, dictionary=dictionary)
    values = values_of(kind, num_rows, repeated=repeated)
    expected = stored(kind, values)
    content = file_of(file_format, kind, values, dictionary=dictionary)
    file = InputFile(Path(f"a.{file_format}"), lambda: io.BytesIO(content), len(content))
    batches = list(read_rows(file, file_format, RowPipeline(schema, config), RowLedger("a")))
    held = hold_rows(batches, {"v"} if dictionary else set())

    facts = segment_facts(schema, config, held, 0, "a")
    extremes = pc.min_max(expected).as_py() if kind.time_format and num_rows else {"min": None, "max": None}
    assert (facts.min_time, facts.max_time) == (extremes["min"], extremes["max"])
    whole = check_segment(schema, config, held, expected)
    if kind.time_format and num_rows:
        assert whole.time_range is not None and (whole.time_range.start_ms, whole.time_range.end_ms) == (
            facts.start_ms,
            facts.end_ms,
        )
    if not kind.is_list:
        in_order = check_segment(schema, config, sort_rows(list(held), schema, ["v"]), expected).column("v")
        assert in_order is not None and (in_order.is_sorted or not dictionary)  # of raw texts nobody asks
    if config.indexing.segment_partition_config is not None:
        check_groups(schema, config, held, expected, kind)


def check_segment(
    schema: Schema, config: TableConfig, batches: list[pa.RecordBatch], expected: pa.Array
) -> SegmentMetadata:
    """The segment has the value of each row, whatever the order of its rows is."""
    directory = MemoryDirectory("t")
    metadata = build_segment_into(directory, schema, config, batches, "t", threads=1)
    segment = open_segment(directory)
    try:
        numbers, found = (column_to_arrow(segment.column(name)) for name in ("n", "v"))
        assert len(set(numbers.to_pylist())) == metadata.num_docs
        assert found.equals(expected.take(numbers)), (found, expected)
    finally:
        segment.close()
    return metadata


def check_groups(
    schema: Schema, config: TableConfig, batches: list[pa.RecordBatch], expected: pa.Array, kind: Kind
) -> None:
    """Rows dealt by partition, and by time, are all rows, each in its group."""
    bucket = Bucket.MONTH if kind.time_format else None
    groups = row_groups(schema, config, partitioned=True, bucket=bucket)
    default = schema.field_specs["v"].default_null_stored
    num_rows = 0
    for batch in batches:
        for key, part in groups.split(batch):
            num_rows += part.num_rows
            metadata = check_segment(schema, config, [part], expected)
            column = metadata.column("v")
            assert column is not None and column.partition is not None
            value = expected[part.column("n")[0].as_py()].as_py()
            text = _partition_text(default if value is None else value, DataType(kind.data_type))
            assert column.partition.partitions == (partition_of("Murmur", 4, text),) and key.startswith(
                f"partition-{column.partition.partitions[0]:05d}"
            )
    assert num_rows == len(expected)


def _partition_text(value: Any, data_type: DataType) -> str:
    if isinstance(value, bytes):
        return value.hex() if data_type is DataType.BYTES else value.decode(errors="replace")
    return str(int(value)) if isinstance(value, bool | int) else str(value)


# Types whose values Python converts, each distinct one once.
READ_ONE_BY_ONE = ("BIG_DECIMAL", "time text", "BYTES[]", "JSON")
SMALL = list(itertools.product((0, 1, 100), (False, True), (False, True)))


@pytest.mark.full
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("file_format", FileFormat)
def test_every_reader_and_type(file_format: FileFormat, name: str) -> None:
    for num_rows, dictionary, repeated in SMALL:
        check(file_format, KINDS[name], num_rows, dictionary=dictionary, repeated=repeated)


@pytest.mark.full
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("file_format", FileFormat)
def test_many_rows_of_every_reader_and_type(file_format: FileFormat, name: str) -> None:
    check(file_format, KINDS[name], 100_000, dictionary=True, repeated=name in READ_ONE_BY_ONE)


@pytest.mark.parametrize("name", ["INT", "time text", "BIG_DECIMAL", "STRING[]"])
@pytest.mark.parametrize("file_format", FileFormat)
def test_values_that_repeat(file_format: FileFormat, name: str) -> None:
    """Texts of 100 rows and four values are dictionaries within, of 50 they are not."""
    for dictionary in (False, True):
        check(file_format, KINDS[name], 100, dictionary=dictionary, repeated=True)
