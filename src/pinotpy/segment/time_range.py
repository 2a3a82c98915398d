"""First and last value of the time column → milliseconds, for the controller's and the broker's time pruning."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.config.date_time import TimeFormat
from pinotpy.data_types import DataType
from pinotpy.segment.metadata import TimeRange

if TYPE_CHECKING:
    from pinotpy.config.date_time import DateTimeFormat
    from pinotpy.config.field_spec import FieldSpec

_log = logging.getLogger(__name__)
Stored = int | float | bytes
_ISO_IN_FULL: Final = r"\d{4}-\d{2}-\d{2}(T\d{2}(:\d{2}(:\d{2}([.,]\d+)?)?)?Z?)?"
# Texts that are read one by one, some µs each; a column with more of them that are not written in full keeps the order
# of its texts.
_TEXTS_MAX: Final = 1_000_000


def text_extremes_in_time(parts: Sequence[pa.Array], spec: FieldSpec) -> tuple[str, str] | None:
    """The earliest and the latest text of a time column, where the first and the last one need not be: some are shorter
    than the format's pattern, as in 2024-9-30, or of several zones. None: the order of the texts is that of their
    times, or one is no time.
    """
    try:
        time_format = spec.date_time_format if spec.data_type is DataType.STRING else None
    except ValueError:
        return None  # told by time_range
    if time_format is None or time_format.kind is not TimeFormat.SIMPLE_DATE_FORMAT or not time_format.is_lexicographic:
        return None
    # Batches give them as texts, rows of a stream as bytes.
    used = [pc.unique(part).cast(pa.string()) for part in parts if len(part)]
    distinct = pc.unique(pa.chunked_array(used, pa.string())).drop_null()
    if not len(distinct) or len(distinct) > _TEXTS_MAX or _is_in_full(distinct, time_format):
        return None
    try:
        times = sorted((time_format.millis_from_value(text), text) for text in distinct.to_pylist())
    except (ValueError, OverflowError):
        return None
    return times[0][1], times[-1][1]


def _is_in_full(texts: pa.Array, time_format: DateTimeFormat) -> bool:
    width = time_format.full_width
    if width is not None:
        return bool(pc.all(pc.match_substring_regex(texts, f"^{width}$")).as_py())
    lengths = pc.min_max(pc.binary_length(texts)).as_py()
    return bool(
        lengths["min"] == lengths["max"] and pc.all(pc.match_substring_regex(texts, f"^{_ISO_IN_FULL}$")).as_py()
    )


def time_range(spec: FieldSpec, first: Stored, last: Stored) -> TimeRange | None:
    """Range of a time column with these extremes; None, and a warning, where they cannot be read by the column's
    format.

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
