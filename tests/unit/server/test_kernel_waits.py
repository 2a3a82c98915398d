"""Proves what a query does that calls a kernel which is not compiled yet: it waits, holding nothing, and runs again;
its deadline and a cancel end the wait; a connection's reader never waits; what cannot be compiled elsewhere is compiled
here. Compilers are a twin that the test controls, the clock is manual; the real ones:
tests/unit/kernels/test_compiling.py, tests/cluster/test_first_start.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import cast

import pytest

from pinotpy.clock import ManualClock
from pinotpy.errors import QueryCancelledError, QueryTimeoutError
from pinotpy.kernels import demand
from pinotpy.kernels.compile_processes import Compilers, Wanted
from pinotpy.kernels.demand import KernelMissingError
from pinotpy.kernels.kernel_names import Kernel
from pinotpy.query.runtime.control import QueryControl
from pinotpy.server.kernel_waits import KernelWaits
from pinotpy.server.metrics import ServerMetrics
from pinotpy.service.metric_catalogue import SERVER_METRICS
from pinotpy.service.metrics import Metrics

FIRST, SECOND = Kernel("room.file", "first", "int64"), Kernel("room.file", "second")


class CompilersTwin:
    """Compiles when it is told to."""

    def __init__(self) -> None:
        self.wanted: dict[Kernel, Wanted] = {}

    def want(self, kernel: Kernel) -> Wanted:
        return self.wanted.setdefault(kernel, Wanted(kernel))

    def done(self, kernel: Kernel, failure: str = "") -> None:
        self.wanted[kernel].failure = failure
        self.wanted[kernel].done.set()


class Scene:
    """A query that calls kernels, on a thread of its own."""

    def __init__(self, *calls: Kernel) -> None:
        self.clock, self.compilers = ManualClock(), CompilersTwin()
        self.metrics = Metrics("server", SERVER_METRICS)
        self.waits = KernelWaits(cast(Compilers, self.compilers), self.clock, ServerMetrics(self.metrics))
        self.control = QueryControl()
        self.deadline_ns = self.clock.monotonic_ns() + 10_000_000_000
        self.calls, self.there = calls, set[Kernel]()
        self.waited: dict[str, int] = {}
        self.num_runs = 0
        self.outcome: object = None
        self._thread = threading.Thread(target=self._run)

    def execute(self) -> str:
        self.num_runs += 1
        self.control.reserve(100)
        for kernel in self.calls:
            if kernel not in self.there and kernel not in demand._here:
                raise KernelMissingError(kernel)
        return "the answer"

    def _run(self) -> None:
        try:
            self.outcome = self.waits.run(self.control, self.deadline_ns, self.execute, self.waited, may_wait=True)
        except Exception as error:
            self.outcome = error

    def begin(self) -> None:
        self._thread.start()

    def compiled(self, kernel: Kernel) -> None:
        self.there.add(kernel)
        self.compilers.done(kernel)

    def end(self) -> object:
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.outcome

    def counted(self) -> float:
        name = "pinot_server_queriesWaitedForKernels_total"
        return sum(
            float(line.split()[-1]) for line in self.metrics.render().decode().splitlines() if line.startswith(name)
        )


def test_a_query_waits_for_each_kernel_and_runs_again(eventually: Callable[..., float]) -> None:
    scene = Scene(FIRST, SECOND)
    scene.begin()
    eventually(lambda: FIRST in scene.compilers.wanted)
    assert scene.control.held_bytes == 0
    scene.clock.advance(1500)
    scene.compiled(FIRST)
    eventually(lambda: SECOND in scene.compilers.wanted)
    scene.compiled(SECOND)
    assert scene.end() == "the answer" and scene.num_runs == 3
    assert scene.waited["room.file.first"] >= 1500 and scene.waited["room.file.second"] >= 0
    assert scene.counted() == 2 and scene.control.held_bytes == 100


def test_the_deadline_of_the_query_ends_the_wait_and_names_the_kernel(eventually: Callable[..., float]) -> None:
    scene = Scene(FIRST)
    scene.begin()
    eventually(lambda: FIRST in scene.compilers.wanted)
    scene.clock.advance(9_000)
    assert scene.outcome is None
    scene.clock.advance(2_000)
    outcome = scene.end()
    assert isinstance(outcome, QueryTimeoutError)
    assert "kernel room.file.first is still being compiled" in outcome.message
    assert scene.waited["room.file.first"] >= 9_000


def test_a_cancelled_query_does_not_wait(eventually: Callable[..., float]) -> None:
    scene = Scene(FIRST)
    scene.begin()
    eventually(lambda: FIRST in scene.compilers.wanted)
    scene.control.cancel()
    assert isinstance(scene.end(), QueryCancelledError)


def test_who_may_not_wait_is_told_at_once() -> None:
    scene = Scene(FIRST)
    with pytest.raises(KernelMissingError):
        scene.waits.run(scene.control, scene.deadline_ns, scene.execute, scene.waited, may_wait=False)
    assert not scene.compilers.wanted and not scene.waited and scene.counted() == 0


@pytest.mark.parametrize("is_failure", [True, False], ids=["no process can", "the cache lost it"])
def test_what_cannot_be_compiled_elsewhere_is_compiled_here(
    is_failure: bool, eventually: Callable[..., float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demand, "_here", set[Kernel]())
    scene = Scene(FIRST)
    scene.begin()
    eventually(lambda: FIRST in scene.compilers.wanted)
    scene.compilers.done(FIRST, "the process was killed" if is_failure else "")
    assert scene.end() == "the answer" and demand._here == {FIRST}
    assert scene.num_runs == (2 if is_failure else 3) and scene.counted() == 1


def test_a_query_without_missing_kernels_runs_once() -> None:
    scene = Scene()
    scene.begin()
    assert scene.end() == "the answer" and scene.num_runs == 1 and not scene.waited
