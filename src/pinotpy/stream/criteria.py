"""Which offset a table begins at, by its criterion (Pinot: OffsetCriteria)."""

from __future__ import annotations

from pinotpy.config.offset_criterion import Begin, OffsetCriterion
from pinotpy.stream.spec import Offset, StreamMetadataProvider

__all__ = ["Begin", "OffsetCriterion", "start_offset"]


def start_offset(
    provider: StreamMetadataProvider, partition: int, criterion: OffsetCriterion, *, now_ms: int, timeout_s: float
) -> Offset:
    """The offset that the first segment of a partition begins at. Raises what the provider raises."""
    if criterion.begin is Begin.SMALLEST:
        return provider.earliest_offset(partition, timeout_s=timeout_s)
    if criterion.begin is Begin.LARGEST:
        return provider.end_offset(partition, timeout_s=timeout_s)
    time_ms = criterion.millis if criterion.begin is Begin.TIMESTAMP else max(now_ms - criterion.millis, 0)
    return provider.offset_at_time(partition, time_ms, timeout_s=timeout_s)
