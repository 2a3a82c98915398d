"""Proves what a process' budget grants, and to whom: never more than there is, first come, first served, without two
that wait for each other, until the deadline; and that the watch ends the one that holds most, and only when it must.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time

import pytest

from pinotpy.errors import ProcessMemoryError
from pinotpy.memory.budget import VAIN_LOOKS_MAX, Claim, ProcessBudget
from pinotpy.memory.resident import memfd_bytes, resident_bytes
from pinotpy.memory.standing import PERIOD_S
from pinotpy.memory.watch import GIVE_BACK_INTERVAL_S, PAUSE_AFTER_END_S, MemoryWatch

MIB = 1 << 20
WAIT_S = 60.0


def soon_ns(seconds: float = WAIT_S) -> int:
    return time.monotonic_ns() + int(seconds * 1e9)


def test_what_fits_is_granted_and_the_rest_waits_in_turn() -> None:
    budget = ProcessBudget(160 * MIB)
    running, big, small = Claim("a"), Claim("b"), Claim("c")
    assert budget.ask(running, 100 * MIB)
    told: list[str] = []
    assert not budget.ask(big, 120 * MIB, lambda: told.append("big"))
    # It would fit, but came later.
    assert not budget.ask(small, 10 * MIB, lambda: told.append("small"))
    assert told == [] and budget.is_short
    budget.release(running)
    assert told == ["big", "small"] and not budget.is_short
    budget.settle(big, 120 * MIB)
    assert budget.used_by_queries_bytes == 130 * MIB
    budget.release(big)
    budget.release(small)
    assert budget.used_by_queries_bytes == 0


def test_waiting_ends_with_the_deadline_and_says_what_to_do() -> None:
    budget = ProcessBudget(160 * MIB)
    budget.ask(Claim("holder"), 100 * MIB)
    with pytest.raises(ProcessMemoryError, match=r"query b_7 on t waited .* pinotpy\.memory\.share") as caught:
        budget.reserve(Claim("b_7 on t"), 100 * MIB, time.monotonic_ns())
    assert caught.value.code == 245 and budget.num_refused == 1 and not budget.is_short
    budget.ask(Claim("before"), 100 * MIB)
    with pytest.raises(ProcessMemoryError, match=r"query b_8 on t waited for its turn for this process' memory"):
        budget.reserve(Claim("b_8 on t"), 0, time.monotonic_ns())


def test_a_cancelled_query_stops_waiting() -> None:
    budget = ProcessBudget(160 * MIB)
    budget.ask(Claim("holder"), 100 * MIB)
    with pytest.raises(ProcessMemoryError):
        budget.reserve(Claim("b"), 100 * MIB, soon_ns(), lambda: True)


def test_of_those_that_wait_for_each_other_the_largest_is_refused() -> None:
    budget = ProcessBudget(160 * MIB)
    one, other = Claim("one"), Claim("other")
    assert budget.ask(one, 60 * MIB) and budget.ask(other, 70 * MIB)
    told: list[str] = []
    assert not budget.ask(one, 50 * MIB, lambda: told.append("one"))
    assert told == []
    assert not budget.ask(other, 60 * MIB, lambda: told.append("other"))
    assert told == ["other"]
    with pytest.raises(ProcessMemoryError, match="nobody is left"):
        budget.settle(other, 60 * MIB)
    budget.release(other)
    assert told == ["other", "one"]
    budget.settle(one, 50 * MIB)


def test_what_is_more_than_there_will_ever_be_is_refused() -> None:
    budget, told = ProcessBudget(MIB), []
    claim = Claim("a")
    assert not budget.ask(claim, 2 * MIB, lambda: told.append("a"))
    for look in range(VAIN_LOOKS_MAX):
        assert not told  # allocators might give something back
        budget.measured(0, look)
    with pytest.raises(ProcessMemoryError, match="nobody is left"):
        budget.settle(claim, 2 * MIB)


def test_less_than_wanted_is_taken_when_nobody_else_holds_anything() -> None:
    budget, told = ProcessBudget(160 * MIB), []
    other, claim = Claim("other"), Claim("a", least_bytes=100 * MIB)
    assert budget.ask(other, MIB)
    assert not budget.ask(claim, 150 * MIB, lambda: told.append("a"))
    assert not told
    budget.release(other)
    assert told == ["a"]
    budget.settle(claim, 150 * MIB)
    assert 131 * MIB < claim.size_bytes < 132 * MIB


def test_what_queries_may_have_goes_by_what_lately_stood_least() -> None:
    budget = ProcessBudget(160 * MIB)
    budget.measured(20 * MIB, 0.0)
    at_best = budget.for_queries_bytes
    budget.measured(100 * MIB, 1.0)
    assert budget.for_queries_bytes == at_best
    for period in (1, 2, 3):
        budget.measured(100 * MIB, 1.0 + period * PERIOD_S)
    assert budget.for_queries_bytes < 40 * MIB < at_best


def test_event_loops_wait_too() -> None:
    budget = ProcessBudget(160 * MIB)
    holder = Claim("holder")

    async def wait() -> None:
        budget.ask(holder, 100 * MIB)
        waiting = asyncio.ensure_future(budget.reserve_async(Claim("b"), 100 * MIB, WAIT_S))
        await asyncio.sleep(0)
        await asyncio.to_thread(budget.release, holder)
        await waiting
        with pytest.raises(ProcessMemoryError):
            await budget.reserve_async(Claim("c"), 100 * MIB, 0)

    asyncio.run(wait())


def test_without_a_budget_everything_is_granted() -> None:
    budget = ProcessBudget(0)
    assert budget.ask(Claim("a"), 1 << 50) and budget.addresses(is_small=False) == (0, 0)


def test_threads_together_never_have_more_than_there_is() -> None:
    budget = ProcessBudget(160 * MIB)
    lock, held, most = threading.Lock(), [0], [0]

    def work(seed: int) -> None:
        chosen = random.Random(seed)
        for _ in range(50):
            claim, size = Claim(str(seed)), chosen.randrange(1, 130) * MIB
            budget.reserve(claim, size, soon_ns())
            with lock:
                held[0] += size
                most[0] = max(most[0], held[0])
            with lock:
                held[0] -= size
            budget.release(claim)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert 0 < most[0] <= 131.25 * MIB and budget.used_by_queries_bytes == 0 and not budget.is_short


class Query:
    def __init__(self, held: int) -> None:
        self.held_bytes = held
        self.error: ProcessMemoryError | None = None

    @property
    def is_ended(self) -> bool:
        return self.error is not None

    def end(self, error: ProcessMemoryError) -> None:
        self.error = error


class Process:
    """A budget of 100 MiB, and a process whose size the test tells."""

    def __init__(self) -> None:
        self.size, self.free, self.gave_back = 10 * MIB, 0, 0
        self.budget = ProcessBudget(100 * MIB)
        self.watch = MemoryWatch(self.budget, self.give_back, lambda: self.size + self.free)

    def give_back(self) -> None:
        self.gave_back += 1
        self.free = 0


def test_the_query_that_holds_most_is_ended_when_the_process_is_over_its_budget() -> None:
    process = Process()
    small, large = Query(20 * MIB), Query(60 * MIB)
    process.budget.running.update({"b_1 on t": small, "b_2 on t": large})
    process.size = 100 * MIB
    process.watch.look(1000.0)
    assert large.error is None
    process.size = 101 * MIB
    process.watch.look(1001.0)
    assert small.error is None
    assert large.error is not None and "query b_2 on t was ended" in large.error.message
    # It frees its memory at its next block: the next one is ended only if that was not enough, or is slow.
    process.watch.look(1001.0 + PAUSE_AFTER_END_S / 2)
    assert small.error is None and process.budget.num_ended == 1
    process.watch.look(1001.0 + PAUSE_AFTER_END_S)
    assert small.error is not None and process.budget.num_ended == 2


def test_free_memory_of_allocators_is_given_back_before_a_query_is_ended() -> None:
    process = Process()
    query = Query(60 * MIB)
    process.budget.running["b_1"] = query
    process.size, process.free = 70 * MIB, 40 * MIB
    process.watch.look(1000.0)
    assert query.error is None and process.gave_back == 1 and process.watch.peak_bytes == 110 * MIB
    process.size = 90 * MIB
    process.watch.look(1000.0 + GIVE_BACK_INTERVAL_S / 2)
    assert process.gave_back == 1


def test_what_is_not_accounted_for_stands_and_counts_once() -> None:
    process = Process()
    process.budget.stands(lambda: 30 * MIB)
    process.watch.look(1000.0)
    assert process.budget.standing_bytes == 30 * MIB  # reserved by whoever knows, touched or not
    process.size = 50 * MIB
    process.watch.look(1001.0)
    assert process.budget.standing_bytes == 50 * MIB
    claim = Claim("a")
    assert process.budget.ask(claim, 30 * MIB)
    process.size = 80 * MIB
    process.watch.look(1002.0)
    assert process.budget.standing_bytes == 50 * MIB


def test_rows_in_anonymous_files_count_once() -> None:
    import os

    before = memfd_bytes()
    descriptor = os.memfd_create("pinotpy-test")
    copy = os.dup(descriptor)
    try:
        os.ftruncate(descriptor, 64 * MIB)  # holes take nothing
        os.pwrite(descriptor, b"x" * MIB, 0)
        assert memfd_bytes() - before == MIB
    finally:
        os.close(descriptor)
        os.close(copy)
    alone = resident_bytes(os.getpid())
    assert resident_bytes(os.getpid(), memfds=1 << 40) >= (1 << 40) and alone > MIB
