"""What computing the constants of one statement may cost: bytes of all their values together, and time.

Constants are computed when a query is compiled, by a broker that serves all clients: a few hundred bytes of nested
REPLACE would otherwise be seconds and gigabytes of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from pinotpy.clock import Clock, SystemClock
from pinotpy.errors import QueryExecutionError

BYTES_MAX: Final = 16 << 20
TIME_MAX_MS: Final = 2_000
BYTES_SETTING: Final = "pinot.broker.query.constants.maxBytes"
TIME_SETTING: Final = "pinot.broker.query.constants.timeoutMs"


class ConstantsBudgetError(QueryExecutionError):
    """A statement whose constants cost more than a statement may."""


class ConstantsBudget:
    """One statement's budget, begun when it is made. Used by one thread."""

    def __init__(self, bytes_max: int = BYTES_MAX, time_max_ms: int = TIME_MAX_MS, clock: Clock | None = None) -> None:
        self.bytes_left = self._bytes_max = bytes_max
        self._time_max_ms = time_max_ms
        self._clock = clock or SystemClock()
        self._until_ns = self._clock.monotonic_ns() + time_max_ms * 1_000_000

    @property
    def num_bytes_spent(self) -> int:
        """The bytes of all values computed so far."""
        return self._bytes_max - self.bytes_left

    def expect(self, size_bytes: int) -> None:
        """Raise ConstantsBudgetError if there are not so many bytes left, or no time."""
        if size_bytes > self.bytes_left:
            raise ConstantsBudgetError(
                f"the constants of this statement make more than {self._bytes_max} bytes: compute them beforehand, or "
                f"raise {BYTES_SETTING}"
            )
        if self._clock.monotonic_ns() > self._until_ns:
            raise ConstantsBudgetError(
                f"computing the constants of this statement takes more than {self._time_max_ms} ms: compute them "
                f"beforehand, or raise {TIME_SETTING}"
            )

    def spend(self, size_bytes: int) -> None:
        """A value of so many bytes was computed. Raises ConstantsBudgetError."""
        self.expect(size_bytes)
        self.bytes_left -= size_bytes


_current: ContextVar[ConstantsBudget | None] = ContextVar("constants_budget", default=None)


def current_budget() -> ConstantsBudget | None:
    """The budget of the statement whose constants are computed here and now; None: rows are."""
    return _current.get()


@contextmanager
def spending(budget: ConstantsBudget) -> Iterator[None]:
    """What is computed within are constants, on this budget."""
    token = _current.set(budget)
    try:
        yield
    finally:
        _current.reset(token)
