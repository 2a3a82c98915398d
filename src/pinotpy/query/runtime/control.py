"""QueryControl: how a running query is stopped, and what it may use. Shared by its threads and by whoever cancels
it.

Whoever imports this loads compiled kernels: brokers do not, their deadline is `query/model/deadline.py`.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Final

import numpy as np

from pinotpy.errors import MemoryLimitError, QueryCancelledError, QueryTimeoutError
from pinotpy.kernels.filter import bitmap_arithmetic, bitmap_scan, expression_predicate, predicates
from pinotpy.kernels.runtime import abi, growable
from pinotpy.kernels.vector import fetch, fused_instruction
from pinotpy.query.runtime.memory_shares import SHARES_OF_QUERY
from pinotpy.query.runtime.trace import Trace

QUANTUM_NS: Final = 5_000_000
MEMORY_SETTING: Final = "pinot.server.query.memory.maxBytes"
# The words of every query before its own are set.
_WORDS: Final = np.zeros(abi.CONTROL_WORDS, np.int64)
_FUSED: Final = {
    bitmap_scan.IDS_RANGE: predicates.ids_range,
    bitmap_scan.IDS_RUNS: predicates.ids_runs,
    bitmap_scan.RAW_RANGE: predicates.raw_range,
    bitmap_scan.IS_NULL: predicates.is_null,
    bitmap_arithmetic.EXPRESSION: expression_predicate.expression_test,
    bitmap_arithmetic.FETCH: fetch.fetch_unless_in_a_row,
    bitmap_arithmetic.FUSED: fused_instruction.fused_doubles,
}
for _place, _test in _FUSED.items():
    _WORDS[abi.C_FUSED_TESTS + _place] = _test.address


# The kernels' atomic add on the word of used memory, called with the GIL held: it is done before others could want it.
_add_used: Final = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(growable.add_used.address)


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

    def cancel(self) -> None:
        """Stop the query at its next block; callable from any thread, any number of times."""
        self.words[abi.C_CANCEL] = 1

    @property
    def is_cancelled(self) -> bool:
        return bool(self.words[abi.C_CANCEL])

    def reserve(self, size_bytes: int) -> None:
        """Account for result memory before it is allocated; raises MemoryLimitError, naming the setting."""
        used, allowed = _add_used(self._address, size_bytes), int(self.words[abi.C_MEMORY_MAX])
        if allowed and used > allowed:
            raise memory_limit_error(used, allowed)

    def release(self, size_bytes: int) -> None:
        """Give back what `reserve` took."""
        _add_used(self._address, -size_bytes)

    def share(self, name: str) -> float:
        """Bytes that the thing `name` may take of the budget (memory_shares.py), infinity where there is none.
        KeyError: no such name.
        """
        share, allowed = SHARES_OF_QUERY[name], int(self.words[abi.C_MEMORY_MAX])
        return allowed * share if allowed else float("inf")

    def check(self) -> None:
        """Raise if the query was cancelled, is late or uses too much memory; for the stages that run in Python."""
        if self.words[abi.C_CANCEL]:
            raise QueryCancelledError("the query was cancelled")
        deadline = int(self.words[abi.C_DEADLINE_NS])
        if deadline and time.monotonic_ns() > deadline:
            raise timeout_error()
        used, allowed = int(self.words[abi.C_MEMORY_USED]), int(self.words[abi.C_MEMORY_MAX])
        if allowed and used > allowed:
            raise memory_limit_error(used, allowed)

    def will_read(self, num_docs: int) -> None:
        """Raise TooManyDocsError if so many docs are too many; called when a scan is planned."""
        if self.docs_max is not None and num_docs > self.docs_max:
            raise TooManyDocsError

    def memory_error(self) -> MemoryLimitError:
        """What to raise when a kernel was refused memory (abi.E_MEMORY)."""
        return memory_limit_error(int(self.words[abi.C_MEMORY_USED]), int(self.words[abi.C_MEMORY_MAX]))


def timeout_error() -> QueryTimeoutError:
    return QueryTimeoutError("the query ran into its deadline while scanning: make it more selective")


def memory_limit_error(used: int, allowed: int) -> MemoryLimitError:
    return MemoryLimitError(
        f"the query needs more than {allowed} bytes of result memory (held {used} when it asked for more): "
        f"make it more selective, group by fewer values, or raise {MEMORY_SETTING}",
        setting=MEMORY_SETTING,
    )
