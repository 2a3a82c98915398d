"""Whether a partition still reads what its stream had before this server opened it.

A server that is restarted reads its unfinished segments again; until it has done so, other replicas have more rows.
"""

from __future__ import annotations

import contextlib
import logging
from typing import Final

from pinotpy.clock import Clock
from pinotpy.cluster.completion_messages import Offset
from pinotpy.errors import PinotError
from pinotpy.stream.spec import StreamConsumerFactory

log = logging.getLogger(__name__)

END_TIMEOUT_S: Final = 2.0
RETRY_S: Final = 5.0
# The stream grows while it is read: its end is asked for again until it was reached so fast, at most so often.
ROUND_S: Final = 0.5
ROUNDS_MAX: Final = 10


class CatchingUp:
    """Used by the thread that fetches; `is_behind` is read by others. It never becomes true again."""

    def __init__(self, factory: StreamConsumerFactory, partition: int, clock: Clock) -> None:
        self._factory, self._partition, self._clock = factory, partition, clock
        self._end: Offset | None = None
        self._asked_ns = 0
        self._ask_again_ns = 0
        self._rounds = 0
        self.is_behind = True

    def fetched(self, next_offset: Offset, *, is_empty: bool) -> None:
        """A fetch was appended, and the log goes on at `next_offset`. is_empty: the stream has nothing more."""
        if not self.is_behind or is_empty:
            self.is_behind = False
            return
        now_ns = self._clock.monotonic_ns()
        if self._end is not None:
            if next_offset < self._end:  # type: ignore[operator]
                return
            self._rounds += 1
            if now_ns - self._asked_ns <= ROUND_S * 1e9 or self._rounds >= ROUNDS_MAX:
                self.is_behind = False
                return
        self._asked_ns, self._end = now_ns, self._end_now(now_ns)
        if self._end is not None and next_offset >= self._end:  # type: ignore[operator]
            self.is_behind = False

    def _end_now(self, now_ns: int) -> Offset | None:
        if now_ns < self._ask_again_ns:
            return None
        try:
            with contextlib.closing(self._factory.metadata_provider()) as provider:
                return provider.end_offset(self._partition, timeout_s=END_TIMEOUT_S)
        except PinotError as error:
            self._ask_again_ns = now_ns + int(RETRY_S * 1e9)
            log.info("the end of a stream is not known partition=%d reason=%s", self._partition, type(error).__name__)
            return None
