"""Processes that wait for a job: a worker takes most of a second to import what it works with. Whoever is to run a job
starts them first, and looks into its files meanwhile.

A worker gets its job's settings as its first line, and then its units (`worker`). Light: nothing is imported here that
takes time.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pinotpy
from pinotpy.errors import ResourceError

# A file is built in parts of this much or up to twice as much: worth the second that a process takes to start, and
# little enough that all rows of a part are in memory while its segment is built. It depends on nothing of this machine:
# segments are named after the content, and the same content shall be as many of them wherever it is loaded from.
PART_BYTES: Final = 64 << 20
PACKED: Final = (b"\x1f\x8b", b"BZh", b"\x28\xb5\x2f\xfd")  # cannot be read from the middle
_END_TIMEOUT_S: Final = 5.0
_waiting: list[subprocess.Popen[str]] = []


def new_worker() -> subprocess.Popen[str]:
    """One that was started before, else a new one. Raises ResourceError."""
    while _waiting:
        worker = _waiting.pop()
        if worker.poll() is None:
            return worker
    return _started()


@contextmanager
def spare_workers(files: Sequence[str]) -> Iterator[None]:
    """While the block runs, workers for files on this machine are there before they are asked for; those that nobody
    takes end with it.
    """
    number = min(len(os.sched_getaffinity(0)), sum(map(_num_parts, files)))
    try:
        if number > 1:
            _waiting.extend(_started() for _ in range(number))
        yield
    finally:
        end_workers(_waiting)
        _waiting.clear()


def _num_parts(file: str) -> int:
    """How many parts a file will be built in, at most; a URI tells nothing of it. JSON arrays are one. Nothing of a
    pipe is read: whoever loads it would miss that.
    """
    try:
        status = os.stat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size < 2 * PART_BYTES:
            return 0
        with Path(file).open("rb") as stream:
            begins = stream.read(64)
    except OSError:
        return 0
    is_whole = begins.startswith(PACKED) or begins.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
    return 0 if is_whole else status.st_size // PART_BYTES


def _started() -> subprocess.Popen[str]:
    # The worker imports this very package, however this process found it.
    path = os.pathsep.join(filter(None, [str(Path(pinotpy.__file__).parent.parent), os.environ.get("PYTHONPATH")]))
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "pinotpy.ingest.jobs.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
            # Ctrl-C reaches a whole group of processes; the parent decides.
            start_new_session=True,
        )
    except OSError as error:
        cause = (error.strerror or str(error)).lower()
        raise ResourceError(
            f"no further process can be started: {cause}; ask for fewer by segmentCreationJobParallelism"
        ) from error


def end_workers(workers: Sequence[subprocess.Popen[str]]) -> None:
    """End them, whatever they do."""
    for worker in workers:
        with suppress(OSError):
            worker.terminate()
    for worker in workers:
        try:
            worker.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
        for stream in (worker.stdin, worker.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
