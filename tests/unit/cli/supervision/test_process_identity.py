"""Proves that a process is told by more than its pid: one that has the pid now but started at another time is neither
alive nor signalled; and that ending processes asks first and kills what does not listen.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from pinotpy.cli.supervision.process_identity import ProcessIdentity, end_all, wait_for_end
from pinotpy.clock import ManualClock

LISTENS = "import time; print('up', flush=True); time.sleep(600)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {LISTENS}"


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    started = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for code in (LISTENS, DEAF)
    ]
    for process in started:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
    yield started
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def identity(process: subprocess.Popen[str]) -> ProcessIdentity:
    found = ProcessIdentity.of(process.pid)
    assert found is not None
    return found


def test_it_survives_being_written_down() -> None:
    me = ProcessIdentity.of(os.getpid())
    assert me is not None and me.is_alive() and ProcessIdentity.from_json(me.to_json_dict()) == me


def test_another_process_with_its_pid_is_left_alone(processes: list[subprocess.Popen[str]]) -> None:
    now = identity(processes[0])
    for before in (replace(now, start_ticks=now.start_ticks - 1), replace(now, boot="another boot")):
        assert not before.is_alive()
        assert not before.send(signal.SIGKILL)
        assert end_all([before], 60) == []
    assert processes[0].poll() is None and now.is_alive()


def test_an_ended_process_is_not_alive_though_nobody_has_read_its_status(
    processes: list[subprocess.Popen[str]],
) -> None:
    ended = identity(processes[0])
    assert ended.send(signal.SIGKILL)
    assert wait_for_end([ended], 60) == []  # a zombie, as its parent waits for it later
    assert ProcessIdentity.of(ended.pid) is None and not ended.send(signal.SIGTERM)


def test_what_does_not_listen_is_killed_after_the_deadline(processes: list[subprocess.Popen[str]]) -> None:
    listens, deaf = (identity(process) for process in processes)
    clock, pauses = ManualClock(), 0

    def pause(seconds: float) -> None:
        nonlocal pauses
        pauses += 1
        if not listens.is_alive():  # time passes only for the deaf one
            clock.advance(1000)

    assert end_all([listens, deaf], 30, clock=clock, pause=pause) == [deaf]
    assert processes[0].wait(60) == -signal.SIGTERM and processes[1].wait(60) == -signal.SIGKILL and pauses >= 30
