"""Forced commits: an operator ends consuming segments now, where their replicas stand (Pinot: forceCommit).

The order is in the record of each segment, so that a server that is away finds it when it begins the segment again, and
a new leader knows that the segment says nothing about how large segments get. The message to servers only makes it
quick: they look at the records by themselves as well. A segment without rows ends when it has one.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from typing import Any

from pinotpy.cluster.force_commit_jobs import ForceCommitJob
from pinotpy.cluster.llc_names import LlcName
from pinotpy.cluster.messages import FORCE_COMMIT, send_user_message
from pinotpy.cluster.realtime_records import RealtimeRecord, SegmentStatus
from pinotpy.cluster.write_outcome import WriteOutcome
from pinotpy.controller.context import Controller
from pinotpy.controller.reload_status import unknown_job
from pinotpy.controller.tables import existing_halves
from pinotpy.errors import ClusterError, NotFoundError, UserError
from pinotpy.names import TableType, raw_table_name, table_name_with_type

LOG = logging.getLogger(__name__)

NAMES_SHOWN_MAX = 5


def realtime_half(controller: Controller, name: str) -> str:
    """The half of a table that reads a stream. Raises NotFoundError, UserError."""
    halves = existing_halves(controller, name)
    if not halves:
        raise NotFoundError(f"Table '{name[:200]}' not found.", table=name[:200])
    half = table_name_with_type(raw_table_name(name), TableType.REALTIME)
    if half not in halves:
        raise UserError(f"table '{halves[0]}' reads no stream: expected a table with a REALTIME half", table=half)
    return half


def force_commit(
    controller: Controller, table: str, partitions: Sequence[str], segments: Sequence[str]
) -> ForceCommitJob:
    """End consuming segments: of some partitions, or some by their names, or all of the table.

    Raises: NotFoundError (no such partition, or no such segment consumes, or none at all), UserError, ClusterError.
    """
    if partitions and segments:
        raise UserError("Cannot specify both partitions and segments to commit: give one of them, or neither for all")
    consuming = _consuming(controller, table)
    if partitions:
        names = [consuming[number] for number in _numbers(partitions, consuming)]
    elif segments:
        known = {str(name): name for name in consuming.values()}
        unknown = sorted(set(segments) - known.keys())
        if unknown:
            raise NotFoundError(
                f"Cannot force commit non-consuming segments: {_shown(unknown)} of table '{table}'; consuming are "
                f"{_shown(sorted(known)) or 'none'}",
                table=table,
            )
        names = [known[each] for each in dict.fromkeys(segments)]
    else:
        names = list(consuming.values())
    if not names:
        raise NotFoundError(
            f"there is nothing to commit: no segment of table '{table}' takes rows; GET /debug/tables/"
            f"{raw_table_name(table)} says why",
            table=table,
        )
    job = ForceCommitJob(str(uuid.uuid4()), table, tuple(map(str, names)), controller.clock.now_ms())
    controller.force_commit_jobs.add(job)
    for name in names:
        written = controller.realtime_segments.order_commit(table, str(name), job.job_id)
        LOG.info(
            "forced commit table=%s segment=%s job=%s outcome=%s %s",
            table, name, job.job_id, written.outcome.value, written.reason,
        )  # fmt: skip
        is_over = written.outcome is WriteOutcome.WRITTEN or not _with_status(
            controller, table, [str(name)], SegmentStatus.IN_PROGRESS
        )
        if not is_over:  # else it is ordered, or the segment has ended meanwhile
            raise ClusterError(f"the commit of segment '{name}' could not be ordered: {written.reason}; try again")
    _tell_servers(controller, table, job)
    return job


def job_status(controller: Controller, job: ForceCommitJob) -> dict[str, Any]:
    """The answer of GET /tables/forceCommitStatus/{jobId}. Segments that were deleted are waited for no more."""
    pending = _with_status(controller, job.table, job.segments, SegmentStatus.IN_PROGRESS, SegmentStatus.COMMITTING)
    return {
        **job.to_fields(),
        "segmentsForceCommitted": list(job.segments),
        "segmentsYetToBeCommitted": pending,
        "numberOfSegmentsYetToBeCommitted": len(pending),
    }


def find_job(controller: Controller, job_id: str) -> ForceCommitJob:
    """Raises NotFoundError."""
    job = controller.force_commit_jobs.find(job_id, controller.clock.now_ms())
    if job is None:
        raise NotFoundError(unknown_job(job_id))
    return job


def _consuming(controller: Controller, table: str) -> dict[int, LlcName]:
    """Partition → its segment that takes rows."""
    newest = {partition: chain[-1] for partition, chain in controller.realtime_segments.chains(table).items()}
    taking = _with_status(controller, table, [str(name) for name in newest.values()], SegmentStatus.IN_PROGRESS)
    return {partition: name for partition, name in sorted(newest.items()) if str(name) in taking}


def _with_status(controller: Controller, table: str, names: Sequence[str], *statuses: SegmentStatus) -> list[str]:
    """Those of some segments whose record is there and has such a status."""
    records = controller.catalog.segments(table, names)
    typed = {name: RealtimeRecord.from_metadata(record) for name, record in records.items()}
    return [name for name in names if (record := typed.get(name)) is not None and record.status in statuses]


def _numbers(partitions: Sequence[str], consuming: dict[int, LlcName]) -> list[int]:
    numbers = []
    for text in partitions:
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise UserError(f"'{text[:40]}' is no partition: expected numbers, e.g. partitions=0,2")
        if int(text) not in consuming:
            known = [str(number) for number in consuming]
            raise NotFoundError(f"no segment of partition {text} consumes; of these it does: {_shown(known) or 'none'}")
        numbers.append(int(text))
    return list(dict.fromkeys(numbers))


def _tell_servers(controller: Controller, table: str, job: ForceCommitJob) -> None:
    catalog = controller.catalog
    ideal = catalog.ideal_state(table) or {}
    try:
        send_user_message(
            catalog.store,
            catalog.paths,
            {server for name in job.segments for server in ideal.get(name, {})},
            FORCE_COMMIT,
            resource=table,
            fields={"tableName": table, "forceCommitJobId": job.job_id},
            source=controller.instance,
            now_ms=controller.clock.now_ms(),
        )
    except ClusterError as error:
        LOG.warning("servers find a forced commit by themselves job=%s reason=%s", job.job_id, error.message)


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMES_SHOWN_MAX} more" if len(names) > NAMES_SHOWN_MAX else ""
    return ", ".join(name[:200] for name in names[:NAMES_SHOWN_MAX]) + more
