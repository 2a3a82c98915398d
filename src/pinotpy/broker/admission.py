"""How many queries a broker handles concurrently: so many run, so many wait, more are refused with 211."""

from __future__ import annotations

import asyncio
from collections import deque

from pinotpy.errors import OutOfCapacityError, QueryTimeoutError


class Admission:
    """First come, first served. Used by one event loop; entering a free slot costs an addition."""

    def __init__(self, *, running_max: int, waiting_max: int) -> None:
        self._running_max = running_max
        self._waiting_max = waiting_max
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.running = 0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def enter(self, timeout_s: float) -> None:
        """Take a slot; `leave` returns it. Raises OutOfCapacityError immediately if too many wait, QueryTimeoutError if
        the deadline passes first.
        """
        if self.running < self._running_max:
            self.running += 1
            return
        if len(self._waiting) >= self._waiting_max:
            raise OutOfCapacityError(
                f"the broker runs {self.running} queries and {len(self._waiting)} wait already, allowed are "
                f"{self._running_max} and "
                f"{self._waiting_max}: try again"
            )
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            async with asyncio.timeout(timeout_s):
                await place
        except BaseException as problem:
            if place.done() and not place.cancelled():
                self.leave()  # it was handed over in the very moment in which the query gave up
            else:
                self._waiting.remove(place)
            if isinstance(problem, TimeoutError):
                raise QueryTimeoutError(
                    "the query waited in the broker until its time was up: lower the load"
                ) from None
            raise

    def leave(self) -> None:
        """Return a slot: to the query that has waited longest, if any."""
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self.running -= 1
