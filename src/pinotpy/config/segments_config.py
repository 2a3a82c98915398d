"""`segmentsConfig`: time column, retention, replication and push of a table."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from pinotpy.config.date_time import TimeUnit
from pinotpy.config.document import Document, Text, Truth, WholeNumber, named


class PushType(StrEnum):
    """APPEND: segments add rows, retention applies. REFRESH: an upload replaces the table's content."""

    APPEND = "APPEND"
    REFRESH = "REFRESH"


class PushFrequency(StrEnum):
    """How often data arrives: dates in names of segments have hours where it is HOURLY."""

    HOURLY = "HOURLY"
    DAILY = "DAILY"
    WEEKLY = "WEEKLY"
    MONTHLY = "MONTHLY"


class AssignmentStrategy(StrEnum):
    """Which servers get a segment."""

    BALANCE_NUM_SEGMENT = "BalanceNumSegmentAssignmentStrategy"
    REPLICA_GROUP = "ReplicaGroupSegmentAssignmentStrategy"


class CompletionMode(StrEnum):
    """DEFAULT: a replica with equal rows builds its own segment. DOWNLOAD: it always downloads the committer's."""

    DEFAULT = "DEFAULT"
    DOWNLOAD = "DOWNLOAD"


class CompletionConfig(Document):
    """How consuming segments become immutable."""

    completion_mode: Annotated[CompletionMode, named(CompletionMode)] = Field(
        CompletionMode.DEFAULT,
        description="What replicas do that did not commit a segment. DEFAULT: one with the same rows builds its own "
        "copy, others download it. DOWNLOAD: all download it.",
    )


class ReplicaGroupStrategyConfig(Document):
    """Replica groups by partition, the form before instanceAssignmentConfigMap."""

    partition_column: Text | None = Field(None, description="Column whose partitions are kept together.")
    num_instances_per_partition: WholeNumber = Field(ge=1, description="Servers that hold one partition.")


class SegmentsConfig(Document):
    """Time column, retention, replication and push. Old documents, and answers to GET, have all values as text."""

    replication: WholeNumber | None = Field(
        None,
        ge=1,
        description="Number of servers that hold each segment. Without it 1, or replicasPerPartition; 0 is refused.",
        json_schema_extra={"as_text": True},
    )
    replicas_per_partition: WholeNumber | None = Field(
        None,
        ge=1,
        description="The same for consuming segments; default: replication.",
        json_schema_extra={"as_text": True},
    )
    retention_time_unit: Annotated[TimeUnit, named(TimeUnit)] | None = Field(
        None, description="Unit of retentionTimeValue."
    )
    retention_time_value: WholeNumber | None = Field(
        None,
        ge=1,
        description="Segments whose newest row is older are deleted; without it, none.",
        json_schema_extra={"as_text": True},
    )
    time_type: Annotated[TimeUnit, named(TimeUnit)] | None = Field(
        None, description="Unit of the time column in old documents; the schema decides."
    )
    time_column_name: Text | None = Field(
        None, description="Time column, for retention and for the time range of a segment."
    )
    segment_push_type: Annotated[PushType, named(PushType)] | None = Field(
        None, description="REFRESH: retention does not apply; default APPEND."
    )
    segment_push_frequency: Annotated[PushFrequency, named(PushFrequency)] | None = Field(
        None, description="HOURLY: dates in segment names include hours; default DAILY."
    )
    minimize_data_movement: Truth = Field(
        False, description="Not yet: keep segments where they are when servers change."
    )
    segment_assignment_strategy: Annotated[AssignmentStrategy, named(AssignmentStrategy)] | None = Field(
        None, description="Default: BalanceNumSegmentAssignmentStrategy."
    )
    replica_group_strategy_config: ReplicaGroupStrategyConfig | None = Field(
        None, description="For the replica group strategy."
    )
    completion_config: CompletionConfig | None = Field(None, description="How consuming segments become immutable.")
    crypter_class_name: Text | None = Field(None, description="Encryption of segments in the deep store.")
    peer_segment_download_scheme: Text | None = Field(
        None,
        description="Accepted without effect: servers always ask replicas when the deep store fails, as daemons speak "
        "to each other.",
    )
    deleted_segments_retention_period: Text | None = Field(
        None,
        description="How long files of deleted segments are kept, e.g. 7d, 0d = not at all; default "
        "controller.deleted.segments.retentionInDays.",
    )
    replaced_segments_retention_period: Text | None = Field(
        None,
        description="How long replaced segments are kept for a revert, e.g. 4h; default 1d.",
    )
    lineage_entry_cleanup_retention_period: Text | None = Field(
        None,
        description="After how long a replacement in progress is reverted, and a reverted one is removed, "
        "e.g. 2d; default 1d.",
    )

    @property
    def is_append(self) -> bool:
        return self.segment_push_type is not PushType.REFRESH

    @property
    def completion_mode(self) -> CompletionMode:
        """How the replicas that did not commit a segment get it."""
        return CompletionMode.DEFAULT if self.completion_config is None else self.completion_config.completion_mode
