"""The sections of an ingestion job spec, with Pinot's keys."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field

from pinotpy.config.document import Document, Text, Truth, WholeNumber, child_path
from pinotpy.errors import Fault


def _reader_settings(value: Any) -> Any:
    if not isinstance(value, dict):
        raise ValueError("an object")
    return value


class ExecutionFrameworkSpec(Document):
    """What runs the job."""

    name: Text = Field(
        "standalone",
        description="standalone: processes of this machine. spark: `pinotpy spark`. Class names are accepted and "
        "ignored.",
    )
    segment_generation_job_runner_class_name: Text | None = Field(None, description="Accepted.")
    segment_tar_push_job_runner_class_name: Text | None = Field(None, description="Accepted.")
    segment_uri_push_job_runner_class_name: Text | None = Field(None, description="Accepted.")
    segment_metadata_push_job_runner_class_name: Text | None = Field(None, description="Accepted.")
    extra_configs: dict[str, Text] = Field(
        default_factory=dict, description="`stagingDir`: folder beside the output for unfinished files (Spark)."
    )


class PinotFSSpec(Document):
    """Settings of one file system."""

    scheme: Text = Field(description="file, s3, gs, abfs, hdfs, …")
    class_name: Text | None = Field(
        None,
        description="Pinot's class names are accepted, but the scheme decides; module:attribute names your own file "
        "system.",
    )
    configs: dict[str, Text] = Field(default_factory=dict, description="Settings of the file system, such as `region`.")


class TableSpec(Document):
    """The table that segments are for."""

    table_name: Text = Field(description="Name of the table, without its type.")
    schema_uri: Text | None = Field(
        None, alias="schemaURI", description="URI of the schema; default: ask the controller."
    )
    table_config_uri: Text | None = Field(
        None, alias="tableConfigURI", description="URI of the table config; default: ask the controller."
    )


class RecordReaderSpec(Document):
    """How input files are read."""

    data_format: Text | None = Field(
        None, description="csv, json, avro, parquet, orc; default: by each file's extension."
    )
    class_name: Text | None = Field(
        None, description="Pinot's reader class; gives the format if dataFormat is missing."
    )
    config_class_name: Text | None = Field(None, description="Accepted; the format decides.")
    configs: Annotated[dict[str, Any], BeforeValidator(_reader_settings)] = Field(
        default_factory=dict, description="Settings of the format's reader."
    )


class SegmentNameGeneratorSpec(Document):
    """How segments are called."""

    type: Text | None = Field(
        None,
        description="simple, normalizedDate, fixed or inputFile; default: derived from configs and the table's time "
        "column.",
    )
    configs: dict[str, Text] = Field(
        default_factory=dict,
        description="segment.name, segment.name.prefix, segment.name.postfix, exclude.sequence.id, …",
    )


class PinotClusterSpec(Document):
    """A cluster to push to."""

    controller_uri: Text = Field(alias="controllerURI", description="http(s)://host:port of a controller.")


class PushJobSpec(Document):
    """How segments are pushed."""

    push_attempts: WholeNumber = Field(1, ge=1, le=10_000, description="Attempts for each segment; 1 = no retry.")
    push_parallelism: WholeNumber = Field(1, ge=1, le=1_000, description="Segments pushed concurrently.")
    push_retry_interval_millis: WholeNumber = Field(
        1000,
        ge=0,
        le=86_400_000,
        description="Pause before the second attempt, in milliseconds; doubled for each further one.",
    )
    segment_uri_prefix: Text | None = Field(
        None, description="Prefix of a segment's path in the URI sent to the controller."
    )
    segment_uri_suffix: Text | None = Field(None, description="Suffix of it.")
    push_file_name_pattern: Text | None = Field(
        None, description="`glob:…` or `regex:…`: push only these archives of outputDirURI."
    )
    copy_to_deep_store_for_metadata_push: Truth = Field(
        False, description="Let the controller copy segments of a metadata push into its deep store."
    )
    batch_segment_upload: Truth = Field(False, description="Accepted.")
    prefer_metadata_tar_gz: Truth = Field(True, description="Accepted: metadata is read from the archives.")
    segment_metadata_generation_parallelism: WholeNumber = Field(
        1, ge=1, le=1_000, description="Accepted; pushParallelism applies."
    )


class TlsSpec(Document):
    """TLS towards the controller: PEM files (Pinot: Java key stores)."""

    key_store_type: Text | None = Field(None, description="PEM.")
    key_store_path: Text | None = Field(None, description="PEM file with the client's certificate and key.")
    key_store_password: Text | None = Field(
        None, description="Password of the key.", json_schema_extra={"secret": True}
    )
    trust_store_type: Text | None = Field(None, description="PEM.")
    trust_store_path: Text | None = Field(None, description="PEM file of the CA to trust.")
    trust_store_password: Text | None = Field(None, description="Accepted.", json_schema_extra={"secret": True})
    connect_timeout: WholeNumber | None = Field(None, description="Accepted; use pinotpy.pushTimeoutMs.")
    read_timeout: WholeNumber | None = Field(None, description="Accepted.")


def unknown_keys(model: type[BaseModel], raw: dict[str, Any], path: str) -> Iterator[Fault]:
    """A fault for each key that no field of the model (and of the models within) has, with the nearest one that there
    is.
    """
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    for key, value in raw.items():
        here = child_path(path, key)
        if key not in fields:
            near = get_close_matches(key, fields, 1, 0.7)
            hint = f"'{near[0]}' (did you mean that?)" if near else "one of " + ", ".join(fields)
            yield Fault(here, "an unknown key", hint)
            continue
        inner = _model_within(fields[key].annotation)
        if inner is not None and isinstance(value, dict):
            yield from unknown_keys(inner, value, here)
        elif inner is not None and isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, dict):
                    yield from unknown_keys(inner, item, f"{here}[{index}]")


def _model_within(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for inner in typing.get_args(annotation) if (model := _model_within(inner)) is not None), None)
