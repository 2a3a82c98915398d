"""`ingestionConfig`: how input records are transformed, filtered and checked."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from pinotpy.config.document import Document, Text, Truth, named
from pinotpy.config.segments_config import PushFrequency, PushType


class CollectionToJson(StrEnum):
    """Which lists become JSON text."""

    NONE = "NONE"
    NON_PRIMITIVE = "NON_PRIMITIVE"
    ALL = "ALL"


class MissingColumns(StrEnum):
    """How to treat a file that lacks a column of the schema which has neither a defaultNullValue nor a transform."""

    FAIL = "FAIL"
    WARN = "WARN"
    DEFAULT = "DEFAULT"


class BatchIngestionConfig(Document):
    """Segments from files."""

    batch_config_maps: tuple[dict[str, Text], ...] = Field((), description="Accepted; a job has its spec.")
    segment_ingestion_type: Annotated[PushType, named(PushType)] | None = Field(None, description="APPEND or REFRESH.")
    segment_ingestion_frequency: Annotated[PushFrequency, named(PushFrequency)] | None = Field(
        None, description="HOURLY, DAILY, WEEKLY or MONTHLY."
    )
    consistent_data_push: Truth = Field(False, description="Replace all segments of a REFRESH atomically.")
    missing_columns: Annotated[MissingColumns, named(MissingColumns)] = Field(
        MissingColumns.FAIL,
        description="A file lacks a column that has no defaultNullValue and no transform: FAIL refuses the file, WARN "
        "and DEFAULT take it: its rows have no value, a null where the table keeps null vectors, else the type's "
        "default.",
    )


class StreamIngestionConfig(Document):
    """Segments from streams."""

    stream_config_maps: tuple[dict[str, Text], ...] = Field(
        (), repr=False, description="One map with the keys of streamConfigs, in its place; more than one are refused."
    )
    column_major_segment_builder_enabled: Truth = Field(True, description="Accepted.")


class FilterConfig(Document):
    """Records to drop."""

    filter_function: Text | None = Field(None, description="Expression; records for which it is true are dropped.")


class TransformConfig(Document):
    """A column by expression."""

    column_name: Text = Field(description="Column to fill.")
    transform_function: Text = Field(description="Expression over columns of the record.")


class AggregationConfig(Document):
    """A metric aggregated while consuming."""

    column_name: Text = Field(description="Column to fill.")
    aggregation_function: Text = Field(description="FUNCTION(column).")


class ComplexTypeConfig(Document):
    """Nested records."""

    fields_to_unnest: tuple[Text, ...] = Field((), description="Lists whose entries become rows.")
    delimiter: Text = Field(".", description="Separator between names of nested fields.")
    collection_not_unnested_to_json: Annotated[CollectionToJson, named(CollectionToJson)] = Field(
        CollectionToJson.NON_PRIMITIVE, description="NONE, NON_PRIMITIVE or ALL."
    )
    prefixes_to_rename: dict[str, Text] | None = Field(None, description="Prefix of names → new prefix.")


class IngestionConfig(Document):
    """How input records are transformed, filtered and checked."""

    batch_ingestion_config: BatchIngestionConfig | None = Field(None, description="Segments from files.")
    stream_ingestion_config: StreamIngestionConfig | None = Field(None, description="Segments from streams.")
    filter_config: FilterConfig | None = Field(None, description="Records to drop.")
    transform_configs: tuple[TransformConfig, ...] = Field((), description="Columns by expression.")
    enrichment_configs: tuple[dict[str, Any], ...] = Field(
        (), description="Not yet: rows of such a table are refused, because it would change them."
    )
    complex_type_config: ComplexTypeConfig | None = Field(None, description="Nested records.")
    schema_conforming_transformer_config: dict[str, Any] | None = Field(
        None, description="Not yet: rows of such a table are refused, because it would change them."
    )
    aggregation_configs: tuple[AggregationConfig, ...] = Field(
        (), description="Not yet: metrics aggregated while consuming."
    )
    continue_on_error: Truth = Field(False, description="Skip bad records (counted with cause) instead of failing.")
    row_time_value_check: Truth = Field(False, description="A row's time outside 1971..2071 is a bad record.")
    segment_time_value_check: Truth = Field(
        True, description="A segment whose times leave 1971..2071 is not built, and refused at upload."
    )
