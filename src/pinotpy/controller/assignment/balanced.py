"""The default strategy: the servers with the fewest segments of the table (BalanceNumSegmentAssignmentStrategy)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping


def count_segments(assignment: Mapping[str, Mapping[str, str]]) -> Counter[str]:
    """Segments per instance in an ideal state `{segment: {instance: state}}`."""
    return Counter(instance for replicas in assignment.values() for instance in replicas)


def assign_balanced(candidates: tuple[str, ...], counts: Mapping[str, int], replication: int) -> tuple[str, ...]:
    """The `replication` candidates with the fewest segments; ties go to the earlier candidate.

    Args:
        candidates: servers in rotated order, at least `replication` of them.
        counts: segments of this table per server; a server that is missing has none.
    """
    assert 0 < replication <= len(candidates), "checked by check_enough"
    by_load = sorted(range(len(candidates)), key=lambda index: (counts.get(candidates[index], 0), index))
    return tuple(candidates[index] for index in by_load[:replication])
