"""Mirrored replica groups (ReplicaGroupSegmentAssignmentStrategy): group r holds the same segments at the same index as
group 0.

A query can then be answered by one group alone. Groups are dealt from the rotated candidates; a partitioned table keeps
each partition on `instances_per_partition` consecutive indices of every group (`partition_aware`).
"""

from __future__ import annotations

from dataclasses import dataclass

from pinotpy.errors import UserError


@dataclass(frozen=True, slots=True)
class ReplicaGroups:
    """`groups[r]` lists the servers of replica group r; all groups have the same length."""

    groups: tuple[tuple[str, ...], ...]

    def members_of(self, partition: int, instances_per_partition: int) -> tuple[int, ...]:
        """Indices, equal in every group, that hold `partition`; they wrap round."""
        size = len(self.groups[0])
        if instances_per_partition <= 0 or instances_per_partition >= size:
            return tuple(range(size))
        start = partition * instances_per_partition
        return tuple(sorted((start + offset) % size for offset in range(instances_per_partition)))


def deal_groups(
    candidates: tuple[str, ...], replication: int, instances_per_group: int = 0, *, table_name_with_type: str = ""
) -> ReplicaGroups:
    """Distribute candidates in turn to `replication` groups.

    Args:
        instances_per_group: servers of one group; 0 takes as many as all groups can have.

    Raises:
        UserError: there are fewer candidates than the groups need.
    """
    size = instances_per_group or len(candidates) // replication
    if size == 0 or size * replication > len(candidates):
        raise UserError(
            f"table '{table_name_with_type}' needs {replication} replica groups of {max(size, 1)} instances each, "
            f"found {len(candidates)} instances",
            table=table_name_with_type,
            found=len(candidates),
            needed=max(size, 1) * replication,
        )
    return ReplicaGroups(
        tuple(tuple(candidates[group + index * replication] for index in range(size)) for group in range(replication))
    )
