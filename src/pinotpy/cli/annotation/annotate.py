"""Annotates the segments of a table that is there: start reading at `annotate_segments`.

What is simplest wins, of ways in which no query misses a row. A record that lacks what the segment's file says is
completed by that file's metadata: no replica notices. Partitions that the file lacks are computed and written into it,
and it is pushed under its name: servers take the new content in when they have it, and answer from the old one until
then. Both have the same rows, so whichever a replica serves, the record is right.

A run that broke off is run again: segments whose record is complete are not even read.
"""

from __future__ import annotations

import json
import logging
import random
import tempfile
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from pinotpy.cli.annotation.lacking import FileLacks, RecordSays, file_lacks, read_record, scheme_text
from pinotpy.cli.annotation.report import AnnotationReport, Outcome, SegmentFound
from pinotpy.cli.annotation.rewriting import Rewritten, rewritten
from pinotpy.client.controller import ControllerClient
from pinotpy.clock import Clock, SystemClock
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.config.table import TableConfig
from pinotpy.errors import (
    AlreadyExistsError,
    DataError,
    NotFoundError,
    PinotError,
    PreconditionFailedError,
    UserError,
)
from pinotpy.names import TableType, split_table_name
from pinotpy.segment.archive.archive import read_archive_metadata
from pinotpy.segment.build.partition_gaps import partition_gaps, partitioned_columns
from pinotpy.segment.metadata import SegmentMetadata

log = logging.getLogger(__name__)

T = TypeVar("T")
Progress = Callable[[SegmentFound], None]
RETRY_WAIT_S: Final = 0.5
_MODIFY_HEADER: Final = "Pinot-SegmentZKMetadataCustomMapModifier"
_STATUS: Final = "segment.realtime.status"
_DONE: Final = ("DONE", "UPLOADED")


@dataclass(frozen=True, slots=True)
class AnnotateSettings:
    """How a table is annotated.

    segments: only these; none: all that queries see. parallelism: segments at once. attempts_max: for each call that
    may go better a moment later. work_dir: where archives are unpacked; None: the system's folder for such files.
    """

    table: str
    segments: tuple[str, ...] = ()
    is_dry_run: bool = False
    parallelism: int = 2
    attempts_max: int = 5
    work_dir: Path | None = None


@dataclass(frozen=True, slots=True)
class _Work:
    """What every segment of one half of the table needs."""

    client: ControllerClient
    settings: AnnotateSettings
    table_type: str
    config: TableConfig
    clock: Clock
    ended: threading.Event


def annotate_segments(
    client: ControllerClient,
    settings: AnnotateSettings,
    *,
    clock: Clock | None = None,
    progress: Progress = lambda found: None,
    begins: Callable[[int], None] = lambda count: None,
) -> AnnotationReport:
    """Complete what the segments of a table lack of its config's partitions and of ranges of columns.

    Args:
        progress: called with each segment that is done, from any thread.
        begins: called once, with the number of segments.

    Raises:
        NotFoundError: there is no such table, or no segment of a name that was given.
        PinotError: the controller does not say what is there. What goes wrong with one segment is in the report.
    """
    clock = clock or SystemClock()
    began_ns = clock.monotonic_ns()
    raw, asked_type = split_table_name(settings.table)
    halves = client.table(raw)
    configs = {
        kind: TableConfig.from_json(halves[kind], is_stored=True)
        for kind in map(str, (asked_type,) if asked_type is not None else TableType)
        if halves.get(kind) is not None
    }
    if not configs:
        raise NotFoundError(f"no table '{settings.table}' at {client.url}", table=settings.table)
    ended = threading.Event()
    works = {kind: _Work(client, settings, kind, config, clock, ended) for kind, config in configs.items()}
    records, num_hidden = _records(works, settings.segments)
    begins(len(records))
    with ThreadPoolExecutor(max(1, settings.parallelism), "annotate") as pool:

        def one(given: tuple[str, SegmentZkMetadata]) -> SegmentFound:
            found = _annotated(works[given[0]], given[1])
            progress(found)
            return found

        try:
            segments = list(pool.map(one, records))
        finally:
            ended.set()
    report = AnnotationReport(
        raw,
        settings.is_dry_run,
        tuple(segments),
        {
            kind: {name: scheme_text(scheme) for name, scheme in partitioned_columns(config).items()}
            for kind, config in configs.items()
        },
        {kind: config.indexing.sorted_column[0] for kind, config in configs.items() if config.indexing.sorted_column},
        num_hidden,
    )
    moved = _moved(works, records, report)
    took_ms = (clock.monotonic_ns() - began_ns) // 1_000_000
    return replace(
        report,
        segments=tuple(replace(one, moved_from=moved.get(one.name, "")) for one in report.segments),
        took_ms=took_ms,
    )


