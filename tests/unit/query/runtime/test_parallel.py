"""Proves how a query's threads share work: every piece runs once, no worker runs on two threads at once, all have ended
when the call returns or raises, the control is asked between pieces, the calling thread does what no other has begun,
and work that takes its turn leaves room for that of other queries.
"""

from __future__ import annotations

import gc
import random
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress

import pytest

from pinotpy.errors import MemoryLimitError, QueryCancelledError, QueryTimeoutError
from pinotpy.kernels.runtime import abi
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.runtime.kernel_threads import KernelThreads
from pinotpy.query.runtime.parallel import Workers, in_shares, run_each, run_pieces, run_ranges, run_workers

WAIT_S = 60.0


@pytest.fixture(params=["none", "pool", "kernel threads"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor | None]:
    if request.param == "none":
        yield None
        return
    made: Executor = ThreadPoolExecutor(3) if request.param == "pool" else KernelThreads(3)
    yield made
    made.shutdown()


def _team(executor: Executor | None, num_threads: int = 4) -> Workers:
    return Workers(QueryControl(), num_threads, executor)


@pytest.mark.parametrize("in_turn", [False, True])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 100])
def test_every_piece_runs_once_and_all_have_ended(executor: Executor | None, count: int, in_turn: bool) -> None:
    done = [0] * count

    def work(number: int) -> None:
        time.sleep(random.random() / 5000)
        done[number] += 1

    run_pieces(_team(executor), [lambda number=number: work(number) for number in range(count)], in_turn=in_turn)
    assert done == [1] * count
    run_each(_team(executor), work, count)
    assert done == [2] * count


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 1001])
def test_ranges_make_up_the_whole(executor: Executor | None, count: int) -> None:
    seen: list[int] = []
    run_ranges(_team(executor), count, lambda first, last: seen.extend(range(first, last)))
    assert sorted(seen) == list(range(count))


@pytest.mark.parametrize("in_turn", [False, True])
def test_a_worker_is_on_one_thread_at_a_time(executor: Executor | None, in_turn: bool) -> None:
    busy, steps = [threading.Lock() for _ in range(5)], [0] * 5

    def worker(number: int) -> bool:
        assert busy[number].acquire(blocking=False), "two threads at once"
        time.sleep(0.0002)
        steps[number] += 1
        busy[number].release()
        return steps[number] == 10 + number

    run_workers(_team(executor), [lambda number=number: worker(number) for number in range(5)], in_turn=in_turn)
    assert steps == [10, 11, 12, 13, 14]


@pytest.mark.parametrize("in_turn", [False, True])
def test_the_first_failure_is_raised_when_nothing_runs_any_more(executor: Executor | None, in_turn: bool) -> None:
    running, begun = [0], [0]
    lock = threading.Lock()

    def piece(number: int) -> None:
        with lock:
            running[0] += 1
            begun[0] += 1
        try:
            if number == 5:
                raise ValueError("five")
            time.sleep(0.001)
        finally:
            with lock:
                running[0] -= 1

    with pytest.raises(ValueError, match="five"):
        run_pieces(_team(executor), [lambda number=number: piece(number) for number in range(50_000)], in_turn=in_turn)
    assert running[0] == 0
    assert begun[0] < 50_000
    ended = begun[0]
    time.sleep(0.02)
    assert begun[0] == ended, "a piece began afterwards"


class Table:
    """Memory of a worker that fails."""


@pytest.mark.parametrize("in_turn", [False, True])
def test_what_workers_held_is_gone_when_their_failure_is(executor: Executor | None, in_turn: bool) -> None:
    held: weakref.WeakSet[Table] = weakref.WeakSet()
    together = threading.Barrier(2)

    def worker() -> bool:
        table = Table()
        held.add(table)
        if executor is not None and not in_turn:
            together.wait(WAIT_S)  # more than one fails
        raise ValueError(f"none for {table}")

    gc.collect()
    gc.disable()
    try:
        with suppress(ValueError):
            run_workers(_team(executor, 2), [worker, worker], in_turn=in_turn)
        deadline_s = time.monotonic() + WAIT_S
        while held and time.monotonic() < deadline_s:  # threads that did it may be about to let go of it
            time.sleep(0.005)
        assert not held
    finally:
        gc.enable()


