"""Planning the scan of a filter in compiled code: what a range is in every segment, and the morsels and instructions of
conditions that all must hold. One call each for all segments of a query, however many there are.

A **predicate table** is int64[PREDICATE_ROWS, num_segments], contiguous: what one predicate is in every segment
(query/filter/bind.py, BoundPredicate).
Some rows are arrays of other shapes in the memory of so many rows: flags are bytes at the start of their row, pairs and
tests lie together by segment.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int64, njit

from pinotpy.kernels.filter.dictionary_ranges import search_ranges
from pinotpy.kernels.filter.predicate_frame import PREDICATE_ALWAYS, PREDICATE_NEVER
from pinotpy.kernels.runtime.abi import (
    A0,
    BLOCK,
    I_FLAGS,
    I_FUNCTION,
    I_PREDICATE,
    INSTRUCTION_WORDS,
    M_CARDINALITY,
    M_NULLS,
    M_SORTED_STARTS,
    M_STORED,
    META_WORDS,
    MORSEL_WORDS,
    T_LONG,
    T_VAR,
    U_HIGH,
    U_LIST,
    U_LOW,
    U_SEGMENT,
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
# Two words a segment, four of tests:
L_DOCS: Final = 8
L_IDS: Final = 10
L_SPANS: Final = 12
L_TESTS: Final = 14
PREDICATE_ROWS: Final = 18

# Words of a predicate given to `conjunction`: addresses of its table and of the column's metas, whether it is negated,
# whether nulls fail.
C_TABLE: Final = 0
C_METAS: Final = 1
C_NEGATED: Final = 2
C_NULLS: Final = 3
CONJUNCT_WORDS: Final = 4

# Words of a segment's list of docs: its address (0: none) and the positions [low, high) in it that count.
LIST_ADDRESS: Final = 0
LIST_LOW: Final = 1
LIST_HIGH: Final = 2
LIST_WORDS: Final = 3

# What `conjunction` counts.
N_PRUNED: Final = 0
N_BY_RULE: Final = 1  # then one a rule, at N_BY_RULE + rule
N_SELECTED_SEGMENTS: Final = 5
N_DOCS: Final = 6  # of the morsels
N_PREDICATES: Final = 7  # that are tested
N_COUNTS: Final = 8


@inner
def _outside(
    known: int,
    least: int,
    most: int,
    s: int,
    stored: int,
    low_word: int,
    low_real: float,
    high_word: int,
    high_real: float,
) -> Any:
    # -1: nothing is known, 1: no value of segment s is in the range, 2: all are, 0: some may be.
    if known == 0 or view_u8(known, s + 1)[s] == 0:
        return -1
    if stored <= T_LONG:
        smallest, largest = view_i64(least, s + 1)[s], view_i64(most, s + 1)[s]
        if largest < low_word or smallest > high_word:
            return 1
        return 2 if smallest >= low_word and largest <= high_word else 0
    small, large = view_f64(least, s + 1)[s], view_f64(most, s + 1)[s]
    if large < low_real or small > high_real:
        return 1
    return 2 if small >= low_real and large <= high_real else 0


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


@inner
def flag_of(table: Any, num_segments: int, row: int, segment: int) -> Any:
    """The byte of a segment in a row of flags, as a slice."""
    at = row * num_segments * 8 + segment
    return table.view(np.uint8)[at : at + 1]


@njit(cache=True, nogil=True)
def range_predicate(
    metas: Any, table: Any, low_word: int, low_real: float, high_word: int, high_real: float, low: Any, end: Any,
    has_end: bool, known: int, least: int,
    most: int, prunes: bool, functions: Any,
) -> Any:  # fmt: skip
    """Fill the predicate table (flat) of a range for every segment that is not excluded yet (by its rule or mode),
    before any negation.

    Args:
        metas: int64[n, META_WORDS], raw VAR columns excepted (they are left alone).
        low_word … high_real: both ends included, as integer and as double; low, end: u8 arrays, of VAR columns, the end
            excluded.
        known, least, most: addresses of u8[n] and int64[n] or float64[n] (query/segments/segment_set.py, ColumnRanges),
            0: unknown.
        prunes: what lies outside of them is pruned before its dictionary is looked at.
        functions: int64[3], addresses of the tests by ids, by docs and of raw values.

    Returns: (estimated share of docs that pass, segments with raw values, segments with sorted ids).
    """
    n, share, counted, num_raw, num_sorted = len(metas), 0.0, 0, 0, 0
    searched, num_searched = np.empty(n, np.int64), 0
    for s in range(n):
        meta = metas[s]
        stored = meta[M_STORED]
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
            place = _outside(known, least, most, s, stored, low_word, low_real, high_word, high_real)
            if place == 1:
                table[L_MODE * n + s], flag_of(table, n, L_PRUNE, s)[0] = PREDICATE_NEVER, 1
            elif place == 2 and stored <= T_LONG:
                # Floats may hold NaN, which no range contains.
                table[L_MODE * n + s] = PREDICATE_ALWAYS
            share += 0.5 if place < 0 else _overlap(least, most, s, stored, low_real, high_real)
            counted += 1
            continue
        if (
            prunes
            and stored != T_VAR
            and _outside(known, least, most, s, stored, low_word, low_real, high_word, high_real) == 1
        ):
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


@inner
def _holds(table: Any, n: int, metas: int, nulls: int, s: int) -> Any:
    # The predicate is true of every doc of the segment.
    return table[L_MODE * n + s] == PREDICATE_ALWAYS and (
        nulls == 0 or words(metas + s * META_WORDS * 8, META_WORDS)[M_NULLS] == 0
    )


@inner
def predicate_table(address: int, num_segments: int) -> Any:
    return words(address, PREDICATE_ROWS * num_segments)


@njit(cache=True, nogil=True)
def deal(morsels: Any, threads: int, thread_docs_min: int) -> Any:
    """Contiguous slices of morsels for at most so many threads, of about equal numbers of docs and at least
    `thread_docs_min`; a morsel at a border is cut at a block. Gives the morsels, some of them halves, and starts
    int64[threads + 1].
    """
    total = 0
    for i in range(len(morsels)):
        total += morsels[i, U_HIGH] - morsels[i, U_LOW]
    threads = max(1, min(threads, total // thread_docs_min))
    dealt = np.empty((len(morsels) + threads - 1, MORSEL_WORDS), np.int64)
    starts = np.zeros(threads + 1, np.int64)
    at, thread, before = 0, 1, 0
    for i in range(len(morsels)):
        low, size = morsels[i, U_LOW], morsels[i, U_HIGH] - morsels[i, U_LOW]
        while thread < threads:
            border = total * thread // threads
            if border - before >= size:
                break
            cut = (border - before) // BLOCK * BLOCK
            if cut > 0:
                dealt[at] = morsels[i]
                dealt[at, U_LOW], dealt[at, U_HIGH] = low, low + cut
                at += 1
                low, before, size = low + cut, before + cut, size - cut
            starts[thread] = at
            thread += 1
        dealt[at] = morsels[i]
        dealt[at, U_LOW] = low
        at += 1
        before += size
    while thread <= threads:
        starts[thread] = at
        thread += 1
    return dealt[:at], starts


@njit(cache=True, nogil=True)
def conjunction(docs: Any, predicates: Any, listed: Any, threads: int, thread_docs_min: int, counts: Any) -> Any:
    """Morsels, their deal to threads, and the filter program, of predicates that all must hold, tested in the given
    order.

    Args:
        docs: int64[n], docs of every segment. predicates: int64[num_predicates, CONJUNCT_WORDS]; modes of predicates
            that a run of docs
            stands for become PREDICATE_ALWAYS. threads: at most so many; each gets `thread_docs_min` docs or more.
        listed: int64[n, LIST_WORDS], lists that indexes gave (kernels/filter/short_postings.py), or no rows.
        counts: int64[N_COUNTS] of zeros, filled.

    Returns: morsels int64[u, MORSEL_WORDS], ascending by segment; starts int64[threads + 1]; program
        int64[u, k, INSTRUCTION_WORDS], whose result is mask 0.
    """
    n, num_predicates = len(docs), len(predicates)
    runs = np.zeros((n, MORSEL_WORDS), np.int64)
    num_morsels, total, every_doc = 0, 0, True
    for s in range(n):
        never, prune, always, rule = False, False, True, 0
        for predicate in range(num_predicates):
            table = predicate_table(predicates[predicate, C_TABLE], n)
            never |= table[L_MODE * n + s] == PREDICATE_NEVER
            prune |= flag_of(table, n, L_PRUNE, s)[0] != 0
            always &= _holds(table, n, predicates[predicate, C_METAS], predicates[predicate, C_NULLS], s)
            if rule == 0:
                rule = flag_of(table, n, L_RULE, s)[0]
        counts[N_PRUNED] += prune
        if rule != 0:
            counts[N_BY_RULE + rule] += 1
        if never or prune:
            continue
        every_doc &= always
        counts[N_SELECTED_SEGMENTS] += 1
        low, high = 0, docs[s]
        for predicate in range(num_predicates):
            table = predicate_table(predicates[predicate, C_TABLE], n)
            if predicates[predicate, C_NEGATED] == 0 and flag_of(table, n, L_SORTED, s)[0] != 0:
                low, high = max(low, table[L_DOCS * n + 2 * s]), min(high, table[L_DOCS * n + 2 * s + 1])
                table[L_MODE * n + s] = PREDICATE_ALWAYS
        address = int64(0)
        if len(listed) > 0 and listed[s, LIST_ADDRESS] != 0:
            low, high, address = listed[s, LIST_LOW], listed[s, LIST_HIGH], listed[s, LIST_ADDRESS]
        if low < high:
            runs[num_morsels, U_LIST] = address
            runs[num_morsels, U_SEGMENT], runs[num_morsels, U_LOW], runs[num_morsels, U_HIGH] = s, low, high
            num_morsels += 1
            total += high - low
    counts[N_DOCS] = total
    morsels, starts = deal(runs[:num_morsels], threads, thread_docs_min)
    tested = np.zeros(num_predicates, np.bool_)
    for morsel in range(len(morsels)):
        for predicate in range(num_predicates):
            tested[predicate] |= not every_doc and not _holds(
                predicate_table(predicates[predicate, C_TABLE], n),
                n,
                predicates[predicate, C_METAS],
                predicates[predicate, C_NULLS],
                morsels[morsel, U_SEGMENT],
            )
    num_tested = int(tested.sum())
    counts[N_PREDICATES] = num_tested
    program = np.zeros((len(morsels), num_tested, INSTRUCTION_WORDS), np.int64)
    at = 0
    for predicate in range(num_predicates):
        if not tested[predicate]:
            continue
        table = predicate_table(predicates[predicate, C_TABLE], n)
        for morsel in range(len(morsels)):
            s, row = morsels[morsel, U_SEGMENT], program[morsel, at]
            row[I_FUNCTION], row[I_FLAGS] = table[L_FUNCTION * n + s], table[L_FLAGS * n + s]
            row[A0], row[A0 + 1], row[A0 + 2] = (
                predicates[predicate, C_METAS] + s * META_WORDS * 8,
                -1 if at == 0 else 0,
                0,
            )
            row[A0 + 3], row[A0 + 4], row[A0 + 5] = (
                table[L_MODE * n + s],
                predicates[predicate, C_NEGATED],
                predicates[predicate, C_NULLS],
            )
            for i in range(4):
                row[A0 + 6 + i] = table[L_TESTS * n + 4 * s + i]
        at += 1
    return morsels, starts, program
