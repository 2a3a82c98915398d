"""Work after a scan, shared out between the threads of its query: in steps of a few milliseconds, between which other
queries have their turn, as in the scan itself (kernel_threads.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Executor, Future

from pinotpy.errors import QueryCancelledError
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.runtime.kernel_threads import KernelThreads, Step


def run_steps(control: QueryControl, executor: Executor | None, workers: Sequence[Step]) -> None:
    """Call each worker until it gives True, each on a thread of its own; without an executor one after the other here.

    All have ended when this returns or raises. Raises the first of what workers raise, after which the others stop; and
    what `control.check`, asked before every step, raises.
    """
    failed: list[BaseException] = []

    def guarded(step: Step) -> Step:
        def run() -> bool:
            if failed:
                return True
            try:
                control.check()
                return step()
            except BaseException as failure:
                failed.append(failure)
                raise

        return run

    def to_the_end(step: Step) -> None:
        while not step():
            pass

    steps = [guarded(worker) for worker in workers]
    tasks: list[Future[None]] = []
    try:
        if isinstance(executor, KernelThreads):
            tasks += [executor.submit_steps(step) for step in steps]
        else:
            tasks += [executor.submit(to_the_end, step) for step in steps[1:]] if executor is not None else []
            for step in steps[: 1 if tasks else None]:
                to_the_end(step)
    finally:
        outcomes = [_failure(task) for task in tasks]
    for failure in [*failed[:1], *outcomes]:
        if failure is not None:
            raise failure


def _failure(task: Future[None]) -> BaseException | None:
    """Wait for a task; what it raised."""
    try:
        return task.exception()
    except CancelledError:
        return QueryCancelledError("the query was cancelled: its server stops")


def in_shares(sizes: Sequence[int], first: int, last: int, share: int, work: Callable[[int, int], None]) -> Step:
    """A worker that calls work(low, high) for ranges of first … last, each of about `share` by their `sizes`
    together.
    """
    position = first

    def step() -> bool:
        nonlocal position
        low, total = position, 0
        while position < last and (position == low or total + sizes[position] <= share):
            total += sizes[position]
            position += 1
        if low < position:
            work(low, position)
        return position >= last

    return step
