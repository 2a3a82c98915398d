"""Run an ingestion job: build segments of files, push them, or both, as its spec says."""

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
        str | None, typer.Option("--job-spec-file", help="job spec as YAML or JSON, or job properties (*.properties); a path or a URI")
    ] = None,
    values: Annotated[list[str] | None, typer.Option("--values", help="name=value for ${name} in the spec; may be repeated")] = None,
    property_file: Annotated[Path | None, typer.Option("--property-file", help="values as properties; the environment and --values win")] = None,
    example: Annotated[bool, typer.Option("--example", help="print a spec with all common keys to begin with, and end")] = False,
    as_json: options.Json = False,
) -> None:
    from pinotpy.cli.job_running import run_and_report
    from pinotpy.clock import SystemClock
    from pinotpy.config.properties import parse_properties
    from pinotpy.ingest.jobs.example import EXAMPLE
    from pinotpy.ingest.jobs.properties_spec import read_properties_spec
    from pinotpy.ingest.jobs.run import run_job
    from pinotpy.ingest.jobs.spec import read_job_spec
    from pinotpy.ingest.jobs.templates import default_values, parse_values

    if example:
        typer.echo(EXAMPLE, nl=False)
        return
    if job_spec_file is None:
        raise UserError("--job-spec-file is missing: name the job's spec, or ask for one to begin with by --example")
    given = default_values(SystemClock().now_ms())
    if property_file is not None:
        given |= parse_properties(_text(str(property_file)), f"'{property_file}'")
    given |= os.environ
    given |= parse_values(values or [])
    read = read_properties_spec if job_spec_file.endswith(".properties") else read_job_spec
    spec = read(_text(job_spec_file), given)
    framework = spec.execution_framework_spec.name
    if framework.lower() != "standalone":
        typer.echo(f"executionFrameworkSpec.name is '{framework}': this command works on this machine alone, `pinotpy spark` on Spark", err=True)
    run_and_report(lambda progress: run_job(spec, progress=progress), as_json=as_json)


def _text(uri: str) -> str:
    """A text of any file system that needs no settings; the settings of the others stand in the spec itself."""
    from pinotpy.fs.file_systems import file_system_for
    from pinotpy.fs.uris import masked
    from pinotpy.ingest.jobs.yaml_text import TEXT_BYTES_MAX

    with file_system_for(uri).open(uri) as stream:
        text = stream.read(TEXT_BYTES_MAX + 1)
    if len(text) > TEXT_BYTES_MAX:
        raise UserError(f"'{masked(uri)}' has more than {TEXT_BYTES_MAX} bytes: expected a job spec or properties")
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"'{masked(uri)}' is no UTF-8 text: byte 0x{text[error.start]:02x} at {error.start}") from error
