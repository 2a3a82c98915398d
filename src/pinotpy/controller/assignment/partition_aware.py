"""Instance partitions: which servers of each replica group hold which partition, and which of them a segment.

Groups are dealt as in `replica_group`; a partition takes consecutive servers of every group, at the same indices, so
that each group alone has all segments, and all segments of a partition lie on few servers of it. Pure functions: what
was dealt is stored, and only `mended` where servers have left.
"""

from __future__ import annotations

from collections.abc import Mapping

from pinotpy.cluster.instance_partitions import InstancePartitions
from pinotpy.controller.assignment.group_shape import GroupShape
from pinotpy.controller.assignment.replica_group import deal_groups


def deal_partitions(
    candidates: tuple[str, ...], shape: GroupShape, *, table_name_with_type: str = ""
) -> InstancePartitions:
    """Instance partitions of a shape, over servers in rotated order. Raises UserError: there are too few."""
    groups = deal_groups(
        candidates, shape.num_groups, shape.instances_per_group, table_name_with_type=table_name_with_type
    )
    indices = [groups.members_of(number, shape.instances_per_partition) for number in range(shape.num_partitions)]
    return InstancePartitions(
        tuple(tuple(tuple(group[index] for index in chosen) for group in groups.groups) for chosen in indices)
    )


def fits(partitions: InstancePartitions, shape: GroupShape) -> bool:
    """Whether stored instance partitions are of a shape. Where it takes as many servers as there are, more servers than
    there were do not count.
    """
    if (partitions.num_partitions, partitions.num_replica_groups) != (shape.num_partitions, shape.num_groups):
        return False
    sizes = {len(group) for groups in partitions.servers for group in groups}
    wanted = shape.instances_per_partition
    if shape.instances_per_group:
        return sizes == {min(wanted or shape.instances_per_group, shape.instances_per_group)}
    # Of fewer servers than a partition was to have, all were taken.
    return not wanted or (len(sizes) == 1 and max(sizes) <= wanted)


def mended(partitions: InstancePartitions, candidates: tuple[str, ...]) -> InstancePartitions | None:
    """The same with servers that are no candidates any more replaced by such as hold nothing, each in all its places;
    every other server keeps its own. None: there are not enough servers that hold nothing.
    """
    known = partitions.instances
    gone = sorted(known - set(candidates))
    spare = [server for server in candidates if server not in known]
    if len(gone) > len(spare):
        return None
    instead = dict(zip(gone, spare, strict=False))
    return InstancePartitions(
        tuple(
            tuple(tuple(instead.get(server, server) for server in group) for group in groups)
            for groups in partitions.servers
        )
    )


def assign_to_partition(
    partitions: InstancePartitions, counts: Mapping[str, int], partition: int = 0
) -> tuple[str, ...]:
    """One server of each replica group: the index with the fewest segments in the first group of the partition, and
    the same index in all others; ties go to the smaller index.

    Args:
        counts: segments of this table per server; a server that is missing has none.
        partition: of the segment, by its column.
    """
    groups = partitions.of_segment(partition)
    chosen = min(range(len(groups[0])), key=lambda index: (counts.get(groups[0][index], 0), index))
    return tuple(group[chosen] for group in groups)
