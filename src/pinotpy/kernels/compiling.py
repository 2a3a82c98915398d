"""Compiling the kernels of a list, once for all processes of this user: whoever comes first does it, the others see how
far it is.

A marker in the cache, whose name has a hash of all of kernels/, says that a list is done; an edit begins anew.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Final

from pinotpy.kernels import cache
from pinotpy.kernels.compile_processes import CompileRun, Tell
from pinotpy.kernels.kernel_lists import FIRST, OTHER, first_kernels, other_kernels
from pinotpy.kernels.kernel_names import Kernel

_LOOK_S: Final = 0.1


class Stage(Enum):
    """FIRST: what README's and the quickstart's queries need. ALL: those and the others."""

    FIRST = "first"
    ALL = "all"

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return first_kernels() if self is Stage.FIRST else first_kernels() + other_kernels()


def marker(folder: Path, stage: Stage) -> Path:
    """The file in the cache that says that the stage's kernels are there."""
    digest = hashlib.sha256(cache.content_hash().encode())
    for file in (FIRST, OTHER):
        digest.update(file.read_bytes() + b"\0")
    return folder / f"{stage.value}.{digest.hexdigest()[:16]}"


def is_compiled(folder: Path, stage: Stage) -> bool:
    """Whether all kernels of the stage are in the cache."""
    return any(file.exists() for file in _markers(folder, stage))


def _markers(folder: Path, stage: Stage) -> list[Path]:
    return [marker(folder, each) for each in (stage, Stage.ALL)]


def progress(folder: Path, stage: Stage) -> tuple[int, int] | None:
    """Kernels done and in all, of whoever compiles the stage now or did last; None: nobody did."""
    try:
        done, total = _progress_file(folder, stage).read_text().split()
        return int(done), int(total)
    except (OSError, ValueError):
        return None


def percent(done: int, total: int) -> int:
    return 100 * done // total if total else 0


class StageRun:
    """Brings a stage's kernels into the cache. `failures`: kernels that could not be compiled, and why."""

    def __init__(
        self,
        folder: Path,
        stage: Stage,
        tell: Tell = lambda done, total: None,
        *,
        is_idle: bool = False,
        num_processes: int | None = None,
    ) -> None:
        """tell: told how far it is, also where another process does it. is_idle: on time that nobody else wants."""
        self._folder, self._stage, self.tell, self._is_idle = folder, stage, tell, is_idle
        self._num_processes = num_processes or len(os.sched_getaffinity(0))
        self._run: CompileRun | None = None
        self._is_ended = False
        self.failures: dict[Kernel, str] = {}

    def run(self) -> bool:
        """Returns when the kernels are there (True), or when some could not be compiled, or after `end`."""
        if is_compiled(self._folder, self._stage):
            return True
        with self._turn() as has_turn:
            if not has_turn:
                return False
            if is_compiled(self._folder, self._stage):
                return True
            # First what most wait for; a kernel that is there already takes milliseconds.
            self._run = CompileRun(
                self._folder, self._stage.kernels, self._num_processes, is_idle=self._is_idle, tell=self._told
            )
            if not self._is_ended:
                markers = _markers(self._folder, self._stage)  # hashed once, looked for every second
                self._run.run(lambda: any(file.exists() for file in markers))
            if is_compiled(self._folder, self._stage):
                return True
            self.failures = self._run.failures
            if self._is_ended or self.failures:
                return False
            marker(self._folder, self._stage).touch()
            return True

    def end(self) -> None:
        """Stop at once, from any thread."""
        self._is_ended = True
        if self._run is not None:
            self._run.end()

    def _told(self, done: int, total: int) -> None:
        file = _progress_file(self._folder, self._stage)
        with contextlib.suppress(OSError):
            scratch = file.with_suffix(f".{os.getpid()}")
            scratch.write_text(f"{done} {total}\n")
            scratch.replace(file)
        self.tell(done, total)

    @contextmanager
    def _turn(self) -> Iterator[bool]:
        """Alone among processes that compile this stage at this priority; False where `end` came before."""
        # An idle process does not keep others from compiling at once.
        name = f".{self._stage.value}{'-idle' if self._is_idle else ''}.lock"
        held = os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            while True:
                try:
                    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if self._is_ended or is_compiled(self._folder, self._stage):
                        break
                    self.tell(*(progress(self._folder, self._stage) or (0, 0)))
                    time.sleep(_LOOK_S)
            yield not self._is_ended
        finally:
            os.close(held)


def _progress_file(folder: Path, stage: Stage) -> Path:
    return folder / f".{stage.value}.progress"
