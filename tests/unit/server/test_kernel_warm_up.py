"""Proves that a start that compiles says so, and how far it is; and that one with a filled cache says nothing."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pytest

from pinotpy.clock import ManualClock
from pinotpy.server.kernel_warm_up import TELL_EVERY_S, KernelWarmUp, Step


def test_a_long_start_tells_its_progress(caplog: pytest.LogCaptureFixture, eventually: Callable[..., float]) -> None:
    clock, release = ManualClock(), threading.Event()

    def warm(step: Step) -> None:
        step(3, 70)
        assert release.wait(60)

    with caplog.at_level(logging.INFO):
        warm_up = KernelWarmUp(clock, warm)
        warm_up.start()
        waiting = threading.Thread(target=warm_up.wait)
        waiting.start()

        def is_told() -> bool:
            clock.advance(int(TELL_EVERY_S * 1000))
            return "kernels are being compiled" in caplog.text

        eventually(is_told)
        release.set()
        waiting.join(60)
    assert not waiting.is_alive() and "queries=3 of=70" in caplog.text


def test_a_quick_start_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        warm_up = KernelWarmUp(ManualClock(), lambda step: step(70, 70))
        warm_up.start()
        warm_up.wait()
    assert caplog.text == ""
