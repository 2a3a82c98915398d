"""The replica groups that a table config asks for: how many, of how many servers, and which partitions they keep
together.

Two forms ask for them: `instanceAssignmentConfigMap.OFFLINE`, and the older
`segmentsConfig.segmentAssignmentStrategy` with `replicaGroupStrategyConfig`, which it takes the place of (reference
"Instance partitions").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pinotpy.config.partition_checks import offline_assignment, partition_column_of
from pinotpy.config.segments_config import AssignmentStrategy
from pinotpy.names import TableType

if TYPE_CHECKING:
    from pinotpy.config.table import TableConfig


@dataclass(frozen=True, slots=True)
class GroupShape:
    """Replica groups as configured.

    tag: of the servers. instances_per_group: 0 = as many as all groups can have. num_partitions: of each group; 1: none
    are kept together. instances_per_partition: 0 = all of the group. partition_column: whose partitions they are; None:
    every segment is of partition 0.
    """

    tag: str
    num_groups: int
    instances_per_group: int = 0
    num_partitions: int = 1
    instances_per_partition: int = 0
    partition_column: str | None = None


def group_shape(config: TableConfig) -> GroupShape | None:
    """The shape that a config asks for; None: no replica groups, segments are balanced over all servers."""
    tenant_tag = config.tenants.server_tag(config.table_type)
    assignment = offline_assignment(config)
    if assignment is not None:
        groups = assignment.replica_group_partition_config
        num_partitions = max(groups.num_partitions, 1)
        return GroupShape(
            assignment.tag_pool_config.tag,
            groups.num_replica_groups,
            groups.num_instances_per_replica_group,
            num_partitions,
            groups.num_instances_per_partition,
            partition_column_of(config) if num_partitions > 1 else None,
        )
    if config.segments.segment_assignment_strategy is not AssignmentStrategy.REPLICA_GROUP:
        return None
    older = config.segments.replica_group_strategy_config
    if older is None or config.table_type is TableType.REALTIME:
        return GroupShape(tenant_tag, config.replication)
    partitions = config.indexing.segment_partition_config
    scheme = None if partitions is None else partitions.column_partition_map.get(older.partition_column or "")
    if scheme is None:
        return GroupShape(tenant_tag, config.replication, older.num_instances_per_partition)
    return GroupShape(
        tenant_tag,
        config.replication,
        num_partitions=scheme.num_partitions,
        instances_per_partition=older.num_instances_per_partition,
        partition_column=older.partition_column,
    )
