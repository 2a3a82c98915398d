"""The time that divides a hybrid table: its OFFLINE half answers up to and with it, its REALTIME half from there on.

It is the newest time of the offline segments that some server has, less a day, or an hour where they are pushed hourly:
the newest push may still be under way (Pinot: TimeBoundaryManager). Of a segment that was uploaded again it is the time
of the version before, until all replicas serve the new one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.config.field_spec import FieldSpec
from pinotpy.config.schema import Schema

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS


@dataclass(frozen=True, slots=True)
class TimeBoundary:
    """`column` up to and with `value` is answered by the OFFLINE half, what follows by the REALTIME half.

    value: in the column's own format.
    """

    column: FieldSpec
    value: int | str

    def as_json(self) -> dict[str, str]:
        """As the reference's /debug/timeBoundary has it."""
        return {"timeColumn": self.column.name, "timeValue": str(self.value)}


def time_boundary(
    served: Iterable[SegmentZkMetadata], schema: Schema, time_column: str | None, *, is_hourly: bool
) -> TimeBoundary | None:
    """The boundary of a hybrid table; None if none of its offline segments says until when its rows are, its time
    column has no format, or the boundary would be a time that the format cannot write.

    Args:
        served: records of offline segments that queries see and some server has.
    """
    spec = schema.field_specs.get(time_column or "")
    ends_ms = (record.served_end_time_ms for record in served)
    newest_ms = max((end_ms for end_ms in ends_ms if end_ms is not None), default=None)
    if spec is None or spec.date_time_format is None or newest_ms is None:
        return None
    boundary_ms = newest_ms - (HOUR_MS if is_hourly else DAY_MS)
    try:
        return TimeBoundary(spec, spec.date_time_format.value_from_millis(boundary_ms))
    except OverflowError:  # before the year 1: such times come where segmentTimeValueCheck is off
        return None
