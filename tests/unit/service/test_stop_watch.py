"""Proves that a daemon hears of a signal that the system gave to another thread, and that a stop that hangs says where
and ends: with Python running, and with none running any more.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TOY = Path(__file__).parent / "toy_daemon.py"
WAIT_S = 60.0

# The main thread waits without a deadline, as a start may; the signal goes to another thread, as pthread_create makes
# it go.
STOLEN = """
import signal, sys, threading, time
from pinotpy.service.stop_watch import StopWatch
asked = []
def handle(*_):
    asked.append(1)
    raise SystemExit(7)
signal.signal(signal.SIGTERM, handle)
watch = StopWatch("toy", lambda: bool(asked), lambda: 30.0)
other = threading.Thread(target=time.sleep, args=(600,), daemon=True)
other.start()
def send():
    time.sleep(0.2)
    signal.pthread_kill(other.ident, signal.SIGTERM)
threading.Thread(target=send, daemon=True).start()
threading.Event().wait()
"""


def started(**options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(TOY), json.dumps(options)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.fixture
def toys() -> Iterator[list[subprocess.Popen[str]]]:
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_a_signal_that_another_thread_took_wakes_the_main_thread() -> None:
    done = subprocess.run([sys.executable, "-c", STOLEN], capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert (done.returncode, done.stderr) == (7, "")


def test_a_stop_that_hangs_says_once_where_every_thread_stands(toys: list[subprocess.Popen[str]]) -> None:
    process = started(
        store="waits for a line", stop_timeout_s=120.0, limits={"TELL_AFTER_S": 2.0, "stop_bound_s": 240.0}
    )
    toys.append(process)
    assert process.stdout is not None and process.stdout.readline().startswith("ready")
    process.terminate()
    assert process.stderr is not None
    said = [process.stderr.readline()]
    assert "is still stopping after 2 s; its threads:" in said[0]
    while "in stop_store" not in said[-1]:  # which waits until it was told
        said.append(process.stderr.readline())
        assert said[-1], said
    assert process.stdin is not None
    process.stdin.write("go on\n")
    process.stdin.flush()
    said += process.stderr.readlines()
    assert process.wait(WAIT_S) == 0
    text = "".join(said)
    assert (
        text.count("is still stopping after 2 s") == 1 and "thread MainThread" in text and "thread stop-store" in text
    )


def test_a_stop_that_is_quick_says_nothing(toys: list[subprocess.Popen[str]]) -> None:
    process = started(limits={"TELL_AFTER_S": 30.0})
    toys.append(process)
    assert process.stdout is not None and process.stdout.readline().startswith("ready")
    process.terminate()
    assert process.communicate(timeout=WAIT_S)[1] == "" and process.returncode == 0


def test_a_main_thread_that_never_comes_back_is_ended_at_the_bound(toys: list[subprocess.Popen[str]]) -> None:
    process = started(store="stuck", limits={"TELL_AFTER_S": 0.2, "stop_bound_s": 0.6})
    toys.append(process)
    assert process.stdout is not None and process.stdout.readline() == "starting\n"
    process.terminate()
    _, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 1
    assert err.index("is still stopping after 0.2 s") < err.index("did not stop within 0.6 s and is ended now")
    assert "in start_store" in err


def test_a_process_in_which_no_python_runs_any_more_is_ended_by_the_timer(toys: list[subprocess.Popen[str]]) -> None:
    process = started(store="frozen", limits={"TELL_AFTER_S": 0.2, "stop_bound_s": 2.0, "_TIMER_MARGIN_S": 0.5})
    toys.append(process)
    assert process.stdout is not None and process.stdout.readline().startswith("ready")
    process.terminate()
    _, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 1 and "Timeout" in err and "in stop_store" in err


def test_an_abort_tells_where_every_thread_stands(toys: list[subprocess.Popen[str]]) -> None:
    process = started()
    toys.append(process)
    assert process.stdout is not None and process.stdout.readline().startswith("ready")
    process.send_signal(signal.SIGABRT)
    _, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == -signal.SIGABRT and "Fatal Python error: Aborted" in err and "in _live" in err


def test_a_thread_of_a_pool_that_never_ends_does_not_keep_the_process(toys: list[subprocess.Popen[str]]) -> None:
    process = started(pool="hangs")
    toys.append(process)
    assert process.stdout is not None and process.stdout.readline().startswith("ready")
    process.terminate()
    out, err = process.communicate(timeout=WAIT_S)
    assert (process.returncode, err) == (0, "") and out.splitlines() == ["stopped http", "stopped store", "at exit"]


def test_a_signal_while_a_failed_start_is_cleaned_up_ends_in_order(toys: list[subprocess.Popen[str]]) -> None:
    process = started(store="unreachable", stop_s=1.0)
    toys.append(process)
    assert process.stdout is not None and process.stdout.readline() == "stopping store\n"
    process.terminate()
    out, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 1 and out == "stopped store\n"
    assert err.startswith("pinotpy broker: cannot start: no ZooKeeper") and err.count("\n") == 1


def test_a_signal_while_the_handlers_are_set_up_stops_the_daemon_before_it_starts(
    toys: list[subprocess.Popen[str]],
) -> None:
    process = started(signal_at="set up")
    toys.append(process)
    assert process.communicate(timeout=WAIT_S) == ("", "") and process.returncode == 0
