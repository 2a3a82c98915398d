"""A whole job on this machine: inputs → units → segments at the output → push. `run_job` is the place to start reading.

A job that runs again gives the same segments with the same bytes, whatever became of the one before; nothing
half-written is ever seen.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pinotpy.errors import AlreadyExistsError, UserError
from pinotpy.fs.uris import masked
from pinotpy.ingest.jobs.build import build_unit, dealt_folder
from pinotpy.ingest.jobs.context import JobContext, open_context
from pinotpy.ingest.jobs.dealt_rows import dealt_counts
from pinotpy.ingest.jobs.earlier_archives import with_earlier_archives
from pinotpy.ingest.jobs.file_reports import missing_in_all, missing_warnings, partition_warnings
from pinotpy.ingest.jobs.input_files import InputEntry
from pinotpy.ingest.jobs.plan import TRIAL_ROWS, DealtRows, Unit, plan_groups, plan_trial, plan_units, with_contents
from pinotpy.ingest.jobs.pushing import push_archives
from pinotpy.ingest.jobs.report import JobReport, UnitReport
from pinotpy.ingest.jobs.spare_workers import PART_BYTES
from pinotpy.ingest.jobs.spec import FileErrors, IngestionJobSpec
from pinotpy.ingest.jobs.work_folder import work_folder
from pinotpy.ingest.jobs.workers import run_units

_log = logging.getLogger(__name__)

# A trial segment is near enough to the size that was asked for when it says this share of its own rows.
_TRIAL_NEAR: Final = 0.95
_TRIALS_MAX: Final = 6


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far a step is: 'reading' files into groups, 'building' segments; units, and bytes of the input where files
    are read.
    """

    step: str
    units_done: int
    num_units: int
    bytes_done: int
    bytes_total: int


Progress = Callable[[JobProgress], None]


def run_job(spec: IngestionJobSpec, *, progress: Progress = lambda progress: None) -> JobReport:
    """Do what a job spec asks for.

    Raises:
        PinotError: nothing was done: the spec, its documents or its input are not there or not right, or another job is
            at work.
        What goes wrong later stands in the report: `error` of the job, and of each unit.
    """
    started = time.perf_counter()
    output = spec.output_dir_uri or ""
    report = JobReport(spec.job_type.value, spec.table_spec.table_name, output)
    if spec.job_type.creates:
        report = build_segments(open_context(spec), progress=progress)
    if spec.job_type.push_mode is not None and report.error is None:
        report = push_archives(spec, report)
    return replace(report, took_ms=_since_ms(started))


def build_segments(
    context: JobContext, inputs: Sequence[InputEntry] | None = None, *, progress: Progress = lambda progress: None
) -> JobReport:
    """The part of a job that builds, of the files that the spec names or of `inputs`; errors as of `run_job`."""
    started = time.perf_counter()
    spec = context.spec
    if spec.input_dir_uri is None and inputs is None:
        raise UserError(
            "pinotpy.sourceTable and pinotpy.sourceQuery are read by `pinotpy spark`: name the files of a job on one "
            "machine by inputDirURI"
        )
    skips = spec.pinotpy.on_file_error is FileErrors.SKIP
    with work_folder(spec) as work_dir:
        units = plan_units(context, inputs)
        reports = _done(context, units, work_dir, "reading" if context.regroups else "building", progress)
        error = (
            equal_names(reports) or why_it_ends(reports, len(units), skips) or missing_in_all(context.pipeline, reports)
        )
        if context.regroups and error is None:
            by_id = {report.unit_id: report for report in reports if report.error is None}
            dealt = [_dealt(unit, work_dir) for unit in with_contents(units, reports) if unit.unit_id in by_id]
            num_rows, error = rows_per_segment(
                context, dealt, len(units), lambda trial: build_unit(context, trial, work_dir)
            )
            if error is None:
                groups = plan_groups(context, dealt, len(units), num_rows)
                reports += _done(context, groups, work_dir, "building", progress)
                error = equal_names(reports) or why_it_ends(reports, len(units) + len(groups), skips)
    reports.sort(key=lambda report: report.unit_id)
    job = JobReport(
        spec.job_type.value,
        context.table_name,
        spec.output_dir_uri or "",
        tuple(reports),
        took_ms=_since_ms(started),
        error=error,
    )
    missing = missing_warnings(context.pipeline, context.table_config, reports)
    job = replace(job, warnings=(*missing, *partition_warnings(reports)))
    if job.error is None and not job.segments:
        unread = f"{job.num_failures} could not be read, " if job.num_failures else ""
        job = replace(
            job,
            error=f"no segment was built: of {len(job.files)} input files {unread}{'the others' if unread else 'all'} "
            "hold no row to index",
        )
    return with_earlier_archives(spec, job)


