"""Load files (CSV, TSV, JSON, Parquet, Avro, ORC) into a table, from looking into them to the first answer."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from pinotpy.cli.guess_options import GuessOptions, guess_options
from pinotpy.cli.option_groups import ControllerOptions, controller_options, takes
from pinotpy.errors import UserError

NAME = "load"


@takes(controller_options)
@takes(guess_options)
def run(
    guessing: GuessOptions,
    common: ControllerOptions,
    files: Annotated[list[str], typer.Argument(help="files or URIs; - is standard input", metavar="FILE|URI...")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="show what would be done; nothing is sent")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="with --dry-run: folder for schema.json and table.json")
    ] = None,
    missing_columns: Annotated[
        str | None,
        typer.Option("--missing-columns", help="DEFAULT: a file may lack columns of the table, its rows have no value"),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="add rows once more that were loaded from the same content")
    ] = False,
    replication: Annotated[int, typer.Option("--replication", min=1, help="replicas of a new table's segments")] = 1,
    broker_url: Annotated[
        str | None,
        typer.Option("--broker-url", help="broker of the first query (default: one that the controller names)"),
    ] = None,
    timeout_s: Annotated[float, typer.Option("--timeout-s", help="how long to wait until the rows are served")] = 120.0,
) -> None:
    from pinotpy.cli.file_patterns import expanded
    from pinotpy.ingest.jobs.spare_workers import spare_workers

    files = expanded(files)
    with spare_workers(files):  # they start while this process does
        from pinotpy.cli import loading, options
        from pinotpy.cli.job_running import ends_on_sigterm
        from pinotpy.cli.load_showing import show_dry_run, show_loaded, write_documents

        if out is not None and not dry_run:
            raise UserError("--out needs --dry-run: it is the folder of its documents")
        if missing_columns not in (None, "DEFAULT", "FAIL"):
            raise UserError(f"--missing-columns is FAIL or DEFAULT, found '{missing_columns}'")
        request = loading.LoadRequest(
            files,
            guessing.table or loading.table_name_of(files[0]),
            guessing.wishes,
            missing_columns == "DEFAULT",
            guessing.reject_share,
            replication,
            again,
        )
        with tempfile.TemporaryDirectory(prefix="pinotpy-load-") as scratch, ends_on_sigterm():
            work_dir = Path(scratch)
            request = replace(request, files=loading.with_streams_kept(files, work_dir))
            if dry_run:
                with options.progress(common.as_json) as bar:
                    readings = loading.build(request, work_dir, None, loading.told_by(bar))
                if out is not None:
                    write_documents(out, readings[0])
                document = show_dry_run(readings, request.table, out, common.as_json)
            else:
                with common.client() as client:
                    with options.progress(common.as_json) as bar:
                        loaded = loading.build_and_load(
                            client,
                            request,
                            common.access(),
                            work_dir,
                            broker_url=broker_url,
                            timeout_s=timeout_s,
                            tell=loading.told_by(bar),
                        )
                    broker = broker_url or loading.broker_of(client, request.table)
                document = show_loaded(loaded, request.table, broker, common.as_json)
        if common.as_json:
            typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
