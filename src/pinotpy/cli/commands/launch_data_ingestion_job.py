"""Run an ingestion job: build segments from files, push them, or both, as its spec says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from pinotpy.cli import options
from pinotpy.errors import UserError

NAME = "launch-data-ingestion-job"


def run(
    job_spec_file: Annotated[
        str | None,
        typer.Option(
            "--job-spec-file", help="job spec as YAML or JSON, or job properties (*.properties); a path or a URI"
        ),
    ] = None,
    values: Annotated[
        list[str] | None, typer.Option("--values", help="name=value for ${name} in the spec; may be repeated")
    ] = None,
    property_file: Annotated[
        Path | None,
        typer.Option("--property-file", help="values as properties; the environment and --values take precedence"),
    ] = None,
    example: Annotated[
        bool, typer.Option("--example", help="print an example spec with all common keys, and exit")
    ] = False,
    missing_columns: options.MissingColumns = None,
    as_json: options.Json = False,
) -> None:
    from pinotpy.cli.job_running import run_and_report
    from pinotpy.clock import SystemClock
    from pinotpy.config.properties import parse_properties
    from pinotpy.ingest.jobs.example import EXAMPLE
    from pinotpy.ingest.jobs.run import run_job
    from pinotpy.ingest.jobs.spec_file import read_spec_file, read_text
    from pinotpy.ingest.jobs.templates import default_values, parse_values

    if example:
        typer.echo(EXAMPLE, nl=False)
        return
    if job_spec_file is None:
        raise UserError("--job-spec-file is missing: name a job spec, or print an example with --example")
    given = default_values(SystemClock().now_ms())
    if property_file is not None:
        given |= parse_properties(read_text(str(property_file)), f"'{property_file}'")
    given |= os.environ
    given |= parse_values(values or [])
    spec = read_spec_file(job_spec_file, given).with_missing_columns(missing_columns)
    framework = spec.execution_framework_spec.name
    if framework.lower() != "standalone":
        typer.echo(
            f"executionFrameworkSpec.name is '{framework}': this command works on this machine alone, `pinotpy spark` "
            "on Spark",
            err=True,
        )
    run_and_report(lambda progress: run_job(spec, progress=progress), as_json=as_json)
