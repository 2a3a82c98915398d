"""Keys of partitions and of the assignment of servers that change nothing, beside a document's other keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pinotpy.config.assignment import InstanceAssignmentConfig
from pinotpy.config.document import plain_value
from pinotpy.config.indexing import SegmentPartitionConfig
from pinotpy.config.serving import RoutingConfig, SegmentPruner
from pinotpy.config.unread_keys import escaped, flatten
from pinotpy.names import TableType

_MAP: Final = "/tableIndexConfig/segmentPartitionConfig/columnPartitionMap"
# Keys of an entry that decide where segments go, where it has replica groups.
_EFFECTIVE: Final = (
    "/tagPoolConfig/tag",
    "/replicaGroupPartitionConfig/replicaGroupBased",
    "/replicaGroupPartitionConfig/numReplicaGroups",
    "/replicaGroupPartitionConfig/numInstancesPerReplicaGroup",
    "/replicaGroupPartitionConfig/numPartitions",
    "/replicaGroupPartitionConfig/numInstancesPerPartition",
    "/replicaGroupPartitionConfig/partitionColumn",
)

Assignments = Mapping[str, InstanceAssignmentConfig]


def partition_keys_without_effect(
    partitions: SegmentPartitionConfig | None, routing: RoutingConfig | None
) -> dict[str, Any]:
    """JSON pointer → value: pruners that are not known, functions that are not built, by which no segment records
    partitions, and the broker's pruning by partitions where there are two columns of them: it prunes by one or none, as
    the reference.
    """
    unknown = {} if routing is None else routing.unknown_pruners
    idle: dict[str, Any] = {f"/routing/segmentPrunerTypes/{place}": found for place, found in unknown.items()}
    if partitions is None:
        return idle
    columns = partitions.column_partition_map
    idle |= {
        f"{_MAP}/{escaped(name)}/functionName": str(column.function_name)
        for name, column in columns.items()
        if not column.function_name.is_built
    }
    if len(columns) > 1 and routing is not None:
        idle |= {
            f"/routing/segmentPrunerTypes/{index}": str(pruner)
            for index, pruner in enumerate(routing.segment_pruner_types)
            if pruner is SegmentPruner.PARTITION
        }
    return idle


def assignment_keys_without_effect(table_type: TableType, assignments: Assignments | None) -> dict[str, Any]:
    """JSON pointer → value of the keys of `instanceAssignmentConfigMap` that nothing reads yet: all but those of the
    replica groups of an OFFLINE table.
    """
    idle: dict[str, Any] = {}
    of_offline, entry = offline_entry(table_type, assignments)
    has_groups = entry is not None and entry.replica_group_partition_config.replica_group_based
    for kind, each in (assignments or {}).items():
        reads = kind == of_offline and has_groups
        pointer = f"/instanceAssignmentConfigMap/{escaped(kind)}"
        for leaf, value in flatten(plain_value(each), "").items():
            # What asks for the usual behaviour is not told.
            is_asked = value not in (None, False, 0, "", [], {})
            if is_asked and not (reads and leaf in _EFFECTIVE):
                idle[pointer + leaf] = value
    return idle


def offline_entry(
    table_type: TableType, assignments: Assignments | None
) -> tuple[str, InstanceAssignmentConfig | None]:
    """The key for the segments of an OFFLINE table, as it is written, and its value."""
    if table_type is TableType.OFFLINE:
        for kind, entry in (assignments or {}).items():
            if kind.upper() == "OFFLINE":
                return kind, entry
    return "", None
