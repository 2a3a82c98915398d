"""Parcels of a segment → its archive at the job's output. Runs in executors, a segment at a time."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from pinotpy.errors import PinotError
from pinotpy.ingest.held_rows import hold_rows
from pinotpy.ingest.jobs.plan import RowSlice, Unit
from pinotpy.ingest.jobs.report import UnitReport, failed_unit
from pinotpy.ingest.jobs.segment_output import write_segment
from pinotpy.spark_jobs.parcels import FILE_SHIFT, unpack
from pinotpy.spark_jobs.source_files import FILE_COLUMN
from pinotpy.spark_jobs.source_rows import in_order_of_hashes
from pinotpy.spark_jobs.task import SparkJob, checked, report_batch, task_cores, task_folder

PLACED_COLUMNS: Final = ("segment", "position", "offset", "skip", "take", "contents")


@dataclass(frozen=True, slots=True)
class PlacedParcel:
    """Rows [skip, take) of a parcel, for one segment."""

    segment: int
    position: int
    offset: int
    skip: int
    take: int
    contents: pa.Buffer

    @property
    def file_number(self) -> int:
        return self.position >> FILE_SHIFT

    def rows(self) -> pa.RecordBatch:
        return unpack(self.contents).slice(self.skip, self.take - self.skip)


def write_segments(
    batches: Iterable[pa.RecordBatch], job: SparkJob, planned: tuple[Unit, ...], *, puts: bool = True
) -> Iterator[pa.RecordBatch]:
    """Rows of PLACED_COLUMNS, by segment and position ascending → a report of each segment.

    Args:
        planned: GROUP units by number of segment, with their place in the group and their sequence id; which files
            their rows come from shows here.
        puts: false: build and measure only.
    """
    for segment, parcels in itertools.groupby(_placed(batches), key=lambda parcel: parcel.segment):
        yield report_batch(checked(_written(planned[segment], parcels, job, puts), job.attempts_max))


def _written(unit: Unit, parcels: Iterator[PlacedParcel], job: SparkJob, puts: bool) -> UnitReport:
    started = time.perf_counter()
    context = job.context
    slices: dict[int, RowSlice] = {}
    counts: Counter[int] = Counter()

    def rows() -> Iterator[pa.RecordBatch]:
        for parcel in parcels:
            known = slices.get(parcel.file_number) or RowSlice("", unit.group, parcel.offset + parcel.skip, 0)
            slices[parcel.file_number] = replace(known, count=known.count + parcel.take - parcel.skip)
            batch = parcel.rows()
            if job.files:
                numbers, rows_each = np.unique(np.asarray(batch.column(FILE_COLUMN)), return_counts=True)
                counts.update(dict(zip(numbers.tolist(), rows_each.tolist(), strict=True)))
            yield batch

    try:
        held = hold_rows(rows(), context.dictionary_columns)
        if job.rows_have_hashes:
            held = in_order_of_hashes(held, context.schema)
        whole = replace(
            unit, inputs=tuple(job.units[number].inputs[0] for number in slices), slices=tuple(slices.values())
        )
        if counts and all(
            number in job.files for number in counts
        ):  # else a file came between counting and reading: no list
            files = sorted(counts, key=lambda number: job.files[number].uri)
            slices_of_files = tuple(RowSlice("", unit.group, 0, counts[number]) for number in files)
            whole = replace(unit, inputs=tuple(job.files[number] for number in files), slices=slices_of_files)
        with task_folder() as folder:
            segment = write_segment(context, held, whole, work_dir=folder, threads=task_cores(), puts=puts)
    except (PinotError, OSError, MemoryError) as error:
        return failed_unit(unit.unit_id, error, took_ms=_since(started))
    return UnitReport(unit.unit_id, (), (segment,), took_ms=_since(started))


def _since(started: float) -> int:
    return round((time.perf_counter() - started) * 1000)


def _placed(batches: Iterable[pa.RecordBatch]) -> Iterator[PlacedParcel]:
    for batch in batches:
        numbers = zip(*(batch.column(index).to_pylist() for index in range(len(PLACED_COLUMNS) - 1)), strict=True)
        contents = batch.column(len(PLACED_COLUMNS) - 1)
        for index, (segment, position, offset, skip, take) in enumerate(numbers):
            yield PlacedParcel(segment, position, offset, skip, take, contents[index].as_buffer())
