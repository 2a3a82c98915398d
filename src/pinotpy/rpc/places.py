"""Slots for a server's calls: so many run, so many wait, more are refused with 211. First come, first served.

Small calls have additional slots of their own, so that a dashboard's tile is not delayed by reports. A waiting call
costs no thread: whoever returns a slot starts the next one. A call whose caller has gone gives up its turn immediately.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from pinotpy.errors import OutOfCapacityError, QueryCancelledError


class Visit:
    """One call at the places. `start` is called when it has a place, by whoever gave that place back; it must not wait.

    has_place: it was given one; is_beside: one of those for small calls; is_gone: nobody waits for its answer.
    """

    __slots__ = ("has_place", "is_beside", "is_gone", "start", "turn")

    def __init__(self, start: Callable[[], None]) -> None:
        self.start = start
        self.turn = 0
        self.has_place = self.is_beside = self.is_gone = False


class Places:
    """Safe to share between threads; the lock guards all counts and what visits say.

    Args:
        working_max: calls of any size that are worked on at once; small_max: small ones beside them.
        waiting_max: calls that wait.
    """

    def __init__(self, working_max: int, *, small_max: int = 0, waiting_max: int = 0) -> None:
        self.working_max, self.small_max, self.waiting_max = working_max, small_max, waiting_max
        self._free, self._free_small = working_max, small_max
        # By turn, in the order in which they came.
        self._waiting: dict[int, Visit] = {}
        self._waiting_small: dict[int, Visit] = {}
        self._turns = 0
        self._lock = threading.Lock()

    @property
    def waiting(self) -> int:
        return len(self._waiting) + len(self._waiting_small)

    @property
    def working(self) -> int:
        return self.working_max - self._free + self.small_max - self._free_small

    def take(self, visit: Visit, is_small: Callable[[], bool]) -> bool:
        """A place for a call: True, and it was started; False: it waits. `is_small` is asked only where that decides.

        Raises OutOfCapacityError when too many wait, QueryCancelledError when it was given up before; what `is_small`
        raises.
        """
        with self._lock:
            self._take_free(visit)
        if not visit.has_place and not self._take_or_wait(visit, is_small()):
            return False
        visit.start()
        return True

    def give_up(self, visit: Visit) -> bool:
        """The caller of a call has gone. True if it was waiting, and no longer is; False if it has its slot, or never
        came.
        """
        with self._lock:
            visit.is_gone = True
            return (
                self._waiting.pop(visit.turn, None) is not None or self._waiting_small.pop(visit.turn, None) is not None
            )

    def leave(self, visit: Visit) -> None:
        """Return the slot of a call: to the one that has waited longest, if any."""
        with self._lock:
            following = self._next(visit.is_beside)
            if following is not None:
                following.has_place, following.is_beside = True, visit.is_beside
            elif visit.is_beside:
                self._free_small += 1
            else:
                self._free += 1
        if following is not None:
            following.start()

    def _take_free(self, visit: Visit) -> None:
        # Under the lock, as `_next`.
        if self._free > 0 and not self._waiting and not self._waiting_small:
            self._free -= 1
            visit.has_place = True

    def _take_or_wait(self, visit: Visit, is_small: bool) -> bool:
        with self._lock:
            if is_small and self._free_small > 0:
                self._free_small -= 1
                visit.has_place = visit.is_beside = True
                return True
            self._take_free(visit)
            if visit.has_place:
                return True
            if visit.is_gone:
                raise QueryCancelledError("the caller hung up before its query had a place")
            if self.waiting >= self.waiting_max:
                raise OutOfCapacityError(
                    f"the server works on {self.working} queries and {self.waiting} wait already, at most "
                    f"{self.waiting_max} may: "
                    "try again later, or raise pinot.query.scheduler.maxWaiting"
                )
            self._turns += 1
            visit.turn = self._turns
            (self._waiting_small if is_small else self._waiting)[visit.turn] = visit
            return False

    def _next(self, is_beside: bool) -> Visit | None:
        lines = (self._waiting_small,) if is_beside else (self._waiting_small, self._waiting)
        line = min((line for line in lines if line), key=lambda line: next(iter(line)), default=None)
        return None if line is None else line.pop(next(iter(line)))
