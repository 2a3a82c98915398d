"""Delivers hints and session events in order, on one thread."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from typing import Protocol

logger = logging.getLogger(__name__)

Delivery = Callable[[], None]
_CLOSE_TIMEOUT_S = 5.0


class Dispatcher(Protocol):
    def put(self, delivery: Delivery) -> None: ...

    def close(self) -> None: ...


class ThreadDispatcher:
    """Delivers on its own daemon thread. Callbacks only note and wake, so the queue stays short."""

    def __init__(self, name: str) -> None:
        self._queue: queue.SimpleQueue[Delivery | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, delivery: Delivery) -> None:
        self._queue.put(delivery)

    def close(self) -> None:
        """Deliver what is queued, then end. May be called from a callback."""
        self._queue.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(_CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        while (delivery := self._queue.get()) is not None:
            try:
                delivery()
            except Exception:
                logger.exception("a callback of the cluster store failed dispatcher=%s", self._thread.name)
