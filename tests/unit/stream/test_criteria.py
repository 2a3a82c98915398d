"""Criteria of offsets: what their texts mean, and which offset they give."""

from __future__ import annotations

import pytest

from pinotpy.clock import ManualClock
from pinotpy.errors import NotFoundError, UserError
from pinotpy.stream.criteria import Begin, OffsetCriterion, start_offset
from pinotpy.stream.memory import MemoryStream

START_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("smallest", OffsetCriterion(Begin.SMALLEST)),
        (" Earliest ", OffsetCriterion(Begin.SMALLEST)),
        ("largest", OffsetCriterion(Begin.LARGEST)),
        ("latest", OffsetCriterion(Begin.LARGEST)),
        ("2d", OffsetCriterion(Begin.PERIOD, 48 * HOUR_MS)),
        ("1d2h", OffsetCriterion(Begin.PERIOD, 26 * HOUR_MS)),
        ("1700000000000", OffsetCriterion(Begin.TIMESTAMP, START_MS)),
        ("2023-11-14T22:13:20Z", OffsetCriterion(Begin.TIMESTAMP, START_MS)),
        ("2023-11-14T22:13:20.007", OffsetCriterion(Begin.TIMESTAMP, START_MS + 7)),
        ("2023-11-15T00:13:20+02:00", OffsetCriterion(Begin.TIMESTAMP, START_MS)),
        ("2023-11-14", OffsetCriterion(Begin.TIMESTAMP, START_MS - 22 * HOUR_MS - 800_000)),
    ],
)
def test_a_text_is_a_criterion(text: str, expected: OffsetCriterion) -> None:
    assert OffsetCriterion.parse(text) == expected


@pytest.mark.parametrize("text", ["", "d", "-2d", "soon", "2w", "12", "2023-13-01", "1d 2", "9" * 400 + "d", "\u0662d"])
def test_other_texts_are_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(UserError, match="expected smallest, largest, a period"):
        OffsetCriterion.parse(text)


def test_a_criterion_gives_the_offset_to_begin_at() -> None:
    clock = ManualClock(START_MS)
    stream = MemoryStream(clock, 2)
    for _ in range(5):
        stream.append(0, [(None, b"x"), (None, b"y")])
        clock.advance(HOUR_MS)
    stream.expire(0, 3)
    for text, expected in (
        ("smallest", 3), ("largest", 10), ("2h", 6), ("90m", 8), ("10d", 3), ("99999d", 3), ("1s", 10),
        (str(START_MS + 1), 3), (str(START_MS + 3 * HOUR_MS), 6),
    ):  # fmt: skip
        criterion = OffsetCriterion.parse(text)
        assert start_offset(stream, 0, criterion, now_ms=clock.now_ms(), timeout_s=1) == expected, text
        assert start_offset(stream, 1, criterion, now_ms=clock.now_ms(), timeout_s=1) == 0, text
    with pytest.raises(NotFoundError):
        start_offset(stream, 2, OffsetCriterion.parse("smallest"), now_ms=0, timeout_s=1)
