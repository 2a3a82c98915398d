"""Lists of values and patterns against dictionaries: which ids pass in each segment, and how docs are tested for
them.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.kernels.filter import dictionary_lookup, predicates
from pinotpy.kernels.filter.hash_set import hash_set
from pinotpy.kernels.runtime import abi
from pinotpy.query.filter.bound_predicate import COST_BITS, COST_SET, COST_TABLE, BoundPredicate, Flags
from pinotpy.query.filter.text.texts import dictionary_matches
from pinotpy.query.model.predicate import FixedMembers, Test, TextTest, VarMembers
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.segments.column_metas import ColumnMetas

# Up to this many ids a table has a byte an id; above, a bit.
_LUT_SMALL: Final = 1 << 16
# Up to this many ids it is worth its memory whatever the share of them that pass.
_BITS_FREE: Final = 1 << 24
# So many runs of ids of one byte are compared in less time than ids are looked up; fewer of wider ids, of which fewer
# fit a register.
_RUNS_OF_BYTES_MAX: Final = 16
_RUN_IDS_MAX: Final = 1 << 16


def member_ids(
    test: Test,
    resolved: BoundPredicate,
    metas: ColumnMetas,
    words: Int64Array,
    encoded: Int64Array,
    control: QueryControl,
) -> tuple[NDArray[np.uint32], Int64Array]:
    """Ids that pass in each of the `encoded` segments, one after another, and where each segment's start, shape (n +
    1,).
    """
    starts = np.zeros(len(encoded) + 1, np.int64)
    if isinstance(test, TextTest):
        found_ids = []
        for segment in encoded.tolist():
            control.check()
            found_ids.append(
                np.flatnonzero(
                    dictionary_matches(metas.segments[segment].column(resolved.typed.column), test.pattern)
                ).astype(np.uint32)
            )
        np.cumsum([len(ids) for ids in found_ids], out=starts[1:])
        return np.concatenate(found_ids), starts
    num_values = (
        len(test.offsets) - 1
        if isinstance(test, VarMembers)
        else len(test.values)
        if isinstance(test, FixedMembers)
        else 0
    )
    cardinalities = words[encoded, abi.M_CARDINALITY]
    out = np.empty(int(np.minimum(cardinalities, num_values).sum()), np.uint32)
    if isinstance(test, VarMembers):
        dictionary_lookup.var_members(words[encoded], test.data, test.offsets, out, starts)
    else:
        assert isinstance(test, FixedMembers)
        integers = test.values if test.values.dtype == np.int64 else np.zeros(0, np.int64)
        reals = test.values if test.values.dtype == np.float64 else np.zeros(0, np.float64)
        dictionary_lookup.fixed_members(words[encoded], integers, reals, out, starts)
    return out, starts


def enter_members(
    resolved: BoundPredicate, words: Int64Array, encoded: Int64Array, ids: NDArray[np.uint32], starts: Int64Array
) -> None:
    cardinalities, counts = words[encoded, abi.M_CARDINALITY], np.diff(starts)
    resolved.selectivity = float(np.mean(counts / np.maximum(cardinalities, 1)))
    padded = np.append(ids, np.uint32(0)).astype(np.int64)
    first, last = padded[starts[:-1]], padded[np.maximum(starts[1:] - 1, 0)]
    # None, or neighbours: a range.
    in_range = (counts == 0) | (last - first + 1 == counts)
    resolved.ranged[encoded[in_range]] = True
    resolved.ids[encoded[in_range], 0] = np.where(counts, first, 0)[in_range]
    resolved.ids[encoded[in_range], 1] = np.where(counts, last + 1, 0)[in_range]
    scattered = ~in_range
    if not scattered.any():
        return
    resolved.members = ids
    resolved.spans[encoded[scattered], 0], resolved.spans[encoded[scattered], 1] = (
        starts[:-1][scattered],
        starts[1:][scattered],
    )
    spare = _by_runs(resolved, words, encoded, ids, starts, scattered)
    by_table = spare & (cardinalities <= _LUT_SMALL)
    by_bits = spare & ~by_table & ((counts * 64 >= cardinalities) | (cardinalities <= _BITS_FREE))
    for chosen, function, fill, sizes, kind in (
        (by_table, predicates.ids_lut, dictionary_lookup.fill_tables, cardinalities, np.uint8),
        (by_bits, predicates.ids_bits, dictionary_lookup.fill_bits, (cardinalities + 31) >> 5, np.uint32),
    ):
        if not chosen.any():
            continue
        bases = np.full(len(encoded), -1, np.int64)
        bases[chosen] = np.cumsum(sizes[chosen]) - sizes[chosen]
        tables = np.zeros(int(sizes[chosen].sum()), kind)
        fill(ids, starts, tables, bases)
        resolved.keep_alive.append(tables)
        rows = encoded[chosen]
        resolved.function[rows], resolved.tests[rows, 0] = (
            function.address,
            tables.ctypes.data + bases[chosen] * tables.itemsize,
        )
        resolved.cost = max(resolved.cost, COST_TABLE if function is predicates.ids_lut else COST_BITS)
    for i in np.flatnonzero(spare & ~by_table & ~by_bits).tolist():
        table = hash_set(ids[starts[i] : starts[i + 1]].astype(np.int64))
        resolved.keep_alive.append(table)
        segment = encoded[i]
        resolved.function[segment] = predicates.ids_set.address
        resolved.tests[segment, :2] = table.ctypes.data, len(table) // 2 - 1
        resolved.cost = COST_SET


def _by_runs(
    resolved: BoundPredicate,
    words: Int64Array,
    encoded: Int64Array,
    ids: NDArray[np.uint32],
    starts: Int64Array,
    scattered: Flags,
) -> Flags:
    """Make few runs of ids a test by comparison; gives the scattered segments that it did not serve."""
    if len(ids) > _RUN_IDS_MAX or bool((words[encoded, abi.M_MV_OFFSETS] != 0).any()):
        return scattered
    ids = ids[: starts[-1]]  # there may be room for more
    begins = np.ones(len(ids), np.bool_)
    begins[1:] = ids[1:] != ids[:-1] + np.uint32(1)
    begins[starts[:-1][np.diff(starts) > 0]] = True
    first = np.flatnonzero(begins)
    runs = np.stack([ids[first], ids[np.append(first[1:], len(ids)) - 1].astype(np.int64) + 1], axis=1)
    spans = first.searchsorted(starts)
    counts, cardinalities = np.diff(spans), words[encoded, abi.M_CARDINALITY]
    allowed = _RUNS_OF_BYTES_MAX >> ((cardinalities > 1 << 8).astype(np.int64) + (cardinalities > 1 << 16))
    served = scattered & (counts <= allowed)
    if served.any():
        resolved.keep_alive.append(runs)
        rows = encoded[served]
        resolved.function[rows], resolved.tests[rows, 1] = predicates.ids_runs.address, counts[served]
        resolved.tests[rows, 0] = runs.ctypes.data + spans[:-1][served] * runs.strides[0]
    spare: Flags = scattered & ~served
    return spare
