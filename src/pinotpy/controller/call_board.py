"""Calls to servers that are under way, and servers that do not answer: nobody waits twice for the same silence.

One question to one server is asked once at a time; who asks it meanwhile gets the same answer. A server that failed
several times in a row is left alone for a while, which doubles up to a minute; then one call tries it, and all others
are told at once that it does not answer.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from pinotpy.clock import Clock
from pinotpy.service.turn_queue import TurnQueue

# Calls at once, in turn by server; those to one server that wait.
CALLS_AT_ONCE_MAX: Final = 32
CALLS_WAITING_MAX: Final = 1_024
FAILURES_TO_OPEN: Final = 3
LEFT_ALONE_MS: Final = 5_000
LEFT_ALONE_MAX_MS: Final = 60_000

_T = TypeVar("_T")


class ServerLeftAloneError(Exception):
    """The server was not asked, as it did not answer before; the text says so."""


@dataclass(slots=True)
class _Silence:
    """A server's failures in a row, until when it is left alone, and whether a call is finding out if it is back."""

    num_failures: int = 0
    until_ms: int = 0
    is_tried: bool = False


class CallBoard(Generic[_T]):
    """Shared by all threads that ask servers; its lock guards the tables, never a call."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._calls: dict[tuple[str, str], Future[_T]] = {}
        self._silent: dict[str, _Silence] = {}
        self._queue = TurnQueue("ask-servers", CALLS_AT_ONCE_MAX, CALLS_WAITING_MAX, _asked_enough)

    def ask(
        self, server: str, question: str, call: Callable[[], _T], *, is_silence: Callable[[_T], bool]
    ) -> Future[_T]:
        """The answer of `call`, or of an equal question that is under way. `call` must end by itself.

        is_silence: whether what `call` gave is no answer.
        Raises: ServerLeftAloneError.
        """
        with self._lock:
            under_way = self._calls.get((server, question))
            if under_way is not None:
                return under_way
            silence = self._silent.get(server)
            if silence is not None and silence.num_failures >= FAILURES_TO_OPEN:
                left_ms = silence.until_ms - self._clock.now_ms()
                if left_ms > 0 or silence.is_tried:
                    raise ServerLeftAloneError(
                        f"it was not asked, as it did not answer the last {silence.num_failures} times; it is tried "
                        f"again in {max(-(-left_ms // 1000), 1)} s"
                    )

            def ask() -> _T:
                is_silent = True
                try:
                    answer = call()
                    is_silent = is_silence(answer)
                    return answer
                finally:
                    self._done(server, question, is_silent=is_silent)

            answer = self._calls[server, question] = self._queue.submit(server, ask)
            if silence is not None:
                silence.is_tried = True
            return answer

    def _done(self, server: str, question: str, *, is_silent: bool) -> None:
        with self._lock:
            self._calls.pop((server, question), None)
            if not is_silent:
                self._silent.pop(server, None)
                return
            silence = self._silent.setdefault(server, _Silence())
            silence.num_failures += 1
            silence.is_tried = False
            doubled = min(max(silence.num_failures - FAILURES_TO_OPEN, 0), 10)
            wait_ms = min(LEFT_ALONE_MS << doubled, LEFT_ALONE_MAX_MS)
            silence.until_ms = self._clock.now_ms() + int(wait_ms * random.uniform(0.8, 1.0))


def _asked_enough(waiting: int) -> ServerLeftAloneError:
    return ServerLeftAloneError(f"it was not asked, as {waiting} questions to it wait already")
