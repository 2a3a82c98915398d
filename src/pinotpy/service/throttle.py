"""Failed logins are slowed down: by user and address, and by address alone.

After a few failures in a row every further attempt must wait, twice as long each time, up to a minute. The counts fade
with success or after ten quiet minutes. Memory is bounded: the longest unseen pair is forgotten first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from pinotpy.clock import Clock
from pinotpy.service.errors import LoginThrottledError

FREE_FAILURES_BY_USER = 5
# An address may be a proxy with many users behind it.
FREE_FAILURES_BY_PEER = 50
WAIT_MAX_S = 60
FORGET_AFTER_MS = 600_000
ENTRIES_MAX = 10_000


@dataclass(slots=True)
class _Failures:
    count: int = 0
    last_ms: int = 0
    blocked_until_ms: int = 0


class LoginThrottle:
    """Shared by all threads that log in; its lock guards the counts."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failures: OrderedDict[tuple[str, str | None], _Failures] = OrderedDict()

    def check(self, peer: str, user: str) -> None:
        """Raise LoginThrottledError if this address or this user from this address has to wait."""
        now_ms = self._clock.now_ms()
        with self._lock:
            for key in ((peer, user), (peer, None)):
                entry = self._failures.get(key)
                if entry is not None and entry.blocked_until_ms > now_ms:
                    wait_s = -(-(entry.blocked_until_ms - now_ms) // 1000)
                    raise LoginThrottledError(f"too many failed logins: wait {wait_s} s", retry_after_s=wait_s)

    def failed(self, peer: str, user: str) -> None:
        """Count a failed login."""
        now_ms = self._clock.now_ms()
        with self._lock:
            for key, free in (((peer, user), FREE_FAILURES_BY_USER), ((peer, None), FREE_FAILURES_BY_PEER)):
                entry = self._failures.setdefault(key, _Failures())
                if now_ms - entry.last_ms > FORGET_AFTER_MS:
                    entry.count = 0
                entry.count += 1
                entry.last_ms = now_ms
                if entry.count >= free:
                    entry.blocked_until_ms = now_ms + min(1 << min(entry.count - free, 10), WAIT_MAX_S) * 1000
                self._failures.move_to_end(key)
            while len(self._failures) > ENTRIES_MAX:
                self._failures.popitem(last=False)

    def succeeded(self, peer: str, user: str) -> None:
        """A right password clears its own count; the address keeps its."""
        with self._lock:
            self._failures.pop((peer, user), None)
