"""Shared codes of a column in the segments of one query: how operators put together what segments number differently.

    found = shared_codes(plan, "country")    # None: the column has none; then merge by value
    found.code_maps[segment]                 # address of int32[cardinality]: dict id → shared code, of segments that
                                             # have morsels
    found.num_ids                            # all shared codes are below
    found.values(ids)                        # Arrow, in stored form

A column without a code space (virtual, or of a later schema than its segment) gets codes of this query behind the
shared ones, so that it sends no other segment to a slower method.

The plan holds what the addresses point to. Codes that nobody made before are made now, on the threads and within the
memory and the time of the query; `num_ids` depends on the segments that the plan reads, not on who asked before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from pinotpy.kernels.runtime import abi
from pinotpy.query.plan.scan_plan import ScanPlan
from pinotpy.query.runtime.parallel import run_pieces
from pinotpy.query.segments.shared_codes import ColumnIds

# Of each value of a dictionary for which a query makes codes of its own: its code, and the value where no other has it.
OWN_CODE_BYTES: Final = 16
# Codes of a column are made where their values, at so many bytes each, take no more than their share of the query's
# memory, whether or not they are known already: a number takes 20 bytes while dictionaries are united.
BYTES_PER_VALUE: Final = 20


class _QueryWork:
    """Codes are made by the query: on its threads, and with its memory, until its deadline."""

    def __init__(self, plan: ScanPlan) -> None:
        self._plan = plan

    def run(self, jobs: Sequence[Callable[[], None]]) -> None:
        run_pieces(self._plan, jobs)

    def check(self) -> None:
        self._plan.control.check()

    def reserve(self, size_bytes: int) -> None:
        self._plan.control.reserve(size_bytes)

    def release(self, size_bytes: int) -> None:
        self._plan.control.release(size_bytes)


def shared_codes(plan: ScanPlan, column: str, *, of_one_segment: bool = False) -> ColumnIds | None:
    """Shared codes of a dictionary column; None if there are none for all segments of the plan's morsels.

    Args:
        of_one_segment: also where the plan reads one segment, of which there is nothing to put together.
    """
    if not plan.num_morsels:
        return None
    used = np.unique(plan.morsels[:, abi.U_SEGMENT])
    if len(used) == 1 and not of_one_segment:
        return None
    numbers = plan.numbered.get(column)
    if numbers is not None:  # raw texts: their numbers are shared codes already
        code_maps = np.zeros(len(plan.segments), np.int64)
        code_maps[used] = numbers.same().ctypes.data
        return ColumnIds(numbers.num_ids, code_maps, np.ones(len(plan.segments), np.bool_), numbers)
    if plan.dictionaries is None:
        return None
    table, columns = plan.segments[0].table, [plan.segments[segment].column(column) for segment in used.tolist()]
    spaces = [of_segment.code_space for of_segment in columns]
    lasting = [space for space in spaces if space is not None]
    # Columns that are made for one query (virtual, of later schemas) may stand among others, not alone.
    of_query = [of_segment.dictionary for of_segment in columns if of_segment.code_space is None]
    made = [dictionary for dictionary in of_query if dictionary is not None]
    if not lasting or len(made) < len(of_query) or len({of_segment.data_type for of_segment in columns}) > 1:
        return None
    num_values = int(plan.metas.of(column)[used, abi.M_CARDINALITY].sum())
    if num_values * BYTES_PER_VALUE > plan.control.share("shared codes"):
        return None
    codes = plan.dictionaries.make(table, column, columns[0].data_type, lasting, _QueryWork(plan))
    if codes is None:
        return None
    plan.keep_alive.append(codes)
    code_maps, ascending = np.zeros(len(plan.segments), np.int64), np.zeros(len(plan.segments), np.bool_)
    lasts = np.array([space is not None for space in spaces], np.bool_)
    code_maps[used[lasts]], ascending[used[lasts]] = codes.code_maps, codes.ascending
    if not of_query:
        return ColumnIds(codes.num_ids, code_maps, ascending, codes)
    plan.control.reserve(sum(dictionary.cardinality for dictionary in made) * OWN_CODE_BYTES)
    extended = codes.extended(made, columns[0].data_type.stored)
    plan.keep_alive.append(extended)
    code_maps[used[~lasts]] = [code_map.address for code_map in extended.code_maps]
    ascending[used[~lasts]] = [code_map.ascending for code_map in extended.code_maps]
    return ColumnIds(extended.num_ids, code_maps, ascending, extended)