def _records(works: Mapping[str, _Work], names: Sequence[str]) -> tuple[list[tuple[str, SegmentZkMetadata]], int]:
    """The records of the segments that are looked at, with their half, by name; and how many no query sees."""
    found, num_hidden = [], 0
    missing = set(names)
    for kind, work in works.items():
        table = work.config.name_with_type
        records = work.client.segment_records(table, table_type=kind)
        visible = set(work.client.segments(table, exclude_replaced=True).get(kind, ()))
        num_hidden += len(records.keys() - visible)
        for name in sorted(records.keys() & visible):
            if names and name not in missing:
                continue
            missing.discard(name)
            found.append((kind, SegmentZkMetadata.from_record(ZNRecord(name, records[name]), table)))
    if missing:
        raise NotFoundError(
            f"no segment '{min(missing)[:400]}' that queries see in table '{next(iter(works.values())).settings.table}'"
        )
    return found, num_hidden


def _annotated(work: _Work, record: SegmentZkMetadata) -> SegmentFound:
    """One segment, whatever becomes of it."""
    says = read_record(record, work.config)
    found = SegmentFound(
        record.segment_name,
        work.table_type,
        Outcome.COMPLETE,
        says.ranges is not None,
        tuple(says.partitions),
        _lacked(says, work.config),
        says.partitions,
        is_sorted=_sorted_by_record(says, work.config),
    )
    if says.is_complete:
        return found
    if record.extra.get(_STATUS, _DONE[0]) not in _DONE:
        return replace(found, outcome=Outcome.LEFT, lacked=(), cause="it takes rows of a stream, or is not stored yet")
    if record.crypter:
        return replace(
            found,
            outcome=Outcome.LEFT,
            cause=f"its archive is encrypted by '{record.crypter}': build it anew and push it",
        )
    try:
        done = _completed(work, record, found)
    except (PinotError, OSError) as error:
        cause = error.message if isinstance(error, PinotError) else str(error)
        log.warning("segment not annotated segment=%s cause=%s", record.segment_name, cause)
        return replace(found, outcome=Outcome.FAILED, cause=cause)
    log.info("segment annotated segment=%s outcome=%s", done.name, done.outcome.value)
    return done


def _completed(work: _Work, record: SegmentZkMetadata, found: SegmentFound) -> SegmentFound:
    """Read the segment's metadata, and do what they ask for."""
    table, name = record.table_name_with_type, record.segment_name

    def read() -> tuple[SegmentMetadata, bytes]:
        with work.client.opened_segment(table, name) as body:
            return read_archive_metadata(body)

    metadata, metadata_file = _retried(work, read)
    _check_content(metadata, record)
    lacks = file_lacks(metadata, work.config)
    found = replace(found, is_sorted=_sorted_by_file(metadata, work.config))
    if lacks.asks_for_rewriting and work.table_type == TableType.OFFLINE:
        changed = _refreshed(work, record, found)
        if changed is not None:
            return changed
    elif lacks.computable:
        # Of the stream's own segments the rows are those of offsets, and their content is what replicas agreed upon.
        reason = "it was sealed before the table was partitioned so, and a stream's segments keep their content"
        lacks = replace(lacks, gaps={**lacks.gaps, **dict.fromkeys(lacks.computable, reason)}, computable={})
    answer = _retried(
        work,
        lambda: work.client.complete_segment_record(table, name, metadata_file, dry_run=work.settings.is_dry_run),
    )
    return replace(
        found,
        outcome=Outcome.COMPLETED if answer["isChanged"] else Outcome.COMPLETE,
        partitions=_partitions(metadata, work.config),
        gaps=_gaps(metadata, lacks, work.config),
    )


def _refreshed(work: _Work, record: SegmentZkMetadata, found: SegmentFound) -> SegmentFound | None:
    """Compute the partitions that the file lacks, and push it with them; None where no value has any."""
    table, name = record.table_name_with_type, record.segment_name
    is_dry_run, wanted = work.settings.is_dry_run, partitioned_columns(work.config)
    with tempfile.TemporaryDirectory(prefix="pinotpy-annotate-", dir=work.settings.work_dir) as folder:

        def read() -> Rewritten:
            with work.client.opened_segment(table, name) as body:
                return rewritten(body, wanted, Path(folder), packs=not is_dry_run)

        made = _retried(work, read)
        _check_content(made.before, record)
        if made.after.crc == made.before.crc:
            return None
        if made.archive is not None:
            _push(work, record, made.archive, made.after.crc)
        return replace(
            found,
            outcome=Outcome.REFRESHED,
            partitions=_partitions(made.after, work.config),
            gaps=partition_gaps(made.after, work.config),
            pushed_bytes=0 if made.archive is None else made.archive.stat().st_size,
        )


