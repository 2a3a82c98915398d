"""Work between scans, what Arrow computes, on all threads of a query: Arrow's kernels release the GIL."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future


def run_jobs(jobs: Iterable[Callable[[], None]], *, threads: int, executor: Executor | None) -> None:
    """Run every job once, in order, on at most so many threads, the calling one among them.

    All have ended when this returns or raises: what the first job raised that failed; those behind it are not begun.
    """
    waiting = deque(jobs)
    failures: list[BaseException] = []

    def work() -> None:
        while waiting and not failures:
            try:
                job = waiting.popleft()
            except IndexError:  # another thread took it
                return
            try:
                job()
            except BaseException as failure:
                failures.append(failure)
                raise

    others: list[Future[None]] = []
    if executor is not None:
        others = [executor.submit(work) for _ in range(min(threads, len(waiting)) - 1)]
    try:
        work()
    finally:
        outcomes = [other.exception() for other in others if not other.cancel()]
    for outcome in outcomes:
        if outcome is not None:
            raise outcome
