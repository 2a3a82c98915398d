"""The config of a table. One definition for REST, CLI, store and documents.

`TableConfig.from_json` refuses a bad document with all its faults, also values that the reference stores without a word although
they cannot work (an unknown load mode, two sorted columns, replication 0: control-plane-live.md §5.6). Checks that need the
schema are `check_against_schema`. `to_json_dict` answers the form of GET /tables in Pinot 1.5.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field

from pinotpy.config import table_checks
from pinotpy.config.assignment import InstanceAssignmentConfig, TaskConfig, TierConfig
from pinotpy.config.document import Document, Text, Truth, collect, named, read_object, refuse, to_plain
from pinotpy.config.indexing import FieldConfig, TableIndexConfig
from pinotpy.config.ingestion import IngestionConfig
from pinotpy.config.schema import Schema
from pinotpy.config.segments_config import SegmentsConfig
from pinotpy.config.serving import QueryConfig, QuotaConfig, RoutingConfig
from pinotpy.config.tenants import TenantConfig
from pinotpy.config.unread_keys import unrecognized, without_effect
from pinotpy.config.upsert import DedupConfig, UpsertConfig
from pinotpy.errors import Fault
from pinotpy.names import TableType, raw_table_name, table_name_with_type


class TableCustomConfig(Document):
    """Free texts of the table's owner."""

    custom_configs: dict[str, Text] = Field(default_factory=dict, description="Name → text.")


class DimensionTableConfig(Document):
    """A table that every server of the tenant holds, for LOOKUP."""

    disable_preload: Truth = Field(False, description="Not yet: read the segments instead of keeping a map.")
    error_on_duplicate_primary_key: Truth = Field(False, description="Not yet: refuse two rows of one key.")


class TableConfig(Document):
    """Config of one half (OFFLINE or REALTIME) of a table. Build it with `from_json`, which checks."""

    table_name: Text = Field(description="Name of the table, with or without its type.")
    table_type: Annotated[TableType, named(TableType)] = Field(description="OFFLINE or REALTIME.")
    segments: SegmentsConfig = Field(alias="segmentsConfig", description="Time column, retention, replication and push.")
    tenants: TenantConfig = Field(description="Brokers and servers; {} means DefaultTenant.")
    indexing: TableIndexConfig = Field(alias="tableIndexConfig", description="Dictionaries, encodings and indexes.")
    metadata: TableCustomConfig = Field(default_factory=TableCustomConfig, description="Free texts of the owner.")
    quota: QuotaConfig | None = Field(None, description="Limits.")
    task: TaskConfig | None = Field(None, description="Not yet: minion tasks.")
    routing: RoutingConfig | None = Field(None, description="How brokers route.")
    query: QueryConfig | None = Field(None, description="Limits of queries.")
    instance_assignment_config_map: dict[str, InstanceAssignmentConfig] | None = Field(None, description="Not yet: OFFLINE, CONSUMING, COMPLETED → servers.")
    instance_partitions_map: dict[str, Text] | None = Field(None, description="Not yet: instance partitions by name.")
    segment_assignment_config_map: dict[str, dict[str, Any]] | None = Field(None, description="Not yet: assignment strategies by kind of segment.")
    field_configs: tuple[FieldConfig, ...] = Field((), alias="fieldConfigList", description="Encoding and indexes by column.")
    upsert: UpsertConfig | None = Field(None, alias="upsertConfig", description="Not yet: rows replaced by primary key.")
    dedup: DedupConfig | None = Field(None, alias="dedupConfig", description="Not yet: rows dropped by primary key.")
    dimension_table: DimensionTableConfig | None = Field(None, alias="dimensionTableConfig", description="Not yet: for LOOKUP tables.")
    ingestion: IngestionConfig | None = Field(None, alias="ingestionConfig", description="What happens to records on their way in.")
    tiers: tuple[TierConfig, ...] = Field((), alias="tierConfigs", description="Not yet: other servers for old segments.")
    is_dim_table: Truth = Field(False, description="Not yet: whether the table is for LOOKUP.")
    tuner_configs: tuple[dict[str, Any], ...] = Field((), description="Accepted.")

    @classmethod
    def from_json(cls, document: str | bytes | Mapping[str, Any]) -> TableConfig:
        """Read a table config from JSON text or an object; `tableName` may stand with or without its type.

        Raises:
            InvalidConfigError: the document has faults; `faults` lists each with path, what was found, what is allowed.
        """
        raw = read_object(document, "table config")
        # The reference writes absent sections as null.
        raw = {key: value for key, value in raw.items() if value is not None}
        faults: list[Fault] = []
        config = collect(TableConfig, raw, "$", faults)
        if config is not None:
            faults.extend(table_checks.faults_of(config, raw))
        else:
            faults.extend(_faults_of_parts(raw))
        refuse("table config", faults)
        assert config is not None
        return config.model_copy(update={"table_name": raw_table_name(config.table_name)})

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
        """Stream settings of a REALTIME table, from ingestionConfig or tableIndexConfig."""
        return table_checks.stream_configs(self)

    @cached_property
    def unrecognized(self) -> dict[str, Any]:
        """Keys that nobody reads, and indexes that nobody builds: JSON pointer → value. Kept, and answered as `unrecognizedProperties`."""
        found = unrecognized(self)
        for index, field in enumerate(self.field_configs):
            found |= field.not_built(f"/fieldConfigList/{index}")
        return found

    @cached_property
    def without_effect(self) -> dict[str, Any]:
        """Keys that wait for what they ask, where the document gives them: JSON pointer → value. Kept, and answered as `propertiesWithoutEffect`."""
        return without_effect(self)

    def to_json_dict(self) -> dict[str, Any]:
        """The config as GET /tables/{name} of Pinot 1.5.1 answers it: name with type, tenants filled in, numbers of segmentsConfig as text."""
        return to_plain(self) | {"tableName": self.name_with_type}


def _faults_of_parts(raw: dict[str, Any]) -> list[Fault]:
    """Cross checks of the sections that can stand where the document as a whole cannot."""
    patched = {"tableName": "unnamed", "tableType": "OFFLINE", "segmentsConfig": {"replication": 1}, "tenants": {}, "tableIndexConfig": {}} | raw
    config = collect(TableConfig, patched, "$", [])
    return [] if config is None else table_checks.faults_of(config, raw)


def check_against_schema(config: TableConfig, schema: Schema) -> None:
    """Refuse a config that the schema contradicts: columns that do not exist, indexes that their type cannot have.

    Raises:
        InvalidConfigError: with every such fault.
    """
    refuse("table config", table_checks.faults_against_schema(config, schema))
