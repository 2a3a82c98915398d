"""Failed logins are slowed down, by user and address; an address that fails with many names is told to wait.

After a few failures in a row every further attempt of a user must wait, twice as long each time, up to a minute. An
address may be a proxy with many users behind it: what others fail with keeps no right password and no token out, and
only failures are answered with the wait. The counts fade with success or after ten quiet minutes. Memory is bounded:
the longest unseen pair is forgotten first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from pinotpy.clock import Clock
from pinotpy.service.addresses import counted_address
from pinotpy.service.errors import LoginThrottledError

FREE_FAILURES_BY_USER = 5
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
        """Raise LoginThrottledError if this user has to wait at this address."""
        now_ms = self._clock.now_ms()
        with self._lock:
            self._refuse_blocked((counted_address(peer), user), now_ms)

    def failed(self, peer: str, user: str) -> None:
        """Count a failed login. Raises LoginThrottledError if too many failed at this address already."""
        now_ms = self._clock.now_ms()
        peer = counted_address(peer)
        with self._lock:
            is_blocked = self._blocked_ms((peer, None), now_ms) > 0
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
            if is_blocked:
                self._refuse_blocked((peer, None), now_ms)

    def succeeded(self, peer: str, user: str) -> None:
        """A right password clears its own count; the address keeps its."""
        with self._lock:
            self._failures.pop((counted_address(peer), user), None)

    def _blocked_ms(self, key: tuple[str, str | None], now_ms: int) -> int:
        entry = self._failures.get(key)
        return 0 if entry is None else entry.blocked_until_ms - now_ms

    def _refuse_blocked(self, key: tuple[str, str | None], now_ms: int) -> None:
        wait_s = -(-self._blocked_ms(key, now_ms) // 1000)
        if wait_s > 0:
            raise LoginThrottledError(f"too many failed logins: wait {wait_s} s", retry_after_s=wait_s)
