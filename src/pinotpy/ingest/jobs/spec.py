"""The ingestion job spec: which files become which segments, and where they go.

One model for Pinot's YAML job spec, the properties of its older jobs (`properties_spec`), the command line and Spark.
Keys and meanings are Pinot's (configuration reference, "Ingestion Job Spec"); what pinotpy adds stands in one block,
`pinotpy`.
`read_job_spec` reports every fault with its path, also unknown keys: a misspelt key of a job would change what it does
silently.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from pinotpy.config.document import (
    Document,
    Number,
    Text,
    Truth,
    WholeNumber,
    collect,
    describe,
    named,
    refuse,
    to_plain,
)
from pinotpy.config.ingestion import MissingColumns
from pinotpy.errors import MISSING, Fault, UserError
from pinotpy.ingest.jobs.job_parts import (
    ExecutionFrameworkSpec,
    PinotClusterSpec,
    PinotFSSpec,
    PushJobSpec,
    RecordReaderSpec,
    SegmentNameGeneratorSpec,
    TableSpec,
    TlsSpec,
    unknown_keys,
)
from pinotpy.ingest.jobs.places import lies_below
from pinotpy.ingest.jobs.templates import fill_templates
from pinotpy.ingest.jobs.yaml_text import parse_yaml
from pinotpy.ingest.time_buckets import Bucket

WHAT: Final = "ingestion job spec"
_SECRET: Final = "********"
_SECRET_KEY: Final = re.compile(r"(token|password|secret|credential|key)s?$", re.IGNORECASE)


class JobType(StrEnum):
    """What a job does: build segments, push them (as archives, as URIs, as metadata with URI), or both."""

    SEGMENT_CREATION = "SegmentCreation"
    SEGMENT_TAR_PUSH = "SegmentTarPush"
    SEGMENT_URI_PUSH = "SegmentUriPush"
    SEGMENT_METADATA_PUSH = "SegmentMetadataPush"
    SEGMENT_CREATION_AND_TAR_PUSH = "SegmentCreationAndTarPush"
    SEGMENT_CREATION_AND_URI_PUSH = "SegmentCreationAndUriPush"
    SEGMENT_CREATION_AND_METADATA_PUSH = "SegmentCreationAndMetadataPush"

    @property
    def creates(self) -> bool:
        return self.value.startswith("SegmentCreation")

    @property
    def push_mode(self) -> PushMode | None:
        """How segments are pushed, or None for jobs that only build."""
        return next((mode for mode in PushMode if self.value.endswith(f"{mode.value}Push")), None)


class PushMode(StrEnum):
    """TAR: the archive is sent. URI: its place is sent. METADATA: its place and its metadata are sent."""

    TAR = "Tar"
    URI = "Uri"
    METADATA = "Metadata"


class FileErrors(StrEnum):
    """What becomes of a job when an input file cannot be read, or has more bad rows than allowed."""

    FAIL = "FAIL"
    SKIP = "SKIP"


class ConsistentPush(StrEnum):
    """What a push replaces at once, by segment lineage."""

    NONE = "NONE"
    TABLE = "TABLE"
    TIME_RANGE = "TIME_RANGE"


def _bucket(value: Any) -> Any:
    if isinstance(value, Bucket) or value is None:
        return value
    text = value.strip().upper() if isinstance(value, str) else ""
    for bucket in Bucket:
        if text in (bucket.name, bucket.value.upper()):
            return bucket
    raise ValueError("one of " + ", ".join(Bucket.__members__))


def _names(value: Any) -> Any:
    """A list; texts are split at commas, as properties write lists."""
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value


class JobAdditions(Document):
    """What pinotpy adds to Pinot's job spec."""

    sort_columns: Annotated[tuple[Text, ...], BeforeValidator(_names)] = Field(
        (),
        description="Rows of a segment are sorted by these, then by input file and position. Default: the table's "
        "sortedColumn.",
    )
    keep_input_order: Truth = Field(
        False,
        description="Do not sort, even if the table has a sortedColumn: rows keep the order of files and positions.",
    )
    repartition: Truth = Field(
        False,
        description="Partition rows by the table's segmentPartitionConfig, so that each segment has one partition.",
    )
    time_bucket: Annotated[Bucket | None, BeforeValidator(_bucket)] = Field(
        None, description="HOUR, DAY, MONTH or YEAR of the time column, in UTC: a segment has rows of only one bucket."
    )
    rows_per_segment: WholeNumber | None = Field(
        None, ge=1, description="Split larger inputs and combine smaller ones into segments of about this size."
    )
    bytes_per_segment: WholeNumber | None = Field(
        None, ge=1, description="The same, measured in bytes of rows in memory."
    )
    memory_bytes_max: WholeNumber = Field(
        1 << 30,
        ge=1 << 20,
        description="Bytes of rows that one process holds before it writes them to its working folder.",
    )
    working_dir: Text | None = Field(
        None, description="Local folder for unfinished files; default: the system's temporary folder."
    )
    reject_share_max: Number | None = Field(
        None,
        ge=0,
        le=1,
        description="Largest share of bad rows of an input file; default: 0, or 1 with the table's continueOnError.",
    )
    reject_file_uri: Text | None = Field(
        None,
        alias="rejectFileURI",
        description="Folder for rejected rows with their causes, one file per work item.",
    )
    on_file_error: Annotated[FileErrors, named(FileErrors)] = Field(
        FileErrors.FAIL,
        description="FAIL: an unreadable file fails the job. SKIP: the others are built, "
        "the job reports it and exits with status 1.",
    )
    missing_columns: Annotated[MissingColumns, named(MissingColumns)] | None = Field(
        None,
        description="FAIL, WARN or DEFAULT: how to treat files that lack a column of the schema. "
        "Default: the table's setting, or FAIL.",
    )
    keep_folders: Truth = Field(
        False, description="Leave each segment as a folder beside its archive (local output only)."
    )
    consistent_push: Annotated[ConsistentPush, named(ConsistentPush)] | None = Field(
        None,
        description="NONE, TABLE or TIME_RANGE: what a push replaces atomically. Default: TABLE if the table has "
        "consistentDataPush.",
    )
    allow_duplicates: Truth = Field(
        False,
        description="Also push rows of input files that are, or may be, in other segments of the table; nothing is "
        "replaced.",
    )
    adopt: Truth = Field(
        False,
        description="Segments of the table without a list of input files get the list of a pushed segment "
        "with the same time range and number of rows, which is not sent.",
    )
    push_timeout_ms: WholeNumber = Field(
        600_000, ge=1, le=86_400_000, description="Timeout for pushing one segment, in milliseconds."
    )
    source_table: Text | None = Field(None, description="Spark only: a table of its catalog instead of inputDirURI.")
    source_query: Text | None = Field(
        None, description="Spark only: SQL text whose rows are the input, instead of inputDirURI."
    )
    source_options: dict[str, Text] = Field(default_factory=dict, description="Spark only: options of its reader.")


