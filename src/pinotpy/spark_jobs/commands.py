"""The commands of Spark jobs: `pinotpy spark …` and the scripts for `spark-submit` do the same by these."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pinotpy.clock import SystemClock
from pinotpy.errors import PinotError
from pinotpy.ingest.jobs.context import open_context
from pinotpy.ingest.jobs.fault_lines import failed_units, rejected_rows
from pinotpy.ingest.jobs.report import JobReport
from pinotpy.ingest.jobs.spec import IngestionJobSpec
from pinotpy.ingest.jobs.spec_file import read_spec_file
from pinotpy.ingest.jobs.templates import default_values, parse_values
from pinotpy.spark_jobs.build import build_segments
from pinotpy.spark_jobs.push import push_on_spark
from pinotpy.spark_jobs.session import SparkSettings, attempts_of, spark_session
from pinotpy.spark_jobs.source_rows import reads_by_spark
from pinotpy.spark_jobs.steps import JOB_HELP, Step
from pinotpy.spark_jobs.watching import ShowProgress, no_progress

_LINES_MAX: Final = 60
_CAUSES_SHOWN: Final = 3
_COUNTS: Final = (
    ("num_rows_read", "rows read"),
    ("num_rows_indexed", "indexed"),
    ("num_rows_rejected", "rejected"),
    ("num_rows_filtered", "filtered"),
)


def main_of_script(step: Step, arguments: Sequence[str] | None = None) -> None:
    """A script for spark-submit: `spark-submit build_segments.py job.yaml [--values name=value …] [--json]`. Ends with
    SystemExit.
    """
    parser = argparse.ArgumentParser(description=f"pinotpy: {step.value} of an ingestion job, on Spark")
    parser.add_argument("job", help=JOB_HELP)
    parser.add_argument(
        "--values",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="value of ${NAME} in the job; may be repeated",
    )
    parser.add_argument("--timeout-s", type=float, default=None, help="cancel the job after so many seconds")
    parser.add_argument(
        "--missing-columns",
        default=None,
        help="FAIL, WARN or DEFAULT: what becomes of files that lack a column of the schema",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parsed = parser.parse_args(arguments)
    if parsed.json:
        _keep_output_for_json()
    try:
        report = run_step(
            step,
            parsed.job,
            parsed.values,
            SparkSettings(timeout_s=parsed.timeout_s),
            missing_columns=parsed.missing_columns,
        )
    except PinotError as error:
        print(f"pinotpy: {error.message}", file=sys.stderr)
        sys.exit(1)
    print(json.dumps(report.to_json_dict(), indent=2, ensure_ascii=False) if parsed.json else summary(report))
    sys.exit(1 if report.error is not None or report.num_failures else 0)


def _keep_output_for_json() -> None:
    """spark-submit prints what its Python says on standard error, such as warnings, to standard output: send that to
    its own standard error, so that the JSON stands alone.
    """
    if "PYSPARK_GATEWAY_PORT" not in os.environ or os.fstat(1).st_ino != os.fstat(2).st_ino:
        return
    try:
        errors = os.open(f"/proc/{os.getppid()}/fd/2", os.O_WRONLY | os.O_APPEND)
    except OSError:  # no /proc, a socket, another user's process: errors stay to be seen, warnings do not
        warnings.simplefilter("ignore")
        return
    os.dup2(errors, 2)
    os.close(errors)


def run_step(
    step: Step,
    job: str,
    values: Sequence[str],
    settings: SparkSettings,
    show: ShowProgress = no_progress,
    *,
    missing_columns: str | None = None,
) -> JobReport:
    """Do a step of a job on Spark; `missing_columns`: instead of what the job says.

    Raises:
        PinotError: nothing was done, or Spark failed; what went wrong in the job itself stands in the report.
    """
    started = time.perf_counter()
    spec = read_spec(job, values).with_missing_columns(missing_columns)
    report = JobReport(spec.job_type.value, spec.table_spec.table_name, spec.output_dir_uri or "")
    builds = step is Step.BUILD or (step is Step.RUN and spec.job_type.creates)
    pushes = step is Step.PUSH or (step is Step.RUN and spec.job_type.push_mode is not None)
    # Before a JVM is started, what needs none is read and checked.
    context = open_context(spec) if builds else None
    settings = replace(settings, runs_spark_code=reads_by_spark(spec))
    with spark_session(settings, f"pinotpy {step.value} {spec.table_spec.table_name}") as spark:
        if context is not None:
            report = build_segments(spark, context, attempts_of(spark), show)
        if pushes and report.error is None:
            try:
                report = push_on_spark(spark, spec, report, show)
            except PinotError as error:
                if not builds:
                    raise
                # What was built stays, and the report says so.
                report = replace(report, error=f"built, not pushed: {error.message}")
    return replace(report, took_ms=round((time.perf_counter() - started) * 1000))


def read_spec(job: str, values: Sequence[str]) -> IngestionJobSpec:
    """A job spec or job properties, from a path or a URI; told apart by the ending of the name."""
    given = default_values(SystemClock().now_ms())
    given |= os.environ  # secrets come by it: a command line can be read by others
    given |= parse_values(list(values))
    return read_spec_file(job, given)


def summary(report: JobReport) -> str:
    """A report in a few lines."""
    archive_bytes = sum(segment.archive_size_bytes for segment in report.segments)
    lines = [f"  not built of {names}: {cause}" for names, cause in failed_units(report)]
    lines += [f"  {cause}" for cause in rejected_rows(report.files)[:_CAUSES_SHOWN]]
    more = [f"  … and {len(lines) - _LINES_MAX} more"] if len(lines) > _LINES_MAX else []
    counts = ", ".join(f"{report.total(name):,} {word}" for name, word in _COUNTS)
    built = f"{counts}; {len(report.segments):,} segments, {archive_bytes:,} bytes of archives"
    only_pushed = report.push is not None and not report.units
    lines = [f"{report.push_told if only_pushed else built}, {report.took_ms / 1000:.1f} s", *lines[:_LINES_MAX], *more]
    lines += [f"warning: {warning}" for warning in report.warnings]
    if report.columns_told is not None:
        lines.append(report.columns_told)
    if report.others_told is not None:
        lines.append(report.others_told)
    if report.push is not None and not only_pushed:
        lines.append(report.push_told)
    if report.error is not None:
        lines.append(f"error: {report.error}")
    return "\n".join(lines)
