"""Records of reload jobs.

The record says that a reload was asked for and of what; how far it is, servers know. It is written before the messages
are sent, so that a server that joins later, or missed its message, finds what it has to do.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pinotpy.cluster.job_node import SUBMITTED_MS, JobNode, Jobs, number_of
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.store import ClusterStore

JOB_TYPE: Final = "RELOAD_SEGMENT"
_TABLE_DELETED: Final = "tableDeleted"


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
            SUBMITTED_MS: str(self.submitted_ms),
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
            number_of(fields.get(SUBMITTED_MS, "")),
            number_of(fields.get("messageCount", "")),
            fields.get("forceDownload") == "true",
            fields.get(_TABLE_DELETED) == "true",
        )


class ReloadJobRecords:
    """Reads and changes the node; see JobNode."""

    def __init__(self, store: ClusterStore, paths: ClusterPaths, pause: Callable[[float], None] = time.sleep) -> None:
        self._node = JobNode(store, paths.reload_jobs, pause)

    def all(self, now_ms: int) -> dict[str, ReloadJobRecord]:
        """Job id → job, oldest first; those whose time is up are left out."""
        return {job: ReloadJobRecord.from_fields(job, fields) for job, fields in self._node.all(now_ms).items()}

    def add(self, job: ReloadJobRecord) -> None:
        """Keep a job. Adding it twice is adding it once, so a write whose outcome is unknown may be repeated.

        Raises: ConnectionLostError, StaleVersionError.
        """
        self._node.change(lambda jobs: jobs | {job.job_id: job.to_fields()}, job.submitted_ms)

    def table_deleted(self, table: str, now_ms: int) -> None:
        """Mark the jobs of a table that was deleted: a later table of the same name is another one. Raises as `add`."""

        def marked(jobs: Jobs) -> Jobs:
            return {
                job: {**fields, _TABLE_DELETED: "true"} if fields.get("tableName") == table else fields
                for job, fields in jobs.items()
            }

        if any(job.table == table and not job.is_table_deleted for job in self.all(now_ms).values()):
            self._node.change(marked, now_ms)
