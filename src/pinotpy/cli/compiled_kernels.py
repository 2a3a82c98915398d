"""Compilation ahead of the first start: kernels, and Python's byte code; `pinotpy warmup` leaves a marker in the
cache.
"""

from __future__ import annotations

import compileall
import hashlib
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

import pinotpy
from pinotpy.kernels import cache

_log = logging.getLogger(__name__)
_WORKER: Final = (
    "import importlib, sys\nfor line in sys.stdin: importlib.import_module('pinotpy.kernels.' + "
    "line.strip()); print('.', flush=True)"
)


def compile_all() -> Path:
    """Compile what the cache lacks, remove outdated entries, write the marker, return the cache's folder."""
    # An editable installation has no byte code, and where Python may not write any (PYTHONDONTWRITEBYTECODE) each
    # daemon would compile 170 files at each start: 0.15 to 0.3 s of CPU. Where the folder cannot be written, it stays
    # so.
    compileall.compile_dir(Path(pinotpy.__file__).parent, quiet=2)
    folder = cache.prepare()  # before numba is imported
    if not _marker(folder).exists():
        _import_all(len(os.sched_getaffinity(0)))
    from pinotpy.ingest.warm import warm_reader_kernels
    from pinotpy.query.warm import warm
    from pinotpy.segment.warm import warm_segment_kernels

    warm()
    warm_segment_kernels()
    warm_reader_kernels()
    cache.drop_old(folder)
    _marker(folder).touch()
    return folder


def _import_all(processes: int) -> None:
    """Compile what kernels compile when they are imported, in several processes: a module is given to one of them when
    all that it imports is done, so that nothing is compiled twice. Whatever goes wrong here, `warm` meets again and
    reports.
    """
    waiting = cache.imports()
    done = set[str]()

    def work() -> None:
        with subprocess.Popen(
            [sys.executable, "-c", _WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as worker:
            assert worker.stdin is not None and worker.stdout is not None
            while True:
                with condition:
                    name = take_ready(waiting, done)
                    while name is None:
                        if not waiting:
                            return
                        condition.wait()
                        name = take_ready(waiting, done)
                try:
                    print(name, file=worker.stdin, flush=True)
                    worker.stdout.readline()
                except OSError:
                    _log.warning("a process that compiles kernels ended module=%s", name)
                finally:
                    with condition:
                        done.add(name)
                        condition.notify_all()

    condition = threading.Condition()
    threads = [threading.Thread(target=work) for _ in range(processes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def take_ready(waiting: dict[str, set[str]], done: set[str]) -> str | None:
    """Take a module whose imports are all done out of `waiting` (module → its imports); None if there is none now. What
    most others wait for goes first.
    """
    ready = [name for name, imported in waiting.items() if imported <= done]
    if not ready:
        return None
    first = max(ready, key=lambda name: sum(name in imported for imported in waiting.values()))
    del waiting[first]
    return first


def are_compiled() -> bool:
    """Whether `compile_all` ran for this code; the marker's name has a hash of it, so a change begins anew."""
    return _marker(cache.prepare()).exists()


def _marker(folder: Path) -> Path:
    # Byte code is stored beside the source: the same code elsewhere on the machine has its own.
    place = hashlib.sha256(str(Path(pinotpy.__file__).parent).encode()).hexdigest()[:8]
    return folder / f"compiled.{cache.content_hash()}.{place}"
