"""Builds one work item, from its input to its report. Local worker processes and Spark's executors both call
`build_unit`.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Final

import pyarrow as pa

from pinotpy.errors import DataError, DecodeError, InvalidConfigError, PinotError, ResourceError, UserError
from pinotpy.fs.file_systems import file_system_for
from pinotpy.fs.uris import LOCAL_SCHEMES, file_name, join, local_path, masked, scheme_of
from pinotpy.ingest.batch import segment_facts
from pinotpy.ingest.folder_values import folder_texts
from pinotpy.ingest.held_rows import hold_rows
from pinotpy.ingest.jobs.context import JobContext
from pinotpy.ingest.jobs.dealt_rows import DealtFile, deal_rows
from pinotpy.ingest.jobs.file_reports import file_report
from pinotpy.ingest.jobs.input_files import InputEntry
from pinotpy.ingest.jobs.input_lists import identity_of, with_content
from pinotpy.ingest.jobs.plan import Unit, UnitKind
from pinotpy.ingest.jobs.report import FileReport, SegmentReport, UnitReport, failed_unit
from pinotpy.ingest.jobs.segment_output import write_segment
from pinotpy.ingest.ledger import RowLedger
from pinotpy.ingest.pipeline import read_rows
from pinotpy.ingest.readers.spec import FileFormat, InputFile
from pinotpy.ingest.reject_file import RejectFile

_log = logging.getLogger(__name__)
# Beyond these a reader, which is one thread, is what a file waits for; each holds a batch of rows.
_THREADS_MAX: Final = 4

UnitProgress = Callable[[int], None]
"""(bytes of the unit's input that are read)."""


@dataclass(slots=True)
class _State:
    """Where the unit's rejected rows went, if there are any; whether it is of one input file, and whether that is still
    read.
    """

    is_of_file: bool
    reads: bool
    reject_uri: str | None = None


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a unit works and how."""

    work_dir: Path
    threads: int | None
    progress: UnitProgress
    state: _State


def build_unit(
    context: JobContext,
    unit: Unit,
    work_dir: Path,
    *,
    threads: int | None = None,
    progress: UnitProgress = lambda bytes_done: None,
) -> UnitReport:
    """Build one work item. Raises nothing but what ends processes: errors are in the report.

    Args:
        work_dir: folder of the job on this machine; the unit makes one of its own in it and removes it, DEAL units
            leave `dealt/<unit_id>` there.
        threads: that build and compress a segment, default: the cores, at most 4. The bytes are the same with any
            number.
    """
    started = time.perf_counter()
    unit_dir = work_dir / f"unit-{unit.unit_id}"
    shutil.rmtree(unit_dir, ignore_errors=True)
    unit_dir.mkdir(parents=True)
    ledger = RowLedger(masked(unit.inputs[0].uri)) if unit.inputs else None
    is_of_file = unit.kind in (UnitKind.FILE, UnitKind.DEAL)
    state = _State(is_of_file, reads=is_of_file)
    try:
        place = _Place(unit_dir, threads, progress, state)
        report = _read_unit(context, unit, place, ledger) if is_of_file else _group_unit(context, unit, place)
    except Exception as error:  # the top of a unit
        if not isinstance(error, PinotError | OSError):
            _log.exception("unit failed unit=%d", unit.unit_id)
        elif isinstance(error, PinotError):
            # Input that is not as expected: the report tells it, and whoever asked may try another way.
            _log.info("unit failed unit=%d cause=%s", unit.unit_id, error)
        else:
            _log.warning("unit failed unit=%d cause=%s", unit.unit_id, error)
        if (
            isinstance(error, OSError) and "no space left" in str(error).lower()
        ):  # storages tell theirs by errors of their own
            error = ResourceError(
                f"no space left in the working folder '{work_dir}'; name a larger one by pinotpy.workingDir (Spark: "
                "spark.local.dir)"
            )
        report = failed_unit(
            unit.unit_id, error, _unread_files(unit, ledger, str(error)), is_input_fault=_is_input_fault(error, state)
        )
    finally:
        shutil.rmtree(unit_dir, ignore_errors=True)
    took_ms = round((time.perf_counter() - started) * 1000)
    return replace(report, reject_file_uri=state.reject_uri, took_ms=took_ms)


def _is_input_fault(error: Exception, state: _State) -> bool:
    """Whether the file is to blame, and not the job, the output or this machine."""
    if isinstance(error, DecodeError):
        return state.is_of_file
    return state.reads and isinstance(error, DataError | UserError) and not isinstance(error, InvalidConfigError)


def dealt_folder(work_dir: Path, unit_id: int) -> Path:
    """Where a DEAL item leaves its partitioned rows."""
    return work_dir / "dealt" / str(unit_id)


def _read_unit(context: JobContext, unit: Unit, place: _Place, ledger: RowLedger | None) -> UnitReport:
    """A file's rows become a segment, or are partitioned into groups."""
    assert ledger is not None
    (entry,) = unit.inputs
    segments: list[SegmentReport] = []
    with _kept_rejects(context, entry, place, ledger), _local_input(context, entry, place) as file:
        opened = identity_of(file.path)
        rows = read_rows(
            file,
            FileFormat(entry.file_format),
            context.pipeline,
            ledger,
            reader_config=context.spec.record_reader_spec.configs,
            folders=folder_texts(entry.below),
            progress=lambda done, total: place.progress(done),
            threads=_converting_threads(place.threads),
        )
        if unit.kind is UnitKind.DEAL:
            folder = dealt_folder(place.work_dir.parent, unit.unit_id)
            deal_rows(
                with_checked_times(context, rows, masked(entry.uri)),
                context.groups,
                context.schema,
                folder,
                context.spec.pinotpy.memory_bytes_max,
            )
            entry = with_content(entry, file.path, opened)
        else:
            batches = hold_rows(rows, context.dictionary_columns)
            if entry.part is None:
                entry = with_content(entry, file.path, opened)
            place.state.reads = False
            if batches:
                segments.append(_segment(context, replace(unit, inputs=(entry,)), batches, place))
    if ledger.num_rows_indexed == 0 and context.spec.fail_on_empty_segment:
        raise DataError(
            f"'{masked(entry.uri)}' has no row to index, and failOnEmptySegment is true", file=masked(entry.uri)
        )
    return UnitReport(
        unit.unit_id,
        (replace(file_report(masked(entry.uri), entry.size_bytes, ledger), checksum=entry.checksum),),
        tuple(segments),
    )


def _converting_threads(threads: int | None) -> int:
    """Threads that convert rows of a unit which may use `threads`: none beside a caller that has one core."""
    threads = threads or min(len(os.sched_getaffinity(0)), _THREADS_MAX)
    return threads if threads > 1 else 0


def with_checked_times(context: JobContext, batches: Iterable[pa.RecordBatch], where: str) -> Iterator[pa.RecordBatch]:
    """Rows on their way to groups; a segment's check of its times comes too late there, when nobody knows the file.

    Raises DecodeError for times that no segment may have.
    """
    for batch in batches:
        segment_facts(context.schema, context.table_config, [batch], 0, where)
        yield batch


def _group_unit(context: JobContext, unit: Unit, place: _Place) -> UnitReport:
    """Rows of one group become a segment."""

    def rows() -> Iterator[pa.RecordBatch]:
        for row_slice in unit.slices:
            with DealtFile(Path(row_slice.path)) as dealt:
                yield from dealt.rows(row_slice.group, row_slice.first, row_slice.count)

    segment = _segment(context, unit, hold_rows(rows(), context.dictionary_columns), place)
    return UnitReport(unit.unit_id, (), (segment,))


def _segment(context: JobContext, unit: Unit, batches: list[pa.RecordBatch], place: _Place) -> SegmentReport:
    return write_segment(
        context,
        batches,
        unit,
        work_dir=place.work_dir,
        threads=place.threads,
        puts=unit.kind is not UnitKind.TRIAL,
    )


class _NamedInput(InputFile):
    """A local copy that messages call by the name of what it is a copy of."""

    def __init__(self, path: Path, name: str) -> None:
        super().__init__(path)
        self._name = name

    @property
    def name(self) -> str:
        return self._name


@contextmanager
def _local_input(context: JobContext, entry: InputEntry, place: _Place) -> Iterator[InputFile]:
    """The input as a file of this machine; what lies elsewhere is copied first, whole, and the copy removed."""
    if scheme_of(entry.uri) in LOCAL_SCHEMES:
        yield InputFile(local_path(entry.uri), part=entry.part)
        return
    copy = place.work_dir / f"input{''.join(PurePosixPath(file_name(entry.uri)).suffixes[-2:])}"
    file_system_for(entry.uri, context.file_systems).fetch(entry.uri, copy)
    try:
        yield _NamedInput(copy, masked(entry.uri))
    finally:
        copy.unlink(missing_ok=True)


@contextmanager
def _kept_rejects(context: JobContext, entry: InputEntry, place: _Place, ledger: RowLedger) -> Iterator[None]:
    """Rejected rows go to `<rejectFileURI>/<path of the input>.rejects.jsonl`, also if the unit fails; without any,
    none is left there.
    """
    if context.spec.pinotpy.reject_file_uri is None:
        yield
        return
    local = place.work_dir / "rejects.jsonl"
    uri = join(context.spec.pinotpy.reject_file_uri, *f"{entry.below}.rejects.jsonl".split("/"))
    files = file_system_for(uri, context.file_systems)
    try:
        with RejectFile(local) as ledger.sink:
            yield
    finally:
        try:
            if ledger.num_rows_rejected:
                files.put(uri, local)
                place.state.reject_uri = uri
            else:
                files.delete(uri)  # of an earlier run
        except PinotError as error:
            place.state.is_of_file = place.state.reads = False
            raise DataError(
                f"rejected rows of '{masked(entry.uri)}' cannot be written to '{masked(uri)}': {error.message}; see "
                "pinotpy.rejectFileURI"
            ) from error


def _unread_files(unit: Unit, ledger: RowLedger | None, error: str) -> tuple[FileReport, ...]:
    if unit.kind not in (UnitKind.FILE, UnitKind.DEAL) or ledger is None:
        return ()
    return (file_report(masked(unit.inputs[0].uri), unit.inputs[0].size_bytes, ledger, error),)
