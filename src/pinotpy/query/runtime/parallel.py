"""Work of one query, shared out between its threads: all that is not the scan itself (scan_loop.py).

Work comes in pieces. Between two pieces of a thread the query's control is asked, so that a cancelled or late query
stops; on kernel threads other queries have their turn there too (kernel_threads.py). The calling thread takes part, and
does everything that no other thread has begun: a busy server is never waited for. It only waits where it is told to
(`in_turn`), because work of many milliseconds at the priority of the caller would be paid by short queries.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError, Executor, Future
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Final, NoReturn, Protocol

from pinotpy.errors import QueryCancelledError
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.runtime.kernel_threads import KernelThreads, Step

_FAILED: Final = QueryCancelledError("another part of the query failed")


class Team(Protocol):
    """Who works: at most so many threads, the calling one and those of the executor (None: the calling one alone); and
    who says when to stop. A plan is one.
    """

    @property
    def control(self) -> QueryControl: ...

    @property
    def num_threads(self) -> int: ...

    @property
    def executor(self) -> Executor | None: ...


@dataclass(frozen=True, slots=True)
class Workers:
    """A team without a plan."""

    control: QueryControl
    num_threads: int
    executor: Executor | None


def run_pieces(team: Team, pieces: Iterable[Callable[[], object]], *, in_turn: bool = False) -> None:
    """Run every piece once, in order, each on the first thread that is free. Ends and raises as `run_workers`."""
    waiting = deque(pieces)

    def worker() -> bool:
        try:
            piece = waiting.popleft()
        except IndexError:  # another thread took the last
            return True
        piece()
        return not waiting

    run_workers(team, [worker] * min(team.num_threads, len(waiting)), in_turn=in_turn)


def run_each(team: Team, work: Callable[[int], object], count: int) -> None:
    """work(0) … work(count - 1), a piece each. Ends and raises as `run_workers`."""
    run_pieces(team, [partial(work, number) for number in range(count)])


def run_ranges(team: Team, count: int, work: Callable[[int, int], object]) -> None:
    """work(first, last) for ranges that make up 0 … count, one a thread. Ends and raises as `run_workers`."""
    borders = [count * part // team.num_threads for part in range(team.num_threads + 1)]
    run_pieces(team, [partial(work, low, high) for low, high in pairwise(borders)])


def run_workers(team: Team, workers: Sequence[Step], *, in_turn: bool = False) -> None:
    """Call each worker until it gives True. No worker is on two threads at once.

    All have ended when this returns or raises. Raises the first of what workers raise, or `control.check`, which is
    asked before every piece; the others stop at their next piece.

    Args:
        in_turn: on kernel threads the caller leaves all work to them, where queries take turns.
    """
    executor = team.executor if in_turn or len(workers) > 1 else None
    waiting, failures = deque(workers), list[BaseException]()
    leaves_all = in_turn and isinstance(executor, KernelThreads)
    started: list[tuple[_Task, Future[None]]] = []
    try:
        if executor is not None:
            for _ in workers[0 if leaves_all else 1 :]:
                task = _Task(team.control, waiting, failures)
                started.append((task, _submit(executor, task)))
        while waiting and not leaves_all:
            _Task(team.control, waiting, failures).to_the_end()
    except BaseException as failure:
        failures.append(failure)
    for task, future in started:
        # A task that has not begun finds nothing to do when it does.
        if leaves_all or task.has_begun():
            try:
                future.exception()
            except CancelledError:
                failures.append(QueryCancelledError("the query was cancelled: its server stops"))
    if failures:
        raise_first(failures)


def raise_first(failures: list[BaseException]) -> NoReturn:
    """Raise the first of them. None is in the list afterwards: frames that an error holds hold the list, and with it
    the error, so that all that the query had would stay until the next collection of cycles, charged to nobody. The
    list is not empty either, for those who look whether anything failed.
    """
    failures[1:] = [_FAILED]
    raise failures.pop(0)


def _submit(executor: Executor, task: _Task) -> Future[None]:
    if isinstance(executor, KernelThreads):
        return executor.submit_steps(task.step)
    return executor.submit(task.to_the_end)


class _Task:
    """One of the workers that wait, taken when a thread is free for it."""

    __slots__ = ("_control", "_failures", "_lock", "_waiting", "_worker")

    def __init__(self, control: QueryControl, waiting: deque[Step], failures: list[BaseException]) -> None:
        self._control, self._waiting, self._failures = control, waiting, failures
        self._lock = threading.Lock()  # guards the taking of a worker
        self._worker: Step | None = None

    def has_begun(self) -> bool:
        with self._lock:
            return self._worker is not None

    def step(self) -> bool:
        """One piece; gives whether there is nothing more to do."""
        if self._worker is None:
            with self._lock:
                try:
                    self._worker = self._waiting.popleft()
                except IndexError:
                    return True
        try:
            if not self._failures:
                self._control.check()
                with self._control.on_this_thread():
                    return self._worker()
        except BaseException as failure:
            self._failures.append(failure)
        return True

    def to_the_end(self) -> None:
        """All pieces of one worker."""
        while not self.step():
            pass


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
