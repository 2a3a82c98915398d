"""Retention: segments that were replaced, segments whose newest row is older than the table keeps, what is left of
deletions, and deleted files whose time is up (RetentionManager).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pinotpy.config.segments_config import SegmentsConfig
from pinotpy.controller.context import Controller
from pinotpy.controller.deletion import delete_segments, finish_deletions, purge_deleted_files
from pinotpy.controller.lineage import arriving_segments, clean_lineage, outlived_segments
from pinotpy.controller.segment_check import TIME_MAX_MS, TIME_MIN_MS
from pinotpy.names import TableType, split_table_name

LOG = logging.getLogger(__name__)


def retention_ms(config: SegmentsConfig) -> int | None:
    """How long the table keeps rows; None = for ever (no value, no unit, or REFRESH tables, which are replaced as a
    whole).
    """
    if not config.is_append or config.retention_time_unit is None or config.retention_time_value is None:
        return None
    return config.retention_time_value * config.retention_time_unit.nanos // 1_000_000


def is_expired(end_time_ms: int | None, kept_ms: int, now_ms: int) -> bool:
    """Whether a segment whose newest row is of `end_time_ms` has outlived the retention.

    A time that is missing or outside of 1971..2071 says nothing: such a segment is kept (Pinot: TimeRetentionStrategy).
    """
    return end_time_ms is not None and TIME_MIN_MS <= end_time_ms <= TIME_MAX_MS and now_ms - end_time_ms > kept_ms


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    """What retention finds of one half of a table.

    Attributes:
        kept_ms: how long rows are kept; None: for ever, for the reason in `reason`.
        now_ms: the time that it was asked for.
        expired: segments that go, with the time of their newest row in ms since the epoch; by name.
        arriving: segments that would go, and stay until the replacement that brings them is done.
        timeless: how many stay because nothing says how old their rows are.
        replaced: segments that nobody sees any more, as others stand for them, and whose time is up.
    """

    kept_ms: int | None
    now_ms: int
    reason: str = ""
    expired: tuple[tuple[str, int], ...] = ()
    arriving: tuple[str, ...] = ()
    timeless: int = 0
    replaced: tuple[str, ...] = ()

    def to_json_dict(self) -> dict[str, Any]:
        """As GET /tables/{t}/retention answers it."""
        return {
            "retentionMs": self.kept_ms,
            "reason": self.reason,
            "atMs": self.now_ms,
            "expiredSegments": dict(self.expired),
            "arrivingSegments": list(self.arriving),
            "replacedSegments": list(self.replaced),
            "segmentsWithoutTime": self.timeless,
        }


def retention_plan(controller: Controller, table_name_with_type: str) -> RetentionPlan:
    """What the task would delete of a table now; deletes nothing."""
    catalog, now_ms = controller.catalog, controller.clock.now_ms()
    stored = catalog.table_config(table_name_with_type)
    replaced = tuple(outlived_segments(controller, table_name_with_type))
    if stored is None:
        return RetentionPlan(None, now_ms, "there is no such table")
    kept_ms = retention_ms(stored.config.segments)
    if kept_ms is None:
        return RetentionPlan(None, now_ms, _kept_for_ever(stored.config.segments), replaced=replaced)
    if split_table_name(table_name_with_type)[1] is not TableType.OFFLINE:
        return RetentionPlan(None, now_ms, "segments of streams are not deleted by their age", replaced=replaced)
    ends = {name: segment.end_time_ms for name, segment in catalog.segments(table_name_with_type).items()}
    old = sorted((name, end) for name, end in ends.items() if end is not None and is_expired(end, kept_ms, now_ms))
    # What a replacement brings stays until it is done: it could not be ended, else.
    arriving = arriving_segments(controller, table_name_with_type)
    return RetentionPlan(
        kept_ms,
        now_ms,
        expired=tuple((name, end) for name, end in old if name not in arriving),
        arriving=tuple(name for name, _ in old if name in arriving),
        timeless=sum(end is None or not TIME_MIN_MS <= end <= TIME_MAX_MS for end in ends.values()),
        replaced=replaced,
    )


def _kept_for_ever(config: SegmentsConfig) -> str:
    if not config.is_append:
        return "the table is of type REFRESH: it is replaced as a whole"
    return "the table config has no segmentsConfig.retentionTimeUnit and retentionTimeValue"


class RetentionManager:
    """The task."""

    name = "RetentionManager"

    def __init__(self, controller: Controller, interval_s: float) -> None:
        self._controller, self.interval_s = controller, interval_s

    def tables(self) -> Sequence[str]:
        return self._controller.catalog.table_names()

    def run_table(self, table_name_with_type: str) -> None:
        clean_lineage(self._controller, table_name_with_type)
        plan = retention_plan(self._controller, table_name_with_type)
        if plan.expired:
            delete_segments(self._controller, table_name_with_type, [name for name, _ in plan.expired])
            LOG.info(
                "segments expired table=%s segments=%d kept_ms=%d first=%s",
                table_name_with_type,
                len(plan.expired),
                plan.kept_ms,
                plan.expired[0][0],
            )

    def run_once(self) -> None:
        try:
            finish_deletions(self._controller)
        finally:
            purge_deleted_files(self._controller)
