"""Proves that a port is given to one who asks, not to two: in one process and in several, until it is in use."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pinotpy.service import ports

# Chooses the port that it is told, if it is given it, and lives until its input ends.
CHOOSES = """
import random, sys
from pinotpy.service.ports import free_port
random.SystemRandom.randrange = lambda *_: int(sys.argv[1])
print(free_port(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def low() -> int:
    """The first of two ports that are free."""
    while True:
        port = ports.free_port()
        if ports.is_free(port + 1):
            return port + 1


@pytest.fixture(autouse=True)
def _no_marks_stay() -> Iterator[None]:
    yield
    while ports._marks:
        ports._marks.pop().close()


class Always(random.SystemRandom):
    """Gives one number over and over."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def randrange(self, *_: int) -> int:  # type: ignore[override]
        return self._number


def test_what_was_chosen_and_is_not_in_use_yet_is_not_chosen_again(low: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "SystemRandom", lambda: Always(low))
    assert ports.free_port() == low
    assert ports.free_port() != low


def test_other_processes_do_not_choose_it_and_its_end_frees_it(low: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CHOOSES, str(low)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(Path(ports.__file__).parents[2])},
    ) as other:
        assert other.stdout is not None and int(other.stdout.readline()) == low
        monkeypatch.setattr(random, "SystemRandom", lambda: Always(low))
        assert ports.free_port() != low
        other.communicate()
    assert ports.free_port() == low


def test_marks_are_few_and_ports_in_use_are_not_chosen() -> None:
    assert len({ports.free_port() for _ in range(ports._MARKS_MAX)}) == ports._MARKS_MAX
    ports.free_port()
    assert len(ports._marks) == ports._MARKS_MAX
    with socket.socket() as used:
        used.bind(("127.0.0.1", 0))
        used.listen()
        assert not ports.is_free(used.getsockname()[1])
