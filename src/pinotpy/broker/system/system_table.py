"""A system table: its name, its columns, and how its rows are made for one caller."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from pinotpy.broker.query_log import QueryLog, QueryRecord
from pinotpy.cluster.spectator import ClusterView
from pinotpy.config.schema import Schema
from pinotpy.data_types import DataType

# Longer than any text that is shown, so that none is cut a second time.
TEXT_CHARACTERS_MAX = 2 << 20


@dataclass(frozen=True, slots=True)
class Viewer:
    """What a caller may see.

    may_see: of tables, by true name without type. reads_cluster: READ on the cluster. is_admin: ADMIN on the cluster.
    """

    name: str
    may_see: Callable[[str], bool]
    reads_cluster: bool
    is_admin: bool


@dataclass(frozen=True, slots=True)
class Known:
    """What rows are made from: one view of the cluster, and the last queries of this broker."""

    view: ClusterView
    queries: Sequence[QueryRecord]
    log: QueryLog


@dataclass(frozen=True, slots=True)
class Column:
    """`is_list`: several values a row."""

    name: str
    data_type: DataType
    is_list: bool = False

    def to_json_dict(self) -> dict[str, Any]:
        document: dict[str, Any] = {"name": self.name, "dataType": self.data_type.value}
        if self.data_type is DataType.STRING:
            document["maxLength"] = TEXT_CHARACTERS_MAX
        if self.is_list:
            document["singleValueField"] = False
        return document


@dataclass(frozen=True, slots=True)
class SystemTable:
    """rows: one tuple a row, in the order of `columns`; None is null.

    takes_cluster_right: whether a caller without READ on the cluster is refused, since no row is a table's.
    """

    name: str
    columns: tuple[Column, ...]
    rows: Callable[[Known, Viewer], Iterable[tuple[Any, ...]]]
    takes_cluster_right: bool = False
    schema: Schema = field(init=False)

    def __post_init__(self) -> None:
        document = {
            "schemaName": self.name,
            "enableColumnBasedNullHandling": True,
            "dimensionFieldSpecs": [column.to_json_dict() for column in self.columns],
        }
        object.__setattr__(self, "schema", Schema.from_json(document))

    @property
    def schema_name(self) -> str:
        """`information_schema` or `system`."""
        return self.name.partition(".")[0]

    def batch(self, known: Known, viewer: Viewer) -> pa.RecordBatch:
        """The rows for one caller, in storage form."""
        values = list(zip(*self.rows(known, viewer), strict=True)) or [()] * len(self.columns)
        arrays = []
        for column, of_column in zip(self.columns, values, strict=True):
            kind = column.data_type.arrow
            array = pa.array(of_column, pa.list_(kind) if column.is_list else kind)
            # Names repeat: they cross the network once.
            is_text = column.data_type is DataType.STRING and not column.is_list
            arrays.append(array.dictionary_encode() if is_text else array)
        return pa.RecordBatch.from_arrays(arrays, [column.name for column in self.columns])
