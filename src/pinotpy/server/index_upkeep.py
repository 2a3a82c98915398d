"""Keeps the indexes of segments as their table's config asks: on every load what is missing is built, on reload what is not
wanted any more is dropped as well.

A segment whose indexes cannot be built is served without them: every query is right without an index, only slower.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pinotpy.clock import Clock
from pinotpy.cluster.property_store import PropertyStore
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import InvalidConfigError, PinotError
from pinotpy.names import raw_table_name
from pinotpy.segment.immutable import ImmutableSegment, open_segment
from pinotpy.segment.indexing import resolve_indexing
from pinotpy.segment.reload import plan_reload, reload_segment
from pinotpy.segment.star_tree.write import missing_trees

log = logging.getLogger(__name__)
JOBS_KEPT_MAX: Final = 100
REASONS_KEPT_MAX: Final = 100


class IndexUpkeep:
    """Called on several threads, one at a time per segment."""

    def __init__(self, properties: PropertyStore) -> None:
        self._properties = properties

    def apply(self, table: str, segment: ImmutableSegment, *, drop: bool) -> tuple[ImmutableSegment, str]:
        """The segment with the indexes of its table's config, opened anew if something changed, and what was done in words.

        Raises: PinotError where an index cannot be built; `segment` stays open, with the indexes that it had.
        """
        schema, config = self._documents(table)
        if schema is None or config is None:
            return segment, "no schema or table config"
        indexing = resolve_indexing(schema, config)
        plan = plan_reload(segment, schema, indexing, drop=drop)
        if drop and config.indexing.enable_dynamic_star_tree_creation:
            # Not on every load: a tree that cannot be built would be tried each time.
            plan = replace(plan, trees=missing_trees(schema, config, segment.metadata))
        if plan.is_empty:
            return segment, plan.words()
        reload_segment(segment, plan, indexing)
        reopened = open_segment(segment.directory, verify=False)
        segment.close()
        return reopened, plan.words()

    def apply_or_leave(self, table: str, segment: ImmutableSegment) -> ImmutableSegment:
        """The same for a load, which only adds; a fault is logged, and the segment served as it is."""
        try:
            return self.apply(table, segment, drop=False)[0]
        except PinotError as error:
            log.warning("indexes not built table=%s segment=%s reason=%s", table, segment.name, error.message)
            return segment

    def _documents(self, table: str) -> tuple[Schema | None, TableConfig | None]:
        config = self._properties.table_config(table)
        schema = self._properties.schema(raw_table_name(table))
        if config is None or schema is None:
            return None, None
        try:
            return Schema.from_json(schema.value), TableConfig.from_json(config.value)
        except InvalidConfigError as error:
            raise PinotError(f"the documents of table '{table}' are not valid, so its indexes stay as they are: {error.message}", table=table) from error


@dataclass(slots=True)
class ReloadJob:
    """One reload on this server: how far it is. `changes` and `failed` by segment, the first REASONS_KEPT_MAX of each."""

    job_id: str
    table: str
    num_segments: int
    started_ms: int
    num_done: int = 0
    num_failed: int = 0
    finished_ms: int = 0
    changes: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {
            "reloadJobId": self.job_id,
            "tableName": self.table,
            "totalSegmentCount": self.num_segments,
            "successCount": self.num_done,
            "failureCount": self.num_failed,
            "startTimeMs": self.started_ms,
            "finishTimeMs": self.finished_ms or None,
            "changes": self.changes,
            "failedSegments": self.failed,
        }


class ReloadJobs:
    """The newest JOBS_KEPT_MAX reloads of this server, in memory."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._jobs: OrderedDict[str, ReloadJob] = OrderedDict()

    def begin(self, job_id: str, table: str, num_segments: int) -> ReloadJob:
        """A reload begins."""
        job = ReloadJob(job_id, table, num_segments, self._clock.now_ms())
        self._jobs[job_id] = job
        while len(self._jobs) > JOBS_KEPT_MAX:
            self._jobs.popitem(last=False)
        return job

    def done(self, job: ReloadJob, segment: str, words: str) -> None:
        """A segment was reloaded."""
        job.num_done += 1
        if len(job.changes) < REASONS_KEPT_MAX:
            job.changes[segment] = words

    def failed(self, job: ReloadJob, segment: str, reason: str) -> None:
        """A segment could not be reloaded; it is served as it was."""
        job.num_failed += 1
        if len(job.failed) < REASONS_KEPT_MAX:
            job.failed[segment] = reason[:500]

    def finish(self, job: ReloadJob) -> None:
        job.finished_ms = self._clock.now_ms()
        log.info("reload finished table=%s job=%s done=%d failed=%d", job.table, job.job_id, job.num_done, job.num_failed)

    def find(self, job_id: str) -> ReloadJob | None:
        """A job by its id; None: not known here (any more)."""
        return self._jobs.get(job_id)
