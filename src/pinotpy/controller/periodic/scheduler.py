"""Runs periodic tasks while this controller leads: one thread, tasks one after the other, failures isolated and
counted.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pinotpy.clock import Clock

LOG = logging.getLogger(__name__)

# a new leader waits so long, up to as much again at random, so that a restart does not start everything at once
INITIAL_DELAY_S = 120.0
IDLE_S = 1.0  # how long leadership may change unseen

OnRun = Callable[[str, int], None]  # name of the task, number of failures


class PeriodicTask(Protocol):
    """One task. `run_table` and `run_once` read and change state through the doors that the task was built with."""

    name: str
    interval_s: float

    def tables(self) -> Sequence[str]:
        """Tables with type to ask, in order; empty for a task that has no tables."""
        ...

    def run_table(self, table_name_with_type: str) -> None: ...

    def run_once(self) -> None:
        """Work of the whole cluster, after all tables."""
        ...


@dataclass(slots=True)
class TaskReport:
    """What the last run of a task did, for /periodictask and metrics."""

    name: str
    runs: int = 0
    tables_done: int = 0
    failures: int = 0
    last_failed: tuple[str, ...] = ()
    last_started_ms: int = 0
    last_took_ms: int = 0
    due_ns: int = field(default=0, repr=False)


class PeriodicScheduler:
    """Owns the thread; `report` may be read from any thread (values are swapped, never edited in place from
    outside).
    """

    def __init__(
        self,
        tasks: Sequence[PeriodicTask],
        clock: Clock,
        is_leader: Callable[[], bool],
        *,
        initial_delay_s: float = INITIAL_DELAY_S,
        on_run: OnRun | None = None,
        seed: int | None = None,
    ) -> None:
        names = [task.name for task in tasks]
        assert len(set(names)) == len(names), f"two periodic tasks have one name: {names}"
        self._tasks, self._clock, self._is_leader = tuple(tasks), clock, is_leader
        self._initial_delay_s, self._on_run = initial_delay_s, on_run
        self._random = random.Random(seed)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._running = threading.Lock()  # one run at a time, by the thread or by hand
        self.report: dict[str, TaskReport] = {name: TaskReport(name) for name in names}

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._loop, name="periodic-tasks", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop after the table that is under way; returns at the latest after `timeout_s`."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def run_due(self) -> None:
        """Run every task that is due; tests call this with a manual clock."""
        now_ns = self._clock.monotonic_ns()
        for task in self._tasks:
            entry = self.report[task.name]
            if task.interval_s <= 0:
                continue
            if entry.due_ns == 0:
                entry.due_ns = now_ns + int(
                    min(task.interval_s, self._initial_delay_s * self._random.uniform(1, 2)) * 1e9
                )
            if now_ns >= entry.due_ns:
                self.run_now(task.name)
                entry.due_ns = self._clock.monotonic_ns() + int(
                    task.interval_s * 1e9 * self._random.uniform(0.95, 1.05)
                )

    def run_now(self, name: str, table_name_with_type: str | None = None) -> TaskReport:
        """Run one task now, for one table or for all.

        Raises:
            KeyError: there is no such task.
        """
        task = {task.name: task for task in self._tasks}[name]
        entry = self.report[name]
        with self._running:
            started_ns = self._clock.monotonic_ns()
            entry.last_started_ms = self._clock.now_ms()
            failed: list[str] = []
            done = 0
            tables = self._tables_of(task, failed) if table_name_with_type is None else (table_name_with_type,)
            for table in tables:
                if self._stop.is_set() or not self._is_leader():
                    break
                try:
                    task.run_table(table)
                    done += 1
                except Exception:
                    LOG.exception("periodic task failed task=%s table=%s", name, table)
                    failed.append(table)
            if table_name_with_type is None and not self._stop.is_set() and self._is_leader():
                try:
                    task.run_once()
                except Exception:
                    LOG.exception("periodic task failed task=%s", name)
                    failed.append("")
            entry.runs += 1
            entry.tables_done = done
            entry.failures += len(failed)
            entry.last_failed = tuple(failed)
            entry.last_took_ms = (self._clock.monotonic_ns() - started_ns) // 1_000_000
        if self._on_run is not None:
            self._on_run(name, len(failed))
        return entry

    def _tables_of(self, task: PeriodicTask, failed: list[str]) -> Sequence[str]:
        try:
            return task.tables()
        except Exception:
            LOG.exception("periodic task cannot list its tables task=%s", task.name)
            failed.append("")
            return ()

    def _loop(self) -> None:
        while not self._clock.wait(self._stop, IDLE_S):
            if self._is_leader():
                self.run_due()
            else:
                for entry in self.report.values():
                    entry.due_ns = 0
