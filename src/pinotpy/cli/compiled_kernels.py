"""Compilation ahead of the first start: kernels, and Python's byte code. `pinotpy warmup` does it, for all kernels or
for those that the first queries need.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pinotpy.cli.byte_code import byte_code_beside
from pinotpy.kernels import cache
from pinotpy.kernels.compiling import Stage, StageRun, is_compiled, percent

# How often somebody who waits is told how far it is.
TELL_EVERY_S: Final = 3.0
_LOOK_S: Final = 0.1
BYTE_CODE_TEXT: Final = "compiling Python modules, once for this installation"
Say = Callable[[str], None]


def compile_first(say: Say) -> Path:
    """Compile what the cache lacks of what the first queries need; return the cache's folder.

    say: told every few seconds how far it is.
    """
    folder = cache.prepare()
    with byte_code_beside() as wait_for_byte_code:
        _with_progress(StageRun(folder, Stage.FIRST), say)
        _Telling(say, lambda: BYTE_CODE_TEXT).run(wait_for_byte_code)
    return folder


def compile_all(say: Say) -> Path:
    """Compile all that the cache lacks, remove outdated entries, return the cache's folder."""
    with byte_code_beside() as wait_for_byte_code:
        folder = cache.prepare()  # before numba is imported
        _with_progress(StageRun(folder, Stage.ALL), say)
        _Telling(say, lambda: "trying the kernels").run(_use_all)
        _Telling(say, lambda: BYTE_CODE_TEXT).run(wait_for_byte_code)
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
