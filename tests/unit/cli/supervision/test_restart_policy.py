"""Proves that a daemon is started again after ever longer waits, not for ever, and that old ends are forgotten."""

from __future__ import annotations

from pinotpy.cli.supervision.restart_policy import ENDS_MAX, WINDOW_S, RestartPolicy
from pinotpy.clock import ManualClock


def test_waits_double_up_to_the_longest_and_then_it_is_given_up() -> None:
    policy = RestartPolicy(ManualClock())
    assert [policy.after_end() for _ in range(ENDS_MAX)] == [1, 2, 4, 8, 16, 30]
    assert policy.after_end() is None and policy.after_end() is None


def test_ends_of_long_ago_do_not_count() -> None:
    clock = ManualClock()
    policy = RestartPolicy(clock)
    for _ in range(3 * ENDS_MAX):
        assert policy.after_end() == 1
        clock.advance(int(WINDOW_S * 1000))
    clock.advance(-1)  # just within the window of the last one
    assert policy.after_end() == 2
