"""A query that the process had no memory for gives back what it holds, waits for its turn and runs again, with its
memory reserved beforehand.

The first run takes memory as it needs it, which costs nothing and fits nearly always. Refused, a query is asked to wait
holding nothing, so no two wait for each other: first for twice what it needed, then for all that one query may have. A
query that does not fit into that is refused for good.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pinotpy.errors import ProcessMemoryError
from pinotpy.memory.budget import Claim, ProcessBudget
from pinotpy.query.result.partial import PartialResult, QueryException
from pinotpy.query.runtime.control import QueryControl

# Answers smaller than this are written without asking.
ANSWER_MIN_BYTES: Final = 1 << 20
# Columns, their messages, and the messages in one piece.
COPIES_OF_ANSWER: Final = 3


class MemoryTurns:
    """Shared by the threads of a server. `query_max_bytes`: what one query may have at most (setting)."""

    def __init__(self, budget: ProcessBudget, query_max_bytes: int) -> None:
        self._budget = budget
        self._query_max_bytes = query_max_bytes

    def run(
        self, control: QueryControl, deadline_ns: int, execute: Callable[[], PartialResult], *, is_small: bool
    ) -> PartialResult:
        """What `execute` gives under `control`, at the third attempt at the latest; with ProcessMemoryError among its
        exceptions if there was no memory until `deadline_ns`.
        """
        if self._budget.is_short and not is_small:
            # Behind those who wait already: what is freed is theirs.
            refusal = self._waited(control, 0, deadline_ns)
            if refusal is not None:
                return refusal
        partial = execute()
        if not _was_refused(control, partial) or not control.refused_bytes:
            return partial  # or it needs more than all queries together may have
        most = min(self._budget.for_queries_bytes, self._query_max_bytes)
        needed = 2 * (control.held_bytes + control.refused_bytes)
        for reserved_bytes in sorted({min(needed, most), most}):
            control.restart(reserved_bytes, is_most=most == self._query_max_bytes)
            claim = Claim(control.name)
            refusal = self._waited(control, reserved_bytes, deadline_ns, claim)
            if refusal is not None:
                return refusal
            try:
                partial = execute()
            finally:
                self._budget.release(claim)
            if not _was_refused(control, partial):
                break
        return partial

    def write(self, name: str, partial: PartialResult, deadline_ns: int, write: Callable[[], bytes]) -> bytes:
        """What `write` makes of the rows, with the memory for it reserved. Raises ProcessMemoryError."""
        size_bytes = partial.num_bytes
        if size_bytes < ANSWER_MIN_BYTES:
            return write()
        claim = Claim(name)
        self._budget.reserve(claim, COPIES_OF_ANSWER * size_bytes, deadline_ns)
        try:
            return write()
        finally:
            self._budget.release(claim)

    def _waited(
        self, control: QueryControl, size_bytes: int, deadline_ns: int, claim: Claim | None = None
    ) -> PartialResult | None:
        """Wait for so much memory. What to answer if it did not come; None: it did, or the query was cancelled."""
        try:
            self._budget.reserve(claim or Claim(control.name), size_bytes, deadline_ns, lambda: control.is_cancelled)
        except ProcessMemoryError as error:
            if control.is_cancelled:
                return None  # the first check of its execution says why
            return PartialResult(exceptions=[QueryException(error.code, error.message)])
        return None


def _was_refused(control: QueryControl, partial: PartialResult) -> bool:
    """Whether the process had no memory for it; one that was ended does not run again."""
    return not control.is_cancelled and any(fault.code == ProcessMemoryError.code for fault in partial.exceptions)
