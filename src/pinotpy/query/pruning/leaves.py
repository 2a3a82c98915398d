"""One predicate on one column against all segments: which cannot have a row that passes, and by which rule.

Bounds are of all stored values, of nulls too, so they hold in both modes of nulls: a null passes with its default value
or not at all. A list-valued column passes a test if any value does, and its negation if none does.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.query.model.context import ColumnRef
from pinotpy.query.model.predicate import (
    FixedMembers,
    FixedRange,
    Nothing,
    NullTest,
    TypedPredicate,
    VarMembers,
    VarRange,
    values_of_members,
    wanted_values,
)
from pinotpy.query.pruning.bounds import Bounds, Flags, PartitionedColumn, first_from
from pinotpy.query.pruning.facts import NOT_KNOWN
from pinotpy.query.pruning.facts_table import Facts
from pinotpy.segment.partition import partition_of, partition_text

Rules = NDArray[np.int8]
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


@dataclass(frozen=True, slots=True)
class Outcome:
    """rules: int8[n] of `Rule`, None: nothing is excluded, whatever the segments. why: why something is not excluded,
    "" where nothing stands in the way.
    """

    rules: Rules | None
    why: str = ""


def exclude(bound: TypedPredicate, column: ColumnRef, table: Facts) -> Outcome:
    """What a predicate excludes. column: as the query knows it."""
    test = bound.test
    if isinstance(test, Nothing):
        return Outcome(None, "it holds for every value") if bound.negated else Outcome(_all_by(Rule.NEVER, table))
    known = table.bounds(column.name, column.data_type)
    if isinstance(test, NullTest):
        return _by_nulls(bound.negated, known, table)
    if not isinstance(test, (FixedRange, VarRange, FixedMembers, VarMembers)):
        return Outcome(None, "records know nothing of patterns and searches")
    if bound.negated and not column.single_value:
        return Outcome(None, "of several values in a row one may be another")
    if bound.negated and column.data_type.stored.is_floating:
        return Outcome(None, "a range does not say that no value is NaN")
    partitions = None if bound.negated else table.partitions(column.name)
    if known is None and partitions is None:
        return Outcome(None, f"no record has a range or partitions of column '{column.name}'")
    rules = np.zeros(len(table), np.int8)
    why = f"no record has a range of column '{column.name}'"
    if known is not None:
        excluded, why = (_all_pass if bound.negated else _none_passes)(test, known)
        if excluded is not None:
            rules[excluded & known.known] = Rule.MIN_MAX
        missing = len(table) - int(np.count_nonzero(known.known))
        if missing and not why:
            why = f"{missing} of {len(table)} records have no range of column '{column.name}'"
    if partitions is not None:
        outside, other = _outside_partitions(test, column, partitions)
        if outside is not None:
            rules[outside & (rules == Rule.KEPT)] = Rule.PARTITION
        why = " and ".join(filter(None, (why, other)))
    return Outcome(rules, why)


def _all_by(rule: Rule, table: Facts) -> Rules:
    return np.full(len(table), rule, np.int8)


def _by_nulls(negated: bool, known: Bounds | None, table: Facts) -> Outcome:
    if known is None:
        return Outcome(None, "no record says how many nulls the column has")
    if negated:
        excluded = (known.num_nulls == table.num_docs) & (table.num_docs > 0)
    else:
        excluded = known.num_nulls == 0
    why = "" if bool((known.num_nulls != NOT_KNOWN).all()) else "some records do not say how many nulls the column has"
    return Outcome(np.where(excluded, np.int8(Rule.NULLS), np.int8(Rule.KEPT)), why)


# --- bounds -----------------------------------------------------------------------------------------------------------


def _none_passes(test: FixedRange | VarRange | FixedMembers | VarMembers, bounds: Bounds) -> tuple[Flags | None, str]:
    """Segments in whose range no value passes."""
    match test:
        case FixedRange(low, high):
            return (bounds.high < low) | (bounds.low > high), ""
        case VarRange(start, end):
            texts = _texts(bounds)
            outside = bounds.high < first_from(texts, start)
            if end is not None:
                outside |= bounds.low >= first_from(texts, end)
            return outside, ""
        case FixedMembers(values):
            return np.searchsorted(values, bounds.low, "left") == np.searchsorted(values, bounds.high, "right"), ""
        case VarMembers():
            members = values_of_members(test)
            if len(members) > TEXT_MEMBERS_MAX:
                return None, f"lists of more than {TEXT_MEMBERS_MAX} texts are not compared with ranges"
            texts = _texts(bounds)
            # A member lies within [low, high] if it is not below text `low`, which is before `afters`, and not above
            # text `high`, which is from `firsts` on. Both ascend: the first member from `low` on decides.
            firsts = np.array([*(first_from(texts, member) for member in members), len(texts) + 1], np.int64)
            afters = np.array([bisect_right(texts, member) for member in members], np.int64)
            return firsts[np.searchsorted(afters, bounds.low, "right")] > bounds.high, ""


def _all_pass(test: FixedRange | VarRange | FixedMembers | VarMembers, bounds: Bounds) -> tuple[Flags | None, str]:
    """Segments in which every value of the range passes: none passes the negation."""
    match test:
        case FixedRange(low, high):
            return (bounds.low >= low) & (bounds.high <= high), ""
        case VarRange(start, end):
            texts = _texts(bounds)
            inside = bounds.low >= first_from(texts, start)
            return inside if end is None else inside & (bounds.high < first_from(texts, end)), ""
        case FixedMembers(values):
            return (bounds.low == bounds.high) & np.isin(bounds.low, values), ""
        case VarMembers():
            members = values_of_members(test)
            if len(members) > TEXT_MEMBERS_MAX:
                return None, f"lists of more than {TEXT_MEMBERS_MAX} texts are not compared with ranges"
            texts = _texts(bounds)
            places = [first_from(texts, member) for member in members]
            numbers = [
                place for place, member in zip(places, members, strict=True) if texts[place : place + 1] == [member]
            ]
            return (bounds.low == bounds.high) & np.isin(bounds.low, numbers), ""


def _texts(bounds: Bounds) -> list[bytes]:
    assert bounds.texts is not None
    return bounds.texts


# --- partitions -------------------------------------------------------------------------------------------------------


def _outside_partitions(
    test: FixedRange | VarRange | FixedMembers | VarMembers, column: ColumnRef, partitions: PartitionedColumn
) -> tuple[Flags | None, str]:
    """Segments none of whose partitions is that of a wanted value."""
    values = wanted_values(test)
    if values is None:
        return None, "partitions are known of = and of short lists only"
    texts = [partition_text(value, column.data_type) for value in values]
    if any(text is None for text in texts):
        return None, f"values of type {column.data_type} have no partition"
    holds = np.ones(len(partitions.scheme), np.bool_)
    why = ""
    for number, (function, num_partitions) in enumerate(partitions.schemes):
        try:
            wanted = {partition_of(function, num_partitions, text) for text in texts if text is not None}
        except ValueError:
            why = f"{function} has no partition for a value that is asked for"
            continue
        rows = partitions.scheme == number
        # How many wanted ids come before each place of `ids`: a segment has one if its first and last count differ.
        counts = np.zeros(len(partitions.ids) + 1, np.int64)
        np.cumsum(np.isin(partitions.ids, list(wanted)), out=counts[1:])
        found = counts[partitions.starts[1:]] != counts[partitions.starts[:-1]]
        holds[rows] = found[rows]
    missing = int(np.count_nonzero(partitions.scheme < 0))
    if missing and not why:
        why = f"{missing} of {len(partitions.scheme)} records have no partitions of column '{column.name}'"
    return ~holds, why
