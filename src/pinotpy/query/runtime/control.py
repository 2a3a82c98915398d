"""QueryControl: how a running query is stopped, and what it may use. Shared by its threads and by whoever cancels
it.

Whoever imports this loads compiled kernels: brokers do not, their deadline is `query/model/deadline.py`.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Final

import numpy as np

from pinotpy.errors import (
    MemoryLimitError,
    PinotError,
    ProcessMemoryError,
    QueryCancelledError,
    QueryTimeoutError,
)
from pinotpy.functions.stopping import stopped_by
from pinotpy.kernels.filter import bitmap_arithmetic, bitmap_scan, expression_predicate, predicates
from pinotpy.kernels.runtime import abi, growable
from pinotpy.kernels.vector import fetch, fused_instruction
from pinotpy.memory.budget import ProcessBudget, process_memory_error
from pinotpy.query.runtime.memory_shares import SHARES_OF_QUERY
from pinotpy.query.runtime.trace import Trace

QUANTUM_NS: Final = 5_000_000
MEMORY_SETTING: Final = "pinot.server.query.memory.maxBytes"
# The words of every query before its own are set.
_WORDS: Final = np.zeros(abi.CONTROL_WORDS, np.int64)
_TESTS: Final = slice(abi.C_FUSED_TESTS, abi.C_FUSED_TESTS + bitmap_scan.NUM_FUSED_TESTS)
_FUSED: Final = {
    bitmap_scan.IDS_RANGE: predicates.ids_range,
    bitmap_scan.IDS_RUNS: predicates.ids_runs,
    bitmap_scan.RAW_RANGE: predicates.raw_range,
    bitmap_scan.IS_NULL: predicates.is_null,
    bitmap_arithmetic.EXPRESSION: expression_predicate.expression_test,
    bitmap_arithmetic.FETCH: fetch.fetch_unless_in_a_row,
    bitmap_arithmetic.FUSED: fused_instruction.fused_doubles,
}
# Of these, the ones that no query of this process has used yet.
_not_loaded: Final = dict(_FUSED)


@cache
def _add_used() -> Callable[[int, int], int]:
    """The kernels' atomic add on the word of used memory, called with the GIL held: it is done before others could want
    it.
    """
    return ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(growable.add_used.address)


class TooManyDocsError(Exception):
    """The query would read more docs than its caller has the time for; it read none, and can be asked again
    elsewhere.
    """


class QueryControl:
    """Deadline, memory budget and cancel flag of one query, as the control words that kernels read between blocks.

    Args:
        deadline_ns: on CLOCK_MONOTONIC (time.monotonic_ns); 0 = none.
        memory_max_bytes: budget for result state of all threads; 0 = none.
        trace: where the stages of the query are measured; None: nowhere.
        docs_max: a query that would read more docs ends before it reads any (TooManyDocsError); None: it may read all.
        process: the budget of all queries of the process, which this one is charged to; None: only its own counts.
        is_small: the query may use what the process keeps for small ones.
        name: of the query, for messages about the memory of the process.

    grouping_methods: by which methods groups were found, in words, one a plan that ran (query/group/choose.py).
    checks: what is called with this control when the query has ended, to raise if what it read is not as it was.
    """

    def __init__(
        self,
        deadline_ns: int = 0,
        memory_max_bytes: int = 0,
        *,
        quantum_ns: int = QUANTUM_NS,
        trace: Trace | None = None,
        docs_max: int | None = None,
        process: ProcessBudget | None = None,
        is_small: bool = False,
        name: str = "",
    ) -> None:
        self.trace = trace
        self.docs_max = docs_max
        self.grouping_methods: list[str] = []
        self.checks: list[Callable[[QueryControl], None]] = []
        self.words = _WORDS.copy()
        self.words[abi.C_DEADLINE_NS] = deadline_ns
        self.words[abi.C_MEMORY_MAX] = memory_max_bytes
        self.words[abi.C_QUANTUM_NS] = quantum_ns
        self.words[abi.C_TRACE] = int(trace is not None)
        self._address: int = self.words.ctypes.data
        self.process, self._is_small, self.name = process, is_small, name
        # Whether the process is what bounds the query, not its own setting.
        self._is_bound_by_process = False
        self._ended: PinotError | None = None
        if process is not None:
            self.words[abi.C_PROCESS_USED], self.words[abi.C_PROCESS_MAX] = process.addresses(is_small=is_small)
            most = process.for_queries_bytes
            if most and (most < memory_max_bytes or not memory_max_bytes):
                self.words[abi.C_MEMORY_MAX] = most
                self._is_bound_by_process = True

    def know_fused_tests(self) -> None:
        """Tell the driver the addresses of functions whose work it may do itself, of those that are loaded: a plan has
        loaded what it uses. Called before a scan.
        """
        if _not_loaded:
            for place, test in list(_not_loaded.items()):
                if test.is_loaded:
                    _WORDS[abi.C_FUSED_TESTS + place] = test.address
                    _not_loaded.pop(place, None)
        self.words[_TESTS] = _WORDS[_TESTS]

    def close(self) -> None:
        """Give back to the process what the query was charged; what it frees from now on is not counted. Call it when
        no thread runs for the query any more; again is harmless.
        """
        if self.process is not None and self.words[abi.C_PROCESS_USED]:
            _add_used()(self._address, -self.held_bytes)
            self.words[abi.C_PROCESS_USED] = 0
            self.process.freed()

    def restart(self, reserved_bytes: int, *, is_most: bool) -> None:
        """After `close`: forget a run that was refused memory; the next one may use `reserved_bytes`, which the process
        keeps for it. `is_most`: that is what the setting allows one query.
        """
        self.grouping_methods.clear()
        self.words[[abi.C_MEMORY_USED, abi.C_ERROR, abi.C_REFUSED_BYTES]] = 0
        self.words[abi.C_MEMORY_MAX] = reserved_bytes
        self._is_bound_by_process = not is_most

    def run_again(self) -> None:
        """Forget a run whose answer cannot be used, and give back what it was charged; the next one may use as much as
        that one might. Call it when nothing of that run is left that would free memory later.
        """
        _add_used()(self._address, -self.held_bytes)
        self.words[[abi.C_ERROR, abi.C_REFUSED_BYTES]] = 0
        self.grouping_methods.clear()
        self.checks.clear()
        if self.process is not None:
            self.process.freed()

    @property
    def held_bytes(self) -> int:
        """What it was charged."""
        return int(self.words[abi.C_MEMORY_USED])

    @property
    def refused_bytes(self) -> int:
        """What the process refused it when it ended for that; 0: it was not refused."""
        return int(self.words[abi.C_REFUSED_BYTES])

    @property
    def is_ended(self) -> bool:
        """Whether `end` was called."""
        return self._ended is not None

    def end(self, error: ProcessMemoryError) -> None:
        """As `cancel`; the query fails with this error."""
        self._ended = error
        self.cancel()

    def cancelled_error(self) -> PinotError:
        """What to raise when the query was cancelled."""
        return self._ended or QueryCancelledError("the query was cancelled")

    def cancel(self) -> None:
        """Stop the query at its next block; callable from any thread, any number of times."""
        self.words[abi.C_CANCEL] = 1

    @property
    def is_cancelled(self) -> bool:
        return bool(self.words[abi.C_CANCEL])

    def reserve(self, size_bytes: int) -> None:
        """Account for result memory before it is allocated; raises MemoryLimitError, naming the setting."""
        used, allowed = _add_used()(self._address, size_bytes), int(self.words[abi.C_MEMORY_MAX])
        if allowed and used > allowed:
            raise self.memory_error()
        if self.process is not None and size_bytes and self.process.is_over(is_small=self._is_small):
            self.words[abi.C_REFUSED_BYTES] = size_bytes
            raise self.memory_error()

    def release(self, size_bytes: int) -> None:
        """Give back what `reserve` took."""
        _add_used()(self._address, -size_bytes)

    @contextmanager
    def held_for_a_while(self, size_bytes: int) -> Iterator[None]:
        """Charge memory that libraries take while the block runs. Raises MemoryLimitError, as `reserve`."""
        self.reserve(size_bytes)
        yield
        self.release(size_bytes)  # not after an error: `close` gives all back

    def share(self, name: str) -> float:
        """Bytes that the thing `name` may take of the budget (memory_shares.py), infinity where there is none.
        KeyError: no such name.
        """
        share, allowed = SHARES_OF_QUERY[name], int(self.words[abi.C_MEMORY_MAX])
        return allowed * share if allowed else float("inf")

    def on_this_thread(self) -> AbstractContextManager[None]:
        """Within, functions of expressions ask `check` now and then."""
        return stopped_by(self.check)

    def check(self) -> None:
        """Raise if the query was cancelled, is late or uses too much memory; for the stages that run in Python."""
        if self.words[abi.C_CANCEL]:
            raise self.cancelled_error()
        deadline = int(self.words[abi.C_DEADLINE_NS])
        if deadline and time.monotonic_ns() > deadline:
            raise timeout_error()
        used, allowed = int(self.words[abi.C_MEMORY_USED]), int(self.words[abi.C_MEMORY_MAX])
        if allowed and used > allowed:
            raise self.memory_error()

    def will_read(self, num_docs: int) -> None:
        """Raise TooManyDocsError if so many docs are too many; called when a scan is planned."""
        if self.docs_max is not None and num_docs > self.docs_max:
            raise TooManyDocsError

    def memory_error(self) -> MemoryLimitError:
        """What to raise when memory was refused (abi.E_MEMORY)."""
        if self.process is not None and (self.refused_bytes or self._is_bound_by_process):
            return process_memory_error(
                f"query {self.name} holds {self.held_bytes} bytes and needs more than there is", self.process
            )
        return memory_limit_error(int(self.words[abi.C_MEMORY_USED]), int(self.words[abi.C_MEMORY_MAX]))


def timeout_error() -> QueryTimeoutError:
    return QueryTimeoutError("the query ran into its deadline while scanning: make it more selective")


def memory_limit_error(used: int, allowed: int) -> MemoryLimitError:
    return MemoryLimitError(
        f"the query needs more than {allowed} bytes of result memory (held {used} when it asked for more): "
        f"make it more selective, group by fewer values, or raise {MEMORY_SETTING}",
        setting=MEMORY_SETTING,
    )
