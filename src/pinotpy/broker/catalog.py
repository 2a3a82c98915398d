"""The broker's view of tables: names to schemas, settings and routings. An interface: the cluster implements it, and
tests do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from pinotpy.broker.routing.segment_pruner import SegmentPruner
from pinotpy.broker.routing.table_routing import TableRouting
from pinotpy.cluster.time_boundary import TimeBoundary
from pinotpy.config.schema import Schema
from pinotpy.errors import TableNotFoundError
from pinotpy.pql.ast import Dialect
from pinotpy.query.model.context import And, ColumnRef, Comparison, Filter, Or, Predicate, QueryContext
from pinotpy.query.model.options import counted_columns, with_columns_without_nulls


@dataclass(frozen=True, slots=True)
class Half:
    """One half of a table with what is asked of it.

    time_predicate, time_column: of a hybrid table, this half's side of the time boundary, and the column that it reads.
    is_offline: rows without a time are this half's.
    pruner: finds the segments that may have rows of a query; None: all may.
    without_nulls: columns of which this half keeps no nulls, neither in segments nor for those built before the column.
    """

    routing: TableRouting
    time_predicate: Predicate | None = None
    time_column: ColumnRef | None = None
    is_offline: bool = False
    pruner: SegmentPruner | None = None
    without_nulls: frozenset[str] = frozenset()

    def of_half(self, context: QueryContext) -> QueryContext:
        """The query over this half's table, restricted to its side of the time boundary."""
        predicate, columns = self.time_predicate, context.columns
        if self.time_column is not None and all(column.name != self.time_column.name for column in columns):
            columns = (*columns, self.time_column)
        read = {column.name for column in columns}.union(*counted_columns(context.options))
        options = with_columns_without_nulls(context.options, sorted(read & self.without_nulls))
        if predicate is None:
            return replace(context, table=self.routing.table, columns=columns, options=options)
        side: Filter = predicate
        if self.is_offline and context.null_handling:
            # A comparison with null is neither true nor false.
            side = Or((predicate, Predicate(predicate.lhs, Comparison.IS_NULL)))
        condition = side if context.filter is None else And((context.filter, side))
        return replace(context, table=self.routing.table, filter=condition, columns=columns, options=options)


@dataclass(frozen=True, slots=True)
class Target:
    """A table as a query names it: `flights` (all its halves) or `flights_OFFLINE`.

    timeout_ms: the time of a query that asks for no other (query.timeoutMs; of two halves the lesser); None: the
        broker's.
    null_handling: query.enableNullHandling of each half's table config, None where it says nothing.
    given_rows: of a system table its rows (rpc/given_rows.py), which servers are sent with the query.
    boundary: of a hybrid table. fault: why its halves may answer for the same rows; empty if they cannot.
    """

    raw_table_name: str
    schema: Schema
    halves: tuple[Half, ...]
    timeout_ms: int | None = None
    boundary: TimeBoundary | None = None
    fault: str = ""
    null_handling: tuple[bool | None, ...] = ()
    given_rows: bytes = b""


class Catalog(Protocol):
    """Names to tables, from one snapshot of the cluster."""

    def true_name(self, table: str, dialect: Dialect) -> str | None:
        """The name, without type, of the table that a query names; None if there is none. Rights are given by it."""
        ...

    def twins(self, table: str, dialect: Dialect) -> tuple[str, ...]:
        """Several tables whose names differ in letter case alone, all of them from the name in a query: that means
        none.
        """
        ...

    def not_found(self, table: str, dialect: Dialect) -> TableNotFoundError:
        """What `resolve` raises where there is no table of this name: its context has the nearest names as `near`."""
        ...

    def resolve(self, table: str, dialect: Dialect) -> Target:
        """Find the table that a query names. PQL is case-sensitive, SQL is not.

        Raises:
            TableNotFoundError: no such table (`not_found`); InvalidQueryError: the table is disabled (191).
        """
        ...
