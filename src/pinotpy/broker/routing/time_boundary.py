"""Each half's side of the time boundary of a hybrid table (cluster/time_boundary.py), as conditions on its rows."""

from __future__ import annotations

from pinotpy.cluster.time_boundary import TimeBoundary
from pinotpy.pql.ast import Identifier
from pinotpy.query.model.context import Bound, ColumnRef, Comparison, Predicate


def time_column(boundary: TimeBoundary) -> ColumnRef:
    """The column that both conditions read."""
    spec = boundary.column
    return ColumnRef(spec.name, spec.data_type, spec.single_value, spec.default_in_segments)


def side_of_offline(boundary: TimeBoundary) -> Predicate:
    """Up to the boundary."""
    return Predicate(Identifier(boundary.column.name), Comparison.RANGE, upper=Bound(boundary.value, True))


def side_of_realtime(boundary: TimeBoundary) -> Predicate:
    """After the boundary."""
    return Predicate(Identifier(boundary.column.name), Comparison.RANGE, lower=Bound(boundary.value, False))
