"""Proves that periodic tasks run on time, only on the leader, and that one that fails costs no other its turn."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pinotpy.clock import ManualClock
from pinotpy.controller.periodic.scheduler import PeriodicScheduler


class Task:
    def __init__(self, name: str, interval_s: float, tables: Sequence[str] = (), bad: Sequence[str] = ()) -> None:
        self.name, self.interval_s = name, interval_s
        self._tables, self._bad = tables, bad
        self.done: list[str] = []

    def tables(self) -> Sequence[str]:
        if "list" in self._bad:
            raise RuntimeError("cannot list")
        return self._tables

    def run_table(self, table_name_with_type: str) -> None:
        if table_name_with_type in self._bad:
            raise RuntimeError("bad table")
        self.done.append(table_name_with_type)

    def run_once(self) -> None:
        if "once" in self._bad:
            raise RuntimeError("bad end")
        self.done.append("once")


def test_a_task_runs_soon_after_leadership_and_then_once_an_interval() -> None:
    clock, task = ManualClock(), Task("t", 100)
    scheduler = PeriodicScheduler([task], clock, lambda: True, initial_delay_s=10, seed=1)
    scheduler.run_due()
    clock.advance(20_000)
    scheduler.run_due()
    assert task.done == ["once"]
    clock.advance(94_000)
    scheduler.run_due()
    assert task.done == ["once"]
    clock.advance(12_000)
    scheduler.run_due()
    assert task.done == ["once", "once"]


def test_a_failing_table_costs_no_other_its_turn_and_is_counted() -> None:
    bad = Task("bad", 1, ["a_OFFLINE", "b_OFFLINE", "c_OFFLINE"], ["b_OFFLINE", "once"])
    good = Task("good", 1, ["x_OFFLINE"])
    blind = Task("blind", 1, ["x_OFFLINE"], ["list"])
    scheduler = PeriodicScheduler([bad, blind, good], ManualClock(), lambda: True)
    for name in ("bad", "blind", "good"):
        scheduler.run_now(name)
    assert bad.done == ["a_OFFLINE", "c_OFFLINE"]
    assert good.done == ["x_OFFLINE", "once"]
    report = scheduler.report["bad"]
    assert (report.tables_done, report.failures, report.last_failed) == (2, 2, ("b_OFFLINE", ""))
    assert scheduler.report["blind"].failures == 1


def test_losing_leadership_stops_a_run_between_tables() -> None:
    task = Task("t", 1, ["a_OFFLINE", "b_OFFLINE"])
    scheduler = PeriodicScheduler([task], ManualClock(), lambda: len(task.done) == 0)
    scheduler.run_now("t")
    assert task.done == ["a_OFFLINE"]


def test_one_table_may_be_run_by_hand_and_an_interval_of_zero_switches_off() -> None:
    clock, task = ManualClock(), Task("t", 0, ["a_OFFLINE", "b_OFFLINE"])
    scheduler = PeriodicScheduler([task], clock, lambda: True)
    clock.advance(10**9)
    scheduler.run_due()
    assert task.done == []
    scheduler.run_now("t", "b_OFFLINE")
    assert task.done == ["b_OFFLINE"]
    with pytest.raises(KeyError):
        scheduler.run_now("none")


def test_the_thread_ends_when_told_to() -> None:
    scheduler = PeriodicScheduler([Task("t", 1)], ManualClock(), lambda: True)
    scheduler.start()
    scheduler.stop(timeout_s=60)
    assert scheduler._thread is not None
    assert not scheduler._thread.is_alive()
