"""Proves the row threshold of a next segment: rows as the table says them, or learned from sizes as the reference's
algorithm (its constants, control-plane §4.5) does; numbers here are worked out by hand.
"""

from __future__ import annotations

import pytest

from pinotpy.config.stream_configs import FlushThresholds
from pinotpy.controller.completion.thresholds import (
    ROWS_MAX,
    ROWS_MIN,
    SizeFacts,
    next_row_threshold,
    segments_per_server,
)

HOUR_MS = 3_600_000
AIM = 200_000_000
BY_SIZE = FlushThresholds(rows=0, segment_rows=0, time_ms=6 * HOUR_MS, segment_bytes=AIM, autotune_initial_rows=100_000)
BY_ROWS = FlushThresholds(
    rows=5_000_000, segment_rows=0, time_ms=6 * HOUR_MS, segment_bytes=AIM, autotune_initial_rows=100_000
)
BY_SEGMENT_ROWS = FlushThresholds(
    rows=0, segment_rows=750_000, time_ms=6 * HOUR_MS, segment_bytes=AIM, autotune_initial_rows=100_000
)


def filled(rows: int, size_bytes: int, partition: int = 0) -> SizeFacts:
    """A segment that met its row limit."""
    return SizeFacts(partition, rows, rows, size_bytes, HOUR_MS)


@pytest.mark.parametrize(
    ("num_partitions", "replication", "num_servers", "expected"),
    [(8, 1, 8, 1), (8, 2, 8, 2), (10, 3, 8, 4), (1, 1, 8, 1), (3, 2, 0, 6), (0, 1, 4, 1)],
)
def test_the_server_with_most_segments_counts(
    num_partitions: int, replication: int, num_servers: int, expected: int
) -> None:
    assert segments_per_server(num_partitions, replication, num_servers) == expected


@pytest.mark.parametrize(("per_server", "expected"), [(1, 5_000_000), (4, 1_250_000), (3, 1_666_666), (0, 5_000_000)])
def test_rows_of_a_table_are_divided_over_the_segments_of_a_server(per_server: int, expected: int) -> None:
    assert next_row_threshold(BY_ROWS, None, None, num_segments_per_server=per_server) == (expected, None)
    completed = filled(10, AIM * 9)
    assert next_row_threshold(BY_ROWS, completed, 0.5, num_segments_per_server=per_server) == (expected, 0.5)


def test_fewer_rows_than_segments_still_give_each_one() -> None:
    few = FlushThresholds(rows=3, segment_rows=0, time_ms=1, segment_bytes=AIM, autotune_initial_rows=100_000)
    assert next_row_threshold(few, None, None, num_segments_per_server=4) == (1, None)


def test_rows_of_one_segment_are_not_divided() -> None:
    assert next_row_threshold(BY_SEGMENT_ROWS, None, None, num_segments_per_server=4) == (750_000, None)


def test_the_first_segment_of_a_table_has_the_first_guess_and_one_of_a_new_partition_what_others_learned() -> None:
    assert next_row_threshold(BY_SIZE, None, None) == (100_000, None)
    assert next_row_threshold(BY_SIZE, None, 0.004) == (800_000, 0.004)


def test_a_small_segment_grows_by_half_and_a_large_one_shrinks_to_half() -> None:
    assert next_row_threshold(BY_SIZE, filled(100_000, 20_000_000), None) == (150_000, 0.005)
    assert next_row_threshold(BY_SIZE, filled(4_000_000, 400_000_000), None) == (2_000_000, 0.01)


@pytest.mark.parametrize(
    ("size_bytes", "expected"),
    [
        (99_999_999, 1_500_000),  # below half of the aim
        (100_000_000, 2_000_000),  # half of it: 1 M rows per 100 MB, so 2 M for 200 MB
        (300_000_000, 666_666),  # one and a half
        (300_000_001, 500_000),  # above
    ],
)
def test_between_half_and_one_and_a_half_of_the_aim_the_ratio_decides(size_bytes: int, expected: int) -> None:
    rows, ratio = next_row_threshold(BY_SIZE, filled(1_000_000, size_bytes), None)
    assert rows == expected
    assert ratio == 1_000_000 / size_bytes, "a new leader learns it from this segment"


def test_a_known_ratio_moves_by_a_tenth_and_by_segments_of_partition_0_alone() -> None:
    completed = filled(1_000_000, 200_000_000)  # 0.005 rows a byte
    rows, ratio = next_row_threshold(BY_SIZE, completed, 0.006)
    assert ratio == pytest.approx(0.0059) and rows in (1_179_999, 1_180_000)  # 0.1 · 0.005 + 0.9 · 0.006
    other = filled(1_000_000, 200_000_000, partition=3)
    assert next_row_threshold(BY_SIZE, other, 0.006) == (1_200_000, 0.006)
    assert next_row_threshold(BY_SIZE, other, None)[1] == 0.005, "any partition is better than nothing"


@pytest.mark.parametrize(
    ("consumed_ms", "expected"),
    [
        (6 * HOUR_MS, 330_000),  # 300,000 · 1.1
        (12 * HOUR_MS, 165_000),  # twice the time: half of its rows count
        (0, 330_000),  # nobody knows how long
    ],
)
def test_after_a_time_limit_there_is_a_little_room(consumed_ms: int, expected: int) -> None:
    completed = SizeFacts(0, 300_000, 1_000_000, 50_000_000, consumed_ms)
    assert next_row_threshold(BY_SIZE, completed, 0.006)[0] == expected


def test_a_segment_that_met_its_time_limit_above_the_aim_is_treated_by_its_size() -> None:
    completed = SizeFacts(0, 300_000, 1_000_000, 400_000_000, 6 * HOUR_MS)
    assert next_row_threshold(BY_SIZE, completed, None)[0] == 150_000


def test_a_forced_segment_and_one_of_unknown_size_teach_nothing() -> None:
    forced = SizeFacts(0, 12, 800_000, 5_000, 1_000, is_forced=True)
    assert next_row_threshold(BY_SIZE, forced, 0.006) == (800_000, 0.006)
    unknown = SizeFacts(0, 500_000, 800_000, 0)
    assert next_row_threshold(BY_SIZE, unknown, None) == (800_000, None)
    assert next_row_threshold(BY_SIZE, SizeFacts(0, 0, 0, 0), None) == (100_000, None), "nothing at all is known"


def test_what_is_learned_stays_within_limits() -> None:
    assert next_row_threshold(BY_SIZE, SizeFacts(0, 40, 10_000, 2_000, HOUR_MS), None)[0] == ROWS_MIN
    assert next_row_threshold(BY_SIZE, filled(ROWS_MAX, 1_000), None)[0] == ROWS_MAX


def test_sizes_of_a_steady_stream_settle_at_the_aim() -> None:
    """Rows of 250 bytes and 1 MB a file, whatever it holds: from the first guess to the aim, without swinging."""
    rows, ratio = next_row_threshold(BY_SIZE, None, None)
    sizes = []
    for _ in range(12):
        sizes.append(1_000_000 + 250 * rows)
        rows, ratio = next_row_threshold(BY_SIZE, filled(rows, sizes[-1]), ratio)
    assert sizes == sorted(sizes), "it ramps up from below"
    assert all(abs(size - AIM) < 0.05 * AIM for size in sizes[-4:])