class IngestionJobSpec(Document):
    """A batch ingestion job. Build it with `read_job_spec` or `from_json`, which check."""

    execution_framework_spec: ExecutionFrameworkSpec = Field(
        default_factory=partial(ExecutionFrameworkSpec.model_validate, {}), description="What runs the job."
    )
    job_type: Annotated[JobType, named(JobType)] = Field(
        description="SegmentCreation, Segment…Push or SegmentCreationAnd…Push."
    )
    input_dir_uri: Text | None = Field(
        None, alias="inputDirURI", description="Folder (or file) of the input, by path or URI."
    )
    search_recursively: Truth = Field(True, description="Also look for input in subfolders of inputDirURI.")
    include_file_name_pattern: Text | None = Field(
        None, description="`glob:…` or `regex:…`: only these files. Default: the format's extensions."
    )
    exclude_file_name_pattern: Text | None = Field(None, description="`glob:…` or `regex:…`: not these files.")
    output_dir_uri: Text | None = Field(
        None,
        alias="outputDirURI",
        description="Folder of the segments' archives, by path or URI; also the input of pushes.",
    )
    overwrite_output: Truth = Field(False, description="Replace archives of the same name instead of refusing.")
    create_metadata_tar_gz: Truth = Field(
        False, description="Accepted: a push reads only the metadata at the front of an archive."
    )
    segment_creation_job_parallelism: WholeNumber = Field(
        0, ge=0, le=10_000, description="Work items built concurrently; 0 = one per core (Spark: tasks)."
    )
    pinot_fs_specs: tuple[PinotFSSpec, ...] = Field(
        (), alias="pinotFSSpecs", description="Settings of file systems, by scheme."
    )
    table_spec: TableSpec = Field(description="The table.")
    record_reader_spec: RecordReaderSpec = Field(
        default_factory=partial(RecordReaderSpec.model_validate, {}), description="Format of the input."
    )
    segment_name_generator_spec: SegmentNameGeneratorSpec = Field(
        default_factory=partial(SegmentNameGeneratorSpec.model_validate, {}), description="Names of segments."
    )
    pinot_cluster_specs: tuple[PinotClusterSpec, ...] = Field((), description="Controllers to push to.")
    push_job_spec: PushJobSpec = Field(
        default_factory=partial(PushJobSpec.model_validate, {}), description="How segments are pushed."
    )
    clean_up_output_dir: Truth = Field(False, description="Delete the archives once all are pushed.")
    fail_on_empty_segment: Truth = Field(
        False, description="Fail if an input has no row to index; otherwise no segment is built from it."
    )
    tls_spec: TlsSpec | None = Field(None, description="TLS settings for the controller.")
    auth_token: Text | None = Field(
        None,
        description="Authorization for the controller: `Basic …`, `Bearer …`, or just a token.",
        json_schema_extra={"secret": True},
    )
    pinotpy: JobAdditions = Field(
        default_factory=partial(JobAdditions.model_validate, {}), description="Additional settings of pinotpy."
    )

    @classmethod
    def from_json(cls, document: str | bytes | Mapping[str, Any]) -> IngestionJobSpec:
        """A spec from its own JSON form (`to_json_dict`). Raises InvalidConfigError with every fault."""
        return _checked(
            parse_yaml(document, WHAT) if isinstance(document, str | bytes) else json.loads(json.dumps(document)), []
        )

    def with_missing_columns(self, text: str | None) -> IngestionJobSpec:
        """The spec with `pinotpy.missingColumns` as a command's option says, in any case; None: as it is."""
        if text is None:
            return self
        if text.upper() not in MissingColumns.__members__:
            raise UserError(f"--missing-columns '{text[:40]}': expected one of {', '.join(MissingColumns)}")
        return self.model_copy(
            update={"pinotpy": self.pinotpy.model_copy(update={"missing_columns": MissingColumns[text.upper()]})}
        )

    def to_json_dict(self, *, with_secrets: bool = True) -> dict[str, Any]:
        """Plain JSON that `from_json` reads; without secrets for logs and reports."""
        plain = to_plain(self)
        return plain if with_secrets else masked(plain)


