"""Names of segments of a stream: `<table>__<partition>__<sequence>__<yyyyMMdd'T'HHmm'Z'>` (Pinot: LLCSegmentName).

The table is the raw name and may itself hold `__`. The time is when the segment was made, in UTC.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from pinotpy.errors import DataError

_NAME: Final = re.compile(r"(.+)__(\d{1,9})__(\d{1,9})__(\d{8}T\d{4}Z)", re.ASCII)
_TIME_FORMAT: Final = "%Y%m%dT%H%MZ"
_PARSED_MAX: Final = 65_536


@dataclass(frozen=True, slots=True, order=True)
class LlcName:
    """The parts of a name; ordered by table, partition and sequence."""

    table: str
    partition: int
    sequence: int
    time: str

    def __str__(self) -> str:
        return f"{self.table}__{self.partition}__{self.sequence}__{self.time}"

    def following(self, now_ms: int) -> LlcName:
        """The name of the partition's next segment, made at `now_ms`."""
        return LlcName(self.table, self.partition, self.sequence + 1, time_of(now_ms))


def llc_name(table: str, partition: int, sequence: int, now_ms: int) -> LlcName:
    """The name of a segment of the raw table `table` that is made at `now_ms`."""
    return LlcName(table, partition, sequence, time_of(now_ms))


def time_of(now_ms: int) -> str:
    """A time as names have it, to the minute."""
    return datetime.fromtimestamp(now_ms / 1000, UTC).strftime(_TIME_FORMAT)


@lru_cache(_PARSED_MAX)
def parse_llc_name(name: str) -> LlcName | None:
    """The parts of a segment's name; None if it is no name of this form: such a segment was uploaded."""
    matched = _NAME.fullmatch(name)
    return LlcName(matched[1], int(matched[2]), int(matched[3]), matched[4]) if matched else None


def known_llc_name(name: str) -> LlcName:
    """The parts of a name that has to be of this form. Raises DataError."""
    parsed = parse_llc_name(name)
    if parsed is None:
        raise DataError(
            f"'{name[:200]}' is no name of a segment of a stream: expected <table>__<partition>__<sequence>__<time>",
            segment=name[:200],
        )
    return parsed
