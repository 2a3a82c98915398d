"""What a table says of a partition of its stream: all values of a column in it fall into that partition by a function.

The controller writes it into the record of a segment that takes rows (`segment.partition.metadata`). It is a promise of
whoever produces, so nobody relies on it alone: servers compare the rows that they read with it, and say so as long as
it is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class StreamPromise:
    """All values of `column` fall into `partition` of `num_partitions` by a partition function."""

    column: str
    function_name: str
    num_partitions: int
    partition: int

    @property
    def text(self) -> str:
        """What a server says that keeps watch over it."""
        return f"{self.function_name.lower()} {self.partition} of {self.num_partitions} {self.column}"


def promise_of(partition_metadata: Mapping[str, Any] | None) -> StreamPromise | None:
    """What a record promises; None if it promises nothing, or something of several columns or partitions."""
    columns = (partition_metadata or {}).get("columnPartitionMap")
    if not isinstance(columns, dict) or len(columns) != 1:
        return None
    ((name, column),) = columns.items()
    if not isinstance(column, dict) or column.get("functionConfig"):
        return None
    function, count, ids = (column.get(key) for key in ("functionName", "numPartitions", "partitions"))
    if not isinstance(function, str) or type(count) is not int or not isinstance(ids, list) or len(ids) != 1:
        return None
    return StreamPromise(name, function, count, ids[0]) if type(ids[0]) is int else None
