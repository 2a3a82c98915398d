"""Where the values of group keys and aggregation arguments come from: columns, stored or computed for this query.

Registers hold dict ids (u32) or 64-bit values; `Sources` remembers for every unit which, so that what was kept can be
read back when the scan is over.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pinotpy.pql.ast import Expression, Identifier
from pinotpy.query.plan import ScanPlan, Shape

Addresses = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Source:
    """A column in the units of a shape: `metas` addresses of its meta rows, `by_id` whether it reads as dict ids."""

    name: str
    metas: Addresses
    by_id: bool
    has_nulls: bool


@dataclass(slots=True)
class Sources:
    """The sources of one plan."""

    plan: ScanPlan
    # By aggregation: per unit, the address of the meta row whose dict ids its distribution holds (0: 64-bit values).
    distributions: dict[int, Addresses] = field(default_factory=dict)

    def note(self, aggregation: int, shape: Shape, source: Source | None) -> None:
        """Remember what the distribution of an aggregation holds in the shape's units."""
        metas = self.distributions.setdefault(aggregation, np.zeros(self.plan.num_units, np.int64))
        metas[shape.units] = source.metas if source is not None and source.by_id else 0

    def of(self, shape: Shape, expression: Expression) -> Source:
        """The source of an expression."""
        assert isinstance(expression, Identifier), "expressions are columns by now (computed_columns.py)"
        name = expression.name
        return Source(name, shape.meta(name), shape.has_dictionary(name), shape.has_nulls(name))


def fetch_ids(shape: Shape, source: Source) -> int:
    """Register of dict ids."""
    assert source.by_id, "values have no dict ids"
    return shape.fetch_ids(source.name)


def fetch_values(shape: Shape, source: Source) -> int:
    """Register of 64-bit values: i64, or f64 of FLOAT and DOUBLE."""
    return shape.fetch_values(source.name)


def fetch_nulls(shape: Shape, source: Source) -> int:
    """Register of null flags, -1 where nothing is null."""
    found = shape.fetch_nulls(source.name) if source.has_nulls else None
    return -1 if found is None else found
