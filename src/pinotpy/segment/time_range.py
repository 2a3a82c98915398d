"""First and last value of the time column → milliseconds, for the controller's and the broker's time pruning."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pinotpy.data_types import DataType
from pinotpy.segment.metadata import TimeRange

if TYPE_CHECKING:
    from pinotpy.config.field_spec import FieldSpec

_log = logging.getLogger(__name__)
Stored = int | float | bytes


def time_range(spec: FieldSpec, first: Stored, last: Stored) -> TimeRange | None:
    """Range of a time column with these extremes; None, and a warning, where they cannot be read by the column's format.

    A segment without a range is never pruned by time, so None is always right, only slower.
    """
    if spec.data_type is DataType.TIMESTAMP:
        assert isinstance(first, int) and isinstance(last, int)
        return TimeRange(spec.name, first, last, str(first), str(last))
    try:
        # The config's own message explains a format that it cannot read.
        time_format = spec.date_time_format
        if time_format is None or not time_format.is_lexicographic:
            _log.warning("time column without a format in order of time column=%s", spec.name)
            return None
        start_ms, end_ms = (time_format.millis_from_value(_plain(value)) for value in (first, last))
    except (ValueError, OverflowError) as error:
        _log.warning("time column cannot be read column=%s first=%r last=%r error=%s", spec.name, first, last, error)
        return None
    if not -(1 << 63) <= start_ms <= end_ms < 1 << 63:
        _log.warning("time column out of range column=%s first=%r last=%r", spec.name, first, last)
        return None
    return TimeRange(spec.name, start_ms, end_ms, str(_plain(first)), str(_plain(last)))


def _plain(value: Stored) -> int | str:
    return value.decode() if isinstance(value, bytes) else int(value)
