"""Proves that files are asked about in a small share of the time, also where each query reads other segments of a
table, and that what was touched is compared again whichever set found it. Independent: the number of looks, counted.
"""

from __future__ import annotations

import numpy as np
import pytest
from fake_segment import FakeSegment, fake_column

from pinotpy.data_types import DataType
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.segments import checked_bytes
from pinotpy.query.segments.checked_bytes import check_bytes
from pinotpy.query.segments.segment_set import SegmentSet

NUM_SEGMENTS = 40
LOOK_NS = 2_000


class Clock:
    """Goes on by two microseconds at each look, and as the test says."""

    def __init__(self) -> None:
        self.now_ns = 10**9

    def monotonic_ns(self) -> int:
        return self.now_ns


class Watched(FakeSegment):
    """Counts looks; a touched one is compared at the next question for its columns."""

    def __init__(self, number: int, clock: Clock) -> None:
        super().__init__(f"s{number}", [fake_column("a", DataType.INT, [1])])
        self.num_looks = self.num_compared = 0
        self.is_touched, self._is_known, self._clock = False, False, clock

    def look(self) -> None:
        self.num_looks += 1
        self._clock.now_ns += LOOK_NS
        self._is_known &= not self.is_touched
        self.is_touched = False

    def check_bytes(self, names: object, pause: object) -> bool:
        was_known, self._is_known = self._is_known, True
        self.num_compared += not was_known
        return not was_known


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(checked_bytes.time, "monotonic_ns", clock.monotonic_ns)
    return clock


def parts_of(segments: list[Watched]) -> list[SegmentSet]:
    """Pairs, each of two neighbouring segments, so that each segment is in two of them."""
    whole = SegmentSet(segments)
    return [whole.take(np.array([row, (row + 1) % len(segments)])) for row in range(len(segments))]


def test_sets_of_a_table_by_turns_look_no_more_than_one_of_all(clock: Clock) -> None:
    segments = [Watched(number, clock) for number in range(NUM_SEGMENTS)]
    parts, began_ns = parts_of(segments), clock.now_ns
    for turn in range(20_000):
        check_bytes(parts[turn % len(parts)], ["a"], QueryControl())
        clock.now_ns += 50_000
    looking_ns = LOOK_NS * sum(each.num_looks for each in segments)
    # A hundredth, and what each costs the first time.
    assert looking_ns <= (clock.now_ns - began_ns) / 100 + NUM_SEGMENTS * LOOK_NS
    assert all(each.num_looks >= 50 and each.num_compared == 1 for each in segments)


def test_what_was_touched_is_compared_again_in_every_set(clock: Clock) -> None:
    segments = [Watched(number, clock) for number in range(NUM_SEGMENTS)]
    parts = parts_of(segments)
    for part in parts:
        check_bytes(part, ["a"], QueryControl())
    segments[3].is_touched = True
    clock.now_ns += 2 * 10**9  # more than any pause
    check_bytes(parts[2], ["a"], QueryControl())
    check_bytes(parts[3], ["a"], QueryControl())
    assert segments[3].num_compared == 2 and [each.num_compared for each in segments[:3]] == [1, 1, 1]
