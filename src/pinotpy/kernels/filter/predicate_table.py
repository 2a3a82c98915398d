"""What one predicate is in every segment, as a table that kernels fill and read, and ranges entered into it.

A **predicate table** is int64[PREDICATE_ROWS, num_segments], contiguous (query/filter/bound_predicate.py). Some rows
are arrays of other shapes in the memory of so many rows: flags are bytes at the start of their row, pairs and tests lie
together by segment.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit

from pinotpy.kernels.filter.dictionary_ranges import search_ranges
from pinotpy.kernels.filter.predicate_frame import PREDICATE_ALWAYS, PREDICATE_NEVER
from pinotpy.kernels.runtime.abi import (
    I_PREDICATE,
    M_CARDINALITY,
    M_SORTED_STARTS,
    M_STORED,
    T_LONG,
    T_VAR,
    inner,
    words,
)
from pinotpy.kernels.runtime.views import view_f64, view_i64, view_u8, view_u32

# Rows of a predicate table. One word a segment:
L_MODE: Final = 0
L_FUNCTION: Final = 1
L_FLAGS: Final = 2
# One byte a segment:
L_PRUNE: Final = 3
L_RULE: Final = 4
L_SORTED: Final = 5
L_RANGED: Final = 6
L_COMPUTED: Final = 7
L_ANSWER: Final = 8
# Two words a segment, four of tests:
L_DOCS: Final = 9
L_IDS: Final = 11
L_SPANS: Final = 13
L_TESTS: Final = 15
PREDICATE_ROWS: Final = 19

# Who answers a predicate in a segment (L_ANSWER): its test in the scan; the test of bits that are set from an index;
# the run of docs of a sorted index, which the morsel shrinks to; a list of docs of an index, which the morsel becomes.
# From BY_RUN on it holds for every doc that is left.
BY_TEST: Final = 0
BY_BITS: Final = 1
BY_RUN: Final = 2
BY_LIST: Final = 3

# Where the values of a segment lie, by the smallest and the largest, beside a range.
PLACE_UNKNOWN: Final = 0
PLACE_OUTSIDE: Final = 1
PLACE_INSIDE: Final = 2
PLACE_CUT: Final = 3


@inner
def predicate_table(address: int, num_segments: int) -> Any:
    """The table at an address, flat."""
    return words(address, PREDICATE_ROWS * num_segments)


@inner
def flag_of(table: Any, num_segments: int, row: int, segment: int) -> Any:
    """The byte of a segment in a row of flags, as a slice."""
    position = row * num_segments * 8 + segment
    return table.view(np.uint8)[position : position + 1]


@inner
def flag_row(table: Any, num_segments: int, row: int) -> Any:
    """A row of flags, u8[num_segments]."""
    return table[row * num_segments : (row + 1) * num_segments].view(np.uint8)[:num_segments]


@inner
def mode_of_test(table: Any, n: int, s: int) -> Any:
    """PREDICATE_* of the test that a run or a list of docs leaves."""
    return PREDICATE_ALWAYS if flag_of(table, n, L_ANSWER, s)[0] >= BY_RUN else table[L_MODE * n + s]


@njit(cache=True, nogil=True)
def range_places(
    is_whole: bool, known: int, least: int, most: int,
    low_word: int, low_real: float, high_word: int, high_real: float, places: Any,
) -> Any:  # fmt: skip
    """Compare smallest and largest values with a range, both ends included.

    Args:
        is_whole: values are int64 (and the words count), else float64.
        known, least, most: addresses of u8[n] and of n values (query/segments/segment_set.py, ColumnRanges).
        places: u8[n], filled with PLACE_*.

    Returns: how many are outside.
    """
    n, num_outside = len(places), 0
    for s in range(n):
        places[s] = _place(is_whole, known, least, most, s, low_word, low_real, high_word, high_real)
        num_outside += places[s] == PLACE_OUTSIDE
    return num_outside


@inner
def _place(
    is_whole: bool, known: int, least: int, most: int, s: int,
    low_word: int, low_real: float, high_word: int, high_real: float,
) -> Any:  # fmt: skip
    if view_u8(known, s + 1)[s] == 0:
        return PLACE_UNKNOWN
    # NaN, where no value is known to be smallest, is on neither side.
    if is_whole:
        small_word, large_word = view_i64(least, s + 1)[s], view_i64(most, s + 1)[s]
        outside, inside = (
            large_word < low_word or small_word > high_word,
            (small_word >= low_word and large_word <= high_word),
        )
    else:
        small, large = view_f64(least, s + 1)[s], view_f64(most, s + 1)[s]
        outside, inside = large < low_real or small > high_real, small >= low_real and large <= high_real
    return PLACE_OUTSIDE if outside else PLACE_INSIDE if inside else PLACE_CUT


@inner
def _overlap(least: int, most: int, s: int, stored: int, low_real: float, high_real: float) -> Any:
    # Share of the values between the least and the most that the range would hold, if they were spread evenly.
    if stored <= T_LONG:
        small, large = float(view_i64(least, s + 1)[s]), float(view_i64(most, s + 1)[s])
    else:
        small, large = view_f64(least, s + 1)[s], view_f64(most, s + 1)[s]
    if not large > small:
        return 1.0
    return max(0.0, min(1.0, (min(large, high_real) - max(small, low_real)) / (large - small)))


@njit(cache=True, nogil=True)
def range_predicate(
    metas: Any, table: Any, low_word: int, low_real: float, high_word: int, high_real: float, low: Any, end: Any,
    has_end: bool, places: Any, known: int, least: int, most: int, prunes: bool, functions: Any,
) -> Any:  # fmt: skip
    """Fill the predicate table (flat) of a range for every segment that is not excluded yet (by its rule or mode),
    before any negation.

    Args:
        metas: int64[n, META_WORDS], raw VAR columns excepted (they are left alone).
        low_word … high_real: both ends included, as integer and as double; low, end: u8 arrays, of VAR columns, the end
            excluded.
        places: u8[n] of `range_places`, or u8[0]: they are compared here. known, least, most: as there; known may be 0:
            nothing is known.
        prunes: what lies outside is pruned before its dictionary is looked at.
        functions: int64[3], addresses of the tests by ids, by docs and of raw values.

    Returns: (estimated share of docs that pass, segments with raw values, segments with sorted ids).
    """
    n, share, counted, num_raw, num_sorted = len(metas), 0.0, 0, 0, 0
    searched, num_searched = np.empty(n, np.int64), 0
    for s in range(n):
        meta, place = metas[s], PLACE_UNKNOWN
        stored = meta[M_STORED]
        if len(places) > 0:
            place = places[s]
        elif known != 0:
            place = _place(stored <= T_LONG, known, least, most, s, low_word, low_real, high_word, high_real)
        if flag_of(table, n, L_RULE, s)[0] != 0:
            table[L_MODE * n + s] = PREDICATE_NEVER
        if table[L_MODE * n + s] == PREDICATE_NEVER:
            continue
        if meta[M_CARDINALITY] < 0:
            if stored == T_VAR:
                continue
            num_raw += 1
            table[L_FUNCTION * n + s] = functions[2]
            if stored <= T_LONG:
                table[L_TESTS * n + 4 * s], table[L_TESTS * n + 4 * s + 1] = low_word, high_word
            else:
                table.view(np.float64)[L_TESTS * n + 4 * s], table.view(np.float64)[L_TESTS * n + 4 * s + 1] = (
                    low_real,
                    high_real,
                )
            if place == PLACE_OUTSIDE:
                table[L_MODE * n + s], flag_of(table, n, L_PRUNE, s)[0] = PREDICATE_NEVER, 1
            elif place == PLACE_INSIDE and stored <= T_LONG:
                # Floats may hold NaN, which no range contains.
                table[L_MODE * n + s] = PREDICATE_ALWAYS
            share += 0.5 if place == PLACE_UNKNOWN else _overlap(least, most, s, stored, low_real, high_real)
            counted += 1
            continue
        if prunes and place == PLACE_OUTSIDE:
            table[L_MODE * n + s], flag_of(table, n, L_PRUNE, s)[0] = PREDICATE_NEVER, 1
            continue
        searched[num_searched] = s
        num_searched += 1
    ids = table[L_IDS * n : (L_IDS + 2) * n]
    search_ranges(metas, searched[:num_searched], low_word, low_real, high_word, high_real, low, end, has_end, ids)
    for s in searched[:num_searched]:
        first, last, cardinality = ids[2 * s], ids[2 * s + 1], metas[s, M_CARDINALITY]
        flag_of(table, n, L_RANGED, s)[0] = 1
        table[L_FUNCTION * n + s], table[L_TESTS * n + 4 * s], table[L_TESTS * n + 4 * s + 1] = (
            functions[0],
            first,
            last,
        )
        share += (last - first) / max(cardinality, 1)
        counted += 1
        num_sorted += id_range_predicate(metas[s], table, n, s, first, last, functions[1])
    return (share / counted if counted else 0.5), num_raw, num_sorted


@inner
def id_range_predicate(meta: Any, table: Any, n: int, s: int, first: int, last: int, docs_range: int) -> Any:
    """What a range of ids is in segment `s`: never, always, or a test; a run of docs if the ids are sorted (then 1)."""
    cardinality = meta[M_CARDINALITY]
    if first >= last:
        table[L_MODE * n + s] = PREDICATE_NEVER
        flag_of(table, n, L_PRUNE, s)[0] = int(first == cardinality or last == 0)
    elif first == 0 and last == cardinality:
        table[L_MODE * n + s] = PREDICATE_ALWAYS
    if meta[M_SORTED_STARTS] == 0:
        return 0
    starts = view_u32(meta[M_SORTED_STARTS], cardinality + 1)
    table[L_DOCS * n + 2 * s], table[L_DOCS * n + 2 * s + 1], flag_of(table, n, L_SORTED, s)[0] = (
        starts[first],
        starts[last],
        1,
    )
    table[L_FUNCTION * n + s], table[L_FLAGS * n + s] = docs_range, I_PREDICATE
    table[L_TESTS * n + 4 * s], table[L_TESTS * n + 4 * s + 1] = starts[first], starts[last]
    return 1


@njit(cache=True, nogil=True)
def id_range_predicates(metas: Any, table: Any, segments: Any, functions: Any) -> Any:
    """Finish the predicate table of segments whose range of ids is known; gives how many of them have sorted ids."""
    n, num_sorted = len(metas), 0
    for s in segments:
        first, last = table[L_IDS * n + 2 * s], table[L_IDS * n + 2 * s + 1]
        table[L_FUNCTION * n + s], table[L_TESTS * n + 4 * s], table[L_TESTS * n + 4 * s + 1] = (
            functions[0],
            first,
            last,
        )
        num_sorted += id_range_predicate(metas[s], table, n, s, first, last, functions[1])
    return num_sorted
