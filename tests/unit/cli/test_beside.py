"""Proves that work beside a block is waited for, that its failure is the block's, and that it ends where the block
does.
"""

from __future__ import annotations

import threading

import pytest

from pinotpy.cli.beside import Tell, beside
from pinotpy.errors import NotFoundError

WAIT_S = 60.0


def test_both_go_on_at_once_and_what_is_said_is_told() -> None:
    said: list[str] = []
    met = threading.Barrier(2)

    def work(tell: Tell) -> None:
        met.wait(WAIT_S)  # broken unless the block is there at the same time
        tell("done")

    with beside(work, said.append) as wait:
        met.wait(WAIT_S)
        wait()
        assert said == ["done"]


def test_what_it_raises_is_raised_where_it_is_waited_for() -> None:
    def work(tell: Tell) -> None:
        raise NotFoundError("no jars")

    with pytest.raises(NotFoundError, match="no jars"), beside(work, lambda line: None) as wait:
        wait()


def test_a_block_that_fails_ends_it_at_its_next_word() -> None:
    told: list[str] = []
    has_failed, ended = threading.Event(), threading.Event()

    def work(tell: Tell) -> None:
        try:
            tell("first")
            assert has_failed.wait(WAIT_S)
            while True:
                tell("more")
        finally:
            ended.set()

    with pytest.raises(KeyboardInterrupt), beside(work, told.append):
        has_failed.set()
        raise KeyboardInterrupt
    assert ended.wait(WAIT_S)
    assert told[0] == "first"
