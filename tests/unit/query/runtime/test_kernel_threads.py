"""Proves the scheduling rule of long scans: tasks that take several steps share a thread in turns, a task alone goes
on, a late task waits for one step of each before it, failures and shutdown reach whoever waits; and queries that take
turns answer as those that run alone.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor

import numpy as np
import pytest
from fake_segment import FakeSegment, fake_column

from pinotpy.config.schema import Schema
from pinotpy.data_types import DataType
from pinotpy.pql.parser import parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.execute import execute
from pinotpy.query.model.context import QueryOptions
from pinotpy.query.plan import build
from pinotpy.query.runtime import scan_loop
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.runtime.kernel_threads import NICENESS, KernelThreads
from pinotpy.query.segments.segment_set import SegmentSet

WAIT_S = 60.0


class Counted:
    """A task of `steps` steps that writes its name down at each; the first waits for `gate`."""

    def __init__(self, name: str, steps: int, log: list[str], gate: threading.Event | None = None) -> None:
        self.name, self.left, self.log, self.gate = name, steps, log, gate

    def __call__(self) -> bool:
        if self.gate is not None:
            assert self.gate.wait(WAIT_S)
        self.log.append(self.name)
        self.left -= 1
        return self.left == 0


def test_tasks_of_several_steps_take_turns_and_a_late_one_waits_for_one_step_of_each() -> None:
    threads, log, gate = KernelThreads(1), list[str](), threading.Event()
    tasks = [threads.submit_steps(Counted(name, 4, log, gate)) for name in "ab"]
    tasks.append(threads.submit_steps(Counted("c", 1, log)))
    gate.set()
    for task in tasks:
        task.result(WAIT_S)
    assert "".join(log) == "abcababab"
    threads.shutdown()


def test_a_task_alone_goes_on_without_waiting() -> None:
    threads, log = KernelThreads(2), list[str]()
    threads.submit_steps(Counted("a", 1000, log)).result(WAIT_S)
    assert log == ["a"] * 1000
    threads.shutdown()


def test_functions_are_tasks_of_one_step_with_a_result() -> None:
    threads = KernelThreads(2)
    assert threads.submit(max, 3, 4).result(WAIT_S) == 4
    assert list(threads.map(abs, [-1, 2, -3])) == [1, 2, 3]
    with pytest.raises(ZeroDivisionError):
        threads.submit(lambda: 1 // 0).result(WAIT_S)
    threads.shutdown()
    with pytest.raises(RuntimeError):
        threads.submit(max, 3, 4)


def test_what_a_step_raises_reaches_whoever_waits_and_the_thread_lives_on() -> None:
    threads = KernelThreads(1)

    def fail() -> bool:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        threads.submit_steps(fail).result(WAIT_S)
    assert threads.submit(max, 1, 2).result(WAIT_S) == 2
    threads.shutdown()


def test_a_shutdown_cancels_what_waits_if_asked_to() -> None:
    threads, log, gate = KernelThreads(1), list[str](), threading.Event()
    started = threading.Event()

    def first() -> bool:
        started.set()
        return gate.wait(WAIT_S)

    running = threads.submit_steps(first)
    assert started.wait(WAIT_S)
    waiting = threads.submit_steps(Counted("b", 1, log))
    threads.shutdown(wait=False, cancel_futures=True)
    gate.set()
    running.result(WAIT_S)
    with pytest.raises(CancelledError):
        waiting.result(WAIT_S)
    assert log == []


def test_kernel_threads_let_others_go_first() -> None:
    threads = KernelThreads(1)
    own = os.getpriority(os.PRIO_PROCESS, 0)
    found = threads.submit(lambda: os.getpriority(os.PRIO_PROCESS, threading.get_native_id())).result(WAIT_S)
    assert found == min(own + NICENESS, 19)
    assert os.getpriority(os.PRIO_PROCESS, 0) == own
    threads.shutdown()


def test_queries_that_take_turns_answer_as_those_that_run_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "DOCS_PER_THREAD_MIN", 3000)
    monkeypatch.setattr(scan_loop, "IN_TURN_DOCS_MIN", 5000)
    rng = np.random.default_rng(3)
    docs = 60_000
    values, keys = rng.integers(0, 1000, docs), rng.integers(0, 50, docs)
    segment = FakeSegment(
        "s", [fake_column("v", DataType.INT, values.tolist()), fake_column("k", DataType.INT, keys.tolist())]
    )
    schema = Schema.from_json(
        {"schemaName": "t", "dimensionFieldSpecs": [{"name": "v", "dataType": "INT"}, {"name": "k", "dataType": "INT"}]}
    )
    segments, threads = SegmentSet([segment]), KernelThreads(2)

    def ask(low: int) -> dict[int, tuple[int, int]]:
        text = f"SELECT k, COUNT(*), SUM(v) FROM t WHERE v >= {low} GROUP BY k LIMIT 1000"
        context = compile_query(parse_sql(text), schema, QueryOptions(), null_handling=False)
        # A quantum of 1 ns: every few blocks the scan goes to the end of the queue.
        rows = execute(context, segments, QueryControl(quantum_ns=1), threads=1 + low % 2, executor=threads).rows
        assert rows is not None
        return {row["k0"]: (row["a0_count"], int(row["a1_sum"])) for row in rows.to_pylist()}

    lows = list(range(0, 900, 37))
    with ThreadPoolExecutor(6) as askers:
        answers = list(askers.map(ask, lows))
    for low, found in zip(lows, answers, strict=True):
        kept = values >= low
        assert found == {
            k: (int((keys[kept] == k).sum()), int(values[kept][keys[kept] == k].sum()))
            for k in np.unique(keys[kept]).tolist()
        }
    threads.shutdown()
