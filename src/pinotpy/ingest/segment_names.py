"""Names of segments built in batch. Source: Pinot's Simple-, Fixed- and NormalizedDateSegmentNameGenerator."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from pinotpy.config.segments_config import PushFrequency
from pinotpy.errors import UserError
from pinotpy.names import check_segment_name


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """What a name may tell: the range of the time column (as its values are, and in milliseconds), and the file's place."""

    table: str
    sequence_id: int
    min_time: int | str | None = None
    max_time: int | str | None = None
    start_ms: int | None = None
    end_ms: int | None = None


class SegmentNameGenerator(Protocol):
    """Facts of a segment → its name, which `names.check_segment_name` accepts."""

    def __call__(self, facts: SegmentFacts) -> str: ...


@dataclass(frozen=True, slots=True)
class SimpleNames:
    """`<table>_<minTime>_<maxTime>[_postfix]_<sequence>`; without a time column `<table>[_postfix]_<sequence>`."""

    postfix: str | None = None

    def __call__(self, facts: SegmentFacts) -> str:
        return _joined(facts.table, facts.min_time, facts.max_time, self.postfix, facts.sequence_id)


@dataclass(frozen=True, slots=True)
class FixedName:
    """One given name, for one file."""

    name: str

    def __call__(self, facts: SegmentFacts) -> str:
        if facts.sequence_id:
            raise UserError(f"the fixed segment name '{self.name}' serves one input file, found more: use simple or normalizedDate names")
        return _joined(self.name)


@dataclass(frozen=True, slots=True)
class NormalizedDateNames:
    """`<prefix>_<minDate>_<maxDate>_<sequence>` with dates as yyyy-MM-dd, or yyyy-MM-dd-HH for HOURLY pushes.

    `append` false (REFRESH tables) leaves the dates out, so that the next push replaces the segment.
    """

    prefix: str | None = None
    append: bool = True
    push_frequency: PushFrequency | None = None
    exclude_sequence_id: bool = False

    def __call__(self, facts: SegmentFacts) -> str:
        dates = (self._date(facts.start_ms), self._date(facts.end_ms)) if self.append else (None, None)
        return _joined(self.prefix or facts.table, *dates, None if self.exclude_sequence_id else facts.sequence_id)

    def _date(self, millis: int | None) -> str | None:
        if millis is None:
            return None
        pattern = "%Y-%m-%d-%H" if self.push_frequency is PushFrequency.HOURLY else "%Y-%m-%d"
        return datetime.fromtimestamp(millis / 1000, UTC).strftime(pattern)


def _joined(*parts: object) -> str:
    return check_segment_name("_".join(str(part) for part in parts if part is not None))
