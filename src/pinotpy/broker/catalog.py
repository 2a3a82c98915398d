"""The broker's view of tables: names to schemas, settings and routings. An interface: the cluster implements it, and
tests do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pinotpy.broker.routing.table_routing import TableRouting
from pinotpy.config.schema import Schema
from pinotpy.pql.ast import Dialect
from pinotpy.query.model.context import And, Filter, Predicate


@dataclass(frozen=True, slots=True)
class Half:
    """One half of a table with what is asked of it. `time_predicate`: its side of the time boundary, which no table has
    before there are hybrid ones.
    """

    routing: TableRouting
    time_predicate: Predicate | None = None

    def with_time_boundary(self, condition: Filter | None) -> Filter | None:
        """`condition` restricted to this half's side of the time boundary."""
        if self.time_predicate is None:
            return condition
        return self.time_predicate if condition is None else And((condition, self.time_predicate))


@dataclass(frozen=True, slots=True)
class Target:
    """A table as a query names it: `flights` (all its halves) or `flights_OFFLINE`.

    timeout_ms: the time of a query that asks for no other (query.timeoutMs; of two halves the lesser); None: the
    broker's.
    """

    raw_table_name: str
    schema: Schema
    halves: tuple[Half, ...]
    timeout_ms: int | None = None


class Catalog(Protocol):
    """Names to tables, from one snapshot of the cluster."""

    def resolve(self, table: str, dialect: Dialect) -> Target:
        """Find the table that a query names. PQL is case-sensitive, SQL is not.

        Raises:
            TableNotFoundError: no such table (with the nearest name); InvalidQueryError: the table is disabled (191).
        """
        ...
