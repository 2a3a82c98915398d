"""Build segments from files (CSV, TSV, JSON lines, Avro, Parquet, ORC), one per file, ready for upload-segment."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pinotpy.cli import options
from pinotpy.errors import UserError

if TYPE_CHECKING:
    from pinotpy.ingest.jobs.input_files import InputEntry

NAME = "create-segment"


class NameGenerator(StrEnum):
    """How segments are named."""

    SIMPLE = "simple"
    NORMALIZED_DATE = "normalized-date"
    FIXED = "fixed"
    INPUT_FILE = "input-file"


def run(
    data_dir: Annotated[
        Path, typer.Option("--data-dir", help="folder with data files, searched recursively, or one file")
    ],
    schema_file: Annotated[Path, typer.Option("--schema-file", help="schema as JSON")],
    out_dir: Annotated[
        Path, typer.Option("--out-dir", help="output folder: each segment as folder and as .tar.gz; created if missing")
    ],
    file_format: Annotated[
        str | None,
        typer.Option("--format", help="csv, tsv, json, avro, parquet or orc (default: by file extension)"),
    ] = None,
    table_config_file: Annotated[
        Path | None, typer.Option("--table-config-file", help="table config as JSON: time column, indexes, encodings")
    ] = None,
    table_name: Annotated[
        str | None,
        typer.Option("--table-name", help="table of the segments; must equal the schema's name (the default)"),
    ] = None,
    reader_config_file: Annotated[
        Path | None,
        typer.Option("--reader-config-file", help="settings of the reader as JSON, e.g. the delimiter of CSV"),
    ] = None,
    name_generator: Annotated[
        NameGenerator | None,
        typer.Option(
            "--name-generator",
            help="names of segments (default simple, or fixed with --segment-name)",
            show_default=False,
        ),
    ] = None,
    segment_name: Annotated[
        str | None, typer.Option("--segment-name", help="fixed: the name; normalized-date: its prefix")
    ] = None,
    segment_name_postfix: Annotated[
        str | None, typer.Option("--segment-name-postfix", help="simple: inserted before the file's tag")
    ] = None,
    file_path_pattern: Annotated[
        str | None, typer.Option("--file-path-pattern", help=r"input-file: regular expression for the full path")
    ] = None,
    segment_name_template: Annotated[
        str | None,
        typer.Option(
            "--segment-name-template", help=r"input-file: the name, with ${filePathPattern:\N} for group N of the path"
        ),
    ] = None,
    exclude_sequence_id: Annotated[
        bool, typer.Option("--exclude-sequence-id", help="simple, normalized-date: omit the file's tag from the name")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="replace other segments of the same name in --out-dir")
    ] = False,
    reject_share: Annotated[
        float | None,
        typer.Option(
            "--reject-share",
            min=0.0,
            max=1.0,
            help="share of bad rows of a file that may be skipped (default 0, or 1 with continueOnError)",
        ),
    ] = None,
    reject_dir: Annotated[
        Path | None,
        typer.Option("--reject-dir", help="folder for rejected rows with their causes, one file per input file"),
    ] = None,
    skip_bad_files: Annotated[
        bool,
        typer.Option("--skip-bad-files", help="skip unreadable files and build the others; the exit status is still 1"),
    ] = False,
    missing_columns: options.MissingColumns = None,
    parallelism: Annotated[
        int, typer.Option("--parallelism", min=0, help="segments built concurrently; 0: one per core")
    ] = 0,
    as_json: options.Json = False,
) -> None:
    from pinotpy.cli.documents import read_documents, read_object
    from pinotpy.cli.job_running import run_and_report
    from pinotpy.ingest.batch import find_input_files
    from pinotpy.ingest.jobs.context import JobContext
    from pinotpy.ingest.jobs.input_files import refuse_links_to_one_file
    from pinotpy.ingest.jobs.run import build_segments
    from pinotpy.ingest.jobs.spec import IngestionJobSpec
    from pinotpy.ingest.readers.catalog import format_from_text
    from pinotpy.names import raw_table_name

    documents = read_documents(schema_file, table_config_file)
    documents.refuse()
    assert documents.schema is not None
    # A table has the name of its schema (which read_documents has checked for the table config).
    table = documents.schema.schema_name
    if table_name is not None and raw_table_name(table_name) != table:
        raise UserError(
            f"--table-name is '{table_name}', the schema is '{table}': expected the same, or no --table-name"
        )
    kind, configs = _names(
        name_generator,
        segment_name,
        segment_name_postfix,
        file_path_pattern,
        segment_name_template,
        exclude_sequence_id,
    )
    spec = IngestionJobSpec.from_json(
        {
            "jobType": "SegmentCreation",
            "inputDirURI": str(data_dir),
            "outputDirURI": str(out_dir),
            "overwriteOutput": overwrite,
            "segmentCreationJobParallelism": parallelism,
            "recordReaderSpec": {
                "configs": read_object(reader_config_file, "reader config") if reader_config_file is not None else {}
            },
            "tableSpec": {"tableName": table, "schemaURI": str(schema_file)},
            "segmentNameGeneratorSpec": {"type": kind, "configs": configs},
            "pinotpy": {
                "keepFolders": True,
                "rejectShareMax": reject_share,
                "rejectFileURI": str(reject_dir) if reject_dir is not None else None,
                "onFileError": "SKIP" if skip_bad_files else "FAIL",
            },
        }
    )
    spec = spec.with_missing_columns(missing_columns)
    files = find_input_files(data_dir, format_from_text(file_format) if file_format is not None else None)
    context = JobContext(spec, documents.schema, documents.table_config)
    context.check()
    inputs = [_entry(path, data_dir, str(detected)) for path, detected in files]
    refuse_links_to_one_file(inputs)
    run_and_report(lambda progress: build_segments(context, inputs, progress=progress), as_json=as_json)


def _entry(path: Path, data_dir: Path, file_format: str) -> InputEntry:
    """All segments lie in --out-dir itself, wherever their files lie."""
    from pinotpy.ingest.jobs.input_files import InputEntry

    status = path.stat()
    below = path.relative_to(data_dir).as_posix() if path != data_dir else path.name
    return InputEntry(str(path), below, file_format, status.st_size, status.st_mtime_ns // 1_000_000, folder="")


def _names(
    kind: NameGenerator | None,
    name: str | None,
    postfix: str | None,
    pattern: str | None,
    template: str | None,
    exclude_sequence_id: bool,
) -> tuple[str, dict[str, str]]:
    """Type and configs of a segmentNameGeneratorSpec."""
    kind = kind or (NameGenerator.FIXED if name is not None else NameGenerator.SIMPLE)
    if postfix is not None and kind is not NameGenerator.SIMPLE:
        raise UserError(f"--segment-name-postfix belongs to simple names, found with --name-generator {kind}")
    if (pattern is not None or template is not None) and kind is not NameGenerator.INPUT_FILE:
        raise UserError(
            f"--file-path-pattern and --segment-name-template belong to --name-generator input-file, found {kind}"
        )
    if exclude_sequence_id and kind in (NameGenerator.FIXED, NameGenerator.INPUT_FILE):
        raise UserError(
            f"--exclude-sequence-id belongs to simple and normalized-date names, found with --name-generator {kind}"
        )
    excluded = {"exclude.sequence.id": "true"} if exclude_sequence_id else {}
    match kind:
        case NameGenerator.SIMPLE:
            if name is not None:
                raise UserError(
                    "simple names are made of table, times and number: leave out --segment-name, or ask for "
                    "--name-generator fixed"
                )
            return "simple", excluded | ({"segment.name.postfix": postfix} if postfix is not None else {})
        case NameGenerator.FIXED:
            if name is None:
                raise UserError("--name-generator fixed needs --segment-name")
            return "fixed", {"segment.name": name}
        case NameGenerator.INPUT_FILE:
            if pattern is None or template is None or name is not None:
                raise UserError(
                    "--name-generator input-file needs --file-path-pattern and --segment-name-template, and no "
                    "--segment-name"
                )
            return "inputFile", {"file.path.pattern": pattern, "segment.name.template": template}
        case NameGenerator.NORMALIZED_DATE:
            return "normalizedDate", excluded | ({"segment.name.prefix": name} if name is not None else {})
