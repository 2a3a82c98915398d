"""Compilation ahead of the first start: kernels, and Python's byte code. `pinotpy warmup` does it, for all kernels or
for those that the first queries need.
"""

from __future__ import annotations

import compileall
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pinotpy
from pinotpy.kernels import cache
from pinotpy.kernels.compiling import Stage, StageRun, is_compiled, percent

# How often somebody who waits is told how far it is.
TELL_EVERY_S: Final = 3.0
_LOOK_S: Final = 0.1
Say = Callable[[str], None]


def compile_first(say: Say) -> Path:
    """Compile what the cache lacks of what the first queries need; return the cache's folder.

    say: told every few seconds how far it is.
    """
    folder = cache.prepare()
    _with_progress(StageRun(folder, Stage.FIRST), say)
    return folder


def compile_all(say: Say) -> Path:
    """Compile all that the cache lacks, remove outdated entries, return the cache's folder."""
    # An editable installation has no byte code, and where Python may not write any (PYTHONDONTWRITEBYTECODE) each
    # daemon would compile 170 files at each start: 0.15 to 0.3 s of CPU. Where the folder cannot be written, it stays
    # so.
    compileall.compile_dir(Path(pinotpy.__file__).parent, quiet=2)
    folder = cache.prepare()  # before numba is imported
    _with_progress(StageRun(folder, Stage.ALL), say)
    _Telling(say, lambda: "trying the kernels").run(_use_all)
    cache.drop_old(folder)
    return folder


def _use_all() -> None:
    """Also compiles what the lists of kernels lack (kernels/kernel_lists.py)."""
    from pinotpy.ingest.warm import warm_reader_kernels
    from pinotpy.query.warm import warm
    from pinotpy.segment.warm import warm_segment_kernels

    warm()
    warm_segment_kernels()
    warm_reader_kernels()


def first_are_compiled() -> bool:
    """Whether the cache has what the first queries need, or cannot be kept: then each daemon has its own."""
    folder = cache.prepare()
    return cache.is_temporary(folder) or is_compiled(folder, Stage.FIRST)


def progress_text(done: int, total: int) -> str:
    """How far it is, for people."""
    return f"compiling kernels, once for this CPU: {percent(done, total)} %"


def _with_progress(run: StageRun, say: Say) -> None:
    seen = [(0, 0)]
    run.tell = lambda done, total: seen.__setitem__(0, (done, total))
    try:
        _Telling(say, lambda: progress_text(*seen[0])).run(run.run)
    finally:
        run.end()


class _Telling:
    """Runs something on another thread, and says every few seconds what it is about."""

    def __init__(self, say: Say, text: Callable[[], str]) -> None:
        self._say, self._text = say, text

    def run(self, work: Callable[[], object]) -> None:
        """Raises what `work` raises."""
        failures = list[BaseException]()

        def worked() -> None:
            try:
                work()
            except BaseException as failure:
                failures.append(failure)

        thread = threading.Thread(target=worked, name="compile", daemon=True)
        thread.start()
        told_s = time.monotonic()
        while thread.is_alive():
            thread.join(_LOOK_S)
            if thread.is_alive() and time.monotonic() - told_s >= TELL_EVERY_S:
                told_s = time.monotonic()
                self._say(self._text())
        if failures:
            raise failures[0]
