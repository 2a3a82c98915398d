"""What every unit of a job needs, as one value that travels as JSON: the spec, the schema, the table config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pinotpy.config.document import refuse
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import Fault
from pinotpy.fs.settings import FileSystemSettings
from pinotpy.ingest.jobs.segment_naming import segment_name_generator
from pinotpy.ingest.jobs.spec import IngestionJobSpec
from pinotpy.ingest.pipeline import RowPipeline
from pinotpy.ingest.row_groups import RowGroups, row_groups
from pinotpy.ingest.segment_names import FixedName, InputFileNames, SegmentNameGenerator
from pinotpy.segment.build.indexing import resolve_indexing


@dataclass(frozen=True)
class JobContext:
    """One job. What is derived is made once, where it is used."""

    spec: IngestionJobSpec
    schema: Schema
    table_config: TableConfig | None

    @cached_property
    def file_systems(self) -> FileSystemSettings:
        return file_system_settings(self.spec)

    @cached_property
    def pipeline(self) -> RowPipeline:
        ours = self.spec.pinotpy
        return RowPipeline(
            self.schema, self.table_config, reject_share_max=ours.reject_share_max, missing_columns=ours.missing_columns
        )

    @cached_property
    def names(self) -> SegmentNameGenerator:
        return segment_name_generator(self.spec.segment_name_generator_spec, self.schema, self.table_config)

    @cached_property
    def groups(self) -> RowGroups:
        ours = self.spec.pinotpy
        return row_groups(self.schema, self.table_config, partitioned=ours.repartition, bucket=ours.time_bucket)

    @cached_property
    def regroups(self) -> bool:
        """Whether rows leave their files: then segments are made of groups of rows, else of files."""
        ours = self.spec.pinotpy
        return bool(ours.repartition or ours.time_bucket is not None or ours.rows_per_segment or ours.bytes_per_segment)

    @cached_property
    def sort_columns(self) -> tuple[str, ...]:
        """Columns by which a segment's rows are sorted: the job's, else the table's sortedColumn."""
        ours = self.spec.pinotpy
        if ours.keep_input_order:
            return ()
        return ours.sort_columns or (
            tuple(self.table_config.indexing.sorted_column) if self.table_config is not None else ()
        )

    @cached_property
    def dictionary_columns(self) -> frozenset[str]:
        return frozenset(
            name for name, indexing in resolve_indexing(self.schema, self.table_config).items() if indexing.dictionary
        )

    @property
    def table_name(self) -> str:
        return self.schema.schema_name

    def check(self) -> None:
        """Refuse before the first byte is read what no unit could do.

        Raises:
            InvalidConfigError, UserError: expressions, names, groups or sort columns that table and schema do not
                allow.
        """
        _ = self.pipeline, self.groups, self.dictionary_columns
        faults = []
        for index, name in enumerate(self.sort_columns):
            spec = self.schema.field_specs.get(name)
            if spec is None or not spec.single_value:
                faults.append(
                    Fault(
                        f"$.pinotpy.sortColumns[{index}]",
                        f"'{name}'",
                        f"single-valued columns of schema '{self.schema.schema_name}'",
                    )
                )
        if self.regroups and isinstance(self.names, InputFileNames | FixedName):
            faults.append(
                Fault(
                    "$.segmentNameGeneratorSpec.type",
                    "names of files beside rows that leave their files",
                    "simple or normalizedDate names with pinotpy's regrouping",
                )
            )
        refuse("ingestion job spec", faults)

    def to_json_dict(self) -> dict[str, Any]:
        """Plain JSON, with the secrets of the spec."""
        config = self.table_config.to_json_dict() if self.table_config is not None else None
        return {"spec": self.spec.to_json_dict(), "schema": self.schema.to_json_dict(), "tableConfig": config}

    @staticmethod
    def from_json_dict(plain: Mapping[str, Any]) -> JobContext:
        config = plain["tableConfig"]
        return JobContext(
            IngestionJobSpec.from_json(plain["spec"]),
            Schema.from_json(plain["schema"], is_stored=True),
            TableConfig.from_json(config, is_stored=True) if config is not None else None,
        )


def open_context(spec: IngestionJobSpec) -> JobContext:
    """The context of a job: its table's documents are read and everything is checked that can be without input."""
    # Workers get their documents from us: they need no client of the controller.
    from pinotpy.ingest.jobs.table_documents import read_table_documents

    context = JobContext(spec, *read_table_documents(spec, file_system_settings(spec)))
    context.check()
    return context


def file_system_settings(spec: IngestionJobSpec) -> FileSystemSettings:
    """`pinotFSSpecs` for the file door."""
    return FileSystemSettings.from_specs(
        [
            {"scheme": file_system.scheme, "className": file_system.class_name or "", "configs": file_system.configs}
            for file_system in spec.pinot_fs_specs
        ]
    )
