"""The memory of one query on a broker: its servers' answers, the merge of them, the answer in its form for clients.

Everything is reserved before it is allocated. What a merge takes is estimated from what goes in
(query/result/merge_memory.py), and so is what an answer takes: Arrow and numpy allocate out of our sight.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from pinotpy.broker.large_queries import LargeQueries
from pinotpy.errors import MemoryLimitError, PinotError, ProcessMemoryError
from pinotpy.memory.budget import Claim, ProcessBudget
from pinotpy.query.result.reduced import ReducedResult

MEMORY_SETTING: Final = "pinot.broker.query.memory.maxBytes"
# Smaller queries are not asked about: a thousand of them at once are 64 MiB.
ASKED_MIN_BYTES: Final = 64 << 10
# A cell as a Python object in a list, and as text; texts are in memory twice more.
CELL_BYTES: Final = 96

T = TypeVar("T")


class QueryMemory:
    """Used on the event loop; `end` is called by any thread.

    Args:
        allowed_bytes: of one query (setting).
        large: whose turn it is among large queries.

    most_bytes: what the query took at most at a moment, or wanted to when it was refused.
    """

    def __init__(self, budget: ProcessBudget, name: str, allowed_bytes: int, large: LargeQueries) -> None:
        self.ended: ProcessMemoryError | None = None
        self.name = name
        self.most_bytes = 0
        self._large = large
        self._turn_bytes = 0
        self._budget = budget
        self._allowed_bytes = allowed_bytes
        self._taken_bytes = 0
        self._claim = Claim(name)
        self._lent: set[Claim] = set()  # to threads
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._taking = asyncio.Lock()  # servers answer at the same time; a claim waits for one thing

    @property
    def held_bytes(self) -> int:
        return self._claim.size_bytes + sum(claim.size_bytes for claim in list(self._lent))

    @property
    def is_ended(self) -> bool:
        return self.ended is not None

    @property
    def is_large(self) -> bool:
        return self._taken_bytes >= ASKED_MIN_BYTES

    def end(self, error: ProcessMemoryError) -> None:
        """Stop waiting for whatever the query waits for, and fail with this error."""
        self.ended = error
        self._loop.call_soon_threadsafe(self._cancel)

    def cannot_end(self) -> None:
        """From now on the answer is written, whatever comes."""
        self._task = None

    def fault(self, error: PinotError | asyncio.CancelledError) -> PinotError:
        """The error of the query; raises CancelledError if it was not `end` that cancelled it."""
        if isinstance(error, PinotError):
            return error
        if self.ended is None or self._task is None:
            raise error
        self._task.uncancel()
        return self.ended

    async def begin(self, size_bytes: int, timeout_s: float) -> None:
        """Wait for the query's turn; `size_bytes`: what it will take, as far as is known. Raises ProcessMemoryError."""
        self._turn_bytes = await self._large.enter(min(size_bytes, self._allowed_bytes), timeout_s)

    async def take(self, size_bytes: int, what: str, timeout_s: float) -> None:
        """Reserve memory for `what` (plural). Raises MemoryLimitError: more than one query may have;
        ProcessMemoryError: the process had none within `timeout_s`.
        """
        self._taken_bytes += size_bytes
        self.most_bytes = max(self.most_bytes, self._taken_bytes + sum(claim.size_bytes for claim in list(self._lent)))
        if self._taken_bytes > self._allowed_bytes:
            raise MemoryLimitError(
                f"with {what} the query needs {self._taken_bytes} bytes on the broker, more than "
                f"{self._allowed_bytes}: ask for fewer rows or groups, or raise {MEMORY_SETTING}",
                setting=MEMORY_SETTING,
            )
        if not self.is_large:
            return
        self._budget.running.setdefault(self.name, self)
        async with self._taking:
            missing = self._taken_bytes - self._claim.size_bytes
            if missing > 0:
                await self._budget.reserve_async(self._claim, missing, timeout_s)

    def lent(self, size_bytes: int, work: Callable[[], T]) -> Callable[[], T]:
        """`work` for a thread that cannot be stopped: `size_bytes` of what the query has are given back when it ends,
        whoever still waits for it.
        """
        size_bytes = min(size_bytes, self._claim.size_bytes)
        claim = self._budget.split(self._claim, size_bytes)
        self._lent.add(claim)
        self._taken_bytes -= size_bytes

        def working() -> T:
            try:
                return work()
            finally:
                self._lent.discard(claim)
                self._budget.release(claim)

        return working

    def give_back(self) -> None:
        """All but what threads have: what it was for is gone."""
        self._taken_bytes = 0
        if self._claim.size_bytes:
            self._budget.release(self._claim)

    def end_turn(self) -> None:
        """Give back all that there is, and the query's turn."""
        self.give_back()
        self._large.leave(self._turn_bytes)
        self._turn_bytes = 0

    def close(self) -> None:
        """The query is answered."""
        self._budget.running.pop(self.name, None)
        self.end_turn()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


def answer_bytes(result: ReducedResult) -> int:
    """What the answer takes as Python's values and as text."""
    size_bytes = 0
    for column in [*result.columns, *(groups.value for groups in result.group_lists)]:
        size_bytes += len(column.values) * CELL_BYTES + 3 * column.values.nbytes
    for groups in result.group_lists:
        size_bytes += sum(len(key.values) * CELL_BYTES + 3 * key.values.nbytes for key in groups.keys)
    return size_bytes
