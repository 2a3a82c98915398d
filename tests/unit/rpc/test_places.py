"""Proves the places of a server's calls on random orders of coming, giving up and leaving, against a plain list of who
waits: never more than allowed are worked on, the longest wait goes first, small calls use their own places, and nothing
is lost in the end.
"""

from __future__ import annotations

import random
import threading

import pytest

from pinotpy.errors import OutOfCapacityError, QueryCancelledError
from pinotpy.rpc.places import Places, Visit


class Caller:
    def __init__(self, number: int, is_small: bool) -> None:
        self.number, self.is_small = number, is_small
        self.started = 0
        self.visit = Visit(self.start)

    def start(self) -> None:
        self.started += 1


@pytest.mark.parametrize("seed", range(40))
def test_random_visits_are_served_in_order_and_never_beyond_the_limits(seed: int) -> None:
    rng = random.Random(seed)
    working_max, small_max, waiting_max = rng.randint(1, 4), rng.randint(0, 3), rng.randint(0, 6)
    places = Places(working_max, small_max=small_max, waiting_max=waiting_max)
    working: list[Caller] = []
    waiting: list[Caller] = []
    for number in range(400):
        roll = rng.random()
        if roll < 0.5:
            caller = Caller(number, rng.random() < 0.4)
            try:
                has_place = places.take(caller.visit, lambda caller=caller: caller.is_small)  # type: ignore[misc]
            except OutOfCapacityError:
                assert len(waiting) == waiting_max
                assert caller.started == 0
                continue
            (working if has_place else waiting).append(caller)
        elif roll < 0.6 and waiting:
            caller = waiting.pop(rng.randrange(len(waiting)))
            assert places.give_up(caller.visit)
            assert caller.started == 0
        elif working:
            caller = working.pop(rng.randrange(len(working)))
            was_beside = caller.visit.is_beside
            places.leave(caller.visit)
            eligible = [other for other in waiting if other.is_small or not was_beside]
            begun = [other for other in waiting if other.started]
            assert begun == eligible[:1], "the one that waits longest, and fits, goes next"
            waiting = [other for other in waiting if not other.started]
            working += begun
        beside = sum(other.visit.is_beside for other in working)
        assert (places.working, places.waiting) == (len(working), len(waiting))
        assert len(working) - beside <= working_max and beside <= small_max
        assert all(other.is_small for other in working if other.visit.is_beside)
        assert not waiting or len(working) - beside == working_max
    assert all(other.started == 1 for other in working)
    while working:
        places.leave(working.pop().visit)
        working += [other for other in waiting if other.started]
        waiting = [other for other in waiting if not other.started]
    assert (places.working, places.waiting, waiting) == (0, 0, [])


def test_a_call_given_up_before_it_came_to_wait_does_not_wait() -> None:
    places = Places(1, waiting_max=5)
    first, second = Caller(0, False), Caller(1, False)
    assert places.take(first.visit, lambda: False)
    assert not places.give_up(second.visit)
    with pytest.raises(QueryCancelledError):
        places.take(second.visit, lambda: False)
    assert places.waiting == 0


def test_many_threads_get_their_turns() -> None:
    places = Places(3, small_max=1, waiting_max=1000)
    now, most, done = 0, 0, 0
    lock = threading.Lock()

    def call(number: int) -> None:
        nonlocal now, most, done
        woken = threading.Event()
        visit = Visit(woken.set)
        places.take(visit, lambda: number % 3 == 0)
        assert woken.wait(60)
        with lock:
            now += 1
            most = max(most, now)
        threading.Event().wait(0.001)
        with lock:
            now, done = now - 1, done + 1
        places.leave(visit)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert done == 60 and most <= 4
    assert (places.working, places.waiting) == (0, 0)
