"""Remembers answers of mutating requests by their idempotency key, so that a request whose answer was lost can be sent
again.

The key is stored with the request and its principal: the same key with another request is a client error and is
refused, never answered with somebody else's answer.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

from pinotpy.clock import Clock
from pinotpy.errors import AlreadyExistsError, OutOfCapacityError

ENTRIES_MAX = 2048
KEPT_MS = 10 * 60 * 1000
ANSWER_BYTES_MAX = 256 * 1024  # longer answers are not kept; no mutating route has any


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """A finished HTTP answer."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


@dataclass(slots=True)
class _Entry:
    fingerprint: bytes
    made_ms: int
    answer: asyncio.Future[KeptAnswer | None]


class IdempotentAnswers:
    """One event loop's memory of answers: bounded by number and age, oldest finished first."""

    def __init__(self, clock: Clock, *, entries_max: int = ENTRIES_MAX, kept_ms: int = KEPT_MS) -> None:
        self._clock, self._entries_max, self._kept_ms = clock, entries_max, kept_ms
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()

    async def earlier(self, key: bytes, fingerprint: bytes) -> KeptAnswer | None:
        """The answer given to this key before, waiting for one that is under way; None makes the caller the one who
        answers.

        Raises:
            AlreadyExistsError: the key was used for another request.
            OutOfCapacityError: too many keyed requests are under way.
        """
        while True:
            self._forget()
            entry = self._entries.get(key)
            if entry is None:
                if len(self._entries) >= self._entries_max:
                    raise OutOfCapacityError(
                        f"{self._entries_max} keyed requests are under way already: try again later"
                    )
                self._entries[key] = _Entry(
                    fingerprint, self._clock.now_ms(), asyncio.get_running_loop().create_future()
                )
                return None
            if entry.fingerprint != fingerprint:
                raise AlreadyExistsError("this idempotency key was used for another request: send a new key")
            answer = await asyncio.shield(entry.answer)
            if answer is not None:
                return answer
            # The first attempt failed without an answer: the next one in line takes over.

    def finish(self, key: bytes, answer: KeptAnswer | None) -> None:
        """Record the answer of the caller that `earlier` told to go on; None (failed, retriable) lets a later request
        try again.
        """
        entry = self._entries[key]
        keep = answer is not None and len(answer.body) <= ANSWER_BYTES_MAX and answer.status < 500
        if not keep:
            del self._entries[key]
        entry.answer.set_result(answer if keep else None)

    def _forget(self) -> None:
        now_ms = self._clock.now_ms()
        while self._entries:
            key, oldest = next(iter(self._entries.items()))
            too_old = now_ms - oldest.made_ms > self._kept_ms
            too_many = len(self._entries) >= self._entries_max
            if not oldest.answer.done() or not (too_old or too_many):
                return
            del self._entries[key]
