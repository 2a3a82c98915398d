"""Build segments of files (CSV, JSON lines, Avro, Parquet): one a file, ready for upload-segment."""

from __future__ import annotations

import json
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pinotpy.cli import options
from pinotpy.errors import UserError

if TYPE_CHECKING:
    from pinotpy.config.table import TableConfig
    from pinotpy.ingest.segment_names import SegmentNameGenerator

NAME = "create-segment"


class NameGenerator(StrEnum):
    """How segments are called."""

    SIMPLE = "simple"
    NORMALIZED_DATE = "normalized-date"
    FIXED = "fixed"


def run(
    data_dir: Annotated[Path, typer.Option("--data-dir", help="folder with data files, searched to its leaves, or one file")],
    schema_file: Annotated[Path, typer.Option("--schema-file", help="schema as JSON")],
    out_dir: Annotated[Path, typer.Option("--out-dir", help="where segments go, each as folder and as .tar.gz; made if missing")],
    file_format: Annotated[str | None, typer.Option("--format", help="csv, json, avro or parquet (default: what each file's name tells)")] = None,
    table_config_file: Annotated[Path | None, typer.Option("--table-config-file", help="table config as JSON: time column, indexes, encodings")] = None,
    table_name: Annotated[str | None, typer.Option("--table-name", help="table that they are for; must be the schema's name, as it is by default")] = None,
    reader_config_file: Annotated[Path | None, typer.Option("--reader-config-file", help="settings of the reader as JSON, e.g. the delimiter of CSV")] = None,
    name_generator: Annotated[
        NameGenerator | None,
        typer.Option("--name-generator", help="names of segments (default simple, or fixed with --segment-name)", show_default=False),
    ] = None,
    segment_name: Annotated[str | None, typer.Option("--segment-name", help="fixed: the name; normalized-date: its prefix")] = None,
    segment_name_postfix: Annotated[str | None, typer.Option("--segment-name-postfix", help="simple: put before the number of the file")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="replace segments of the same name in --out-dir")] = False,
    reject_share: Annotated[
        float | None,
        typer.Option("--reject-share", min=0.0, max=1.0, help="share of bad rows of a file that may be left out (default 0, or 1 with continueOnError)"),
    ] = None,
    as_json: options.Json = False,
) -> None:
    from pinotpy.cli.build_report import print_report, report_document
    from pinotpy.cli.documents import read_documents, read_object
    from pinotpy.ingest.batch import create_segments, find_input_files
    from pinotpy.ingest.readers.catalog import format_from_text
    from pinotpy.names import raw_table_name

    started = time.perf_counter()
    documents = read_documents(schema_file, table_config_file)
    documents.refuse()
    assert documents.schema is not None
    config = documents.table_config
    # A table has the name of its schema (which read_documents has checked for the table config).
    if table_name is not None and raw_table_name(table_name) != documents.schema.schema_name:
        raise UserError(f"--table-name is '{table_name}', the schema is '{documents.schema.schema_name}': expected the same, or no --table-name")
    names = _names(name_generator, segment_name, segment_name_postfix, config)
    reader_config = read_object(reader_config_file, "reader config") if reader_config_file is not None else None
    files = find_input_files(data_dir, format_from_text(file_format) if file_format is not None else None)
    with options.progress(as_json) as bar:
        sizes = [path.stat().st_size for path, _ in files]
        task = bar.add_task("building segments", total=sum(sizes) or 1)
        report = create_segments(
            files,
            documents.schema,
            config,
            out_dir,
            name_generator=names,
            reader_config=reader_config,
            reject_share_max=reject_share,
            overwrite=overwrite,
            progress=lambda at: bar.update(
                task, completed=sum(sizes[: at.file_index]) + at.bytes_done, description=f"building segments, file {at.file_index + 1} of {at.num_files}"
            ),
        )
        bar.update(task, completed=sum(sizes) or 1)
    took_s = time.perf_counter() - started
    if as_json:
        typer.echo(json.dumps(report_document(report, took_s), indent=2, ensure_ascii=False))
    else:
        print_report(report, took_s)
    if not report.segments:
        raise UserError(f"no segment was built: the {len(files)} input files hold no row to index")


def _names(kind: NameGenerator | None, name: str | None, postfix: str | None, config: TableConfig | None) -> SegmentNameGenerator:
    from pinotpy.ingest.segment_names import FixedName, NormalizedDateNames, SimpleNames

    kind = kind or (NameGenerator.FIXED if name is not None else NameGenerator.SIMPLE)
    if postfix is not None and kind is not NameGenerator.SIMPLE:
        raise UserError(f"--segment-name-postfix belongs to simple names, found with --name-generator {kind}")
    match kind:
        case NameGenerator.SIMPLE:
            if name is not None:
                raise UserError("simple names are made of table, times and number: leave out --segment-name, or ask for --name-generator fixed")
            return SimpleNames(postfix)
        case NameGenerator.FIXED:
            if name is None:
                raise UserError("--name-generator fixed needs --segment-name")
            return FixedName(name)
        case NameGenerator.NORMALIZED_DATE:
            append, frequency = (config.segments.is_append, config.segments.segment_push_frequency) if config is not None else (True, None)
            batch = config.ingestion.batch_ingestion_config if config is not None and config.ingestion is not None else None
            if batch is not None:
                # The newer place of both settings; it wins where both are filled, as in Pinot's IngestionConfigUtils.
                append = batch.segment_ingestion_type.value == "APPEND" if batch.segment_ingestion_type is not None else append
                frequency = batch.segment_ingestion_frequency or frequency
            return NormalizedDateNames(name, append, frequency)
