"""Runs a job for a command: progress on standard error, a clean end on SIGTERM, the report, the exit status."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import typer

from pinotpy.cli import options
from pinotpy.errors import UserError

if TYPE_CHECKING:
    from pinotpy.ingest.jobs.report import JobReport
    from pinotpy.ingest.jobs.run import Progress


def run_and_report(work: Callable[[Progress], JobReport], *, as_json: bool) -> None:
    """Do a job's work and print its report; the error of a job that failed goes to standard error, with status 1.

    Files that were skipped (pinotpy.onFileError SKIP) end with status 1, too, after all others were built and pushed.
    """
    from pinotpy.cli.build_report import print_report, report_document
    from pinotpy.ingest.jobs.run import JobProgress

    with ends_on_sigterm(), options.progress(as_json) as bar:
        task = bar.add_task("planning", total=None)

        def tell(job: JobProgress) -> None:
            done, total = (job.bytes_done, job.bytes_total) if job.bytes_total else (job.units_done, job.num_units)
            bar.update(
                task, completed=done, total=total, description=f"{job.step}, {job.units_done} of {job.num_units}"
            )

        report = work(tell)
    if as_json:
        typer.echo(json.dumps(report_document(report), indent=2, ensure_ascii=False))
    elif report.segments or report.push is not None:
        print_report(report)
    if report.error is not None:
        raise UserError(report.error)
    if report.num_failures:
        raise UserError(
            f"{report.num_failures} input files were left out, their causes stand in the report; the others are done"
        )


@contextmanager
def ends_on_sigterm() -> Iterator[None]:
    """SIGTERM ends the block as an exception would, so that workers end and what is not finished is removed; status
    143.
    """

    def end(number: int, frame: FrameType | None) -> None:
        print("pinotpy: stopped by SIGTERM; run it again to continue", file=sys.stderr)
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