def _done(
    context: JobContext, units: Sequence[Unit], work_dir: Path, step: str, progress: Progress
) -> list[UnitReport]:
    """The reports of units; where a failure ends the job, of those that were done by then."""
    sizes = {unit.unit_id: unit.size_bytes for unit in units}
    bytes_total = sum(sizes.values())
    done: dict[int, int] = {}
    bytes_done = 0
    names: set[str] = set()
    reports: list[UnitReport] = []

    def tell(unit_id: int, bytes_of_unit: int) -> None:
        nonlocal bytes_done
        now = min(bytes_of_unit, sizes[unit_id])
        bytes_done += now - done.get(unit_id, 0)
        done[unit_id] = now
        progress(JobProgress(step, len(reports), len(units), bytes_done, bytes_total))

    parallelism = context.spec.segment_creation_job_parallelism or _worthwhile(
        sum(sizes.values()) or sum(entry.size_bytes for unit in units for entry in unit.inputs)
    )
    ends = False
    running = run_units(context, units, work_dir, parallelism, tell, lambda: not ends)
    try:
        for report in running:
            reports.append(report)
            tell(report.unit_id, sizes[report.unit_id])
            if report.code == AlreadyExistsError.code:
                # The archive that is in its way may be of a unit whose report is still on its way: whether it was there
                # before this job is known when those in progress are done.
                ends = True
            elif report.error is not None and not (
                report.is_input_fault and context.spec.pinotpy.on_file_error is FileErrors.SKIP
            ):
                break
            fresh = {segment.segment_name for segment in report.segments}
            if names & fresh:
                break
            names |= fresh
    finally:
        running.close()  # type: ignore[attr-defined]
    return reports


def _worthwhile(size_bytes: int) -> int:
    """Processes for an amount of input: at most the cores, and none that would take longer to start than to work."""
    return max(1, min(len(os.sched_getaffinity(0)), size_bytes // PART_BYTES))


def why_it_ends(reports: Sequence[UnitReport], num_units: int, skips: bool) -> str | None:
    """Why the job ends here, or None."""
    failed = [report for report in reports if report.error is not None and not (skips and report.is_input_fault)]
    if not failed:
        return None
    hint = (
        "; pinotpy.onFileError SKIP builds the others"
        if all(report.is_input_fault for report in failed) and num_units > 1
        else ""
    )
    undone = (
        f"; {num_units - len(reports)} of {num_units} units were not begun or not finished"
        if len(reports) < num_units
        else ""
    )
    return f"{failed[0].error}{undone}{hint}"


def _dealt(unit: Unit, work_dir: Path) -> DealtRows:
    folder = dealt_folder(work_dir, unit.unit_id)
    return DealtRows(unit.inputs[0], str(folder), dealt_counts(folder))


def rows_per_segment(
    context: JobContext, dealt: Sequence[DealtRows], unit_id: int, build_trial: Callable[[Unit], UnitReport]
) -> tuple[int | None, str | None]:
    """Largest number of rows of a segment, by rows and by the bytes that trial segments have a row; or why it cannot be
    told.

    Small segments have more bytes a row, of dictionaries and headers: the trial is made again with as many rows as the
    last one said, until it says no less.

    Args:
        unit_id: of trials.
        build_trial: does a TRIAL unit.
    """
    ours = context.spec.pinotpy
    if ours.bytes_per_segment is None:
        return ours.rows_per_segment, None
    rows = TRIAL_ROWS
    for _ in range(_TRIALS_MAX):
        trial = plan_trial(dealt, unit_id, rows)
        if trial is None:
            break
        report = build_trial(trial)
        if report.error is not None:
            return None, report.error
        (segment,) = report.segments
        rows = max(1, ours.bytes_per_segment * segment.num_docs // segment.size_bytes)
        _log.info(
            "trial segment built docs=%d bytes=%d rows_per_segment=%d", segment.num_docs, segment.size_bytes, rows
        )
        if rows > segment.num_docs * _TRIAL_NEAR:
            break
    return min(rows, ours.rows_per_segment or rows), None


def equal_names(reports: Sequence[UnitReport]) -> str | None:
    """A fault if two segments have one name: pushed, the second would take the place of the first."""
    names = Counter(segment.segment_name for report in reports for segment in report.segments)
    twice = [name for name, count in names.items() if count > 1]
    of = [
        segment.uri for report in reports for segment in report.segments if twice and segment.segment_name == twice[0]
    ]
    if not twice:
        # In one folder the second found the first there: to the one that wrote it, it was what somebody else had left.
        refused = [report.error or "" for report in reports if report.code == AlreadyExistsError.code]
        met = [
            segment
            for report in reports
            for segment in report.segments
            if any(error.startswith(f"'{masked(segment.uri)}'") for error in refused)
        ]
        twice, of = [segment.segment_name for segment in met], [segment.uri for segment in met]
    if not twice:
        return None
    return (
        f"{len(twice)} segment names were given more than once, first '{twice[0]}' to {', '.join(of[:4])}: one would "
        "replace the other. "
        "Names of types simple and normalizedDate follow the files unless segmentNameGeneratorSpec.configs leaves "
        "that out (exclude.sequence.id true) "
        "or numbers files by folder (use.global.directory.sequence.id false, local.directory.sequence.id true); "
        "a template of type inputFile must take enough of the path"
    )


def _since_ms(started: float) -> int:
    return round((time.perf_counter() - started) * 1000)
