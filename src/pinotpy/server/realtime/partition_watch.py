"""Whether the rows of a stream's partition are those that its table says: a producer may use another function, or keys
of its own, and a topic may get more partitions. Brokers leave the rows out of queries of other partitions only while
this says that none was found elsewhere.
"""

from __future__ import annotations

import logging

import numpy as np
import pyarrow as pa

from pinotpy.cluster.stream_promise import StreamPromise
from pinotpy.segment.build.arrow_values import column_values
from pinotpy.segment.partition import partition_ids
from pinotpy.server.realtime.ingest_worker import PartitionSpec

log = logging.getLogger(__name__)


class PartitionWatch:
    """Of one reader of a partition. `look` is called by its thread, the others by any.

    stray: the first row that was found elsewhere, in words; empty as long as there is none.
    """

    def __init__(self, spec: PartitionSpec) -> None:
        self._spec = spec
        self._promise = _promise(spec)
        self.stray = ""

    @property
    def kept(self) -> str:
        """What all rows keep to that were looked at (StreamPromise.text); empty: nothing, or it is not known."""
        return "" if self._promise is None or self.stray else self._promise.text

    def look(self, rows: pa.RecordBatch) -> None:
        """Rows in storage form that are published afterwards. Raises DataError as appending them does."""
        promise = self._promise
        if promise is None or self.stray or not rows.num_rows:
            return
        spec = self._spec.schema.field_specs[promise.column]
        index = rows.schema.get_field_index(promise.column)
        column = rows.column(index) if index >= 0 else pa.nulls(rows.num_rows)
        values = column_values(
            pa.chunked_array([column]),
            promise.column,
            spec.data_type,
            single_value=True,
            default=spec.default_in_segments,
        ).values
        if isinstance(values, pa.ChunkedArray):
            distinct = values.unique()  # dictionary-encoded ones stay so
            plain = distinct.dictionary_decode() if pa.types.is_dictionary(distinct.type) else distinct
        else:
            plain = np.unique(values)
        ids = partition_ids(promise.function_name, promise.num_partitions, plain, spec.data_type)
        if ids is None:
            self._tell(f"a value of column '{promise.column}' has no partition by {promise.function_name}")
            return
        others = np.flatnonzero(ids != promise.partition)
        if len(others):
            first = plain[int(others[0])]
            value = first.as_py().decode(errors="replace") if isinstance(first, pa.Scalar) else first
            self._tell(
                f"column '{promise.column}' has the value '{str(value)[:80]}', which is of partition "
                f"{ids[others[0]]} by {promise.function_name} of {promise.num_partitions}"
            )

    def _tell(self, stray: str) -> None:
        self.stray = stray
        log.warning(
            "rows of a stream are not partitioned as the table says, queries ask for all of them table=%s partition=%d "
            "first=%s", self._spec.table, self._spec.partition, stray,
        )  # fmt: skip


def _promise(spec: PartitionSpec) -> StreamPromise | None:
    """What the table's config says; None if it says nothing, or nothing that rows can be compared with."""
    partitioned = spec.config.indexing.segment_partition_config
    columns = {} if partitioned is None else partitioned.column_partition_map
    if len(columns) != 1:
        return None
    ((name, column),) = columns.items()
    field = spec.schema.field_specs.get(name)
    if (
        field is None
        or not field.single_value
        or field.data_type.stored.is_floating
        or not column.function_name.is_built
        or column.function_config
        or spec.partition >= column.num_partitions
    ):
        return None
    return StreamPromise(name, str(column.function_name), column.num_partitions, spec.partition)
