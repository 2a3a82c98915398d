"""Work that costs a core, or waits for somebody else, on few threads of its own, where those who ask take turns.

Checking passwords and compiling large queries hold a core each, a storage that hangs holds whoever reads it, and
anybody may ask for them as often as he likes. Who asks for much waits behind himself; no thread that requests share is
held meanwhile.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

_T = TypeVar("_T")


class TurnQueue:
    """Work that waits, by who asked. Safe to share between threads; its lock guards the queues.

    waiting_max: of one asker; for more `refusal` is raised, given that number. at_once_max: of one asker, 0 = as many
    as there are threads; for work that may hang.
    """

    def __init__(
        self, name: str, threads: int, waiting_max: int, refusal: Callable[[int], Exception], at_once_max: int = 0
    ) -> None:
        self._waiting_max, self._refusal = waiting_max, refusal
        self._at_once_max = at_once_max or threads
        self._running: Counter[str] = Counter()
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._lock = threading.Lock()
        # The asker whose turn it is first.
        self._waiting: OrderedDict[str, deque[tuple[Future[Any], Callable[[], Any]]]] = OrderedDict()

    def submit(self, asker: str, work: Callable[[], _T]) -> Future[_T]:
        """What `work` gives or raises, in its turn. Raises the refusal if too much of `asker` waits already."""
        future: Future[_T] = Future()
        with self._lock:
            if len(self._waiting.get(asker, ())) >= self._waiting_max:
                raise self._refusal(self._waiting_max)
            self._waiting.setdefault(asker, deque()).append((future, partial(copy_context().run, work)))
        self._threads.submit(self._run_next)
        return future

    def _run_next(self) -> None:
        with self._lock:
            asker = next((one for one in self._waiting if self._running[one] < self._at_once_max), None)
            if asker is None:
                return  # whoever is at work for them goes on with the next
            waiting = self._waiting.pop(asker)
            future, work = waiting.popleft()
            if waiting:
                self._waiting[asker] = waiting
            self._running[asker] += 1
        try:
            if future.set_running_or_notify_cancel():  # else nobody waits for it any more
                try:
                    future.set_result(work())
                except BaseException as problem:
                    future.set_exception(problem)
        finally:
            with self._lock:
                was_held_back = self._running[asker] >= self._at_once_max and asker in self._waiting
                self._running -= Counter([asker])  # without those that have nothing running
            if was_held_back:
                self._threads.submit(self._run_next)  # in place of one that passed over what waits
