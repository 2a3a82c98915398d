"""Which rows belong into one segment: by the partition of a column's value, and by time bucket.

A group has a text key that says what it is and sorts as segments are numbered: `partition-00003`, `2014-01`,
`partition-00003/2014-01`, and '' where rows are not grouped. Values are hashed as the builder stores them, by its own
functions (`segment.partition`): a segment of one group has one partition, and brokers prune by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.config.field_spec import FieldSpec
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import DataError, UserError
from pinotpy.ingest.row_order import encoded_values
from pinotpy.ingest.time_buckets import NO_TIME, Bucket
from pinotpy.ingest.time_values import to_millis
from pinotpy.segment.partition import is_partition_function, partition_ids


@dataclass(frozen=True, slots=True)
class PartitionRule:
    """The column whose values decide, and the function."""

    column: FieldSpec
    function_name: str
    num_partitions: int


class SplitsRows(Protocol):
    """Whatever deals the rows of a batch to groups, as RowGroups does."""

    def split(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows of each group, groups by key ascending, rows in their order."""
        ...


@dataclass(frozen=True, slots=True)
class RowGroups:
    """How rows are grouped; neither rule: all rows are one group."""

    partition: PartitionRule | None = None
    time_column: FieldSpec | None = None
    bucket: Bucket | None = None

    def split(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows of each group, groups by key ascending, rows in their order.

        Raises:
            DataError: a value that the partition function or the time format cannot read.
        """
        if not batch.num_rows:
            return
        ids, keys = self._numbered(batch)
        if len(keys) == 1:
            yield keys[0], batch
            return
        order = np.argsort(ids, kind="stable")
        ends = np.cumsum(np.bincount(ids, minlength=len(keys)))
        # One take of all rows, then slices of it: cheaper than a filter for each of many groups.
        arranged = batch.take(pa.array(order))
        start = 0
        for key, end in zip(keys, ends.tolist(), strict=True):
            yield key, arranged.slice(start, end - start)
            start = end

    def _numbered(self, batch: pa.RecordBatch) -> tuple[Int64Array, list[str]]:
        """The group of each row as a number, and the keys of the numbers, ascending."""
        ids: Int64Array = np.zeros(batch.num_rows, np.int64)
        keys = [""]
        if self.partition is not None:
            ids, keys = _partitions(batch.column(self.partition.column.name), self.partition)
        if self.time_column is not None and self.bucket is not None:
            times, labels = _buckets(batch.column(self.time_column.name), self.time_column, self.bucket)
            both = ids * len(labels) + times
            distinct, ids = np.unique(both, return_inverse=True)
            keys = [
                "/".join(key for key in (keys[number // len(labels)], labels[number % len(labels)]) if key)
                for number in distinct.tolist()
            ]
        return ids, keys


def row_groups(
    schema: Schema, table_config: TableConfig | None, *, partitioned: bool, bucket: Bucket | None
) -> RowGroups:
    """The groups that a table asks for: by its segmentPartitionConfig, and by time.

    Raises UserError where the table config names no such column, or none that rows can be grouped by.
    """
    time_column = None
    if bucket is not None:
        name = table_config.segments.time_column_name if table_config is not None else None
        time_column = schema.field_specs.get(name or "")
        if time_column is None or time_column.date_time_format is None or not time_column.single_value:
            raise UserError(
                f"rows cannot be split by time: table '{schema.schema_name}' has no time column with a format "
                f"(timeColumnName is {name!r})"
            )
    return RowGroups(_partition_rule(schema, table_config) if partitioned else None, time_column, bucket)


def _partition_rule(schema: Schema, table_config: TableConfig | None) -> PartitionRule:
    config = table_config.indexing.segment_partition_config if table_config is not None else None
    columns = config.column_partition_map if config is not None else {}
    if len(columns) != 1:
        shown = ", ".join(columns) or "none"
        raise UserError(
            "rows cannot be split by partition: expected one column in segmentPartitionConfig.columnPartitionMap, "
            f"found {shown}"
        )
    ((name, rule),) = columns.items()
    spec = schema.field_specs.get(name)
    if spec is None or not spec.single_value:
        raise UserError(
            f"rows cannot be split by partition: '{name}' is no single-valued column of schema '{schema.schema_name}'",
            column=name,
        )
    if not is_partition_function(rule.function_name):
        raise UserError(
            f"rows cannot be split by partition: '{rule.function_name}' is not built here, expected Modulo, Murmur, "
            "HashCode or ByteArray"
        )
    return PartitionRule(spec, str(rule.function_name.value), rule.num_partitions)


def _partitions(column: pa.Array, rule: PartitionRule) -> tuple[Int64Array, list[str]]:
    encoded = encoded_values(column, rule.column)
    of_values = partition_ids(rule.function_name, rule.num_partitions, encoded.dictionary, rule.column.data_type)
    if of_values is None:
        raise DataError(
            f"column '{rule.column.name}' has values that {rule.function_name} cannot take: "
            f"{_shown(encoded.dictionary)}",
            column=rule.column.name,
        )
    partitions, numbers = np.unique(of_values, return_inverse=True)
    return numbers.astype(np.int64)[encoded.ids], [f"partition-{partition:05d}" for partition in partitions.tolist()]


def _buckets(column: pa.Array, spec: FieldSpec, bucket: Bucket) -> tuple[Int64Array, list[str]]:
    assert spec.date_time_format is not None
    millis = to_millis(column, spec.date_time_format)
    if millis.bad:
        raise DataError(f"column '{spec.name}': {millis.bad[0].cause}", column=spec.name)
    times = (
        np.asarray(millis.array.fill_null(0)).astype("datetime64[ms]").astype(f"datetime64[{bucket}]").astype(np.int64)
    )
    missing: NDArray[np.bool_] = np.asarray(millis.array.is_null())
    # Rows without time come last.
    times[missing] = np.iinfo(np.int64).max
    starts, numbers = np.unique(times, return_inverse=True)
    texts = starts.astype(f"datetime64[{bucket}]").astype(str).tolist()
    labels = [
        NO_TIME if value == np.iinfo(np.int64).max else text for value, text in zip(starts.tolist(), texts, strict=True)
    ]
    return numbers.astype(np.int64), labels


def _shown(dictionary: NDArray[Any] | pa.Array) -> str:
    values = dictionary[:3].tolist() if isinstance(dictionary, np.ndarray) else dictionary[:3].to_pylist()
    return ", ".join(repr(value) for value in values)
