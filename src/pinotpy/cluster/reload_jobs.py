"""Records of reload jobs: one node for all of them, as Pinot keeps it (PROPERTYSTORE/CONTROLLER_JOBS/RELOAD_SEGMENT,
job id → texts).

The record says that a reload was asked for and of what; how far it is, servers know. It is written before the messages
are sent, so that a server that joins later, or missed its message, finds what it has to do. The newest JOBS_KEPT_MAX
are kept, each for AGE_MAX_MS.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.store import ClusterStore
from pinotpy.errors import NodeExistsError, NoNodeError, StaleVersionError

JOB_TYPE: Final = "RELOAD_SEGMENT"
JOBS_KEPT_MAX: Final = 100
AGE_MAX_MS: Final = 7 * 86_400_000
_ATTEMPTS_MAX: Final = 12
_PAUSE_S_MAX: Final = 0.05
_TABLE_DELETED: Final = "tableDeleted"

Jobs = dict[str, dict[str, str]]


@dataclass(frozen=True, slots=True)
class ReloadJobRecord:
    """One reload that was asked for. `segment`: the only one that it means, "" = all of the table; `num_messages`:
    servers that lived then.
    """

    job_id: str
    table: str
    segment: str
    submitted_ms: int
    num_messages: int
    force_download: bool = False
    is_table_deleted: bool = False

    def to_fields(self) -> dict[str, str]:
        """The texts that Pinot writes, and ours beside them where they say something."""
        fields = {
            "jobId": self.job_id,
            "jobType": JOB_TYPE,
            "tableName": self.table,
            "submissionTimeMs": str(self.submitted_ms),
            "messageCount": str(self.num_messages),
        }
        optional = (
            ("segmentName", self.segment),
            ("forceDownload", "true" * self.force_download),
            (_TABLE_DELETED, "true" * self.is_table_deleted),
        )
        return fields | {name: value for name, value in optional if value}

    @staticmethod
    def from_fields(job_id: str, fields: dict[str, str]) -> ReloadJobRecord:
        """Numbers that cannot be read are 0: such a record is too old to be kept."""
        return ReloadJobRecord(
            job_id,
            fields.get("tableName", ""),
            fields.get("segmentName", ""),
            _number(fields.get("submissionTimeMs", "")),
            _number(fields.get("messageCount", "")),
            fields.get("forceDownload") == "true",
            fields.get(_TABLE_DELETED) == "true",
        )


class ReloadJobRecords:
    """Reads and changes the node. Safe to use from several threads and controllers: every write names the version it
    read.
    """

    def __init__(self, store: ClusterStore, paths: ClusterPaths, pause: Callable[[float], None] = time.sleep) -> None:
        self._store, self._path, self._pause = store, paths.reload_jobs, pause

    def all(self, now_ms: int) -> dict[str, ReloadJobRecord]:
        """Job id → job, oldest first; those whose time is up are left out."""
        return _sorted(self._read()[0], now_ms)

    def add(self, job: ReloadJobRecord) -> None:
        """Keep a job. Adding it twice is adding it once, so a write whose outcome is unknown may be repeated.

        Raises: ConnectionLostError; StaleVersionError after _ATTEMPTS_MAX writes of others in between.
        """
        self._change(lambda jobs: jobs | {job.job_id: job.to_fields()}, job.submitted_ms)

    def table_deleted(self, table: str, now_ms: int) -> None:
        """Mark the jobs of a table that was deleted: a later table of the same name is another one. Raises as `add`."""

        def marked(jobs: Jobs) -> Jobs:
            return {
                job: {**fields, _TABLE_DELETED: "true"} if fields.get("tableName") == table else fields
                for job, fields in jobs.items()
            }

        if any(job.table == table and not job.is_table_deleted for job in self.all(now_ms).values()):
            self._change(marked, now_ms)

    def _change(self, change: Callable[[Jobs], Jobs], now_ms: int) -> None:
        for attempt in range(1, _ATTEMPTS_MAX + 1):
            jobs, version = self._read()
            newest = list(_sorted(change(jobs), now_ms).values())[-JOBS_KEPT_MAX:]
            data = ZNRecord(JOB_TYPE, {}, {job.job_id: job.to_fields() for job in newest}).to_bytes()
            try:
                if version is None:
                    self._store.create(self._path, data, make_parents=True)
                else:
                    self._store.set(self._path, data, version)
            except (StaleVersionError, NodeExistsError, NoNodeError):
                if attempt < _ATTEMPTS_MAX:
                    self._pause(random.uniform(0, _PAUSE_S_MAX))
                continue
            return
        raise StaleVersionError(
            f"the record of reload jobs was changed by others {_ATTEMPTS_MAX} times in a row: try again"
        )

    def _read(self) -> tuple[Jobs, int | None]:
        try:
            data, stat = self._store.get(self._path)
        except NoNodeError:
            return {}, None
        return (ZNRecord.from_bytes(data, self._path).map_fields if data else {}), stat.version


def _sorted(jobs: Jobs, now_ms: int) -> dict[str, ReloadJobRecord]:
    records = sorted(
        (ReloadJobRecord.from_fields(job_id, fields) for job_id, fields in jobs.items()),
        key=lambda job: (job.submitted_ms, job.job_id),
    )
    return {job.job_id: job for job in records if now_ms - job.submitted_ms <= AGE_MAX_MS}


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
