"""GROUP BY … LIMIT without an order: any groups are right, so where all of them take much memory a few are chosen
first, and only the rows of these are read.

Some rows are asked for, of whatever segments servers begin with; the keys of enough of them make a filter. Whatever it
leaves of a group is all of the group, since keys are equal in all of its rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from pinotpy.data_types import DataType
from pinotpy.pql.ast import Dialect, Identifier
from pinotpy.query.model.context import And, Comparison, Filter, Or, OutputColumn, Predicate, QueryContext, QueryKind
from pinotpy.query.model.result_types import columns_by_name

# More groups than this are not looked for by their keys.
GROUPS_MAX: Final = 1_000
# Rows that are looked at for each group wanted: of rows of many groups most are of different ones.
_ROWS_PER_GROUP: Final = 8
_ROWS_MIN: Final = 1_000
# Types whose values, as rows show them, are literals that are equal to them alone.
_TYPES: Final = frozenset(
    {DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE, DataType.STRING, DataType.TIMESTAMP}
)


def can_choose(context: QueryContext) -> bool:
    """Whether any groups will do, and can be found by their keys."""
    columns = columns_by_name(context)
    return (
        context.kind is QueryKind.GROUP_BY
        and context.dialect is Dialect.SQL
        and not context.order_by
        and context.having is None
        and not context.explain
        and context.options.num_groups_limit is None
        and 0 < context.offset + context.limit <= GROUPS_MAX
        and all(
            isinstance(key, Identifier)
            and not key.name.startswith("$")  # who answers, and which docs have which number, may be others next time
            and (column := columns.get(key.name)) is not None
            and column.single_value
            and column.data_type in _TYPES
            for key in context.group_by
        )
    )


def some_rows(context: QueryContext) -> QueryContext:
    """A query for the keys of some rows of one that can choose."""
    keys = tuple(OutputColumn(f"k{number}", key) for number, key in enumerate(context.group_by))
    num_rows = max(_ROWS_PER_GROUP * (context.offset + context.limit), _ROWS_MIN)
    return replace(
        context, kind=QueryKind.SELECTION, output=keys, group_by=(), aggregations=(), limit=num_rows, offset=0
    )


def with_few_groups(context: QueryContext, rows: Sequence[pa.Table]) -> QueryContext | None:
    """The query over groups of some rows, as many as it shows or more; None where these rows are of fewer groups.

    Args:
        rows: of `some_rows`, columns o0, o1, … in stored form.
    """
    wanted = context.offset + context.limit
    groups: dict[tuple[Any, ...], None] = {}
    for table in rows:
        keys = [table.column(f"o{number}").to_pylist() for number in range(len(context.group_by))]
        groups.update(dict.fromkeys(zip(*keys, strict=True)))
    found = [group for group in groups if not any(isinstance(key, float) and not math.isfinite(key) for key in group)]
    if len(found) < wanted:
        return None
    columns = zip(*found[:wanted], strict=True)
    filters = [_is_one_of(key, set(values)) for key, values in zip(context.group_by, columns, strict=True)]
    return replace(context, filter=And((*filters, *(() if context.filter is None else (context.filter,)))))


def _is_one_of(key: Any, values: set[Any]) -> Filter:
    known = tuple(sorted(values - {None}))
    filters: list[Filter] = [Predicate(key, Comparison.IN, known)] if known else []
    if None in values:
        filters.append(Predicate(key, Comparison.IS_NULL))
    return filters[0] if len(filters) == 1 else Or(tuple(filters))
