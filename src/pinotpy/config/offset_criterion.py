"""Where a table begins to read a partition that it has no segment of, as its document says (Pinot: OffsetCriteria)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from pinotpy.config.assignment import millis_from_period
from pinotpy.errors import UserError

CRITERION_ALLOWED: Final = (
    "smallest, largest, a period such as 2d or 1d2h, or a time such as 2024-05-01T12:00:00Z or ms since the epoch"
)
_MILLIS = re.compile(r"\d{10,16}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Begin(StrEnum):
    """The kinds of criteria."""

    SMALLEST = "smallest"
    LARGEST = "largest"
    PERIOD = "period"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class OffsetCriterion:
    """millis: of PERIOD its length, of TIMESTAMP ms since the epoch; else 0."""

    begin: Begin
    millis: int = 0

    @classmethod
    def parse(cls, text: str) -> OffsetCriterion:
        """`smallest`, `largest` (or Kafka's `earliest`, `latest`), a period such as `2d` or `1d2h`, or a time: ISO 8601
        (UTC where it names no zone), or ms since the epoch. Raises UserError.
        """
        word = text.strip().lower()
        if word in ("smallest", "earliest"):
            return cls(Begin.SMALLEST)
        if word in ("largest", "latest"):
            return cls(Begin.LARGEST)
        if _MILLIS.fullmatch(word):
            return cls(Begin.TIMESTAMP, int(word))
        try:
            if word[-1:] in ("d", "h", "m", "s"):
                return cls(Begin.PERIOD, millis_from_period(word))
            time = datetime.fromisoformat(text.strip())
        except (ValueError, UserError) as error:
            raise UserError(f"expected {CRITERION_ALLOWED}, found '{text[:60]}'") from error
        time = time if time.tzinfo else time.replace(tzinfo=UTC)
        return cls(Begin.TIMESTAMP, (time - _EPOCH) // timedelta(milliseconds=1))
