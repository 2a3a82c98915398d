"""A query that the process had no memory for gives back what it holds, waits for its turn and runs again, with its
memory reserved beforehand.

The first run takes memory as it needs it, which costs nothing and fits nearly always. Refused, a query is asked to wait
holding nothing, so no two wait for each other: first for twice what it needed, then for all that one query may have. A
query that does not fit into that is refused for good.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from pinotpy.errors import MemoryLimitError, ProcessMemoryError
from pinotpy.memory.budget import Claim, ProcessBudget
from pinotpy.query.result.partial import PartialResult, QueryException
from pinotpy.query.runtime.control import QueryControl

# Answers smaller than this are written without asking.
ANSWER_MIN_BYTES: Final = 1 << 20
# Columns become messages, and these one piece.
COPIES_OF_ANSWER: Final = 2

T = TypeVar("T")


class MemoryTurns:
    """Shared by the threads of a server. `query_max_bytes`: what one query may have at most (setting)."""

    def __init__(self, budget: ProcessBudget, query_max_bytes: int) -> None:
        self._budget = budget
        self._query_max_bytes = query_max_bytes

    def run(
        self,
        control: QueryControl,
        deadline_ns: int,
        execute: Callable[[], PartialResult],
        finish: Callable[[PartialResult], T],
        *,
        is_small: bool,
    ) -> T:
        """What `finish` makes of what `execute` gives under `control`, at the third attempt at the latest; with
        ProcessMemoryError among its exceptions if there was no memory until `deadline_ns`. The query keeps its memory
        until it is finished.
        """
        claim = Claim(control.name, allocated=lambda: control.held_bytes)
        try:
            return finish(self._executed(control, claim, deadline_ns, execute, is_small=is_small))
        finally:
            control.close()
            if claim.size_bytes:
                self._budget.release(claim)

    def _executed(
        self,
        control: QueryControl,
        claim: Claim,
        deadline_ns: int,
        execute: Callable[[], PartialResult],
        *,
        is_small: bool,
    ) -> PartialResult:
        if self._budget.is_short and not is_small:
            # Behind those who wait already: what is freed is theirs.
            refusal = self._waited(control, claim, 0, deadline_ns)
            if refusal is not None:
                return refusal
        partial = _with_room(control, execute())
        if not _was_refused(control, partial) or not control.refused_bytes:
            return partial  # or it needs more than all queries together may have
        most = min(self._budget.for_queries_bytes, self._query_max_bytes)
        claim.least_bytes = min(control.held_bytes + control.refused_bytes, most)
        for wanted in sorted({min(2 * claim.least_bytes, most), most}):
            control.close()
            self._budget.release(claim)
            partial = PartialResult()  # the rows of the one before are gone before more is asked for
            refusal = self._waited(control, claim, wanted, deadline_ns)
            if refusal is not None:
                return refusal
            claim.least_bytes = claim.size_bytes
            control.restart(claim.size_bytes, is_most=claim.size_bytes == self._query_max_bytes)
            partial = _with_room(control, execute())
            if not _was_refused(control, partial):
                break
        return partial

    def _waited(self, control: QueryControl, claim: Claim, size_bytes: int, deadline_ns: int) -> PartialResult | None:
        """Wait for so much memory. What to answer if it did not come; None: it did, or the query was cancelled."""
        try:
            self._budget.reserve(claim, size_bytes, deadline_ns, lambda: control.is_cancelled)
        except ProcessMemoryError as error:
            if control.is_cancelled:
                return None  # the first check of its execution says why
            return _failed(error)
        return None


def _with_room(control: QueryControl, partial: PartialResult) -> PartialResult:
    """The result, with the memory for writing it reserved; or that there was none."""
    size_bytes = partial.num_bytes
    if size_bytes >= ANSWER_MIN_BYTES:
        try:
            control.reserve(COPIES_OF_ANSWER * size_bytes)
        except MemoryLimitError as error:
            return _failed(error)
    return partial


def _failed(error: MemoryLimitError) -> PartialResult:
    return PartialResult(exceptions=[QueryException(error.code, error.message)])


def _was_refused(control: QueryControl, partial: PartialResult) -> bool:
    """Whether the process had no memory for it; one that was ended does not run again."""
    return not control.is_cancelled and any(fault.code == ProcessMemoryError.code for fault in partial.exceptions)
