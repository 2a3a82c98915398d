"""Proves that a fault that lasts does not fill a log with itself: it is told once, then once a minute, and so is its
end.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from pinotpy.cluster import reconcile_loop
from pinotpy.cluster.reconcile_loop import ReconcileLoop
from pinotpy.errors import ClusterError


class QuickClock:
    """Time stands until it is moved; waits are short."""

    ns = 10**18

    def now_ms(self) -> int:
        return self.ns // 1_000_000

    def monotonic_ns(self) -> int:
        return self.ns

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        return event.wait(0.001)


def test_a_fault_that_lasts_is_told_once_a_minute_and_its_end_too(
    caplog: pytest.LogCaptureFixture, eventually: Callable[..., float]
) -> None:
    faults = ["no"]

    def step(is_full: bool) -> None:
        if faults:
            raise ClusterError(faults[0])

    def told() -> list[str]:
        return [record.getMessage() for record in caplog.records]

    clock = QuickClock()
    loop = ReconcileLoop("toy", step, period_s=1.0, full_period_s=10.0, clock=clock)
    caplog.set_level(logging.INFO, logger="pinotpy.cluster.reconcile_loop")
    loop.start()
    try:
        eventually(lambda: loop.num_errors > 20, what="20 faults")
        assert told() == ["pass failed loop=toy cause=ClusterError: no untold_failures=0"]
        clock.ns += 61 * 10**9
        eventually(lambda: len(told()) == 2, what="told again after a minute")
        assert int(told()[1].rpartition("=")[2]) >= 20
        faults[0] = "something else"
        eventually(lambda: len(told()) == 3, what="another fault")
        faults.clear()
        eventually(lambda: len(told()) == 4, what="the end of the fault")
        assert told()[3].startswith("passes succeed again loop=toy")
    finally:
        loop.stop()


def test_what_was_not_foreseen_is_told_with_its_trace(
    caplog: pytest.LogCaptureFixture, eventually: Callable[..., float]
) -> None:
    def step(is_full: bool) -> None:
        raise ZeroDivisionError("oops")

    loop = ReconcileLoop("toy", step, period_s=1.0, full_period_s=10.0, clock=QuickClock())
    loop.start()
    try:
        eventually(lambda: loop.num_errors >= 20, what="20 faults")
    finally:
        loop.stop()
    (record,) = caplog.records
    assert (
        record.levelno == logging.ERROR
        and record.exc_info is not None
        and "ZeroDivisionError: oops" in record.getMessage()
    )


def test_a_long_pass_is_followed_by_a_rest_and_misses_no_hint(
    eventually: Callable[..., float], monkeypatch: pytest.MonkeyPatch
) -> None:
    rests: list[float] = []

    class Resting(QuickClock):
        def wait(self, event: threading.Event, timeout_s: float) -> bool:
            if event is loop._stopping:
                rests.append(timeout_s)
            return event.wait(0.001)

    spent = iter([0.0, 0.25, 1.0, 1.015, 2.0, 12.0])  # of three passes, when each began and ended
    monkeypatch.setattr(reconcile_loop, "time", SimpleNamespace(thread_time=lambda: next(spent, 12.0)))
    passes: list[bool] = []

    def step(is_full: bool) -> None:
        passes.append(is_full)
        loop.hint()

    loop = ReconcileLoop("toy", step, period_s=1.0, full_period_s=10.0, clock=Resting())
    loop.start()
    try:
        eventually(lambda: len(passes) > 4, what="passes after the rests")
        assert rests == [0.5, 0.5], "twice 250 ms, none after 15 ms, and never more"
    finally:
        loop.stop()
