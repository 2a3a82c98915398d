"""JSON_MATCH against a column: by its JSON index, or by reading its documents where a segment has none, or one that
leaves out what the condition asks for (json_coverage.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.functions.json.json_records import SEPARATOR, JsonIndexing
from pinotpy.functions.scalar.number_order import COMPARE, as_double
from pinotpy.functions.text.patterns import like_pattern, regexp_pattern
from pinotpy.pql.ast import Identifier
from pinotpy.query.filter.search.json_coverage import left_out
from pinotpy.query.filter.search.json_query import JsonQuery, path_term
from pinotpy.query.model.context import And, Bound, Comparison, Filter, Or, Predicate
from pinotpy.query.model.stored_literals import literal_text
from pinotpy.query.runtime.control import QueryControl
from pinotpy.segment.data_source import Column, JsonIndex
from pinotpy.segment.index.json import build_json_records

Flags = NDArray[np.bool_]

_BATCH: Final = 1 << 14
# Sorts behind all terms of a path: NUL is followed by 1.
_BEHIND: Final = b"\1"


def matching_docs(
    column: Column, query: JsonQuery, control: QueryControl, low: int, high: int
) -> tuple[NDArray[np.uint8], int]:
    """Flags of docs that match, uint8[num_docs], right for docs [low, high); and the number of documents that were
    read.

    Raises QueryExecutionError for patterns that RE2 does not take; what `control.check` raises.
    """
    flags = np.zeros(column.num_docs, np.uint8)
    index = column.json_index
    if index is not None and left_out(index.indexing, query) is not None:
        index = None
    if column.dictionary is None:
        if index is not None:
            flags[:] = _matching_entries(index, query, column.num_docs, control)
            return flags, 0
        return flags, _read(column.raw_values(), query, control, flags, low, high)
    of_values = np.zeros(column.cardinality, np.uint8)
    read = 0
    if index is not None:
        of_values[:] = _matching_entries(index, query, column.cardinality, control)
    else:
        read = _read(column.dictionary.arrow(), query, control, of_values, 0, column.cardinality)
    flags[low:high] = of_values[column.ids()[low:high]]
    return flags, read


def _read(
    documents: Any, query: JsonQuery, control: QueryControl, flags: NDArray[np.uint8], low: int, high: int
) -> int:
    """Without index: make the records of some documents after the other and ask them."""
    for first in range(low, high, _BATCH):
        control.check()
        some = documents.slice(first, min(_BATCH, high - first))
        flags[first : first + len(some)] = _matching_entries(
            build_json_records("documents", some, JsonIndexing()), query, len(some), control
        )
    return max(high - low, 0)


def _matching_entries(index: JsonIndex, query: JsonQuery, num_entries: int, control: QueryControl) -> Flags:
    condition = query.condition
    absent = isinstance(condition, Predicate) and condition.comparison is Comparison.IS_NULL
    records = _records(condition, index, control)
    matches = np.zeros(num_entries, np.bool_)
    matches[index.entries[records]] = True
    return ~matches if absent else matches


def _records(condition: Filter, index: JsonIndex, control: QueryControl) -> Flags:
    """Records of which the condition holds (IS NULL: of which its opposite does)."""
    control.check()
    match condition:
        case And(children):
            matches = _records(children[0], index, control)
            for child in children[1:]:
                if not matches.any():
                    break
                matches &= _records(child, index, control)
            return matches
        case Or(children):
            matches = _records(children[0], index, control)
            for child in children[1:]:
                matches |= _records(child, index, control)
            return matches
        case Predicate():
            return _of_predicate(condition, index)
    raise AssertionError(condition)


def _of_predicate(predicate: Predicate, index: JsonIndex) -> Flags:
    assert isinstance(predicate.lhs, Identifier)
    term = path_term(predicate.lhs.name)
    matches = np.zeros(len(index.entries), np.bool_)
    for low, high in _runs(predicate, term.path, index):
        matches[index.records(low, high)] = True
    for path, number in term.numbers:
        with_number = np.zeros(len(matches), np.bool_)
        low, high = _equal(path, number, index)
        with_number[index.records(low, high)] = True
        matches &= with_number
    return matches


def _runs(predicate: Predicate, path: str, index: JsonIndex) -> Iterator[tuple[int, int]]:
    """Runs of ids of the terms that pass."""
    whole = _values(path, index)
    match predicate.comparison:
        case Comparison.IS_NULL | Comparison.IS_NOT_NULL:
            yield whole
        case Comparison.EQ | Comparison.IN:
            for value in predicate.values:
                yield _equal(path, literal_text(value), index)
        case Comparison.NOT_EQ | Comparison.NOT_IN:
            first = whole[0]
            for low, high in sorted(_equal(path, literal_text(value), index) for value in predicate.values):
                if low < high:
                    yield first, max(first, low)
                    first = max(first, high)
            yield first, whole[1]
        case _:
            passed = np.flatnonzero(_passing(predicate, _texts(path, whole, index))) + whole[0]
            begins = np.flatnonzero(np.diff(passed, prepend=-2) != 1)
            ends = np.append(begins[1:], len(passed)) - 1
            if len(passed):
                yield from zip(passed[begins].tolist(), (passed[ends] + 1).tolist(), strict=True)


def _values(path: str, index: JsonIndex) -> tuple[int, int]:
    name = path.encode("utf-8", "surrogatepass")
    return index.lower_bound(name + b"\0"), index.lower_bound(name + _BEHIND)


def _equal(path: str, value: str, index: JsonIndex) -> tuple[int, int]:
    term = f"{path}{SEPARATOR}{value}".encode("utf-8", "surrogatepass")
    # The text behind another is that with a zero byte at its end.
    return index.lower_bound(term), index.lower_bound(term + b"\0")


def _texts(path: str, run: tuple[int, int], index: JsonIndex) -> pa.Array:
    return pc.utf8_slice_codeunits(index.terms(*run), len(path) + 1)


def _passing(predicate: Predicate, texts: pa.Array) -> Flags:
    if not len(texts):
        return np.zeros(0, np.bool_)
    if predicate.comparison is Comparison.RANGE:
        return _between(predicate.lower, predicate.upper, texts)
    pattern, ignore_case = predicate.values[0], "i" in predicate.flags
    assert isinstance(pattern, str)
    if predicate.comparison is Comparison.LIKE:
        return like_pattern(pattern, ignore_case=ignore_case, escape=predicate.escape).matches(texts)
    return regexp_pattern(pattern, ignore_case=ignore_case).matches(texts)


def _between(lower: Bound | None, upper: Bound | None, texts: pa.Array) -> Flags:
    """Values beside numbers are compared as numbers, exactly; beside text, TRUE and FALSE as text (reference: a range
    is of numbers or of text).
    """
    matches = np.ones(len(texts), np.bool_)
    ends = [(bound, name) for bound, name in ((lower, "greater_than"), (upper, "less_than")) if bound is not None]
    if any(isinstance(bound.value, str | bool) for bound, _ in ends):
        stored = texts.cast(pa.large_binary())
        for bound, name in ends:
            end = pa.scalar(literal_text(bound.value).encode("utf-8", "surrogatepass"), stored.type)
            matches &= COMPARE[name + "_or_equal" * bound.inclusive](stored, end).to_numpy(zero_copy_only=False)
        return matches
    values = _numbers(texts)
    for bound, name in ends:
        assert isinstance(bound.value, int | float | Decimal)
        end = as_double(bound.value)
        inside = np.asarray(values > end if name == "greater_than" else values < end)
        for near in np.flatnonzero(values == end).tolist():  # two numbers may be one double
            order = _order(texts[near].as_py(), bound.value)
            inside[near] = bound.inclusive if order == 0 else (order > 0) is (name == "greater_than")
        matches &= inside
    return matches


def _order(text: str, number: int | float | Decimal) -> int:
    """-1, 0 or 1 as the number in a text is below, equal to or above a literal, whose digits count as they are
    written.
    """
    try:
        value, literal = Decimal(text), Decimal(repr(number)) if isinstance(number, float) else Decimal(number)
    except InvalidOperation:  # an exponent that nobody computes with
        return 0
    return (value > literal) - (value < literal)


_NUMBER: Final = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"


def _numbers(texts: pa.Array) -> NDArray[np.float64]:
    """Texts as doubles, NaN for what is no number."""
    numeric = pc.if_else(pc.match_substring_regex(texts, _NUMBER), texts, pa.scalar(None, texts.type))
    numbers: NDArray[np.float64] = numeric.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return numbers
