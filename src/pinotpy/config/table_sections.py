"""The sections of a table config: its keys, and what follows from them alone.

What they must be beside each other and beside a schema is for `table_checks`; who has a document to read takes
`table.TableConfig`. `to_json_dict` answers the form of GET /tables in Pinot 1.5.1.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any

from pydantic import Field

from pinotpy.config.assignment import InstanceAssignmentConfig, TaskConfig, TierConfig
from pinotpy.config.document import Document, Text, Truth, named, to_plain
from pinotpy.config.indexing import FieldConfig, TableIndexConfig
from pinotpy.config.ingestion import IngestionConfig
from pinotpy.config.partition_keys import assignment_keys_without_effect, partition_keys_without_effect
from pinotpy.config.segments_config import SegmentsConfig
from pinotpy.config.serving import QueryConfig, QuotaConfig, RoutingConfig
from pinotpy.config.stream_checks import stream_keys_without_effect
from pinotpy.config.stream_configs import StreamConfig, read_stream_config
from pinotpy.config.tenants import TenantConfig
from pinotpy.config.unread_keys import unrecognized, without_effect
from pinotpy.config.upsert import DedupConfig, UpsertConfig
from pinotpy.names import TableType, raw_table_name, table_name_with_type


class TableCustomConfig(Document):
    """Free texts of the table's owner."""

    custom_configs: dict[str, Text] = Field(default_factory=dict, description="Name → text.")


class DimensionTableConfig(Document):
    """A table that every server of the tenant holds, for LOOKUP."""

    disable_preload: Truth = Field(False, description="Not yet: read the segments instead of keeping a map.")
    error_on_duplicate_primary_key: Truth = Field(False, description="Not yet: refuse two rows of one key.")


class TableSections(Document):
    """Config of one half (OFFLINE or REALTIME) of a table, whatever its keys say beside each other."""

    table_name: Text = Field(description="Name of the table, with or without its type.")
    table_type: Annotated[TableType, named(TableType)] = Field(description="OFFLINE or REALTIME.")
    segments: SegmentsConfig = Field(
        alias="segmentsConfig", description="Time column, retention, replication and push."
    )
    tenants: TenantConfig = Field(
        default_factory=lambda: TenantConfig.model_validate({}),
        description="Brokers and servers; without it, or with {}, DefaultTenant.",
    )
    indexing: TableIndexConfig = Field(alias="tableIndexConfig", description="Dictionaries, encodings and indexes.")
    metadata: TableCustomConfig = Field(default_factory=TableCustomConfig, description="Free-form texts of the owner.")
    quota: QuotaConfig | None = Field(None, description="Limits.")
    task: TaskConfig | None = Field(None, description="Not yet: minion tasks.")
    routing: RoutingConfig | None = Field(None, description="How brokers route.")
    query: QueryConfig | None = Field(None, description="Limits of queries.")
    instance_assignment_config_map: dict[str, InstanceAssignmentConfig] | None = Field(
        None,
        description="OFFLINE → replica groups and their servers, which are dealt once and stored. Not yet: pools, "
        "constraints, CONSUMING and COMPLETED.",
    )
    instance_partitions_map: dict[str, Text] | None = Field(None, description="Not yet: instance partitions by name.")
    segment_assignment_config_map: dict[str, dict[str, Any]] | None = Field(
        None, description="Not yet: assignment strategies by kind of segment."
    )
    field_configs: tuple[FieldConfig, ...] = Field(
        (), alias="fieldConfigList", description="Encoding and indexes by column."
    )
    upsert: UpsertConfig | None = Field(
        None, alias="upsertConfig", description="Not yet: rows replaced by primary key."
    )
    dedup: DedupConfig | None = Field(None, alias="dedupConfig", description="Not yet: rows dropped by primary key.")
    dimension_table: DimensionTableConfig | None = Field(
        None, alias="dimensionTableConfig", description="Not yet: for LOOKUP tables."
    )
    ingestion: IngestionConfig | None = Field(
        None, alias="ingestionConfig", description="How input records are transformed, filtered and checked."
    )
    tiers: tuple[TierConfig, ...] = Field(
        (), alias="tierConfigs", description="Not yet: other servers for old segments."
    )
    is_dim_table: Truth = Field(False, description="Not yet: whether the table is for LOOKUP.")
    tuner_configs: tuple[dict[str, Any], ...] = Field((), description="Accepted.")

    @property
    def raw_table_name(self) -> str:
        """`flights`"""
        return raw_table_name(self.table_name)

    @property
    def name_with_type(self) -> str:
        """`flights_OFFLINE`"""
        return table_name_with_type(self.raw_table_name, self.table_type)

    @property
    def replication(self) -> int:
        """Servers that hold each segment of this table; for REALTIME replicasPerPartition where it stands."""
        per_partition = self.segments.replicas_per_partition
        if self.table_type is TableType.REALTIME and per_partition is not None:
            return per_partition
        assert self.segments.replication is not None
        return self.segments.replication

    @property
    def stream_configs(self) -> dict[str, str] | None:
        """Stream settings: the first of ingestionConfig.streamIngestionConfig, else tableIndexConfig.streamConfigs."""
        return self._stream_config_maps[0] if self._stream_config_maps else self.indexing.stream_configs

    @property
    def _stream_config_maps(self) -> tuple[dict[str, str], ...]:
        stream = self.ingestion.stream_ingestion_config if self.ingestion is not None else None
        return () if stream is None else stream.stream_config_maps

    @cached_property
    def stream_config(self) -> StreamConfig | None:
        """The stream of a REALTIME table, typed; None for an OFFLINE table, or where a check would refuse it."""
        if self.table_type is not TableType.REALTIME or self.stream_configs is None:
            return None
        return read_stream_config(self.stream_configs, "$", [])

    @cached_property
    def unrecognized(self) -> dict[str, Any]:
        """Keys that nobody reads, and indexes that nobody builds: JSON pointer → value. Kept, and answered as
        `unrecognizedProperties`.
        """
        unread = unrecognized(self)
        for index, field in enumerate(self.field_configs):
            unread |= field.not_built(f"/fieldConfigList/{index}")
        return unread

    @cached_property
    def without_effect(self) -> dict[str, Any]:
        """Keys of this document whose feature is not implemented yet: JSON pointer → value. Kept, and returned as
        `propertiesWithoutEffect`, with those that have none beside the document's other keys. Passwords of streams
        are masked.
        """
        return (
            without_effect(self)
            | partition_keys_without_effect(self.indexing.segment_partition_config, self.routing)
            | assignment_keys_without_effect(self.table_type, self.instance_assignment_config_map)
            | stream_keys_without_effect(self.indexing.stream_configs, self._stream_config_maps, self.stream_config)
        )

    @property
    def warnings(self) -> list[str]:
        """What the answer to this document and EXPLAIN warn of, each with its JSON path."""
        return [] if self.routing is None else self.routing.warnings

    def to_json_dict(self) -> dict[str, Any]:
        """The config as GET /tables/{name} of Pinot 1.5.1 answers it: name with type, tenants filled in, numbers of
        segmentsConfig as text.
        """
        return to_plain(self) | {"tableName": self.name_with_type}
