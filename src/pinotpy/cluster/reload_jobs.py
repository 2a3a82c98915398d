"""Records of reload jobs.

The record says that a reload was asked for and of what; how far it is, servers know. It is written before the messages
are sent, so that a server that joins later, or missed its message, finds what it has to do.

A reload means the segments that are sealed when it is asked for. One that still consumes is left out, and so is every
later one of its partition, or the job of a table that is never without them would never end.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pinotpy.cluster.job_node import SUBMITTED_MS, JobNode, Jobs, number_of
from pinotpy.cluster.llc_names import parse_llc_name
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.store import ClusterStore

JOB_TYPE: Final = "RELOAD_SEGMENT"
SEALED_ENDS: Final = "sealedEnds"
_TABLE_DELETED: Final = "tableDeleted"


@dataclass(frozen=True, slots=True)
class SealedEnds:
    """Where the sealed segments of each partition of a stream end: the sequence number of the first that is not
    sealed. None: the table has no stream, or the job is of a controller that did not tell.
    """

    sequences: Mapping[int, int] | None = None

    @staticmethod
    def of(table: str, ideal: Mapping[str, Mapping[str, str]]) -> SealedEnds:
        """As the ideal state has them. A partition of which nothing consumes (it is paused) goes on behind its last."""
        if not table.endswith("_REALTIME"):
            return SealedEnds()
        following: dict[int, int] = {}
        not_sealed: dict[int, int] = {}
        for segment, replicas in ideal.items():
            if (name := parse_llc_name(segment)) is None:
                continue
            following[name.partition] = max(name.sequence + 1, following.get(name.partition, 0))
            if "ONLINE" not in replicas.values():
                first = not_sealed.get(name.partition, name.sequence)
                not_sealed[name.partition] = min(name.sequence, first)
        return SealedEnds(following | not_sealed)

    @staticmethod
    def from_text(text: str) -> SealedEnds:
        """Reads what `to_text` wrote; a text that cannot be read tells nothing."""
        try:
            return SealedEnds({int(partition): int(end) for partition, end in json.loads(text).items()})
        except (ValueError, TypeError, AttributeError):
            return SealedEnds()

    def to_text(self) -> str:
        """A JSON object, "" where nothing is known."""
        if self.sequences is None:
            return ""
        texts = {str(partition): end for partition, end in sorted(self.sequences.items())}
        return json.dumps(texts, separators=(",", ":"))

    def include(self, segment: str) -> bool:
        """Whether a segment was sealed; uploaded ones always are."""
        name = parse_llc_name(segment) if self.sequences is not None else None
        return name is None or self.sequences is None or name.sequence < self.sequences.get(name.partition, 0)


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
    sealed_ends: SealedEnds = field(default_factory=SealedEnds)

    def means(self, segment: str) -> bool:
        """Whether a segment of the table is to be reloaded."""
        return self.segment in ("", segment) and self.sealed_ends.include(segment)

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
            (SEALED_ENDS, self.sealed_ends.to_text()),
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
            SealedEnds.from_text(fields.get(SEALED_ENDS, "")),
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
