"""Running a plan's morsels on threads: quanta, flushes, and error words turned into errors."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from pinotpy.arrays import Int64Array
from pinotpy.errors import PinotError, QueryCancelledError, QueryExecutionError
from pinotpy.kernels.demand import KernelMissingError
from pinotpy.kernels.runtime import abi
from pinotpy.kernels.runtime.clock import clock_address
from pinotpy.kernels.scan import driver
from pinotpy.query.runtime.control import QueryControl, timeout_error
from pinotpy.query.runtime.kernel_threads import KernelThreads
from pinotpy.query.runtime.parallel import raise_first
from pinotpy.query.runtime.trace import Stage, milliseconds

# A scan of more docs takes about a millisecond or more, 20 times what it costs to hand it to another thread.
IN_TURN_DOCS_MIN: Final = 400_000
_CLOCK = clock_address()
# States of queries that have ended. List operations are atomic, so threads share it without a lock.
_SPARE_STATES_MAX: Final = 16
_spare: list[abi.State] = []
_POINTERS: Final = [abi.S_MASKS, abi.S_SELECTION, abi.S_SELECTIONS, abi.S_ONES, abi.S_SCRATCH, abi.S_REGISTERS]
T = TypeVar("T")


class Scan(Protocol):
    """What is run: `morsels` (int64[n, MORSEL_WORDS]), of which thread t takes `morsels[starts[t]:starts[t + 1]]`."""

    @property
    def morsels(self) -> Int64Array: ...

    @property
    def starts(self) -> Int64Array: ...

    @property
    def control(self) -> QueryControl: ...

    @property
    def executor(self) -> Executor | None: ...


class ScanCounts(NamedTuple):
    """Docs that the filter selected, entries that it read, and numbers of segments of which it selected any."""

    docs_scanned: int
    entries_in_filter: int
    segments_matched: set[int]


def run_threads(
    plan: Scan,
    addresses: list[int],
    contexts: list[T],
    on_flush: Callable[[T], None] | None,
    on_error: Callable[[T], str] | None,
) -> ScanCounts:
    """Run every thread's slice of the plan's morsels. The calling thread takes the first slice itself, unless the scan
    is long and the executor KernelThreads, on which slices take turns with those of other queries.

    All threads have ended when this returns or raises.
    """
    plan.control.know_fused_tests()
    states = [_borrow(plan.control.words, address) for address in addresses]
    began_ns = time.perf_counter_ns()
    slices = [_Slice(plan, thread, state, contexts[thread], on_flush) for thread, state in enumerate(states)]
    tasks: list[Future[None]] = []
    try:
        if isinstance(plan.executor, KernelThreads) and (len(slices) > 1 or _num_docs(plan) >= IN_TURN_DOCS_MIN):
            tasks += [plan.executor.submit_steps(each.step) for each in slices]
        else:
            for each in slices[1:]:
                assert plan.executor is not None, "a plan for several threads needs an executor"
                tasks.append(plan.executor.submit(each.run))
            if slices:
                slices[0].run()
    except BaseException:
        plan.control.words[abi.C_ERROR] = plan.control.words[abi.C_ERROR] or abi.E_CANCELLED
        raise
    finally:
        # The state's memory must outlive every thread that runs on it.
        outcomes = [_failure(task) for task in tasks]
    failures = [outcome for outcome in outcomes if outcome is not None]
    if failures:
        outcomes.clear()
        tasks.clear()  # they hold what they raised
        raise_first(failures)
    counts = _counts(plan, states)
    if plan.control.trace is not None:
        _trace(plan, plan.control.trace.current, states, time.perf_counter_ns() - began_ns)
    # Not after a failure of Python: then they are simply dropped.
    if len(_spare) < _SPARE_STATES_MAX:
        _spare.extend(states)
    if plan.control.words[abi.C_ERROR]:
        raise _error(plan, int(plan.control.words[abi.C_ERROR]), contexts, on_error)
    return counts


def _borrow(control: Int64Array, address: int) -> abi.State:
    """A state for one thread, with the scratch of an earlier query if there is one: mapping half a megabyte anew takes
    as long as scanning 100,000 rows. Scratch needs no clearing, every block writes what it reads.
    """
    try:
        state = _spare.pop()
    except IndexError:
        return abi.State(control, address)
    words = state.words
    pointers = words[_POINTERS].copy()
    words[:] = 0
    words[_POINTERS] = pointers
    words[abi.S_CONTROL], words[abi.S_USER] = control.ctypes.data, address
    state.control = control
    return state


class _Slice:
    """The morsels of one thread, and how far they were run."""

    __slots__ = ("_context", "_cursor", "_last", "_on_flush", "_plan", "_state", "_timespec")

    def __init__(
        self, plan: Scan, thread: int, state: abi.State, context: Any, on_flush: Callable[[Any], None] | None
    ) -> None:
        self._plan, self._state, self._context, self._on_flush = plan, state, context, on_flush
        self._cursor = driver.new_cursor(int(plan.starts[thread]))
        self._timespec = self._cursor.ctypes.data + driver.K_TIMESPEC * 8
        self._last = int(plan.starts[thread + 1])

    def run(self) -> None:
        """To the end."""
        while not self.step():
            pass

    def step(self) -> bool:
        """For a quantum, or until something wants Python; gives whether the slice is done."""
        plan, state = self._plan, self._state
        try:
            code = driver.step(
                plan.morsels,
                self._last,
                state.words,
                state.address,
                self._cursor,
                self._timespec,
                plan.control.words,
                _CLOCK,
            )
            if code == abi.E_FLUSH:
                assert self._on_flush is not None, "a select function asked for a flush that nobody answers"
                with plan.control.on_this_thread():
                    self._on_flush(self._context)
        except (PinotError, KernelMissingError):
            # Other threads of this query end at their next block.
            plan.control.words[abi.C_ERROR] = abi.E_CANCELLED
            raise
        return bool(code not in (abi.E_FLUSH, abi.E_MORE))


def _num_docs(plan: Scan) -> int:
    return int((plan.morsels[:, abi.U_HIGH] - plan.morsels[:, abi.U_LOW]).sum())


def _failure(task: Future[None]) -> BaseException | None:
    """Wait for a task; what it raised."""
    try:
        return task.exception()
    except CancelledError:
        return QueryCancelledError("the query was cancelled: its server stops")


def _counts(plan: Scan, states: list[abi.State]) -> ScanCounts:
    matched = plan.morsels[plan.morsels[:, abi.U_SELECTED] > 0, abi.U_SEGMENT]
    scanned, entries = 0, 0
    for state in states:
        scanned += int(state.words[abi.S_DOCS_SCANNED])
        entries += int(state.words[abi.S_ENTRIES_FILTER])
    return ScanCounts(scanned, entries, set(matched.tolist()))


def _trace(plan: Scan, stage: Stage, states: list[abi.State], wall_ns: int) -> None:
    """One scan: wall time; the time of all threads in filters; docs that were looked at and that were selected."""
    morsels = plan.morsels
    read, selected = (
        int((morsels[:, abi.U_HIGH] - morsels[:, abi.U_LOW]).sum()),
        sum(int(state.words[abi.S_DOCS_SCANNED]) for state in states),
    )
    filter_ns = sum(int(state.words[abi.S_FILTER_NS]) for state in states)
    stage.add(
        "SCAN",
        wall_ns,
        threads=len(states),
        docsIn=read,
        docsOut=selected,
        children=[
            {"operator": "FILTER", "timeMs": milliseconds(filter_ns), "docsIn": read, "docsOut": selected},
            {
                "operator": "PROJECT",
                "timeMs": milliseconds(max(wall_ns * max(len(states), 1) - filter_ns, 0)),
                "docsIn": selected,
            },
        ],
    )


def _error(plan: Scan, code: int, contexts: list[Any], on_error: Callable[[Any], str] | None) -> PinotError:
    if code == abi.E_CANCELLED:
        return plan.control.cancelled_error()
    if code == abi.E_DEADLINE:
        return timeout_error()
    if code == abi.E_MEMORY:
        return plan.control.memory_error()
    assert code == abi.E_BLOCK, f"unknown error word {code}"
    causes = [on_error(context) for context in contexts] if on_error is not None else []
    return QueryExecutionError(next((cause for cause in causes if cause), "a kernel failed without a cause"))
