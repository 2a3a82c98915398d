"""How many rows the next segment of a partition may have (Pinot: FlushThresholdUpdater).

A table says it by rows, of one segment or of all that consume on a server; or by the size of the sealed file. Then the
rows are learned: the first segments have `autotune_initial_rows`, and each segment that completes says how many rows
make a byte. Nothing of that is stored. A new leader knows no ratio, and takes that of the first one it sees complete.

Time is no part of this: its threshold goes into the record as it is, and the replica looks at the clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final

from pinotpy.config.stream_configs import FlushThresholds

ROWS_MIN: Final = 10_000  # of a threshold that is learned: one strange segment must not make a thousand tiny ones
ROWS_MAX: Final = (1 << 31) - 1
NEW_RATIO_WEIGHT: Final = 0.1  # of the completing segment; the rest is what was known
LEARNING_PARTITION: Final = 0  # partitions complete together, and would count the same hours several times
SMALL_PART, LARGE_PART = 0.5, 1.5  # of the size that is aimed at: between them the ratio is trusted
GROWTH_BELOW_SMALL: Final = 1.5
SHRINKAGE_ABOVE_LARGE: Final = 0.5
GROWTH_AFTER_TIME_LIMIT: Final = 1.1  # the row limit should be met next time, with little memory held for nothing


@dataclass(frozen=True, slots=True)
class SizeFacts:
    """A completed segment.

    partition: of the stream. rows: that it has. row_threshold: that it was given. size_bytes: of its file; 0 if it is
    not known. consumed_ms: from its creation to its end; 0 if it is not known. is_forced: an operator ended it.
    """

    partition: int
    rows: int
    row_threshold: int
    size_bytes: int
    consumed_ms: int = 0
    is_forced: bool = False


def segments_per_server(num_partitions: int, replication: int, num_servers: int) -> int:
    """How many segments of a table consume on the server that has most of them; at least 1."""
    return max(ceil(num_partitions * replication / max(num_servers, 1)), 1)


def next_row_threshold(
    settings: FlushThresholds,
    committing: SizeFacts | None,
    ratio: float | None,
    *,
    num_segments_per_server: int = 1,
) -> tuple[int, float | None]:
    """The row threshold of the segment that follows `committing`, and what is known of the table from then on.

    Args:
        committing: the segment of the same partition that completed last; None before there is one.
        ratio: rows per byte of the table's segments; None if this leader has seen none complete.
        num_segments_per_server: over which `settings.rows` is divided, see `segments_per_server`.

    Returns:
        rows from 1 to 2^31 - 1; the ratio to pass the next time.

    Source: Pinot's SegmentFlushThresholdComputer and DefaultFlushThresholdUpdater.
    """
    if settings.segment_rows:
        return min(settings.segment_rows, ROWS_MAX), ratio
    if settings.rows:
        return min(max(settings.rows // max(num_segments_per_server, 1), 1), ROWS_MAX), ratio
    if committing is None:
        if ratio is None:
            return min(max(settings.autotune_initial_rows, 1), ROWS_MAX), None
        return _within_limits(settings.segment_bytes * ratio), ratio
    if committing.is_forced or committing.size_bytes <= 0 or committing.rows <= 0:
        # It says nothing about how large segments get: it ended before its time, or nobody knows its size.
        return min(committing.row_threshold or max(settings.autotune_initial_rows, 1), ROWS_MAX), ratio
    ratio = _learned(committing, ratio)
    return _within_limits(_rows_after(settings, committing, ratio)), ratio


def _learned(committing: SizeFacts, ratio: float | None) -> float:
    new_ratio = committing.rows / committing.size_bytes
    if ratio is None:
        return new_ratio
    if committing.partition != LEARNING_PARTITION:
        return ratio
    return NEW_RATIO_WEIGHT * new_ratio + (1 - NEW_RATIO_WEIGHT) * ratio


def _rows_after(settings: FlushThresholds, committing: SizeFacts, ratio: float) -> float:
    rows, size_bytes, aim_bytes = committing.rows, committing.size_bytes, settings.segment_bytes
    if rows < committing.row_threshold and size_bytes < aim_bytes:
        # The time limit was met. One that came late, after an outage, is counted as if it had come in time.
        is_late = 0 < settings.time_ms < committing.consumed_ms
        in_time = settings.time_ms / committing.consumed_ms if is_late else 1.0
        return rows * in_time * GROWTH_AFTER_TIME_LIMIT
    if size_bytes < SMALL_PART * aim_bytes:
        return rows * GROWTH_BELOW_SMALL
    if size_bytes > LARGE_PART * aim_bytes:
        return rows * SHRINKAGE_ABOVE_LARGE
    return aim_bytes * ratio


def _within_limits(rows: float) -> int:
    return int(min(max(rows, ROWS_MIN), ROWS_MAX))