@pytest.mark.parametrize("in_turn", [False, True])
@pytest.mark.parametrize(
    ("word", "value", "error"),
    [
        (abi.C_CANCEL, 1, QueryCancelledError),
        (abi.C_DEADLINE_NS, 1, QueryTimeoutError),
        (abi.C_MEMORY_USED, 1 << 40, MemoryLimitError),
    ],
)
def test_the_control_stops_work_between_pieces(
    executor: Executor | None, word: int, value: int, error: type[Exception], in_turn: bool
) -> None:
    team, begun = Workers(QueryControl(memory_max_bytes=1 << 30), 3, executor), list[int]()
    stopped = threading.Event()

    def piece(number: int) -> None:
        begun.append(number)
        if number == 10:
            team.control.words[word] = value
            stopped.set()
        elif number > 10:  # another thread's, begun before the tenth had come so far
            assert stopped.wait(WAIT_S)

    with pytest.raises(error):
        run_pieces(team, [lambda number=number: piece(number) for number in range(1000)], in_turn=in_turn)
    assert 10 in begun
    assert len(begun) < 100


@pytest.mark.parametrize("kernel", [False, True])
def test_the_caller_does_what_busy_threads_have_not_begun(kernel: bool) -> None:
    busy: Executor = KernelThreads(1) if kernel else ThreadPoolExecutor(1)
    gate, started, threads = threading.Event(), threading.Event(), set[int]()

    def block() -> None:
        started.set()
        gate.wait(WAIT_S)

    blocked = busy.submit(block)
    assert started.wait(WAIT_S)
    steps = [0] * 4

    def worker(number: int) -> bool:
        threads.add(threading.get_ident())
        steps[number] += 1
        return steps[number] == 3

    run_workers(_team(busy), [lambda number=number: worker(number) for number in range(4)])
    assert not blocked.done(), "nobody waited for the other task"
    assert steps == [3] * 4
    assert threads == {threading.get_ident()}
    gate.set()
    blocked.result(WAIT_S)
    busy.submit(int).result(WAIT_S)  # what was left over has run by now
    assert steps == [3] * 4
    busy.shutdown()


def test_work_in_turn_is_done_by_kernel_threads_with_other_queries_between_its_pieces() -> None:
    threads, log = KernelThreads(1), list[str]()
    gate, started = threading.Event(), threading.Event()

    def block() -> None:
        started.set()
        assert gate.wait(WAIT_S)

    blocked = threads.submit(block)
    assert started.wait(WAIT_S)
    own = threading.get_ident()

    def run(name: str) -> None:
        def piece() -> None:
            assert threading.get_ident() != own
            log.append(name)

        run_pieces(Workers(QueryControl(), 1, threads), [piece] * 4, in_turn=True)

    with ThreadPoolExecutor(2) as askers:
        queries = [askers.submit(run, name) for name in "ab"]
        deadline = time.monotonic() + WAIT_S
        while len(threads._queue) < 2 and time.monotonic() < deadline:
            time.sleep(0.001)
        gate.set()
        for query in queries:
            query.result(WAIT_S)
    blocked.result(WAIT_S)
    assert "".join(log) in ("abababab", "babababa")
    threads.shutdown()


def test_a_server_that_stops_cancels_work_that_waits_for_its_turn() -> None:
    threads, gate, started = KernelThreads(1), threading.Event(), threading.Event()

    def block() -> None:
        started.set()
        gate.wait(WAIT_S)

    threads.submit(block)
    assert started.wait(WAIT_S)
    with ThreadPoolExecutor(1) as asker:
        query = asker.submit(run_pieces, Workers(QueryControl(), 2, threads), [int, int], in_turn=True)
        deadline = time.monotonic() + WAIT_S
        while len(threads._queue) < 2 and time.monotonic() < deadline:
            time.sleep(0.001)
        threads.shutdown(wait=False, cancel_futures=True)
        with pytest.raises(QueryCancelledError, match="stops"):
            query.result(WAIT_S)
    gate.set()


@pytest.mark.parametrize("seed", range(5))
def test_shares_are_neighbours_of_about_the_size_that_is_asked_for(seed: int) -> None:
    rng = random.Random(seed)
    sizes = [rng.choice([0, 1, 5, 100]) for _ in range(rng.randrange(60))]
    first = rng.randrange(len(sizes) + 1)
    ranges: list[tuple[int, int]] = []
    step = in_shares(sizes, first, len(sizes), 50, lambda low, high: ranges.append((low, high)))
    while not step():
        pass
    assert [number for low, high in ranges for number in range(low, high)] == list(range(first, len(sizes)))
    for low, high in ranges:
        assert high - low == 1 or sum(sizes[low:high]) <= 50
