"""When an expression can be computed once a distinct value instead of once a doc."""

from __future__ import annotations

from collections.abc import Sequence

from pinotpy.segment.data_source import Column, Segment


def deciding_column(columns: Sequence[str], segment: Segment, *, strict: bool) -> Column | None:
    """The one single-value dictionary column that an expression reads, if its value decides the expression in this
    segment.

    Args:
        strict: the expression is null wherever the column is, and asks for nothing else of nulls. Without it a column
            with nulls does not decide: its dictionary has the default in their place.
    """
    names = set(columns)
    if len(names) != 1:
        return None
    column = segment.column(names.pop())
    if column.dictionary is None or not column.single_value or (column.has_nulls and not strict):
        return None
    return column
