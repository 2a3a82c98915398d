"""What one predicate on one column asks of the facts of segments: between which values of the column, and in which of
its partitions, a row that passes may be.

Values are asked for in the numbers of `Bounds`, where a text lies between the numbers of the texts around it: so who
compares, one segment after the other, all at once or by an index, compares numbers, whatever the type.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final

import numpy as np

from pinotpy.query.model.context import ColumnRef
from pinotpy.query.model.predicate import (
    FixedMembers,
    FixedRange,
    VarMembers,
    VarRange,
    values_of_members,
    wanted_values,
)
from pinotpy.query.pruning.bounds import first_from
from pinotpy.query.pruning.facts import NOT_KNOWN
from pinotpy.query.pruning.facts_table import Facts
from pinotpy.query.pruning.indexes import Flags
from pinotpy.segment.partition import partition_of, partition_text

# Of a column: a range, a value or a list.
ColumnTest = FixedRange | VarRange | FixedMembers | VarMembers
# Ends of ranges, both included, lows and highs ascending: a value is wanted if it is in one of them. One that ends
# before it begins is of a text between two others.
Spans = tuple[Sequence[Any], Sequence[Any]]
# By scheme; None: the function has no partition for a value that is wanted.
Wanted = Sequence[frozenset[int] | None]

# Members of longer lists of texts are not looked for: some would be in every range.
TEXT_MEMBERS_MAX: Final = 1_000


class Rule(IntEnum):
    """What excludes a segment. KEPT: nothing does."""

    KEPT = 0
    EMPTY = 1
    MIN_MAX = 2
    PARTITION = 3
    NULLS = 4
    NEVER = 5  # the condition itself: no row of any segment passes


def wanted_spans(test: ColumnTest, texts: list[bytes] | None, negated: bool) -> Spans | None:
    """Where the values of a test lie; None: of too many texts that is not asked. texts: see Bounds. negated: it is
    asked whether one of the spans holds all values of a segment.
    """
    match test:
        case FixedRange(low, high):
            return (low,), (high,)
        case FixedMembers(values):
            if negated and values.dtype == np.int64:
                # Neighbours are one span: between 3 and 4 there is no value.
                ends = np.flatnonzero(np.diff(values) != 1)
                return values[np.append(0, ends + 1)].tolist(), values[np.append(ends, -1)].tolist()
            members = values.tolist()
            return members, members
    assert texts is not None
    if isinstance(test, VarRange):
        return (first_from(texts, test.low),), (len(texts) if test.end is None else first_from(texts, test.end) - 1,)
    if len(test.offsets) - 1 > TEXT_MEMBERS_MAX:
        return None
    strings = values_of_members(test)
    return [first_from(texts, each) for each in strings], [bisect_right(texts, each) - 1 for each in strings]


def wanted_partitions(test: ColumnTest, column: ColumnRef, schemes: Sequence[tuple[str, int]]) -> Wanted | str:
    """The partitions of the values of a test in each scheme; or why that is not known of any."""
    values = wanted_values(test)
    if values is None:
        return "partitions are known of = and of short lists only"
    texts = [text for value in values if (text := partition_text(value, column.data_type)) is not None]
    if len(texts) < len(values):
        return f"values of type {column.data_type} have no partition"
    wanted: list[frozenset[int] | None] = []
    for function, num_partitions in schemes:
        try:
            wanted.append(frozenset([partition_of(function, num_partitions, text) for text in texts]))
        except ValueError:
            wanted.append(None)
    return wanted


def exclude_by_nulls(column: ColumnRef, negated: bool, table: Facts) -> tuple[Flags | None, str]:
    """Segments without a null, or negated of nulls alone; why not more."""
    known = table.bounds(column.name, column.data_type)
    if known is None:
        return None, "no record says how many nulls the column has"
    why = "" if bool((known.num_nulls != NOT_KNOWN).all()) else "some records do not say how many nulls the column has"
    if negated:
        return (known.num_nulls == table.num_docs) & (table.num_docs > 0), why
    return known.num_nulls == 0, why


def why_no_more(test: ColumnTest, negated: bool, column: ColumnRef, table: Facts) -> str:
    """Why the bounds and the partitions of a column exclude no more; "": nothing stands in the way."""
    name, size = column.name, len(table)
    bounds = table.bounds(name, column.data_type)
    partitions = None if negated else table.partitions(name)
    if bounds is None and partitions is None:
        return f"no record has a range or partitions of column '{name}'"
    whys = []
    if bounds is None:
        whys.append(f"no record has a range of column '{name}'")
    elif wanted_spans(test, bounds.texts, negated) is None:
        whys.append(f"lists of more than {TEXT_MEMBERS_MAX} texts are not compared with ranges")
    elif missing := size - int(np.count_nonzero(bounds.known)):
        whys.append(f"{missing} of {size} records have no range of column '{name}'")
    if partitions is not None:
        wanted = wanted_partitions(test, column, partitions.schemes)
        if isinstance(wanted, str):
            whys.append(wanted)
        elif None in wanted:
            function = partitions.schemes[wanted.index(None)][0]
            whys.append(f"{function} has no partition for a value that is asked for")
        elif missing := int(np.count_nonzero(partitions.scheme < 0)):
            whys.append(f"{missing} of {size} records have no partitions of column '{name}'")
    return " and ".join(whys)
