"""ReducedResult: the whole answer as typed columns, before a dialect's writer turns it into JSON or Arrow."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from pinotpy.data_types import DataType
from pinotpy.query.model.context import QueryKind


@dataclass(frozen=True, slots=True)
class ResultType:
    """Type of a result column. `data_type` None is UNKNOWN (a bare null); `shown_as` is what the answer calls it instead: OBJECT
    for CASE and CAST over aggregates."""

    data_type: DataType | None
    single_value: bool = True
    shown_as: str = ""

    @property
    def name(self) -> str:
        """As in `columnDataTypes`: INT, STRING_ARRAY, UNKNOWN."""
        if self.shown_as:
            return self.shown_as
        if self.data_type is None:
            return "UNKNOWN"
        return self.data_type.value if self.single_value else f"{self.data_type.value}_ARRAY"


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """One column of an answer; `values` has the Arrow type `data_types.DataType.arrow` (lists of it for multi-values)."""

    name: str
    type: ResultType
    values: pa.Array


@dataclass(frozen=True, slots=True)
class GroupList:
    """PQL's answer to one aggregation of a GROUP BY: its own best groups, best first."""

    function: str
    keys: tuple[ResultColumn, ...]
    value: ResultColumn


@dataclass(frozen=True, slots=True)
class ReducedResult:
    """columns: the table that SQL shows (and PQL for selections, DISTINCT, and aggregations as one row).

    group_lists: PQL GROUP BY in its own mode, one per selected aggregation; then `columns` is empty.
    """

    kind: QueryKind
    columns: tuple[ResultColumn, ...]
    group_lists: tuple[GroupList, ...] = ()

    @property
    def num_rows(self) -> int:
        return len(self.columns[0].values) if self.columns else 0
