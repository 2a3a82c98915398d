"""Whether segments store columns as the query takes them to be.

A query has the types of the table's schema. Where a schema was changed by force, segments keep what they were built
with, and kernels would read numbers as offsets of texts.
"""

from __future__ import annotations

from pinotpy.errors import QueryExecutionError
from pinotpy.query.model.context import ColumnRef, QueryContext
from pinotpy.query.segments.segment_set import Attachment
from pinotpy.query.segments.segment_sets import SegmentSets
from pinotpy.segment.data_source import Segment


class _Compared(Attachment):
    """By column, whether all segments of a set store it as it is referred to."""

    def __init__(self) -> None:
        self.fits: dict[ColumnRef, bool] = {}


def check_kinds(context: QueryContext, sets: SegmentSets) -> None:
    """Raises QueryExecutionError if a segment stores a column of the query in another form than the schema's: numbers
    of another width, texts, or lists.
    """
    for one in sets.sets:
        fits = one.whole.attached(_Compared).fits  # looked at once
        for column in context.columns:
            if column not in fits and not column.name.startswith("$"):
                fits[column] = all(_fits(column, segment) for segment in one.whole)
            if not fits.get(column, True):
                other = next((segment for segment in one if not _fits(column, segment)), None)
                if other is not None:
                    raise _other_kind(column, other)


def _fits(column: ColumnRef, segment: Segment) -> bool:
    if not segment.has_column(column.name):
        return True
    data_type, single_value = segment.kind(column.name)
    return data_type.stored is column.data_type.stored and single_value == column.single_value


def _other_kind(column: ColumnRef, segment: Segment) -> QueryExecutionError:
    data_type, single_value = segment.kind(column.name)
    found, expected = (
        f"{kind.value}{'' if is_single else '[]'}"
        for kind, is_single in ((data_type, single_value), (column.data_type, column.single_value))
    )
    return QueryExecutionError(
        f"expected column '{column.name}' as {expected}, which is its type in the table's schema, found {found} in "
        f"segment '{segment.name}': build that segment anew and upload it, or give the column its old type again"
    )
