"""A query that calls a kernel that is not compiled yet waits for it, holding nothing, and runs again.

That happens on the first day of an installation only, while what the first queries do not need is compiled behind them
(kernel_warm_up.py). The wait is the query's own: it ends with the query's deadline, or when it is cancelled, and is on
the thread that started the query, never on one that scans for others. The answer tells it.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import Final, TypeVar

from pinotpy.clock import Clock
from pinotpy.errors import QueryTimeoutError
from pinotpy.kernels.compile_processes import Compilers
from pinotpy.kernels.demand import KernelMissingError, compile_here, refusing
from pinotpy.kernels.kernel_names import Kernel
from pinotpy.query.runtime.control import QueryControl
from pinotpy.server.metrics import ServerMetrics

_LOOK_S: Final = 0.05

T = TypeVar("T")
log = logging.getLogger(__name__)


class KernelWaits:
    """Shared by the threads that run queries."""

    def __init__(self, compilers: Compilers, clock: Clock, metrics: ServerMetrics) -> None:
        self._compilers, self._clock, self._metrics = compilers, clock, metrics

    def run(
        self,
        control: QueryControl,
        deadline_ns: int,
        execute: Callable[[], T],
        waited: dict[str, int],
        *,
        may_wait: bool,
    ) -> T:
        """What `execute` gives, run again after each kernel that it had to wait for.

        Args:
            deadline_ns: of the query, on the clock.
            waited: gets the names of these kernels, each with milliseconds.
            may_wait: if not, KernelMissingError is raised; then nothing has been done.

        Raises:
            QueryTimeoutError: the query's time was up before its kernel was there.
            QueryCancelledError: it was cancelled meanwhile.
        """
        while True:
            try:
                with refusing():
                    return execute()
            except KernelMissingError as missing:
                if not may_wait:
                    raise
                kernel = missing.kernel
                traceback.clear_frames(missing.__traceback__)  # threads and the error refer to each other
            # Here the error is gone, and with it the tables of the run that it ended.
            control.run_again()
            self._wait(kernel, control, deadline_ns, waited)

    def _wait(self, kernel: Kernel, control: QueryControl, deadline_ns: int, waited: dict[str, int]) -> None:
        name, start_ns = kernel.short_name, self._clock.monotonic_ns()
        if name not in waited:
            self._metrics.waited_for_kernel()
        wanted = self._compilers.want(kernel)
        try:
            while not wanted.done.wait(_LOOK_S):
                if control.is_cancelled:
                    raise control.cancelled_error()
                if self._clock.monotonic_ns() > deadline_ns:
                    raise QueryTimeoutError(
                        f"kernel {name} is still being compiled, once for this CPU: ask again in some seconds"
                    )
        finally:
            took_ms = (self._clock.monotonic_ns() - start_ns) // 1_000_000
            is_second = name in waited
            waited[name] = waited.get(name, 0) + took_ms
            log.info("a query waited for a kernel query=%s kernel=%s took_ms=%d", control.name, name, took_ms)
        if wanted.failure or is_second:
            log.warning(
                "kernel is compiled in this process kernel=%s reason=%s",
                kernel,
                wanted.failure or "the cache lost it",
            )
            compile_here(kernel)
