"""Builds a job's segments on Spark: start reading at `build_segments`.

Steps, work items and reports are those of local jobs (`ingest.jobs`), so names and bytes are the same; Spark runs the
work items. A job that runs again, whatever happened to the previous run, finds its archives at the output or writes
them again.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Final

from pinotpy.ingest.jobs.context import JobContext
from pinotpy.ingest.jobs.earlier_archives import with_earlier_archives
from pinotpy.ingest.jobs.file_reports import missing_in_all, missing_warnings, partition_warnings
from pinotpy.ingest.jobs.input_files import InputEntry
from pinotpy.ingest.jobs.plan import DealtRows, Unit, UnitKind, plan_groups, plan_units, with_contents
from pinotpy.ingest.jobs.report import JobReport, UnitReport
from pinotpy.ingest.jobs.run import equal_names, rows_per_segment, why_it_ends
from pinotpy.ingest.jobs.spec import FileErrors
from pinotpy.ingest.jobs.work_folder import work_folder
from pinotpy.spark_jobs.executing import build_files, deal_files
from pinotpy.spark_jobs.parcels import PARCELS_DDL
from pinotpy.spark_jobs.regrouping import Parcels, collect_parcels, plan_cuts, write_cuts
from pinotpy.spark_jobs.source_files import source_files, with_rows_known
from pinotpy.spark_jobs.source_rows import (
    deal_source,
    num_cells_of,
    reads_by_spark,
    source_frame,
    source_name,
    source_report,
)
from pinotpy.spark_jobs.task import REPORTS_DDL, SparkJob, read_report, spark_job
from pinotpy.spark_jobs.watching import ShowProgress, no_progress, watched

# Of rows that come from no file and have no size asked for; and by how many they can be cut where the size is one of
# bytes.
_ROWS_PER_SEGMENT: Final = 5_000_000
_ROWS_BY_BYTES: Final = 1_000_000


def build_segments(spark: Any, context: JobContext, attempts_max: int, show: ShowProgress = no_progress) -> JobReport:
    """Build a job's segments.

    Args:
        attempts_max: how often Spark tries a task.

    Raises:
        PinotError: nothing was done: the input is not there, or another job of this machine builds into the same
            output.
        What goes wrong later stands in the report.
    """
    started = time.perf_counter()
    spec = context.spec
    with work_folder(spec):
        if reads_by_spark(spec):
            reports, error = _from_source(spark, context, attempts_max, show)
        else:
            reports, error = _from_files(spark, context, attempts_max, show)
    took_ms = round((time.perf_counter() - started) * 1000)
    job = JobReport(
        spec.job_type.value, context.table_name, spec.output_dir_uri or "", tuple(reports), took_ms=took_ms, error=error
    )
    missing = missing_warnings(context.pipeline, context.table_config, reports)
    job = replace(job, warnings=(*missing, *partition_warnings(reports)))
    if job.error is None and not job.segments:
        job = replace(job, error="no segment was built: the input holds no row to index")
    return with_earlier_archives(spec, job)


def _from_files(
    spark: Any, context: JobContext, attempts_max: int, show: ShowProgress
) -> tuple[list[UnitReport], str | None]:
    units = plan_units(context)
    job = spark_job(context, units, attempts_max)
    numbers = spark.range(0, len(units), 1, _num_tasks(context, len(units)))
    skips = context.spec.pinotpy.on_file_error is FileErrors.SKIP
    if not context.regroups:
        with watched(spark, "building segments", show):
            rows = numbers.mapInArrow(lambda batches: build_files(batches, job), REPORTS_DDL).collect()
        reports = sorted((read_report(row["report"]) for row in rows), key=lambda report: report.unit_id)
        return reports, equal_names(reports) or why_it_ends(reports, len(units), skips) or missing_in_all(
            context.pipeline, reports
        )
    with watched(spark, "reading input", show):
        parcels = collect_parcels(numbers.mapInArrow(lambda batches: deal_files(batches, job), PARCELS_DDL))
    try:
        reports = list(parcels.reports)
        error = why_it_ends(reports, len(units), skips) or missing_in_all(context.pipeline, reports)
        if error is None:
            read = replace(job, units=tuple(with_contents(units, reports)))
            written, error = _regroup(spark, context, parcels, read, show)
            reports += written
        return reports, error
    finally:
        parcels.release()


def _from_source(
    spark: Any, context: JobContext, attempts_max: int, show: ShowProgress
) -> tuple[list[UnitReport], str | None]:
    """Rows of a table, of SQL text, or of a reader of Spark's."""
    entry = InputEntry(source_name(context.spec), "", "", 0, 0)
    job = spark_job(context, [Unit(0, UnitKind.DEAL, 0, (entry,))], attempts_max, rows_have_hashes=True)
    frame = source_frame(spark, context.spec, context.pipeline)
    ours = context.spec.pinotpy
    if ours.rows_per_segment is None and ours.bytes_per_segment is None:
        sized = ours.model_copy(update={"rows_per_segment": _ROWS_PER_SEGMENT})
        context = replace(context, spec=context.spec.model_copy(update={"pinotpy": sized}))
    with watched(spark, "counting rows", show):
        num_rows, files = source_files(spark, frame, job)
        num_cells = num_cells_of(num_rows, context.spec.pinotpy.rows_per_segment or _ROWS_BY_BYTES)
    with watched(spark, "reading input", show):
        parcels = collect_parcels(frame.mapInArrow(lambda batches: deal_source(batches, job, num_cells), PARCELS_DDL))
    try:
        read = source_report(parcels.reports, context, frame.columns)
        error = why_it_ends([read], 1, skips=False)
        if error is not None:
            return [read], error
        (whole,) = read.files
        job = replace(
            job,
            files=with_rows_known(files, whole.num_rows_read == whole.num_rows_indexed and not whole.num_rows_added),
        )
        written, error = _regroup(spark, context, parcels, job, show)
        return [read, *written], error
    finally:
        parcels.release()


def _regroup(
    spark: Any, context: JobContext, parcels: Parcels, job: SparkJob, show: ShowProgress
) -> tuple[list[UnitReport], str | None]:
    """Segments of dealt rows: the plan is made of the numbers of rows alone, as if they all lay in one file."""
    dealt = [DealtRows(job.units[0].inputs[0], "", parcels.num_rows())]
    splits_cells = not job.rows_have_hashes

    def build_trial(trial: Unit) -> UnitReport:
        cuts = plan_cuts(parcels, [trial], splits_cells=splits_cells)
        (report,) = write_cuts(spark, parcels, cuts, job, (trial,), puts=False)
        return report

    with watched(spark, "building segments", show):
        num_rows, error = rows_per_segment(context, dealt, len(job.units), build_trial)
        if error is not None:
            return [], error
        units = tuple(plan_groups(context, dealt, len(job.units), num_rows))
        if not units:
            return [], None
        cuts = plan_cuts(parcels, units, splits_cells=splits_cells)
        reports = write_cuts(spark, parcels, cuts, job, units)
    return reports, equal_names(reports) or why_it_ends(reports, len(cuts), skips=False)


def _num_tasks(context: JobContext, num_units: int) -> int:
    """A task a file, for the retry of a task repeats no other file; fewer if the job says so."""
    parallelism = context.spec.segment_creation_job_parallelism
    return max(1, min(num_units, parallelism or num_units))
