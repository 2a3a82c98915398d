"""The threads on which a server runs the scans of all its queries, a quantum at a time.

Tasks wait in one queue. A scan that has used up a quantum (some milliseconds, control.QUANTUM_NS) while others wait
goes to the end of the queue, so that of queries that run at once each gets its share from the start, and none waits
longer than one quantum for every task before it. With nobody waiting a scan goes on where it is.

The threads have a lower priority than all others of the process (NICENESS): a query over few docs runs on the thread
that received it, and the operating system lets that one go first while others scan billions of rows.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, Final, TypeVar

from pinotpy.kernels.demand import refuse_on_this_thread

NICENESS: Final = 5
T = TypeVar("T")
# Runs for about a quantum; gives whether it is done.
Step = Callable[[], bool]


class KernelThreads(Executor):
    """An executor whose tasks may be run in steps. The condition guards the queue."""

    def __init__(self, num_threads: int, *, name: str = "kernel") -> None:
        assert num_threads > 0
        self._condition = threading.Condition()
        self._queue: deque[tuple[Step, Future[None]]] = deque()
        self._is_stopping = False
        self._threads = [
            threading.Thread(target=self._run, name=f"{name}_{number}", daemon=True) for number in range(num_threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit_steps(self, step: Step) -> Future[None]:
        """Call `step` until it gives True, other tasks between its calls. What it raises is the future's exception."""
        future: Future[None] = Future()
        with self._condition:
            if self._is_stopping:
                raise RuntimeError("no task is taken after the shutdown of the kernel threads")
            self._queue.append((step, future))
            self._condition.notify()
        return future

    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run a function as one step."""
        result: Future[T] = Future()

        def once() -> bool:
            if result.set_running_or_notify_cancel():
                try:
                    result.set_result(function(*args, **kwargs))
                except BaseException as failure:
                    result.set_exception(failure)
            return True

        self.submit_steps(once)
        return result

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more tasks; those in the queue run, or are cancelled."""
        with self._condition:
            self._is_stopping = True
            if cancel_futures:
                for _, future in self._queue:
                    future.cancel()
                self._queue.clear()
            self._condition.notify_all()
        if wait:
            for thread in self._threads:
                thread.join()

    def _run(self) -> None:
        lower_priority()
        refuse_on_this_thread()  # others need it: whoever runs a query waits for a kernel that is not compiled
        while True:
            with self._condition:
                while not self._queue:
                    if self._is_stopping:
                        return
                    self._condition.wait()
                step, future = self._queue.popleft()
            try:
                # Others that wait are seen without the lock: a step more or less does not matter.
                while not (done := step()) and not self._queue:
                    pass
            except BaseException as failure:
                future.set_exception(failure)
            else:
                if done:
                    future.set_result(None)
                else:
                    with self._condition:
                        self._queue.append((step, future))
                        self._condition.notify()
            del step, future  # with them the tables of a query, which may be run again


def lower_priority() -> None:
    """Of the calling thread alone: on Linux each thread has its own; elsewhere it stays as it is."""
    try:
        thread_id = threading.get_native_id()
        if thread_id != os.getpid():
            os.setpriority(os.PRIO_PROCESS, thread_id, os.getpriority(os.PRIO_PROCESS, thread_id) + NICENESS)
    except (AttributeError, OSError):
        return
