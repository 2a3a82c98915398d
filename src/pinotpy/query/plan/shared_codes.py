"""Shared codes of a column in the segments of one query: how operators put together what segments number differently.

    found = shared_codes(plan, "country")      # None: not known (yet), or not worth it; then merge by value
    found.code maps[segment]                    # address of int32[cardinality]: dict id → shared code, of segments that
                                             # have morsels
    found.num_ids                            # all shared codes are below
    found.values(ids)                        # Arrow, in stored form

The plan holds what the addresses point to. Whoever is answered None need not ask again: the shared dictionary is built
in the background, for later queries.
"""

from __future__ import annotations

import numpy as np

from pinotpy.kernels.runtime import abi
from pinotpy.query.plan.scan_plan import ScanPlan
from pinotpy.query.segments.shared_codes import ColumnIds
from pinotpy.segment.column import ImmutableColumn
from pinotpy.segment.star_tree.reader import RecordColumn


def shared_codes(plan: ScanPlan, column: str) -> ColumnIds | None:
    """Shared codes of a dictionary column; None if there are none for all segments of the plan's morsels."""
    if not plan.num_morsels:
        return None
    used = np.unique(plan.morsels[:, abi.U_SEGMENT])
    if len(used) == 1:
        return None  # nothing to put together
    numbers = plan.numbered.get(column)
    if numbers is not None:  # raw texts: their numbers are shared codes already
        code_maps = np.zeros(len(plan.segments), np.int64)
        code_maps[used] = numbers.same().ctypes.data
        return ColumnIds(numbers.num_ids, code_maps, np.ones(len(plan.segments), np.bool_), numbers)
    if plan.dictionaries is None:
        return None
    columns = [plan.segments[segment].column(column) for segment in used.tolist()]
    dictionaries = [
        found.dictionary
        for found in columns
        if isinstance(found, ImmutableColumn | RecordColumn) and found.dictionary is not None
    ]
    # Columns that are made for one query (virtual, computed, of later schemas) have no thread-lifetime dictionary.
    if len(dictionaries) < len(columns) or len({found.data_type for found in columns}) > 1:
        return None
    found = plan.dictionaries.find(plan.segments[0].table, column, columns[0].data_type, dictionaries)
    if found is None:
        return None
    plan.keep_alive.append(found)
    code_maps, ascending = np.zeros(len(plan.segments), np.int64), np.zeros(len(plan.segments), np.bool_)
    code_maps[used], ascending[used] = found.code_maps, found.ascending
    return ColumnIds(found.num_ids, code_maps, ascending, found)
