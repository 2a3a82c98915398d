"""Records of forced commits: which segments an operator ended. That a segment is to end says its own record, so that no
order is lost with a job that is not kept any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import orjson

from pinotpy.cluster.job_node import SUBMITTED_MS, JobNode, Jobs, number_of
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.store import ClusterStore
from pinotpy.errors import DecodeError

JOB_TYPE: Final = "FORCE_COMMIT"
_SEGMENTS: Final = "segmentsForceCommitted"


@dataclass(frozen=True, slots=True)
class ForceCommitJob:
    """table: name with type."""

    job_id: str
    table: str
    segments: tuple[str, ...]
    submitted_ms: int

    def to_fields(self) -> dict[str, str]:
        """The texts that Pinot writes."""
        return {
            "jobId": self.job_id,
            "jobType": JOB_TYPE,
            "tableName": self.table,
            SUBMITTED_MS: str(self.submitted_ms),
            _SEGMENTS: orjson.dumps(self.segments).decode(),
        }

    @staticmethod
    def from_fields(job_id: str, fields: dict[str, str]) -> ForceCommitJob:
        """Raises DecodeError."""
        try:
            segments = tuple(map(str, orjson.loads(fields.get(_SEGMENTS, "[]"))))
        except (orjson.JSONDecodeError, TypeError) as error:
            raise DecodeError(f"the segments of job '{job_id}' cannot be read: {error}") from None
        return ForceCommitJob(job_id, fields.get("tableName", ""), segments, number_of(fields.get(SUBMITTED_MS, "")))


class ForceCommitJobs:
    """Reads and changes the node; see JobNode."""

    def __init__(self, store: ClusterStore, paths: ClusterPaths) -> None:
        self._node = JobNode(store, paths.force_commit_jobs)

    def find(self, job_id: str, now_ms: int) -> ForceCommitJob | None:
        """None if there is none, or none any more."""
        fields = self._node.all(now_ms).get(job_id)
        return None if fields is None else ForceCommitJob.from_fields(job_id, fields)

    def add(self, job: ForceCommitJob) -> None:
        """Raises: ConnectionLostError, StaleVersionError."""
        self._node.change(lambda jobs: jobs | {job.job_id: job.to_fields()}, job.submitted_ms)

    def table_deleted(self, table: str, now_ms: int) -> None:
        """Forget the jobs of a table that was deleted: a later table of the same name is another one. Raises as
        `add`.
        """

        def kept(jobs: Jobs) -> Jobs:
            return {job_id: fields for job_id, fields in jobs.items() if fields.get("tableName") != table}

        if any(fields.get("tableName") == table for fields in self._node.all(now_ms).values()):
            self._node.change(kept, now_ms)
