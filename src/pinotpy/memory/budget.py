"""ProcessBudget: one number of bytes for everything that a process holds, and who has how much of it.

    total = standing + charged + reserved + free

- *Standing* is what no query gives back: the interpreter, caches, rows of streams, worker processes. Known parts are
  asked for; what the process uses beyond all that is accounted for (`measured`) is added, so that everything counts,
  once.
- *Charged* is what queries take while they run, one atomic add per block of memory: two words that compiled kernels
  read (kernels/runtime/growable.py). No lock is taken there.
- *Reserved* is what was asked for beforehand (`ask`): granted at once, or first come, first served, or refused when the
  deadline passes. Nobody waits for somebody who waits: when all who hold something wait for more, the one that holds
  most is refused.

A sixteenth is kept for small queries, so that a full budget does not stop dashboards. An eighth is not given away: what
libraries allocate for a moment is in no account.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np

from pinotpy.errors import ProcessMemoryError
from pinotpy.memory.standing import Standing

SHARE_SETTING: Final = "pinotpy.memory.share"
# Words that kernels read, by address.
W_CHARGED: Final = 0
W_MAX: Final = 1  # what may be charged by queries in general
W_MAX_OF_SMALL: Final = 2  # … by small ones
WORDS: Final = 3
_WORD_BYTES: Final = 8
# One part in so many is left to small queries.
_SMALL_PART: Final = 16
# One part in so many of the budget is for what nobody accounts for.
_UNSEEN_PART: Final = 8
# So often the process is measured before one is refused that waits for nobody: a second.
VAIN_LOOKS_MAX: Final = 20


class Holder(Protocol):
    """A query that holds memory and can be ended."""

    @property
    def held_bytes(self) -> int: ...

    @property
    def is_ended(self) -> bool:
        """Whether `end` was called."""
        ...

    def end(self, error: ProcessMemoryError) -> None:
        """Stop as soon as possible, and fail with this error."""
        ...


@dataclass(slots=True, eq=False)
class Claim:
    """What one query asked for: granted, waiting or refused. `name` is shown in messages.

    allocated: how much of what it has is allocated by now, where somebody knows; None: all of it.
    """

    name: str
    size_bytes: int = 0  # what it has
    wanted_bytes: int = 0  # what it waits for, in addition
    least_bytes: int = 0  # what it would take instead if nobody else holds anything; 0: nothing less
    refusal: ProcessMemoryError | None = None
    told: Callable[[], None] = field(default=lambda: None)
    allocated: Callable[[], int] | None = None

    @property
    def held_bytes(self) -> int:
        return self.size_bytes

    @property
    def allocated_bytes(self) -> int:
        return self.size_bytes if self.allocated is None else min(self.size_bytes, self.allocated())


class ProcessBudget:
    """Shared by all threads; the lock guards claims, and is not taken by kernels.

    Args:
        total_bytes: for the whole process with its children; 0: no budget, everything is granted.
    """

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.running: dict[str, Holder] = {}  # queries that run, by name
        self.num_ended = 0  # queries that the watch ended
        self.num_refused = 0
        self.num_waited = 0
        self._words = np.zeros(WORDS, np.int64)
        self._lock = threading.Lock()
        self._known: list[Callable[[], int]] = []
        self._standing = Standing()
        self._num_vain_looks = 0
        self._reserved_bytes = 0
        self._claims: set[Claim] = set()
        self._waiting: OrderedDict[Claim, None] = OrderedDict()
        self._set_ceilings()

    # --- what there is ---------------------------------------------------------------------------------------------

    @property
    def standing_bytes(self) -> int:
        return self._standing.size_bytes

    @property
    def used_by_queries_bytes(self) -> int:
        """Charged and reserved."""
        return int(self._words[W_CHARGED]) + self._reserved_bytes

    @property
    def for_queries_bytes(self) -> int:
        """What queries in general may use together when the process holds as little besides as it lately did, 0
        without a budget.
        """
        most = self.total_bytes - self.total_bytes // _UNSEEN_PART - self._standing.low_bytes
        return max(most - most // _SMALL_PART, 1) if self.total_bytes else 0

    @property
    def is_short(self) -> bool:
        """Whether somebody waits for memory."""
        return bool(self._waiting)

    def addresses(self, *, is_small: bool) -> tuple[int, int]:
        """Addresses of the words that kernels charge and compare; (0, 0) without a budget."""
        if not self.total_bytes:
            return 0, 0
        base = self._words.ctypes.data
        return base, base + (W_MAX_OF_SMALL if is_small else W_MAX) * _WORD_BYTES

    def is_over(self, *, is_small: bool) -> bool:
        """Whether more is charged than may be."""
        limit = W_MAX_OF_SMALL if is_small else W_MAX
        return bool(self.total_bytes and self._words[W_CHARGED] > self._words[limit])

    # --- what stands -----------------------------------------------------------------------------------------------

    def stands(self, read: Callable[[], int]) -> None:
        """`read` gives the bytes of something that stands."""
        self._known.append(read)

    def measured(self, resident_bytes: int, now_s: float) -> None:
        """What the process uses at `now_s`, as the kernel says. Called by the watch."""
        known = sum(read() for read in self._known)
        with self._lock:
            allocated = int(self._words[W_CHARGED]) + sum(claim.allocated_bytes for claim in self._claims)
            self._standing.look(known, resident_bytes, self.used_by_queries_bytes, allocated, now_s)
            self._set_ceilings()
            self._num_vain_looks = 0 if self._is_held() or not self._waiting else self._num_vain_looks + 1
            told = self._serve()
        _tell(told)

    # --- reservations ----------------------------------------------------------------------------------------------

    def ask(self, claim: Claim, size_bytes: int, told: Callable[[], None] = lambda: None) -> bool:
        """Whether `claim` has so many bytes more at once; otherwise it waits, and `told` is called when it has them or
        is refused (on whatever thread brings that about, perhaps this one); `settle` says which.
        """
        with self._lock:
            # First come, first served.
            if not self.total_bytes or (not self._waiting and self._take(claim, size_bytes)):
                return True
            self.num_waited += 1
            claim.wanted_bytes, claim.told, claim.refusal = size_bytes, told, None
            self._waiting[claim] = None
            answered = self._serve()
        _tell(answered)
        return False

    def take(self, claim: Claim, size_bytes: int) -> bool:
        """Whether `claim` has so many bytes more: at once or not at all, whoever waits, for what cannot wait."""
        with self._lock:
            is_taken = not self.total_bytes or self._take(claim, size_bytes)
            self.num_refused += not is_taken
        return is_taken

    def reserve(
        self, claim: Claim, size_bytes: int, deadline_ns: int, is_cancelled: Callable[[], bool] = lambda: False
    ) -> None:
        """As `ask`, and wait on this thread until `deadline_ns` (time.monotonic_ns). Raises ProcessMemoryError; whoever
        cancelled the query knows why it returns early.
        """
        answered = threading.Event()
        if self.ask(claim, size_bytes, answered.set):
            return
        while not answered.is_set() and not is_cancelled():
            left_s = (deadline_ns - time.monotonic_ns()) / 1e9
            if left_s <= 0 or answered.wait(min(left_s, 0.1)):
                break
        self.settle(claim, size_bytes)

    async def reserve_async(self, claim: Claim, size_bytes: int, timeout_s: float) -> None:
        """As `reserve`, on the event loop."""
        loop = asyncio.get_running_loop()
        answered = asyncio.Event()

        def told() -> None:
            loop.call_soon_threadsafe(answered.set)

        if self.ask(claim, size_bytes, told):
            return
        try:
            async with asyncio.timeout(max(timeout_s, 0)):
                await answered.wait()
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            self.release(claim)
            raise
        self.settle(claim, size_bytes)

    def settle(self, claim: Claim, size_bytes: int) -> None:
        """End the waiting of a claim. Raises ProcessMemoryError if it has not got what it waited for."""
        with self._lock:
            if claim in self._waiting:
                del self._waiting[claim]
                claim.refusal = self._refusal(claim, size_bytes, "until its time was up")
                told = self._serve()
            else:
                told = []
            refusal = claim.refusal
            self.num_refused += refusal is not None
        _tell(told)
        if refusal is not None:
            raise refusal

    def release(self, claim: Claim, size_bytes: int | None = None) -> None:
        """Give back so much of what was granted, or all of it."""
        with self._lock:
            given = claim.size_bytes if size_bytes is None else min(size_bytes, claim.size_bytes)
            claim.size_bytes -= given
            self._reserved_bytes -= given
            if not claim.size_bytes:
                self._claims.discard(claim)
            if size_bytes is None:
                self._waiting.pop(claim, None)
            self._set_ceilings()
            told = self._serve()
        _tell(told)

    def split(self, claim: Claim, size_bytes: int) -> Claim:
        """So much of what was granted, as a claim of its own."""
        with self._lock:
            claim.size_bytes -= size_bytes
            other = Claim(claim.name, size_bytes)
            if size_bytes:
                self._claims.add(other)
            if not claim.size_bytes:
                self._claims.discard(claim)
        return other

    def freed(self) -> None:
        """A query gave back what it was charged: somebody may wait for it."""
        if self._waiting:
            with self._lock:
                told = self._serve()
            _tell(told)

    def heaviest(self) -> tuple[str, Holder] | None:
        """The query that holds most, of those that were not ended."""
        running = [item for item in list(self.running.items()) if not item[1].is_ended]
        return max(running, key=lambda item: item[1].held_bytes, default=None)

    # --- under the lock --------------------------------------------------------------------------------------------

    def _left(self) -> int:
        """What queries may have, small ones among them."""
        return self.total_bytes - self.total_bytes // _UNSEEN_PART - self._standing.size_bytes

    def _for_queries(self) -> int:
        return self._left() - self._left() // _SMALL_PART

    def _set_ceilings(self) -> None:
        self._words[W_MAX_OF_SMALL] = max(self._left() - self._reserved_bytes, 0)
        self._words[W_MAX] = max(self._for_queries() - self._reserved_bytes, 0)

    def _take(self, claim: Claim, size_bytes: int) -> bool:
        # The ceiling is lowered first: kernels charge and then compare, so one of both sees the other.
        self._reserved_bytes += size_bytes
        self._set_ceilings()
        if size_bytes and self._words[W_CHARGED] + self._reserved_bytes > self._for_queries():
            self._reserved_bytes -= size_bytes
            self._set_ceilings()
            return False
        claim.size_bytes += size_bytes
        if claim.size_bytes:
            self._claims.add(claim)
        return True

    def _serve(self) -> list[Claim]:
        """Grant what fits, in turn; refuse what never will. Those that have an answer."""
        answered: list[Claim] = []
        while self._waiting:
            first = next(iter(self._waiting))
            if self._take(first, first.wanted_bytes):
                del self._waiting[first]
                answered.append(first)
                continue
            if first.least_bytes and not self._is_held() and self._take(first, self._most_free(first)):
                del self._waiting[first]
                answered.append(first)
                continue
            if self._words[W_CHARGED] > 0 or any(claim not in self._waiting for claim in self._claims):
                break  # whoever runs gives something back
            if self._claims:
                loser = max(self._waiting, key=lambda claim: claim.size_bytes + claim.wanted_bytes)
            elif self._num_vain_looks >= VAIN_LOOKS_MAX:
                loser = first
            else:
                break  # allocators may give something back
            del self._waiting[loser]
            self._num_vain_looks = 0
            loser.refusal = self._refusal(loser, loser.wanted_bytes, "and nobody is left who could give it back")
            answered.append(loser)
            if loser in self._claims:
                break  # it releases what it holds
        return answered

    def _is_held(self) -> bool:
        return self._words[W_CHARGED] > 0 or bool(self._claims)

    def _most_free(self, claim: Claim) -> int:
        """What there is, at least what the claim would take: more than there is if there is less."""
        return max(self._for_queries(), claim.least_bytes)

    def _refusal(self, claim: Claim, size_bytes: int, until: str) -> ProcessMemoryError:
        num_bytes = claim.size_bytes + size_bytes
        # Nothing is known yet of what some will take: they wait behind those that came before.
        what = f"{num_bytes} bytes of" if num_bytes else "its turn for"
        return process_memory_error(f"query {claim.name} waited for {what} this process' memory {until}", self)


def process_memory_error(what: str, budget: ProcessBudget) -> ProcessMemoryError:
    """What to raise when the process has no memory for a query. `what`: which query needs how much."""
    return ProcessMemoryError(
        f"{what}: of its budget of {budget.total_bytes} bytes {budget.standing_bytes} are in use for good and "
        f"{budget.used_by_queries_bytes} by queries: ask again later, make the query more selective, group by fewer "
        f"values, or raise {SHARE_SETTING}",
        setting=SHARE_SETTING,
    )


def _tell(claims: list[Claim]) -> None:
    for claim in claims:
        claim.told()
