"""ReducedResult: the whole answer as typed columns, before a dialect's writer turns it into JSON or Arrow."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from pinotpy.query.model.context import QueryKind
from pinotpy.query.model.result_type import ResultType


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """One column of an answer; `values` has the Arrow type `data_types.DataType.arrow` (lists of it for
    multi-values).
    """

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
