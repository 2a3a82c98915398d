"""The tasks over input files: a file becomes a segment, or parcels of dealt rows. Runs in executors, a file a task."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import pyarrow as pa

from pinotpy.ingest.jobs.build import build_unit, dealt_folder
from pinotpy.ingest.jobs.dealt_rows import dealt_counts
from pinotpy.spark_jobs.parcels import FILE_SHIFT, parcels_of, report_row
from pinotpy.spark_jobs.task import SparkJob, checked, report_batch, task_cores, task_folder, unit_numbers


def build_files(batches: Iterable[pa.RecordBatch], job: SparkJob) -> Iterator[pa.RecordBatch]:
    """Numbers of FILE units → their reports; the segments go to the job's output."""
    for number in unit_numbers(batches):
        with task_folder() as folder:
            report = build_unit(job.context, job.units[number], folder, threads=task_cores())
        yield report_batch(checked(report, job.attempts_max))


def deal_files(batches: Iterable[pa.RecordBatch], job: SparkJob) -> Iterator[pa.RecordBatch]:
    """Numbers of DEAL units → parcels of their rows, and a report row each. Of a file with faults there is the report
    alone.
    """
    for number in unit_numbers(batches):
        with task_folder() as folder:
            unit = job.units[number]
            report = checked(build_unit(job.context, unit, folder, threads=task_cores()), job.attempts_max)
            if report.error is None:
                rows = dealt_folder(folder, unit.unit_id)
                yield from parcels_of(rows, dealt_counts(rows), number << FILE_SHIFT)
        yield report_row(number << FILE_SHIFT, json.dumps(report.to_json_dict()).encode())
