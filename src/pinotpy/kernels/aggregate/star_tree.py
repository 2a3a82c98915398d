"""Star-trees: adding up sorted records, splitting nodes, and the walk that finds the records of a query.

A tree is a flat array of nodes, int32[num_nodes, NODE_WORDS] (docs/format/star-tree.md). The root is node 0, the
children of a node stand together: the star node first, if there is one, then the others by ascending dict id. They
stand behind their parent, so a loop from the last node to the first sees children before parents.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int64, njit, uint64

from pinotpy.kernels.aggregate.exact_sums import split_doubles
from pinotpy.kernels.runtime.views import view_i32, view_u8, view_u32

NODE_WORDS: Final = 8
N_LEVEL: Final = 0  # dimensions that the path to the node has decided; the children are split on dimension N_LEVEL
N_VALUE: Final = 1  # dict id of dimension N_LEVEL - 1, or STAR
N_START: Final = 2  # records of the node are [start, end)
N_END: Final = 3
N_AGGREGATED: Final = 4  # the one record that stands for all of them
N_FIRST: Final = 5  # children are [first, last); none: a leaf
N_LAST: Final = 6
STAR: Final = -1  # as N_VALUE; a record has the cardinality of the dimension's dictionary instead

# What a query wants of a dimension.
NEED_NOTHING: Final = 0  # neither predicate nor group by
NEED_VALUES: Final = 1  # group by, or a condition that is tested on the records
NEED_TESTS: Final = 2  # tests that choose children

# Test words.
TEST_WORDS: Final = 4
X_KIND: Final = 0
X_NEGATED: Final = 1
X_LOW: Final = (
    2  # RANGE: ids [low, high); MEMBERS: address of ascending u32 ids, and their number; TABLE: address of u8 by id
)
X_HIGH: Final = 3
TEST_RANGE: Final = 0
TEST_MEMBERS: Final = 1
TEST_TABLE: Final = 2


# --- adding up records ---------------------------------------------------------------------------------------------
# Record g of the result is made of the records order[starts[g]] … order[starts[g + 1] - 1]; starts has one entry more
# than there are results.


@njit(cache=True, nogil=True)
def add_longs(values: Any, order: Any, starts: Any, out: Any) -> None:
    """out[g] = sum of int64 values, which fit."""
    for g in range(len(out)):
        total = int64(0)
        for i in range(starts[g], starts[g + 1]):
            total += values[order[i]]
        out[g] = total


@njit(cache=True, nogil=True)
def add_wide(low: Any, high: Any, order: Any, starts: Any, out_low: Any, out_high: Any) -> None:
    """Sums of 128-bit integers (low, high words as int64)."""
    for g in range(len(out_low)):
        bottom, top = uint64(0), int64(0)
        for i in range(starts[g], starts[g + 1]):
            word = uint64(low[order[i]])
            bottom += word
            top += high[order[i]] + (int64(1) if bottom < word else int64(0))
        out_low[g], out_high[g] = int64(bottom), top


@njit(cache=True, nogil=True)
def least(values: Any, order: Any, starts: Any, out: Any) -> None:
    """out[g] = least value; no group is empty, no value NaN."""
    for g in range(len(out)):
        best = values[order[starts[g]]]
        for i in range(starts[g] + 1, starts[g + 1]):
            best = min(best, values[order[i]])
        out[g] = best


@njit(cache=True, nogil=True)
def greatest(values: Any, order: Any, starts: Any, out: Any) -> None:
    """out[g] = greatest value; no group is empty, no value NaN."""
    for g in range(len(out)):
        best = values[order[starts[g]]]
        for i in range(starts[g] + 1, starts[g + 1]):
            best = max(best, values[order[i]])
        out[g] = best


@njit(cache=True, nogil=True)
def window_words(bits: Any, low: Any, high: Any) -> Any:
    """Doubles (as uint64 bits) in the main window of exact sums; gives how many lie outside, which become 0."""
    return split_doubles(bits, low, high)


# --- building nodes ------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def count_children(ids: Any, first: Any, end: Any, out: Any) -> Any:
    """out[i] = runs of equal ids in ids[first[i] : end[i]]; gives their sum."""
    total = int64(0)
    for i in range(len(first)):
        runs = int64(1)
        for doc in range(first[i] + 1, end[i]):
            runs += int64(1) if ids[doc] != ids[doc - 1] else int64(0)
        out[i] = runs
        total += runs
    return total


@njit(cache=True, nogil=True)
def fill_children(ids: Any, first: Any, end: Any, first_rows: Any, level: int, nodes: Any) -> None:
    """Write a node for each run of ids[first[i] : end[i]] to nodes[first_rows[i]], nodes[first_rows[i] + 1] …"""
    for i in range(len(first)):
        row, doc = first_rows[i], first[i]
        while doc < end[i]:
            start, value = doc, ids[doc]
            while doc < end[i] and ids[doc] == value:
                doc += 1
            nodes[row, N_LEVEL], nodes[row, N_VALUE] = level, value
            nodes[row, N_START], nodes[row, N_END] = start, doc
            row += 1


@njit(cache=True, nogil=True)
def inherit_aggregated(nodes: Any) -> None:
    """Give the inner nodes without a record of their own (N_AGGREGATED < 0) that of their first child: the star node,
    or the only child.
    """
    for node in range(len(nodes) - 1, -1, -1):
        if nodes[node, N_AGGREGATED] < 0:
            nodes[node, N_AGGREGATED] = nodes[nodes[node, N_FIRST], N_AGGREGATED]


# --- the walk ------------------------------------------------------------------------------------------------------


@njit(nogil=True)
def _is_member(ids: Any, value: int) -> Any:
    low, high = int64(0), int64(len(ids))
    while low < high:
        middle = (low + high) >> 1
        if ids[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low < len(ids) and ids[low] == value


@njit(nogil=True)
def _passes(tests: Any, first: int, end: int, value: int) -> bool:
    for i in range(first, end):
        kind = tests[i, X_KIND]
        if kind == TEST_RANGE:
            passed = tests[i, X_LOW] <= value < tests[i, X_HIGH]
        elif kind == TEST_MEMBERS:
            passed = _is_member(view_u32(tests[i, X_LOW], tests[i, X_HIGH]), value)
        else:
            passed = view_u8(tests[i, X_LOW] + value, 1)[0] != 0
        if passed == (tests[i, X_NEGATED] != 0):
            return False
    return True


@njit(nogil=True)
def _child_from(nodes: Any, first: int, end: int, value: int) -> Any:
    # The first of the children [first, end) whose id is at least `value`.
    while first < end:
        middle = (first + end) >> 1
        if nodes[middle * NODE_WORDS + N_VALUE] < value:
            first = middle + 1
        else:
            end = middle
    return first


@njit(nogil=True)
def _pushed(stack: Any, used: int, node: int) -> Any:
    if used == len(stack):
        larger = np.empty(2 * used, np.int64)
        larger[:used] = stack
        stack = larger
    stack[used] = node
    return stack


@njit(nogil=True)
def _unnest(nodes: Any, needs: Any, tests: Any, spans: Any, runs: Any, count: int) -> Any:
    # Append the runs of records of one tree to `runs`; gives (runs, their number, whether a test was left to the
    # records).
    last_needed, last_tested, is_undecided = int64(-1), int64(-1), False
    for dimension in range(len(needs)):
        if needs[dimension] != NEED_NOTHING:
            last_needed = dimension
        if needs[dimension] == NEED_TESTS:
            last_tested = dimension
    stack = np.empty(256, np.int64)
    stack[0] = 0
    used = int64(1)
    while used > 0:
        used -= 1
        node = stack[used] * NODE_WORDS
        level, first, last = int64(nodes[node + N_LEVEL]), int64(nodes[node + N_FIRST]), int64(nodes[node + N_LAST])
        decided = level > last_needed
        if decided or first == last:
            is_undecided = is_undecided or level <= last_tested
            start = int64(nodes[node + N_AGGREGATED]) if decided else int64(nodes[node + N_START])
            end = start + 1 if decided else int64(nodes[node + N_END])
            if count == len(runs):
                more = np.empty((2 * count, 2), np.int64)
                more[:count] = runs
                runs = more
            runs[count, 0], runs[count, 1] = start, end
            count += 1
            continue
        has_star = nodes[first * NODE_WORDS + N_VALUE] == STAR
        need = needs[level]
        if need == NEED_NOTHING and has_star:
            stack = _pushed(stack, used, first)
            used += 1
            continue
        begin = first + 1 if has_star else first
        if need != NEED_TESTS:
            for child in range(begin, last):
                stack = _pushed(stack, used, child)
                used += 1
            continue
        test, test_end = spans[level, 0], spans[level, 1]
        few = int64(-1)
        for i in range(test, test_end):
            if tests[i, X_NEGATED] != 0:
                continue
            if tests[i, X_KIND] == TEST_RANGE:
                begin, last = (
                    _child_from(nodes, begin, last, tests[i, X_LOW]),
                    _child_from(nodes, begin, last, tests[i, X_HIGH]),
                )
            elif tests[i, X_KIND] == TEST_MEMBERS and few < 0:
                few = i
        if few >= 0 and tests[few, X_HIGH] * 8 < last - begin:
            for value in view_u32(tests[few, X_LOW], tests[few, X_HIGH]):
                child = _child_from(nodes, begin, last, int64(value))
                if (
                    child < last
                    and nodes[child * NODE_WORDS + N_VALUE] == int64(value)
                    and _passes(tests, test, test_end, int64(value))
                ):
                    stack = _pushed(stack, used, child)
                    used += 1
            continue
        for child in range(begin, last):
            if _passes(tests, test, test_end, int64(nodes[child * NODE_WORDS + N_VALUE])):
                stack = _pushed(stack, used, child)
                used += 1
    return runs, count, is_undecided


@njit(cache=True, nogil=True)
def walk_trees(trees: Any, needs: Any, tests: Any, spans: Any, offsets: Any) -> Any:
    """Runs of records that a query reads in each tree.

    Args:
        trees: int64[n, 2], address and number of the nodes of each.
        needs: uint8[n, dimensions], NEED_*; dimensions that a tree lacks NEED_NOTHING.
        tests: int64[m, TEST_WORDS]; spans: int64[n, dimensions, 2], which of them a child on a dimension must pass.
        offsets: int64[n + 1], written.

    Returns (runs, is_undecided): tree i has the runs [start, end) of rows offsets[i] … offsets[i + 1], in no order; a
    record is in at most one of them. is_undecided: not all tests could choose children, some are left to be made on the
    records.
    """
    runs = np.empty((256, 2), np.int64)
    count, is_undecided = int64(0), False
    offsets[0] = 0
    for i in range(len(trees)):
        nodes = view_i32(trees[i, 0], trees[i, 1] * NODE_WORDS)
        runs, count, undecided = _unnest(nodes, needs[i], tests, spans[i], runs, count)
        is_undecided = is_undecided or undecided
        offsets[i + 1] = count
    return runs[:count], is_undecided


@njit(cache=True, nogil=True)
def write_docs(runs: Any, out: Any) -> None:
    """The records of runs [start, end), one after another."""
    position = int64(0)
    for i in range(len(runs)):
        for doc in range(runs[i, 0], runs[i, 1]):
            out[position] = np.int32(doc)
            position += 1


# --- checks --------------------------------------------------------------------------------------------------------

FAULT_NONE: Final = 0
FAULT_CHILDREN: Final = 1
FAULT_RECORDS: Final = 2
FAULT_LEVEL: Final = 3
FAULT_VALUE: Final = 4
FAULT_AGGREGATED: Final = 5
FAULT_DIMENSION: Final = 6


@njit(cache=True, nogil=True)
def check_nodes(nodes: Any, num_docs: int, num_dimensions: int) -> Any:
    """(fault, node) of the first node that a walk cannot trust, (FAULT_NONE, 0) if there is none.

    Children stand behind their parent and together follow each other without gap, so every node but the root has one
    parent and a walk ends; levels, record ranges and the order of ids are those that _unnest relies on.
    """
    following = int64(1)
    for node in range(len(nodes)):
        row = nodes[node]
        start, end = row[N_START], row[N_END]
        if start < 0 or end <= start or end > num_docs:
            return FAULT_RECORDS, node
        if row[N_AGGREGATED] < 0 or row[N_AGGREGATED] >= num_docs:
            return FAULT_AGGREGATED, node
        level = row[N_LEVEL]
        if level < 0 or level > num_dimensions or (node == 0 and level != 0):
            return FAULT_LEVEL, node
        first, last = int64(row[N_FIRST]), int64(row[N_LAST])
        if first == last:
            continue
        if first != following or last < first or last > len(nodes) or level == num_dimensions:
            return FAULT_CHILDREN, node
        following = last
        for child in range(first, last):
            if nodes[child, N_LEVEL] != level + 1:
                return FAULT_LEVEL, child
            value = nodes[child, N_VALUE]
            if value < (STAR if child == first else 0) or (child > first and value <= nodes[child - 1, N_VALUE]):
                return FAULT_VALUE, child
    return (FAULT_NONE, 0) if following == len(nodes) else (FAULT_CHILDREN, 0)


@njit(cache=True, nogil=True)
def parents_of(nodes: Any) -> Any:
    """Parent of every node, -1 for the root; after check_nodes."""
    out = np.full(len(nodes), -1, np.int32)
    for node in range(len(nodes)):
        for child in range(nodes[node, N_FIRST], nodes[node, N_LAST]):
            out[child] = node
    return out


@njit(cache=True, nogil=True)
def check_dimension(nodes: Any, parents: Any, ids: Any, dimension: int, cardinality: int) -> Any:
    """(fault, node) of the first node whose records do not hold in this dimension what its path says.

    Below the level of a leaf, its records hold ids of the dictionary; above it the id of the path, or a star where the
    path goes through a star node. The aggregated record of any node is checked as far as its path goes: no more of it
    is read.
    """
    path = np.empty(
        len(nodes), np.int64
    )  # what the path of each node says of this dimension: an id, STAR, or -2 (not yet)
    for node in range(len(nodes)):
        level = nodes[node, N_LEVEL]
        if level == dimension + 1:
            path[node] = nodes[node, N_VALUE]
        else:
            path[node] = path[parents[node]] if level > dimension + 1 else -2
        wanted = path[node]
        if wanted >= cardinality:
            return FAULT_VALUE, node
        if wanted >= 0 and int64(ids[nodes[node, N_AGGREGATED]]) != wanted:
            return FAULT_AGGREGATED, node
        if nodes[node, N_FIRST] != nodes[node, N_LAST] or wanted == STAR:
            continue
        for doc in range(nodes[node, N_START], nodes[node, N_END]):
            dict_id = int64(ids[doc])
            if dict_id >= cardinality or (wanted >= 0 and dict_id != wanted):
                return FAULT_DIMENSION, node
    return FAULT_NONE, 0
