"""The units and the filter program of conditions that all must hold and that a scan tests: planned by one kernel.

Most queries ask nothing else. What an index may answer, OR, and what Python computes take the longer way (scan.py), which
decides the same step by step and tells EXPLAIN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.kernels import abi, planning
from pinotpy.kernels.legs import LEG_RUN
from pinotpy.query.columns import ColumnMetas
from pinotpy.query.filter.pruning import BY_BLOOM, BY_PARTITION
from pinotpy.query.filter.resolve import ResolvedLeg
from pinotpy.query.filter.tree import Resolved, conjuncts
from pinotpy.query.partial import Statistics
from pinotpy.query.segment_set import SegmentSet

# Of more segments those that are left are taken out, so that the others cost nothing from here on; of fewer that costs more.
KEPT_SEGMENTS_MAX: Final = 32


@dataclass(frozen=True, slots=True)
class PlannedFilter:
    """Parts of a ScanPlan; num_docs: of all units."""

    segments: SegmentSet
    metas: ColumnMetas
    units: NDArray[np.int64]
    starts: NDArray[np.int64]
    program: NDArray[np.int64]
    num_docs: int


def is_plain(tree: Resolved) -> bool:
    """Whether `plan_conjunction` can plan the filter."""
    return all(isinstance(leg, ResolvedLeg) and not leg.has_index and not leg.computed.any() for leg in conjuncts(tree))


def plan_conjunction(tree: Resolved, segments: SegmentSet, metas: ColumnMetas, statistics: Statistics, *, threads: int, thread_docs_min: int) -> PlannedFilter:
    """Plan a filter that `is_plain` over `segments`, all of which have docs; counts what is pruned. The tree must live as long as
    the program."""
    legs = [leg for leg in conjuncts(tree) if isinstance(leg, ResolvedLeg)]
    words = np.array([(leg.table.ctypes.data, metas.planned(leg.leg.column).address, leg.negated, leg.nulls) for leg in legs], np.int64)
    counts = np.zeros(planning.N_COUNTS, np.int64)
    units, starts, program = planning.conjunction(segments.docs, words.reshape(len(legs), planning.CONJUNCT_WORDS), threads, thread_docs_min, counts)
    if program.shape[1]:
        at = units[:, abi.U_SEGMENT]
        for leg in legs:
            metas.ready(leg.leg.column, at[leg.mode[at] == LEG_RUN])
    pruned, num_docs = int(counts[planning.N_PRUNED]), int(counts[planning.N_DOCS])
    statistics.num_segments_pruned = pruned + statistics.num_segments_queried - len(segments)
    statistics.num_segments_processed = len(segments) - pruned
    statistics.num_segments_pruned_by_bloom_filter = int(counts[planning.N_BY_RULE + BY_BLOOM])
    statistics.num_segments_pruned_by_partition = int(counts[planning.N_BY_RULE + BY_PARTITION])
    if len(segments) > KEPT_SEGMENTS_MAX and counts[planning.N_SELECTED_SEGMENTS] * 2 < len(segments):
        at = units[:, abi.U_SEGMENT]
        rows = np.unique(at) if len(at) else np.zeros(1, np.int64)
        units[:, abi.U_SEGMENT] = rows.searchsorted(at)
        segments = segments.take(rows)
        metas = ColumnMetas(segments)
    return PlannedFilter(segments, metas, units, starts, program, num_docs)
