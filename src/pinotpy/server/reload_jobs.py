"""How far each reload is on this server.

A job counts by order, not by clocks: every job gets the next serial number, and a segment is brought to its table's
config as of the last job that had begun when the config was read. So a segment that is done is done for all jobs up to
that one, however it came there: by the job's message, by a load, or by a later job. What a job still waits for is a set
of names that only shrinks; when it is empty, the job is finished and its id is written to a file, so that a server that
starts again does not do finished jobs anew.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pinotpy.clock import Clock
from pinotpy.cluster.reload_jobs import SealedEnds

log = logging.getLogger(__name__)
JOBS_KEPT_MAX: Final = 100
REASONS_KEPT_MAX: Final = 100
_REASON_CHARS_MAX: Final = 500
_NEVER: Final = -1


@dataclass(slots=True)
class ReloadJob:
    """One reload. `segment`: the only one that it means, "" = all of the table; `ends`: of a stream's segments it means
    those before them; `changes`: what was done, of the first REASONS_KEPT_MAX.
    """

    job_id: str
    table: str
    segment: str
    serial: int
    started_ms: int
    is_download_anew: bool = False
    waiting: set[str] = field(default_factory=set)
    changes: dict[str, str] = field(default_factory=dict)
    finished_ms: int = 0
    ends: SealedEnds = field(default_factory=SealedEnds)

    def means(self, name: str) -> bool:
        """Whether a segment of the table is to be reloaded."""
        return self.segment in ("", name) and self.ends.include(name)


@dataclass(slots=True)
class _Outcomes:
    """Of one table's segments: the serial up to which each is done; the serial of its last failure, when it was, and
    why.
    """

    done: dict[str, int] = field(default_factory=dict)
    failed: dict[str, tuple[int, int, str]] = field(default_factory=dict)


class ReloadJobs:
    """The newest JOBS_KEPT_MAX reloads of this server, in memory. Safe to use from several threads.

    Args:
        finished_file: where the ids of finished jobs are kept from one process to the next; None: nowhere.
    """

    def __init__(self, clock: Clock, finished_file: Path | None = None) -> None:
        self._clock, self._file = clock, finished_file
        self._lock = threading.Lock()
        self._serial = 0
        self._jobs: OrderedDict[str, ReloadJob] = OrderedDict()
        self._tables: dict[str, _Outcomes] = {}
        self._finished_before = _read_ids(finished_file)

    # --- what begins and what is wanted ----------------------------------------------------------------------------

    def expect(
        self,
        job_id: str,
        table: str,
        segment: str,
        names: Iterable[str],
        *,
        is_download_anew: bool = False,
        ends: SealedEnds | None = None,
    ) -> ReloadJob:
        """A reload of those of `names` that it means begins; nothing changes for one that is known."""
        with self._lock:
            known = self._jobs.get(job_id)
            if known is not None:
                return known
            self._serial += 1
            job = ReloadJob(job_id, table, segment, self._serial, self._clock.now_ms(), is_download_anew)
            job.ends = ends or job.ends
            job.waiting = set(filter(job.means, names))
            self._keep(job)
            if not job.waiting:
                self._finish(job)
            return job

    def begin(
        self,
        job_id: str,
        table: str,
        segment: str,
        names: Collection[str],
        *,
        is_download_anew: bool = False,
        ends: SealedEnds | None = None,
    ) -> ReloadJob:
        """The same, for whoever now knows all the names that a job of a table means: a known one that is not finished
        waits for these.
        """
        with self._lock:
            is_known = job_id in self._jobs
        job = self.expect(job_id, table, segment, names, is_download_anew=is_download_anew, ends=ends)
        with self._lock:
            if is_known and not job.finished_ms:
                done = self._tables.get(table, _Outcomes()).done
                failed = self._tables.get(table, _Outcomes()).failed
                job.waiting = {
                    name
                    for name in filter(job.means, names)
                    if done.get(name, _NEVER) < job.serial and failed.get(name, (_NEVER,))[0] < job.serial
                }
                if not job.waiting:
                    self._finish(job)
        return job

    def is_finished(self, job_id: str, table: str, segment: str) -> bool:
        """Whether a job was finished here, by this process or by one before it, after which everything was loaded
        anew.
        """
        with self._lock:
            if job_id in self._jobs:
                return self._jobs[job_id].finished_ms > 0
            if job_id not in self._finished_before:
                return False
            self._keep(ReloadJob(job_id, table, segment, 0, self._clock.now_ms(), finished_ms=self._clock.now_ms()))
            return True

    def mark(self) -> int:
        """The serial of the newest job: taken before a config is read, handed to `done` or `failed` after it was
        applied.
        """
        with self._lock:
            return self._serial

    def waiting_for(self, table: str, segment: str) -> list[ReloadJob]:
        """The jobs that wait for a segment, oldest first."""
        with self._lock:
            return self._waiting(table, segment)

    # --- what was done ---------------------------------------------------------------------------------------------

    def done(self, table: str, segment: str, mark: int, words: str) -> None:
        """A segment was brought to its config as of `mark`."""
        with self._lock:
            outcomes = self._tables.setdefault(table, _Outcomes())
            outcomes.done[segment] = max(mark, outcomes.done.get(segment, _NEVER))
            if segment in outcomes.failed and outcomes.failed[segment][0] <= mark:
                del outcomes.failed[segment]
            for job in self._waiting(table, segment, mark):
                if len(job.changes) < REASONS_KEPT_MAX:
                    job.changes[segment] = words
                self._settle(job, segment)

    def failed(self, table: str, segment: str, mark: int, reason: str) -> None:
        """A segment could not be brought to its config: it is served as it was, or not at all."""
        with self._lock:
            outcomes = self._tables.setdefault(table, _Outcomes())
            outcomes.failed[segment] = (mark, self._clock.now_ms(), reason[:_REASON_CHARS_MAX])
            for job in self._waiting(table, segment, mark):
                self._settle(job, segment)

    def failure(self, table: str, segment: str) -> str | None:
        """Why a segment's last load or reload failed; None if it did not."""
        with self._lock:
            failure = self._tables.get(table, _Outcomes()).failed.get(segment)
            return failure[2] if failure is not None else None

    def gone(self, table: str, segment: str) -> None:
        """A segment left this server: nobody waits for it any more."""
        with self._lock:
            for job in self._waiting(table, segment):
                self._settle(job, segment)
            outcomes = self._tables.get(table)
            if outcomes is not None:
                outcomes.done.pop(segment, None)
                outcomes.failed.pop(segment, None)
                if not outcomes.done and not outcomes.failed:
                    del self._tables[table]

    def means(self, job_id: str, segment: str) -> bool:
        """Whether a known job means a segment of its table."""
        with self._lock:
            return job_id in self._jobs and self._jobs[job_id].means(segment)

    # --- what is told ----------------------------------------------------------------------------------------------

    def status(self, job_id: str, table: str, names: Collection[str]) -> dict[str, Any] | None:
        """How far a job is with the segments that are served here (`names`) and those that failed to load; None: not
        known here (any more).
        """
        with self._lock:
            job = self._jobs.get(job_id)
            if job is None or job.table != table:
                return None
            outcomes = self._tables.get(table, _Outcomes())
            meant = list(filter(job.means, names))
            done = sum(outcomes.done.get(name, _NEVER) >= job.serial for name in meant)
            failed = {
                name: (at_ms, reason)
                for name, (serial, at_ms, reason) in sorted(outcomes.failed.items())
                if serial >= job.serial > outcomes.done.get(name, _NEVER) and job.means(name)
            }
            return {
                "reloadJobId": job_id,
                "tableName": table,
                "segmentName": job.segment,
                "totalSegmentCount": len({*meant, *failed, *job.waiting}),
                "successCount": done,
                "failureCount": len(failed),
                "startTimeMs": job.started_ms,
                "finishTimeMs": job.finished_ms or None,
                "changes": dict(job.changes),
                "failedSegments": {
                    name: {"failedAtMs": failed[name][0], "errorMessage": failed[name][1]}
                    for name in list(failed)[:REASONS_KEPT_MAX]
                },
            }

    # --- the lock is held ------------------------------------------------------------------------------------------

    def _waiting(self, table: str, segment: str, up_to: int | None = None) -> list[ReloadJob]:
        return [
            job
            for job in self._jobs.values()
            if job.waiting and job.table == table and segment in job.waiting and (up_to is None or job.serial <= up_to)
        ]

    def _keep(self, job: ReloadJob) -> None:
        self._jobs[job.job_id] = job
        while len(self._jobs) > JOBS_KEPT_MAX:
            self._jobs.popitem(last=False)

    def _settle(self, job: ReloadJob, segment: str) -> None:
        job.waiting.discard(segment)
        if not job.waiting:
            self._finish(job)

    def _finish(self, job: ReloadJob) -> None:
        job.finished_ms = self._clock.now_ms()
        log.info("reload finished table=%s job=%s took_ms=%d", job.table, job.job_id, job.finished_ms - job.started_ms)
        self._finished_before[job.job_id] = None
        while len(self._finished_before) > JOBS_KEPT_MAX:
            del self._finished_before[next(iter(self._finished_before))]
        if self._file is not None:
            _write_ids(self._file, self._finished_before)


def _read_ids(file: Path | None) -> dict[str, None]:
    """Ids in their order; a file that is not there or cannot be read says nothing, and jobs are done once more."""
    try:
        return dict.fromkeys(file.read_text("ascii").split()[-JOBS_KEPT_MAX:]) if file is not None else {}
    except (OSError, UnicodeDecodeError):
        return {}


def _write_ids(file: Path, ids: Iterable[str]) -> None:
    written = file.with_name(f"{file.name}.new")
    try:
        written.write_text("".join(f"{job_id}\n" for job_id in ids), "ascii", errors="replace")
        os.replace(written, file)
    except OSError as error:
        log.warning("finished reloads not written, they are done again after a restart file=%s reason=%s", file, error)
