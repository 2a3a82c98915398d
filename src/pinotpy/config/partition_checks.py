"""What a table config says of partitions beside its other keys: which keys change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pinotpy.config.serving import SegmentPruner
from pinotpy.config.unread_keys import escaped

if TYPE_CHECKING:
    from pinotpy.config.table_sections import TableSections

_MAP = "/tableIndexConfig/segmentPartitionConfig/columnPartitionMap"


def partition_keys_without_effect(config: TableSections) -> dict[str, Any]:
    """JSON pointer → value: functions that are not built, by which no segment records partitions, and the broker's
    pruning by partitions where there are two columns of them: it prunes by one or none, as the reference.
    """
    partitions = config.indexing.segment_partition_config
    if partitions is None:
        return {}
    columns = partitions.column_partition_map
    idle: dict[str, Any] = {
        f"{_MAP}/{escaped(name)}/functionName": str(column.function_name)
        for name, column in columns.items()
        if not column.function_name.is_built
    }
    if len(columns) > 1 and config.routing is not None:
        idle |= {
            f"/routing/segmentPrunerTypes/{index}": str(pruner)
            for index, pruner in enumerate(config.routing.segment_pruner_types)
            if pruner is SegmentPruner.PARTITION
        }
    return idle
