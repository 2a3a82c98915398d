"""`upsertConfig` and `dedupConfig`: tables whose rows are known by primary key."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from pinotpy.config.document import Document, Number, Text, Truth, named


class UpsertMode(StrEnum):
    """FULL: a row replaces its predecessor. PARTIAL: columns merge by strategy."""

    NONE = "NONE"
    FULL = "FULL"
    PARTIAL = "PARTIAL"


class UpsertStrategy(StrEnum):
    """How one column of a new row meets the old one."""

    OVERWRITE = "OVERWRITE"
    FORCE_OVERWRITE = "FORCE_OVERWRITE"
    INCREMENT = "INCREMENT"
    APPEND = "APPEND"
    UNION = "UNION"
    IGNORE = "IGNORE"
    MAX = "MAX"
    MIN = "MIN"


class HashFunction(StrEnum):
    """How primary keys are kept."""

    NONE = "NONE"
    MD5 = "MD5"
    MURMUR3 = "MURMUR3"
    UUID = "UUID"


class ConsistencyMode(StrEnum):
    """What a query sees while rows are replaced; here it always sees one moment."""

    NONE = "NONE"
    SYNC = "SYNC"
    SNAPSHOT = "SNAPSHOT"


class UpsertConfig(Document):
    """A row replaces the row with its primary key."""

    mode: Annotated[UpsertMode, named(UpsertMode)] = Field(description="NONE, FULL or PARTIAL.")
    partial_upsert_strategies: dict[str, Annotated[UpsertStrategy, named(UpsertStrategy)]] | None = Field(
        None, description="Column → strategy."
    )
    default_partial_upsert_strategy: Annotated[UpsertStrategy, named(UpsertStrategy)] | None = Field(
        None, description="Strategy of the other columns."
    )
    comparison_column: Text | None = Field(None, description="Column that decides which row is newer (older key).")
    comparison_columns: tuple[Text, ...] = Field(
        (), description="Columns that decide which row is newer; default: the time column."
    )
    delete_record_column: Text | None = Field(None, description="A BOOLEAN column; true deletes the key.")
    out_of_order_record_column: Text | None = Field(
        None, description="A BOOLEAN column that marks rows that arrived too late."
    )
    drop_out_of_order_record: Truth = Field(False, description="Drop rows that arrive too late.")
    hash_function: Annotated[HashFunction, named(HashFunction)] | None = Field(
        None, description="NONE, MD5, MURMUR3 or UUID."
    )
    enable_snapshot: Truth | None = Field(None, description="Keep valid-doc bitmaps on disk.")
    enable_preload: Truth | None = Field(None, description="Load keys before consuming.")
    metadata_ttl: Number | None = Field(
        None,
        ge=0,
        alias="metadataTTL",
        description="Keys older than this are forgotten; in the comparison column's unit.",
    )
    deleted_keys_ttl: Number | None = Field(
        None, ge=0, alias="deletedKeysTTL", description="Deleted keys older than this are forgotten."
    )
    consistency_mode: Annotated[ConsistencyMode, named(ConsistencyMode)] | None = Field(
        None, description="NONE, SYNC or SNAPSHOT."
    )
    metadata_manager_class: Text | None = Field(None, description="Accepted; no class is loaded by name.")
    metadata_manager_configs: dict[str, Any] | None = Field(None, description="Accepted.")


class DedupConfig(Document):
    """Rows whose primary key is already known are dropped."""

    dedup_enabled: Truth = Field(description="Whether to drop them.")
    hash_function: Annotated[HashFunction, named(HashFunction)] | None = Field(
        None, description="NONE, MD5, MURMUR3 or UUID."
    )
    metadata_ttl: Number | None = Field(
        None, ge=0, alias="metadataTTL", description="Keys older than this are forgotten; in the time column's unit."
    )
    dedup_time_column: Text | None = Field(None, description="Column of the age of a key; default: the time column.")
    enable_preload: Truth | None = Field(None, description="Load keys before consuming.")
    metadata_manager_class: Text | None = Field(None, description="Accepted; no class is loaded by name.")
    metadata_manager_configs: dict[str, Any] | None = Field(None, description="Accepted.")
