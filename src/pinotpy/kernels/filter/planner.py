"""Planning the filter of a scan in compiled code: the morsels and instructions of conjuncts, conditions that all must
hold. One call each for all segments of a query, however many there are:

    select_runs                         which segments are read, and of each the run of docs that sorted columns leave
    short_postings, or index_choice.py  runs become lists of docs where an index is cheaper
    conjunction                         the morsels of every thread, and their program

A conjunct is a predicate, or what has instructions of its own (an OR, an expression); each has a predicate table
(predicate_table.py), in which its row L_ANSWER is decided here.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit

from pinotpy.kernels.filter.predicate_frame import PREDICATE_ALWAYS, PREDICATE_NEVER, PREDICATE_RUN
from pinotpy.kernels.filter.predicate_table import (
    BY_RUN,
    L_ANSWER,
    L_DOCS,
    L_FLAGS,
    L_FUNCTION,
    L_MODE,
    L_PRUNE,
    L_RULE,
    L_SORTED,
    L_TESTS,
    flag_row,
    mode_of_test,
    predicate_table,
)
from pinotpy.kernels.runtime.abi import (
    A0,
    BLOCK,
    I_FLAGS,
    I_FUNCTION,
    INSTRUCTION_WORDS,
    M_NULLS,
    META_WORDS,
    MORSEL_WORDS,
    U_HIGH,
    U_LOW,
    U_SEGMENT,
    inner,
    words,
)

# Words of a conjunct: addresses of its table and of the column's metas, whether it is negated, whether nulls fail; 1 if
# its instructions are its own, for which `conjunction` leaves a slot.
C_TABLE: Final = 0
C_METAS: Final = 1
C_NEGATED: Final = 2
C_NULLS: Final = 3
C_OWN: Final = 4
CONJUNCT_WORDS: Final = 5

# What a filter selects in a segment, as far as is known before a doc is read.
SELECTS_SOME: Final = 0
SELECTS_NOTHING: Final = 1
SELECTS_ALL: Final = 2
IS_PRUNED: Final = 3  # nothing, and the segment counts as pruned

# What is counted.
N_PRUNED: Final = 0
N_BY_RULE: Final = 1  # then one a rule, at N_BY_RULE + rule
N_SELECTED_SEGMENTS: Final = 5
N_ALL_SEGMENTS: Final = 6  # of those, where every doc is selected
N_DOCS: Final = 7  # of the morsels
N_COUNTS: Final = 8


@inner
def _holds(table: Any, n: int, conjunct: Any, s: int) -> Any:
    # The conjunct is true of every doc that is left of the segment.
    return mode_of_test(table, n, s) == PREDICATE_ALWAYS and (
        conjunct[C_NULLS] == 0 or words(conjunct[C_METAS] + s * META_WORDS * 8, META_WORDS)[M_NULLS] == 0
    )


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
    position, thread, before = 0, 1, 0
    for i in range(len(morsels)):
        low, size = morsels[i, U_LOW], morsels[i, U_HIGH] - morsels[i, U_LOW]
        while thread < threads:
            border = total * thread // threads
            if border - before >= size:
                break
            cut = (border - before) // BLOCK * BLOCK
            if cut > 0:
                dealt[position] = morsels[i]
                dealt[position, U_LOW], dealt[position, U_HIGH] = low, low + cut
                position += 1
                low, before, size = low + cut, before + cut, size - cut
            starts[thread] = position
            thread += 1
        dealt[position] = morsels[i]
        dealt[position, U_LOW] = low
        position += 1
        before += size
    while thread <= threads:
        starts[thread] = position
        thread += 1
    return dealt[:position], starts


@njit(cache=True, nogil=True)
def select_runs(docs: Any, conjuncts: Any, outcomes: Any, counts: Any) -> Any:
    """What conjuncts select in each segment before a doc is read, and the docs that conditions on sorted columns leave.

    Args:
        docs: int64[n], docs of every segment. conjuncts: int64[num_conjuncts, CONJUNCT_WORDS]; those that a run of docs
            answers are marked BY_RUN.
        outcomes: u8[n], filled with SELECTS_* or IS_PRUNED. counts: int64[N_COUNTS] of zeros, filled but for N_DOCS.

    Returns: morsels int64[u, MORSEL_WORDS], at most one a segment, ascending, none empty.
    """
    n = len(docs)
    never, prune, always, rule = (
        np.zeros(n, np.bool_),
        np.zeros(n, np.bool_),
        np.ones(n, np.bool_),
        np.zeros(n, np.uint8),
    )
    for number in range(len(conjuncts)):
        table = predicate_table(conjuncts[number, C_TABLE], n)
        modes = table[L_MODE * n : (L_MODE + 1) * n]
        pruned, rules = flag_row(table, n, L_PRUNE), flag_row(table, n, L_RULE)
        for s in range(n):
            never[s] |= modes[s] == PREDICATE_NEVER
            always[s] &= modes[s] == PREDICATE_ALWAYS
            prune[s] |= pruned[s] != 0
            if rule[s] == 0:
                rule[s] = rules[s]
        if conjuncts[number, C_NULLS] != 0:
            metas = words(conjuncts[number, C_METAS], META_WORDS * n)
            for s in range(n):
                always[s] &= metas[META_WORDS * s + M_NULLS] == 0
    low, high = np.zeros(n, np.int64), docs.copy()
    for number in range(len(conjuncts)):
        if conjuncts[number, C_NEGATED] != 0:
            continue
        table = predicate_table(conjuncts[number, C_TABLE], n)
        is_sorted, answers = flag_row(table, n, L_SORTED), flag_row(table, n, L_ANSWER)
        for s in range(n):
            if is_sorted[s] == 0 or never[s] or prune[s]:
                continue
            low[s], high[s] = max(low[s], table[L_DOCS * n + 2 * s]), min(high[s], table[L_DOCS * n + 2 * s + 1])
            if table[L_MODE * n + s] == PREDICATE_RUN:
                answers[s] = BY_RUN
    morsels, num_morsels = np.zeros((n, MORSEL_WORDS), np.int64), 0
    for s in range(n):
        counts[N_PRUNED] += prune[s]
        if rule[s] != 0:
            counts[N_BY_RULE + rule[s]] += 1
        if never[s] or prune[s]:
            outcomes[s] = IS_PRUNED if prune[s] else SELECTS_NOTHING
            continue
        outcomes[s] = SELECTS_ALL if always[s] else SELECTS_SOME
        counts[N_SELECTED_SEGMENTS] += 1
        counts[N_ALL_SEGMENTS] += always[s]
        if low[s] < high[s]:
            row = morsels[num_morsels]
            row[U_SEGMENT], row[U_LOW], row[U_HIGH] = s, low[s], high[s]
            num_morsels += 1
    return morsels[:num_morsels]


@njit(cache=True, nogil=True)
def conjunction(
    morsels: Any, num_segments: int, conjuncts: Any, threads: int, thread_docs_min: int, slots: Any, counts: Any
) -> Any:
    """The deal of morsels to threads, and their program: conjuncts are tested in the given order.

    Args:
        morsels: of `select_runs`, lists of docs among them; those without docs are left out. threads: at most so many;
            each gets `thread_docs_min` docs or more.
        slots: int64[num_conjuncts], filled: the place of its instruction, or -1 where no morsel needs it.
        counts: N_DOCS is filled.

    Returns: morsels int64[u, MORSEL_WORDS], ascending by segment; starts int64[threads + 1]; program
        int64[u, k, INSTRUCTION_WORDS], whose result is mask 0, zeros where a conjunct's instructions are its own.
    """
    n, num_conjuncts = num_segments, len(conjuncts)
    sizes = morsels[:, U_HIGH] - morsels[:, U_LOW]
    counts[N_DOCS] = sizes.sum()
    dealt, starts = deal(morsels if np.all(sizes > 0) else morsels[sizes > 0], threads, thread_docs_min)
    num_tested = 0
    for number in range(num_conjuncts):
        table, slots[number] = predicate_table(conjuncts[number, C_TABLE], n), -1
        for morsel in range(len(dealt)):
            if not _holds(table, n, conjuncts[number], dealt[morsel, U_SEGMENT]):
                slots[number] = num_tested
                num_tested += 1
                break
    program = np.zeros((len(dealt), num_tested, INSTRUCTION_WORDS), np.int64)
    for number in range(num_conjuncts):
        position, conjunct = slots[number], conjuncts[number]
        if position < 0 or conjunct[C_OWN] != 0:
            continue
        table = predicate_table(conjunct[C_TABLE], n)
        for morsel in range(len(dealt)):
            s, row = dealt[morsel, U_SEGMENT], program[morsel, position]
            row[I_FUNCTION], row[I_FLAGS] = table[L_FUNCTION * n + s], table[L_FLAGS * n + s]
            row[A0], row[A0 + 1], row[A0 + 2] = conjunct[C_METAS] + s * META_WORDS * 8, -1 if position == 0 else 0, 0
            row[A0 + 3], row[A0 + 4], row[A0 + 5] = (
                mode_of_test(table, n, s),
                conjunct[C_NEGATED],
                conjunct[C_NULLS],
            )
            for i in range(4):
                row[A0 + 6 + i] = table[L_TESTS * n + 4 * s + i]
    return dealt, starts, program
