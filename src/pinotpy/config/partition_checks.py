"""What a table config asks of replica groups, and the partitions that they keep together: what cannot work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from pinotpy.config.document import child_path, describe
from pinotpy.config.partition_keys import offline_entry
from pinotpy.config.segments_config import AssignmentStrategy
from pinotpy.errors import MISSING, Fault
from pinotpy.names import TableType

if TYPE_CHECKING:
    from pinotpy.config.assignment import InstanceAssignmentConfig, ReplicaGroupPartitionConfig
    from pinotpy.config.indexing import ColumnPartitionConfig
    from pinotpy.config.table_sections import TableSections

_COLUMNS_ALLOWED: Final = "a column of $.tableIndexConfig.segmentPartitionConfig.columnPartitionMap"
# Partitions of one table's replica groups: their servers stand in one record.
ASSIGNED_PARTITIONS_MAX: Final = 10_000


def offline_assignment(config: TableSections) -> InstanceAssignmentConfig | None:
    """The replica groups that `instanceAssignmentConfigMap` asks for an OFFLINE table; None: it asks for none, or for
    such as cannot be, in a document that was stored before they were checked.
    """
    _, entry = offline_entry(config.table_type, config.instance_assignment_config_map)
    if entry is None or not entry.replica_group_partition_config.replica_group_based:
        return None
    return None if any(True for _ in assignment_faults(config)) else entry


def partition_column_of(config: TableSections) -> str | None:
    """The column whose partitions replica groups keep together: the one that is named, else the only one there is."""
    _, entry = offline_entry(config.table_type, config.instance_assignment_config_map)
    named = None if entry is None else entry.replica_group_partition_config.partition_column
    older = config.segments.replica_group_strategy_config
    named = named or (None if older is None else older.partition_column)
    columns = _columns(config)
    return named or (next(iter(columns)) if len(columns) == 1 else None)


def assignment_faults(config: TableSections) -> Iterator[Fault]:
    """Faults of replica groups and of the partitions that they are to keep together."""
    if config.table_type is not TableType.OFFLINE:
        return
    columns = _columns(config)
    older = config.segments.replica_group_strategy_config
    has_older = config.segments.segment_assignment_strategy is AssignmentStrategy.REPLICA_GROUP
    if has_older and older is not None and older.partition_column is not None:
        path = "$.segmentsConfig.replicaGroupStrategyConfig.partitionColumn"
        if older.partition_column not in columns:
            yield Fault(path, describe(older.partition_column), _COLUMNS_ALLOWED)
        elif columns[older.partition_column].num_partitions > ASSIGNED_PARTITIONS_MAX:
            count = columns[older.partition_column].num_partitions
            yield Fault(path, f"a column of {count} partitions", f"one of at most {ASSIGNED_PARTITIONS_MAX}")
    kind, entry = offline_entry(config.table_type, config.instance_assignment_config_map)
    if entry is not None and entry.replica_group_partition_config.replica_group_based:
        path = child_path("$.instanceAssignmentConfigMap", kind) + ".replicaGroupPartitionConfig"
        yield from _group_faults(config, entry.replica_group_partition_config, columns, path)


def _group_faults(
    config: TableSections,
    groups: ReplicaGroupPartitionConfig,
    columns: Mapping[str, ColumnPartitionConfig],
    path: str,
) -> Iterator[Fault]:
    if groups.num_replica_groups != config.replication:
        allowed = f"{config.replication}, the table's replication: each group holds every segment once"
        yield Fault(f"{path}.numReplicaGroups", describe(groups.num_replica_groups), allowed)
    if groups.partition_column is not None and groups.partition_column not in columns:
        yield Fault(f"{path}.partitionColumn", describe(groups.partition_column), _COLUMNS_ALLOWED)
    elif groups.partition_column is not None and groups.num_partitions == 0:
        allowed = f"how many partitions of {describe(groups.partition_column)} are kept together each"
        yield Fault(f"{path}.numPartitions", describe(0), allowed)
    column = partition_column_of(config)
    if groups.num_partitions > 1 and column is None:
        yield Fault(
            f"{path}.partitionColumn", MISSING, f"the column whose partitions are kept together: {_COLUMNS_ALLOWED}"
        )
    of_column = None if column is None or column not in columns else columns[column].num_partitions
    if of_column is not None and groups.num_partitions > of_column:
        allowed = f"at most {of_column}, the partitions of {describe(column)}"
        yield Fault(f"{path}.numPartitions", describe(groups.num_partitions), allowed)
    elif groups.num_partitions > ASSIGNED_PARTITIONS_MAX:
        yield Fault(f"{path}.numPartitions", describe(groups.num_partitions), f"at most {ASSIGNED_PARTITIONS_MAX}")
    size, of_partition = groups.num_instances_per_replica_group, groups.num_instances_per_partition
    if size and of_partition > size:
        allowed = f"at most {size}, the servers of a group"
        yield Fault(f"{path}.numInstancesPerPartition", describe(of_partition), allowed)


def _columns(config: TableSections) -> Mapping[str, ColumnPartitionConfig]:
    partitions = config.indexing.segment_partition_config
    return {} if partitions is None else partitions.column_partition_map
