"""Proves that pieces are frozen beside the rows that come, each partition once however often it asks, and that a fault
of one partition leaves the others be.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from pinotpy.server.realtime.workers.freezing import Freezer

WAIT_S = 60.0


class Pieces:
    """Counts what it is asked for; stands still until it may go on."""

    def __init__(self, *, stands: bool = False, error: Exception | None = None) -> None:
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Event()
        self.num_frozen = 0
        self._error = error
        if not stands:
            self.may_end.set()

    def freeze(self) -> None:
        self.begun.release()
        assert self.may_end.wait(WAIT_S)
        self.num_frozen += 1
        if self._error is not None:
            raise self._error


@pytest.fixture
def freezer() -> Iterator[Freezer]:
    made = Freezer()
    yield made
    made.close()


def test_who_asks_does_not_wait_and_what_is_asked_often_is_done_once(
    freezer: Freezer, eventually: Callable[..., object]
) -> None:
    slow, other = Pieces(stands=True), Pieces()
    freezer.ask(slow)
    assert slow.begun.acquire(timeout=WAIT_S)
    for _ in range(5):
        freezer.ask(slow)  # more became immutable while it was at work: once more, not five times
        freezer.ask(other)
    assert (slow.num_frozen, other.num_frozen) == (0, 0)
    slow.may_end.set()
    eventually(lambda: (slow.num_frozen, other.num_frozen) == (2, 1))


def test_a_fault_of_one_partition_leaves_the_others(freezer: Freezer, eventually: Callable[..., object]) -> None:
    broken, other = Pieces(error=MemoryError("no more")), Pieces()
    freezer.ask(broken)
    eventually(lambda: broken.num_frozen == 1)
    freezer.ask(other)
    eventually(lambda: other.num_frozen == 1)


def test_once_closed_nothing_is_frozen(freezer: Freezer) -> None:
    late = Pieces()
    freezer.close()
    freezer.ask(late)
    freezer.close()
    assert late.num_frozen == 0
