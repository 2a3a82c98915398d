"""What a task of an executor knows: the job, its cores, its working folder, whether it will be tried again."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from pinotpy.errors import ClusterError
from pinotpy.ingest.jobs.context import JobContext
from pinotpy.ingest.jobs.input_files import InputEntry
from pinotpy.ingest.jobs.plan import Unit
from pinotpy.ingest.jobs.report import UnitReport
from pinotpy.spark_jobs.parcels import DEALT_BYTES_MAX

REPORTS_DDL: Final = "report STRING"
_REPORTS: Final = pa.schema([("report", pa.string())])
# Neither the caller's fault nor that of the data: a storage that failed, memory, a disk. It may go better elsewhere.
_MAY_PASS: Final = (425, 427, 450)


@dataclass(frozen=True, slots=True)
class SparkJob:
    """What travels to the executors: the context as JSON text (with the job's secrets), the units, how often Spark
    tries a task.

    rows_have_hashes: rows come from one of Spark's own sources, and are ordered by hashes that they bring along. files:
    those of such a source by the numbers that rows have for them, {} where they come from no files.
    """

    context_text: str
    units: tuple[Unit, ...]
    attempts_max: int
    rows_have_hashes: bool = False
    files: Mapping[int, InputEntry] = field(default_factory=dict)

    @property
    def context(self) -> JobContext:
        return _context(self.context_text)


def spark_job(
    context: JobContext, units: Iterable[Unit], attempts_max: int, *, rows_have_hashes: bool = False
) -> SparkJob:
    """The job for the executors, whose memory is shared by as many tasks as there are cores."""
    ours = context.spec.pinotpy
    bounded = ours.model_copy(update={"memory_bytes_max": min(ours.memory_bytes_max, DEALT_BYTES_MAX)})
    travelling = replace(context, spec=context.spec.model_copy(update={"pinotpy": bounded}))
    return SparkJob(json.dumps(travelling.to_json_dict()), tuple(units), attempts_max, rows_have_hashes)


@lru_cache(maxsize=2)
def _context(text: str) -> JobContext:
    return JobContext.from_json_dict(json.loads(text))


@contextlib.contextmanager
def task_folder() -> Iterator[Path]:
    """A folder for one task, on Spark's own disks: what a killed worker leaves there goes with the application."""
    roots = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    with tempfile.TemporaryDirectory(
        prefix="pinotpy-task-", dir=roots[0] or None, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


def task_cores() -> int:
    """Cores of this task (spark.task.cpus), to which Arrow is kept: as many workers run beside each other as the
    machine has.
    """
    context = _task_context()
    cores = max(1, int(context.cpus())) if context is not None else 1
    pa.set_cpu_count(cores)
    return cores


def checked(report: UnitReport, attempts_max: int) -> UnitReport:
    """The report of a unit. One that failed for a reason that may pass raises instead, so that Spark tries again, but
    for the last time.
    """
    context = _task_context()
    attempt = int(context.attemptNumber()) if context is not None else attempts_max
    if report.error is not None and report.code in _MAY_PASS and attempt + 1 < attempts_max:
        raise ClusterError(report.error)
    return report


def report_batch(report: UnitReport) -> pa.RecordBatch:
    """A report as a row of REPORTS_DDL."""
    return pa.RecordBatch.from_arrays([pa.array([json.dumps(report.to_json_dict())], pa.string())], schema=_REPORTS)


def read_report(text: str | bytes) -> UnitReport:
    """The report that a task sent."""
    return UnitReport.from_json_dict(json.loads(text))


def unit_numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    """The numbers in the column that `spark.range` makes."""
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _task_context() -> Any:
    try:
        from pyspark import TaskContext
    except ImportError:
        return None
    return TaskContext.get()