def _push(work: _Work, record: SegmentZkMetadata, archive: Path, crc: int) -> None:
    """Replace the content of a segment by the same rows, with what its record had of its own: list of input files,
    custom map. Refused, if the content is no longer what was read.
    """
    table, name = record.table_name_with_type, record.segment_name
    custom = work.client.segment_metadata(table, name).get("custom.map") or {}
    headers = {"IF-MATCH": str(record.crc), "REFRESH_ONLY": "true"}
    if custom:
        headers[_MODIFY_HEADER] = _modifier(custom)
    inputs = work.client.segment_inputs(table, name) if record.inputs is not None else None
    try:
        _retried(
            work,
            lambda: work.client.upload_segment(
                archive, table, table_type=work.table_type, headers=headers, inputs=inputs
            ),
        )
    except PreconditionFailedError:
        # The answer to an earlier attempt was lost on its way: it is there.
        if str(work.client.segment_metadata(table, name).get("segment.crc")) != str(crc):
            raise


def _modifier(custom: Mapping[str, Any]) -> str:
    return json.dumps({"mapModifyMode": "REPLACE", "map": dict(custom)})


def _retried(work: _Work, call: Callable[[], T]) -> T:
    for attempt in range(1, work.settings.attempts_max + 1):
        try:
            return call()
        except PinotError as error:
            may_pass = (error.retriable and not isinstance(error, DataError)) or isinstance(error, AlreadyExistsError)
            if not may_pass or attempt == work.settings.attempts_max or work.ended.is_set():
                raise
            work.clock.wait(work.ended, RETRY_WAIT_S * 2 ** (attempt - 1) * random.uniform(0.5, 1.5))
    raise AssertionError("attempts_max must be positive")


def _check_content(metadata: SegmentMetadata, record: SegmentZkMetadata) -> None:
    if (metadata.segment_name, metadata.crc) != (record.segment_name, record.crc):
        raise UserError(
            f"expected content with CRC {record.crc}, as the record said, found '{metadata.segment_name}' with CRC "
            f"{metadata.crc}: it was replaced meanwhile, run the command again"
        )


def _lacked(says: RecordSays, config: TableConfig) -> tuple[str, ...]:
    absent = [
        f"no partitions of '{name}'"
        for name in partitioned_columns(config)
        if name not in says.partitions and name not in says.others
    ]
    others = [f"{what} of '{name}'" for name, what in says.others.items()]
    return (*([says.why_no_ranges] if says.why_no_ranges else []), *absent, *others)


def _partitions(metadata: SegmentMetadata, config: TableConfig) -> dict[str, tuple[int, ...]]:
    lacking = file_lacks(metadata, config)
    known = {name for name in partitioned_columns(config) if name not in lacking.computable}
    return {
        column.name: column.partition.partitions
        for column in metadata.columns
        if column.partition is not None and column.name in known
    }


def _gaps(metadata: SegmentMetadata, lacks: FileLacks, config: TableConfig) -> dict[str, str]:
    """With the reasons of columns whose partitions were to be computed, and of which no value has any."""
    return {**partition_gaps(metadata, config), **lacks.gaps}


def _sorted_by_record(says: RecordSays, config: TableConfig) -> bool | None:
    """A record has ranges of sorted columns; of the time column and partitioned ones it has them in any case."""
    column = next(iter(config.indexing.sorted_column), None)
    others = {config.segments.time_column_name, *says.partitions}
    return True if says.ranges is not None and column in says.ranges.columns.keys() - others else None


def _sorted_by_file(metadata: SegmentMetadata, config: TableConfig) -> bool | None:
    name = next(iter(config.indexing.sorted_column), None)
    column = None if name is None else metadata.column(name)
    return None if column is None else column.is_sorted


def _moved(
    works: Mapping[str, _Work], records: Collection[tuple[str, SegmentZkMetadata]], report: AnnotationReport
) -> dict[str, str]:
    """Segments whose archive lay elsewhere before the refresh put it into the deep store, with the place."""
    refreshed = {found.name for found in report.segments if found.outcome is Outcome.REFRESHED}
    if report.is_dry_run or not refreshed:
        return {}
    now: dict[str, dict[str, str]] = {}
    try:
        for kind, work in works.items():
            now |= work.client.segment_records(work.config.name_with_type, table_type=kind)
    except PinotError as error:  # all is done: the report must not go with it
        log.warning("nobody says where refreshed segments lie now table=%s cause=%s", report.table, error.message)
        return {}
    moved = {}
    for _, record in records:
        url = now.get(record.segment_name, {}).get("segment.download.url", "")
        if record.segment_name in refreshed and _folder(url) != _folder(record.download_url):
            moved[record.segment_name] = record.download_url
    return moved


def _folder(url: str) -> str:
    """Archives of one segment lie in one folder of the deep store, each by its CRC."""
    return url.rpartition("/")[0]
