"""Which large queries run at once: as many as have memory, by what each took when it ran before.

Queries that take memory as they go hold their servers' answers while they wait for more, and refuse each other. So a
query that is known to need much waits for its turn before it asks its servers, and holds nothing meanwhile. Nothing is
reserved here: `QueryMemory.take` does that; this only says who begins.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from pinotpy.errors import ProcessMemoryError
from pinotpy.memory.budget import SHARE_SETTING

# Smaller ones begin at once.
LARGE_MIN_BYTES: Final = 16 << 20


class LargeQueries:
    """First come, first served. Used by one event loop.

    Args:
        available_bytes: what all queries together may have; 0: no limit.
    """

    def __init__(self, available_bytes: Callable[[], int]) -> None:
        self._available_bytes = available_bytes
        self._running_bytes = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def running_bytes(self) -> int:
        return self._running_bytes

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def enter(self, size_bytes: int, timeout_s: float) -> int:
        """Wait until so much is free, or nobody else runs. Returns what `leave` is to give back. Raises
        ProcessMemoryError if `timeout_s` passes first.
        """
        if size_bytes < LARGE_MIN_BYTES or not self._available_bytes():
            return 0
        if not self._waiting and self._fits(size_bytes):
            self._running_bytes += size_bytes
            return size_bytes
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (size_bytes, turn)
        self._waiting.append(entry)
        try:
            async with asyncio.timeout(max(timeout_s, 0)):
                await turn
        except BaseException as problem:
            if turn.done() and not turn.cancelled():
                self.leave(size_bytes)  # granted in the very moment in which the query gave up
            else:
                self._waiting.remove(entry)
                self._serve()
            if isinstance(problem, TimeoutError):
                raise ProcessMemoryError(
                    f"a query like this took {size_bytes} bytes of this broker's memory before; others had it until "
                    f"the query's time was up: ask again later, ask for fewer groups or rows, or raise {SHARE_SETTING}",
                    setting=SHARE_SETTING,
                ) from None
            raise
        return size_bytes

    def leave(self, size_bytes: int) -> None:
        """Give back what `enter` returned."""
        if size_bytes:
            self._running_bytes -= size_bytes
            self._serve()

    def _fits(self, size_bytes: int) -> bool:
        return not self._running_bytes or self._running_bytes + size_bytes <= self._available_bytes()

    def _serve(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size_bytes, turn = self._waiting.popleft()
            if not turn.done():
                self._running_bytes += size_bytes
                turn.set_result(None)
