"""Who may upload how many segments at once. Used by one event loop.

A slot is held while a body arrives and is checked. A client that sends slowly holds his for minutes, so that one client
and one table have a part of the slots at most; who finds none free waits for a moment, and is then told to come again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from pinotpy.errors import OutOfCapacityError

# Before a body is read: well below what a client may take to send its first bytes (http_protocol.BODY_GRACE_S).
WAIT_S: Final = 10.0
WAITING_MAX: Final = 64


@dataclass(frozen=True, slots=True, eq=False)
class _Upload:
    client: str
    table: str
    admitted: asyncio.Event


class UploadSlots:
    """`slots_max` uploads at once: half of them of one client to one table, three quarters of one client."""

    def __init__(self, slots_max: int, wait_s: float | None = None) -> None:
        self._slots_max = slots_max
        self._wait_s = WAIT_S if wait_s is None else wait_s
        self._by_client_max = max(-(-slots_max * 3 // 4), 1)
        self._by_table_max = max(slots_max // 2, 1)
        self._num_running = 0
        self._by_client: Counter[str] = Counter()
        self._by_table: Counter[tuple[str, str]] = Counter()
        self._waiting: list[_Upload] = []

    @asynccontextmanager
    async def slot(self, client: str, table: str) -> AsyncIterator[None]:
        """Hold a slot. `table`: "" where the segment says it. Raises OutOfCapacityError if none comes free in time."""
        upload = _Upload(client, table, asyncio.Event())
        if self._fits(upload):
            self._admit(upload)
        else:
            await self._await(upload)
        try:
            yield
        finally:
            self._release(upload)

    async def _await(self, upload: _Upload) -> None:
        if sum(other.client == upload.client for other in self._waiting) >= WAITING_MAX:
            raise self._refusal(upload)
        self._waiting.append(upload)
        try:
            async with asyncio.timeout(self._wait_s):
                await upload.admitted.wait()
        except BaseException as problem:
            if upload.admitted.is_set():  # in the very moment in which its client left or its time was up
                self._release(upload)
            else:
                self._waiting.remove(upload)
            if isinstance(problem, TimeoutError):
                raise self._refusal(upload) from None
            raise

    def _refusal(self, upload: _Upload) -> OutOfCapacityError:
        mine = self._by_client[upload.client]
        return OutOfCapacityError(
            f"{self._num_running} uploads run on this controller, {mine} of them yours; at once it takes "
            f"{self._slots_max} (controller.segment.upload.maxConcurrent), {self._by_client_max} of one client and "
            f"{self._by_table_max} of one client to one table: upload again"
        )

    def _fits(self, upload: _Upload) -> bool:
        return (
            self._num_running < self._slots_max
            and self._by_client[upload.client] < self._by_client_max
            and self._by_table[upload.client, upload.table] < self._by_table_max
        )

    def _admit(self, upload: _Upload) -> None:
        self._num_running += 1
        self._by_client[upload.client] += 1
        self._by_table[upload.client, upload.table] += 1
        upload.admitted.set()

    def _release(self, upload: _Upload) -> None:
        self._num_running -= 1
        self._by_client -= Counter([upload.client])  # without those that hold none
        self._by_table -= Counter([(upload.client, upload.table)])
        for other in list(self._waiting):
            if self._fits(other):
                self._waiting.remove(other)
                self._admit(other)
