"""`instanceAssignmentConfigMap`, `tierConfigs` and `task`: where segments live, and what is done to them."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from pinotpy.config.document import Document, Text, Truth, WholeNumber, named

_PERIOD = re.compile(r"(?:\d{1,9}[dhms]){1,8}", re.IGNORECASE | re.ASCII)
_PERIOD_UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000}
PERIOD_ALLOWED = "a period such as 7d, 12h, 30m or 1d12h"


def millis_from_period(text: str) -> int:
    """`1d2h` → milliseconds; raises ValueError whose text is what is allowed."""
    if not _PERIOD.fullmatch(text.strip()):
        raise ValueError(PERIOD_ALLOWED)
    return sum(int(number) * _PERIOD_UNITS_MS[unit.lower()] for number, unit in re.findall(r"(\d+)([dhmsDHMS])", text))


def _period(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError(PERIOD_ALLOWED)
    millis_from_period(value)
    return value


class TagPoolConfig(Document):
    """Servers to choose from."""

    tag: Text = Field(description="Tag of the servers.")
    pool_based: Truth = Field(False, description="Not yet: choose by pool.")
    num_pools: WholeNumber = Field(0, ge=0, description="Not yet: number of pools; 0 = all.")
    pools: tuple[WholeNumber, ...] | None = Field(None, description="Not yet: pools to choose from.")


class ConstraintConfig(Document):
    """Accepted and kept."""

    constraints: tuple[Text, ...] = Field((), description="Names of constraints.")


class ReplicaGroupPartitionConfig(Document):
    """Shape of the replica groups. 0 = as many as possible."""

    replica_group_based: Truth = Field(False, description="Use replica groups.")
    num_instances: WholeNumber = Field(0, ge=0, description="Servers without replica groups.")
    num_replica_groups: WholeNumber = Field(0, ge=0, description="Number of replica groups.")
    num_instances_per_replica_group: WholeNumber = Field(0, ge=0, description="Servers in one group.")
    num_partitions: WholeNumber = Field(0, ge=0, description="Partitions of each group.")
    num_instances_per_partition: WholeNumber = Field(0, ge=0, description="Servers of one partition in one group.")
    partition_column: Text | None = Field(None, description="Column whose partitions are kept together.")
    minimize_data_movement: Truth = Field(False, description="Keep servers where they are.")


class InstanceAssignmentConfig(Document):
    """How servers are chosen for one kind of segments."""

    tag_pool_config: TagPoolConfig = Field(description="Servers to choose from.")
    constraint_config: ConstraintConfig | None = Field(None, description="Accepted.")
    replica_group_partition_config: ReplicaGroupPartitionConfig = Field(description="Shape of the replica groups.")
    partition_selector: Text | None = Field(None, description="Strategy to spread partitions.")
    minimize_data_movement: Truth = Field(False, description="Keep servers where they are.")


class TierSelector(StrEnum):
    """How a tier's segments are found."""

    TIME = "time"
    FIXED = "fixed"


class TierConfig(Document):
    """Other servers for old segments."""

    name: Text = Field(description="Name of the tier.")
    segment_selector_type: Annotated[TierSelector, named(TierSelector)] = Field(description="time or fixed.")
    segment_age: Annotated[str, BeforeValidator(_period)] | None = Field(
        None, description="Segments older than this, e.g. 7d."
    )
    segment_list: tuple[Text, ...] = Field((), description="Segments by name.")
    storage_type: Text = Field(description="pinot_server.")
    server_tag: Text | None = Field(None, description="Tag of the tier's servers.")
    tier_backend: Text | None = Field(None, description="Accepted.")
    tier_backend_properties: dict[str, Text] | None = Field(None, description="Accepted.")


class TaskConfig(Document):
    """Minion tasks of a table by type."""

    task_type_configs_map: dict[str, dict[str, Text]] = Field(description="Task type → settings, as text.")