def read_job_spec(text: str | bytes, values: Mapping[str, str] | None = None) -> IngestionJobSpec:
    """Read a job spec from YAML or JSON text; `${name}` stands for `values[name]`.

    Raises:
        InvalidConfigError: the document has faults; `faults` lists each with path, what was found, what is allowed.
    """
    faults: list[Fault] = []
    return _checked(fill_templates(parse_yaml(text, WHAT), values or {}, faults), faults)


def _checked(raw: Any, faults: list[Fault]) -> IngestionJobSpec:
    raw = _without_nulls(raw)
    spec = collect(IngestionJobSpec, raw, "$", faults)
    if isinstance(raw, dict):
        faults.extend(unknown_keys(IngestionJobSpec, raw, "$"))
    if spec is not None:
        faults.extend(_faults_of(spec))
    refuse(WHAT, faults)
    assert spec is not None
    return spec


def _faults_of(spec: IngestionJobSpec) -> Iterator[Fault]:
    """What no field can check alone."""
    sources = [name for name in ("source_table", "source_query") if getattr(spec.pinotpy, name)]
    if spec.job_type.creates and spec.input_dir_uri is None and not sources:
        yield Fault("$.inputDirURI", MISSING, f"the folder of the input: {spec.job_type} reads files")
    if spec.job_type.creates and len(sources) + (spec.input_dir_uri is not None) > 1:
        yield Fault("$.inputDirURI", f"an input beside {' and '.join(sources)}", "one input")
    if spec.output_dir_uri is None:
        yield Fault("$.outputDirURI", MISSING, "the folder of the segments' archives")
    if spec.job_type.push_mode is not None and not spec.pinot_cluster_specs:
        yield Fault("$.pinotClusterSpecs", MISSING, f"the controllers to push to: {spec.job_type} pushes segments")
    if spec.clean_up_output_dir and spec.job_type.push_mode is not PushMode.TAR:
        yield Fault(
            "$.cleanUpOutputDir",
            "true",
            f"false, or a job that sends archives: after {spec.job_type} servers or the next job read what lies there",
        )
    if not spec.pinot_cluster_specs and spec.job_type.creates and (spec.table_spec.schema_uri is None):
        yield Fault(
            "$.tableSpec.schemaURI",
            MISSING,
            "the place of the schema, or pinotClusterSpecs to ask the controller for it",
        )
    rejects = spec.pinotpy.reject_file_uri
    if rejects is not None and spec.input_dir_uri is not None and _lies_within(rejects, spec.input_dir_uri):
        yield Fault(
            "$.pinotpy.rejectFileURI",
            describe(rejects),
            "a folder outside of inputDirURI: the next run would read what this one rejects",
        )
    schemes: set[str] = set()
    for index, file_system in enumerate(spec.pinot_fs_specs):
        if file_system.scheme.lower() in schemes:
            yield Fault(f"$.pinotFSSpecs[{index}].scheme", describe(file_system.scheme), "each scheme once")
        schemes.add(file_system.scheme.lower())


def _lies_within(uri: str, folder: str) -> bool:
    try:
        return lies_below(f"{uri.rstrip('/')}/x", folder)
    except UserError:
        return False  # no URI: told where it is used


def _without_nulls(value: Any) -> Any:
    """Keys without value are as if they were not there."""
    match value:
        case dict():
            return {key: _without_nulls(item) for key, item in value.items() if item is not None}
        case list():
            return [_without_nulls(item) for item in value]
    return value


def masked(plain: Any, key: str = "") -> Any:
    """A copy in which tokens, passwords and keys of file systems are asterisks."""
    match plain:
        case dict():
            return {name: masked(item, name) for name, item in plain.items()}
        case list():
            return [masked(item, key) for item in plain]
    return _SECRET if plain and _SECRET_KEY.search(key) else plain
