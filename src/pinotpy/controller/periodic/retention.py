"""Retention: segments that were replaced, segments whose newest row is older than the table keeps, what is left of
deletions, and deleted files whose time is up (RetentionManager).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pinotpy.config.segments_config import SegmentsConfig
from pinotpy.controller.context import Controller
from pinotpy.controller.deletion import delete_segments, finish_deletions, purge_deleted_files
from pinotpy.controller.lineage import arriving_segments, clean_lineage
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


class RetentionManager:
    """The task."""

    name = "RetentionManager"

    def __init__(self, controller: Controller, interval_s: float) -> None:
        self._controller, self.interval_s = controller, interval_s

    def tables(self) -> Sequence[str]:
        return self._controller.catalog.table_names()

    def run_table(self, table_name_with_type: str) -> None:
        catalog = self._controller.catalog
        clean_lineage(self._controller, table_name_with_type)
        stored = catalog.table_config(table_name_with_type)
        kept_ms = retention_ms(stored.config.segments) if stored is not None else None
        if kept_ms is None or split_table_name(table_name_with_type)[1] is not TableType.OFFLINE:
            return
        now_ms = self._controller.clock.now_ms()
        records = catalog.segments(table_name_with_type)
        # What a replacement brings stays until it is done: it could not be ended, else.
        arriving = arriving_segments(self._controller, table_name_with_type)
        expired = sorted(
            name
            for name, segment in records.items()
            if name not in arriving and is_expired(segment.end_time_ms, kept_ms, now_ms)
        )
        if expired:
            delete_segments(self._controller, table_name_with_type, expired)
            LOG.info(
                "segments expired table=%s segments=%d kept_ms=%d first=%s",
                table_name_with_type,
                len(expired),
                kept_ms,
                expired[0],
            )

    def run_once(self) -> None:
        try:
            finish_deletions(self._controller)
        finally:
            purge_deleted_files(self._controller)
