"""The twin of cluster.dispatcher.ThreadDispatcher for tests: it delivers when the test says so."""

from __future__ import annotations

from collections import deque

from pinotpy.cluster.dispatcher import Delivery


class ManualDispatcher:
    """Holds deliveries until `deliver`: simulations decide when a hint arrives."""

    def __init__(self) -> None:
        self._waiting: deque[Delivery] = deque()

    def put(self, delivery: Delivery) -> None:
        self._waiting.append(delivery)

    def deliver(self, max_deliveries: int | None = None) -> int:
        """Deliver up to `max_deliveries` in order; return how many."""
        done = 0
        while self._waiting and (max_deliveries is None or done < max_deliveries):
            self._waiting.popleft()()
            done += 1
        return done

    def close(self) -> None:
        self._waiting.clear()
