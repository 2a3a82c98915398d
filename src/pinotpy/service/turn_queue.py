"""Work that costs a core, on few threads of its own, where those who ask take turns.

Checking passwords and compiling large queries hold a core each, and anybody may ask for them as often as he likes. Who
asks for much waits behind himself; no thread that requests share is held meanwhile.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

_T = TypeVar("_T")


class TurnQueue:
    """Work that waits, by who asked. Safe to share between threads; its lock guards the queues.

    waiting_max: of one asker; for more `refusal` is raised, given that number.
    """

    def __init__(self, name: str, threads: int, waiting_max: int, refusal: Callable[[int], Exception]) -> None:
        self._waiting_max, self._refusal = waiting_max, refusal
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
            asker, waiting = self._waiting.popitem(last=False)
            future, work = waiting.popleft()
            if waiting:
                self._waiting[asker] = waiting
        if not future.set_running_or_notify_cancel():
            return  # nobody waits for it any more
        try:
            future.set_result(work())
        except BaseException as problem:
            future.set_exception(problem)
