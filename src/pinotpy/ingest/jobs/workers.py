"""Units done by several processes of this machine, or by this one.

Workers are new processes, never forks: a fork of a process with threads may hang for ever. They get JSON lines and
answer JSON lines. One that dies (killed for its memory, a crash in a library) is noticed by the end of its output: its
unit is done once more by a new one, then given up. Workers end when we do, also if we are killed: their input ends.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

from pinotpy.errors import DataError, ResourceError
from pinotpy.fs.uris import masked
from pinotpy.ingest.jobs.build import build_unit
from pinotpy.ingest.jobs.context import JobContext
from pinotpy.ingest.jobs.plan import Unit
from pinotpy.ingest.jobs.report import FileReport, UnitReport, failed_unit
from pinotpy.ingest.jobs.spare_workers import end_workers, new_worker

_log = logging.getLogger(__name__)

ATTEMPTS_MAX: Final = 2
# Each takes 100 MB and more, also when it waits for its input: a number that was meant for a cluster would stop this
# machine.
_PROCESSES_PER_CORE: Final = 8

Progress = Callable[[int, int], None]
"""(unit id, bytes of its input that are read)."""


def run_units(
    context: JobContext,
    units: Sequence[Unit],
    work_dir: Path,
    parallelism: int,
    progress: Progress,
    begins_more: Callable[[], bool],
) -> Iterator[UnitReport]:
    """The reports of units as they are done, in any order. Closing the iterator stops the workers.

    Args:
        parallelism: processes, at most eight a core; 1 = this one.
        begins_more: asked before each unit; once it says no, only the units in progress are done.
    """
    parallelism = min(parallelism, len(units), _PROCESSES_PER_CORE * len(os.sched_getaffinity(0)))
    if parallelism <= 1:
        for unit in units:
            if not begins_more():
                return
            yield build_unit(
                context,
                unit,
                work_dir,
                progress=lambda done, unit_id=unit.unit_id: progress(unit_id, done),  # type: ignore[misc]
            )
        return
    context_file = work_dir / "context.json"
    try:
        with os.fdopen(
            os.open(context_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w"
        ) as file:  # has the job's secrets
            json.dump(context.to_json_dict(), file)
    except OSError as error:
        cause = (error.strerror or str(error)).lower()
        raise ResourceError(
            f"the working folder '{work_dir}' cannot be written: {cause}; name another one by pinotpy.workingDir"
        ) from error
    threads = max(1, len(os.sched_getaffinity(0)) // parallelism)
    pool = _Pool([str(context_file), str(work_dir), threads], units, progress, begins_more)
    try:
        yield from pool.run(parallelism)
    finally:
        pool.stop()
        context_file.unlink(missing_ok=True)


class _Pool:
    """Workers and the units that wait for them. Everything is decided on the caller's thread; threads only read."""

    def __init__(
        self, settings: list[Any], units: Sequence[Unit], progress: Progress, begins_more: Callable[[], bool]
    ) -> None:
        self._settings, self._progress, self._begins_more = settings, progress, begins_more
        self._waiting = deque((unit, 1) for unit in units)
        self._busy: dict[int, tuple[subprocess.Popen[str], Unit, int]] = {}
        self._idle: list[subprocess.Popen[str]] = []
        self._heard: queue.Queue[tuple[subprocess.Popen[str], dict[str, Any] | None]] = queue.Queue()

    def run(self, parallelism: int) -> Iterator[UnitReport]:
        while self._waiting or self._busy:
            if self._waiting and not self._begins_more():
                self._waiting.clear()
                continue
            while self._waiting and len(self._busy) < parallelism:
                unit, attempt = self._waiting.popleft()
                self._give(unit, attempt)
            worker, message = self._heard.get()
            if worker.pid not in self._busy:
                continue  # one that ended after its last unit
            _, unit, attempt = self._busy[worker.pid]
            if message is None:
                del self._busy[worker.pid]
                report = self._died(worker, unit, attempt)
                if report is not None:
                    yield report
            elif "report" in message:
                del self._busy[worker.pid]
                self._idle.append(worker)
                yield UnitReport.from_json_dict(message["report"])
            else:
                self._progress(message["unit_id"], message["bytes_done"])

    def stop(self) -> None:
        """End all workers, whatever they do."""
        workers = [*self._idle, *(worker for worker, _, _ in self._busy.values())]
        end_workers(workers)
        self._idle.clear()
        self._busy.clear()

    def _give(self, unit: Unit, attempt: int) -> None:
        """To a worker that is idle and alive, else to a new one."""
        while self._idle:
            worker = self._idle.pop()
            if worker.poll() is None and self._sent(worker, unit.to_json_dict()):
                self._busy[worker.pid] = (worker, unit, attempt)
                return
        worker = self._start()
        self._busy[worker.pid] = (worker, unit, attempt)
        self._sent(worker, unit.to_json_dict())  # if it is dead already, its reader says so

    def _start(self) -> subprocess.Popen[str]:
        worker = new_worker()
        self._sent(worker, self._settings)
        threading.Thread(target=self._listen, args=(worker,), daemon=True, name=f"worker-{worker.pid}").start()
        return worker

    def _listen(self, worker: subprocess.Popen[str]) -> None:
        with suppress(ValueError, OSError):  # closed by stop
            for line in _open(worker.stdout):
                self._heard.put((worker, json.loads(line)))
        self._heard.put((worker, None))

    @staticmethod
    def _sent(worker: subprocess.Popen[str], message: Any) -> bool:
        try:
            stream = _open(worker.stdin)
            stream.write(json.dumps(message) + "\n")
            stream.flush()
        except OSError:
            return False
        return True

    def _died(self, worker: subprocess.Popen[str], unit: Unit, attempt: int) -> UnitReport | None:
        """None: the unit will be done again."""
        status = worker.wait()
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        _log.warning("worker died pid=%d unit=%d attempt=%d how=%s", worker.pid, unit.unit_id, attempt, how)
        if attempt < ATTEMPTS_MAX:
            self._waiting.appendleft((unit, attempt + 1))
            return None
        hint = (
            "; SIGKILL is what a system without memory sends: fewer units at once (segmentCreationJobParallelism) "
            "need less"
            if status == -9
            else ""
        )
        # A file can be such that it takes its reader down: that is its fault as far as anyone can tell.
        cause = f"the process that built it died {attempt} times, last with {how}{hint}"
        files = tuple(
            FileReport(masked(entry.uri), entry.size_bytes, error=cause) for entry in unit.inputs if unit.size_bytes
        )
        return failed_unit(unit.unit_id, DataError(cause), files, is_input_fault=bool(files))


def _open(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream
