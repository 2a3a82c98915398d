"""A connection's threads for asynchronous queries, with a bounded number of threads and a bounded queue."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from pinotpy.errors import OutOfCapacityError, UserError

T = TypeVar("T")


class BackgroundQueries:
    """Threads start with the first query."""

    def __init__(self, threads_max: int, waiting_max: int) -> None:
        if threads_max < 1 or waiting_max < 0:
            raise UserError(
                f"async_threads_max must be at least 1 and async_waiting_max at least 0, found {threads_max} and "
                f"{waiting_max}"
            )
        self._threads_max = threads_max
        self._open_max = threads_max + waiting_max
        self._places = threading.BoundedSemaphore(self._open_max)
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._closed = False

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Run `work` when a thread is free. OutOfCapacityError if too many wait already."""
        if not self._places.acquire(blocking=False):
            raise OutOfCapacityError(
                f"{self._open_max} queries run or wait already: let some finish, or connect with a larger "
                "async_waiting_max"
            )
        try:
            with self._lock:
                if self._closed:
                    raise UserError("the connection is closed")
                if self._pool is None:
                    self._pool = ThreadPoolExecutor(self._threads_max, thread_name_prefix="pinotpy-query")
                future = self._pool.submit(work)
        except BaseException:
            self._places.release()
            raise
        future.add_done_callback(lambda _: self._places.release())
        return future

    def close(self) -> None:
        """Cancel what waits; what runs ends by itself."""
        with self._lock:
            self._closed = True
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)
