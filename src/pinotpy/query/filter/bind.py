"""Predicates against segments: what each predicate is in each segment, found for all segments at once where the
dictionary allows.

In a segment a predicate is known never or always to hold, or it is one test instruction with its words. A sorted or
inverted index turns it into a run or a list of docs.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from pinotpy.arrays import Int64Array
from pinotpy.data_types import StoredType
from pinotpy.errors import QueryExecutionError
from pinotpy.kernels.filter import predicate_table, predicates
from pinotpy.kernels.filter.predicate_frame import PREDICATE_ALWAYS, PREDICATE_NEVER, PREDICATE_RUN
from pinotpy.kernels.runtime import abi
from pinotpy.query.filter.bound_predicate import COST_MULTI_VALUE, COST_RAW, COST_STRINGS, BoundPredicate, empty_table
from pinotpy.query.filter.members import enter_members, member_ids
from pinotpy.query.filter.pruning import (
    BY_MIN_MAX,
    NO_PLACES,
    NOT_PRUNED,
    Places,
    excluded_by,
    range_words,
    texts_outside,
)
from pinotpy.query.filter.raw_values import kernel_bytes, on_raw_values
from pinotpy.query.filter.search.json_query import parse_json_query
from pinotpy.query.model.predicate import (
    FixedRange,
    JsonSearch,
    Nothing,
    NullTest,
    TextSearch,
    TypedPredicate,
    VarRange,
)
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.segments.column_metas import ColumnMetas
from pinotpy.query.segments.segment_set import ColumnRanges, ColumnRows

# From so many segments on the smallest and largest text of each is looked at before its dictionary, in which a text is
# found within about 1 us (kernels/filter/dictionary_ranges.py): with cold caches the look itself takes 70 us. Raw texts
# have filters to be made first.
_BY_RANGES_MIN: Final = 256
_RAW_BY_RANGES_MIN: Final = 32
# Tests of a range, as kernels/filter/predicate_table.py wants them; 0: not loaded, no query needed it yet.
_RANGE_TESTS: Final = np.zeros(3, np.int64)
_NO_BYTES: Final = np.zeros(0, np.uint8)


def bind_predicate(
    bound: TypedPredicate,
    metas: ColumnMetas,
    control: QueryControl,
    *,
    null_handling: bool,
    places: Places | None = None,
) -> BoundPredicate:
    """What `bound` is in every segment of `metas`. places: where a range of numbers was compared with smallest and
    largest values already.
    """
    rows = metas.planned(bound.column)
    words = rows.metas
    is_null_test = isinstance(bound.test, NullTest)
    nulls = int(null_handling and not is_null_test)
    resolved = BoundPredicate(bound, empty_table(len(words)), nulls=nulls, has_index=rows.has_index)
    if isinstance(bound.test, Nothing):
        resolved.mode[:] = PREDICATE_NEVER
        # The reference prunes by the converted literal, which lies outside every segment's values.
        resolved.prune[:] = not bound.negated
    elif is_null_test:
        resolved.mode[words[:, abi.M_NULLS] == 0] = PREDICATE_NEVER
        resolved.function[:], resolved.flags[:] = predicates.is_null.address, abi.I_PREDICATE
        resolved.cost, resolved.selectivity = 0.5, 0.1
    elif isinstance(bound.test, TextSearch):
        _in_text_indexes(resolved, metas)
    elif isinstance(bound.test, JsonSearch):
        parse_json_query(bound.test.text)
        resolved.computed[:] = True
        resolved.function[:], resolved.flags[:] = predicates.doc_flags.address, abi.I_PREDICATE
        resolved.cost = 0.1
    else:
        excluding = rows.has_bloom or metas.partitionings(bound.column) is not None
        if excluding:
            resolved.rule[:] = excluded_by(bound.test, bound.column, metas)
        if isinstance(bound.test, (FixedRange, VarRange)):
            _as_range(resolved, metas, rows, control, places)
        else:
            _as_other(resolved, metas, rows, control)
        if not rows.single_value:
            resolved.cost += COST_MULTI_VALUE
    if bound.negated:
        known = resolved.mode != PREDICATE_RUN
        resolved.mode[known] = PREDICATE_NEVER + PREDICATE_ALWAYS - resolved.mode[known]
        resolved.selectivity = 1 - resolved.selectivity
        # What no value passes every value of the segment's docs fails: nothing is excluded.
        resolved.rule[:] = NOT_PRUNED
    if not bound.prunes:
        resolved.prune[:] = False
    _rules(resolved)
    return resolved


def _rules(resolved: BoundPredicate) -> None:
    # A segment that one rule excludes is pruned; what min and max exclude is pruned by them.
    prune, rule = resolved.prune, resolved.rule
    rule[prune] = BY_MIN_MAX
    np.not_equal(rule, NOT_PRUNED, out=prune)


def _as_range(
    resolved: BoundPredicate, metas: ColumnMetas, rows: ColumnRows, control: QueryControl, places: Places | None
) -> None:
    """=, comparisons and BETWEEN: all dictionaries, and all raw values of fixed types, in one call."""
    bound, test = resolved.typed, resolved.typed.test
    stored = rows.stored
    ranges = metas.segments.ranges(bound.column)
    prunes = bound.prunes and len(rows.metas) > 1
    if isinstance(test, VarRange):
        _exclude_texts(resolved, rows, ranges, prunes=prunes)
        low, end = kernel_bytes(test.low), kernel_bytes(b"" if test.end is None else test.end)
        literals = (0, 0.0, 0, 0.0, low, end, test.end is not None)
        known = least = most = 0
    else:
        assert isinstance(test, FixedRange)
        literals = (*range_words(test), _NO_BYTES, _NO_BYTES, False)
        known, least, most = ranges.addresses
    table = resolved.table.reshape(-1)
    resolved.selectivity, num_raw, num_sorted = predicate_table.range_predicate(
        rows.metas,
        table,
        *literals,
        NO_PLACES if places is None else places,
        known,
        least,
        most,
        prunes,
        _range_tests(rows),
    )
    if num_raw:
        resolved.cost = COST_RAW
    elif num_sorted:
        resolved.cost = 0.1
    if stored is StoredType.VAR and rows.has_raw:
        raw = np.flatnonzero((rows.metas[:, abi.M_CARDINALITY] < 0) & (resolved.mode == PREDICATE_RUN))
        if len(raw):
            on_raw_values(resolved, metas, rows.metas, raw, control)


def _range_tests(rows: ColumnRows) -> Int64Array:
    """Addresses of the tests by ids, by docs and of raw values, of those that a column needs."""
    if not _RANGE_TESTS.all():
        is_fixed = rows.stored is not StoredType.VAR
        needed = (
            (predicates.ids_range, rows.has_dictionary),
            (predicates.docs_range, rows.has_sorted),
            (predicates.raw_range, is_fixed and rows.has_raw),
        )
        for place, (test, is_needed) in enumerate(needed):
            if is_needed:
                _RANGE_TESTS[place] = test.address
    return _RANGE_TESTS


def _exclude_texts(resolved: BoundPredicate, rows: ColumnRows, ranges: ColumnRanges, *, prunes: bool) -> None:
    """By smallest and largest text, before any dictionary is looked at; kernels cannot compare these."""
    test = resolved.typed.test
    assert isinstance(test, VarRange)
    pays_off = prunes and len(rows.metas) >= (_RAW_BY_RANGES_MIN if rows.has_raw else _BY_RANGES_MIN)
    if not pays_off and not rows.has_raw:
        return
    excluded = texts_outside(test, ranges) & (resolved.rule == NOT_PRUNED)
    if not pays_off:
        excluded &= rows.metas[:, abi.M_CARDINALITY] < 0  # a dictionary is soon asked itself
        if excluded.any():
            resolved.cost = COST_STRINGS
    resolved.prune[:], resolved.mode[excluded] = excluded, PREDICATE_NEVER


def _as_other(resolved: BoundPredicate, metas: ColumnMetas, rows: ColumnRows, control: QueryControl) -> None:
    """Lists of values and patterns."""
    words, excluded = rows.metas, resolved.rule != NOT_PRUNED
    resolved.mode[excluded] = PREDICATE_NEVER
    encoded = np.flatnonzero((words[:, abi.M_CARDINALITY] >= 0) & ~excluded)
    raw = np.flatnonzero((words[:, abi.M_CARDINALITY] < 0) & ~excluded)
    if len(encoded):
        _on_dictionaries(resolved, metas, rows, encoded, control)
    if len(raw):
        on_raw_values(resolved, metas, words, raw, control)


def _in_text_indexes(resolved: BoundPredicate, metas: ColumnMetas) -> None:
    name = resolved.typed.column
    for segment in metas.segments:
        if segment.column(name).text_index is None:
            raise QueryExecutionError(
                f"cannot apply TEXT_MATCH on column '{name}' without text index: segment '{segment.name}' has none; "
                "name the column in fieldConfigList with indexType TEXT and reload the table",
                column=name,
            )
    resolved.computed[:] = True
    resolved.function[:], resolved.flags[:] = predicates.doc_flags.address, abi.I_PREDICATE
    resolved.cost = 0.1


def _on_dictionaries(
    resolved: BoundPredicate, metas: ColumnMetas, rows: ColumnRows, encoded: Int64Array, control: QueryControl
) -> None:
    words = rows.metas
    enter_members(resolved, words, encoded, *member_ids(resolved.typed.test, resolved, metas, words, encoded, control))
    ranged = encoded[resolved.ranged[encoded]]
    if len(ranged):
        num_sorted = predicate_table.id_range_predicates(words, resolved.table.reshape(-1), ranged, _range_tests(rows))
        resolved.cost = 0.1 if num_sorted else resolved.cost
