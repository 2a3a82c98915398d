"""Which segments do queries read at this moment? A file tells the next process, if this one dies of it.

A process that ends by SIGSEGV or SIGBUS while kernels read a segment may have met bytes that nobody checked: those of a
file that was damaged in the middle of a query. Its next start checks the segments that were being read as a whole,
before they are served. A process that was killed from outside says nothing about segments.
"""

from __future__ import annotations

import faulthandler
import io
import logging
import sys
from pathlib import Path
from typing import Final

import numpy as np
import orjson
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array

log = logging.getLogger(__name__)

_COUNTS: Final = "counts"  # uint32[_SLOTS_MAX]: how many queries read the segment of a slot
_NAMES: Final = "segments"  # a line of JSON for each slot but the first: [table, segment]
_CRASH: Final = "crash"  # what faulthandler wrote when the process died
# A slot is never used twice in the life of a process. Segments beyond that share slot 0, which has no name.
_SLOTS_MAX: Final = 1 << 20
_SHOWN_MAX: Final = 20


class ReadingMarks:
    """One counter a segment, in a mapped file of `folder`. The registry's lock guards all of it.

    suspects: (table, segment) of what the process before this one was reading when it died of a fault.

    counts: uint32, of queries that read; who reads adds 1 at the slots of its segments, and takes it away at the end.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.suspects = self._left_behind(folder)
        (folder / _COUNTS).unlink(missing_ok=True)
        # Sparse: only pages of slots that are in use take room.
        self.counts: NDArray[np.uint32] = np.asarray(np.memmap(folder / _COUNTS, np.uint32, "w+", shape=_SLOTS_MAX))
        self._names = (folder / _NAMES).open("wb", buffering=0)
        self._num_slots = 1
        self._crash: io.BufferedWriter = (folder / _CRASH).open("wb")
        faulthandler.enable(file=self._crash)

    def slot(self, table: str, segment: str) -> int:
        """A slot for a segment that is served from now on."""
        if self._num_slots == _SLOTS_MAX:
            return 0
        self._names.write(orjson.dumps([table, segment]) + b"\n")
        self._num_slots += 1
        return self._num_slots - 1

    def begin(self, slots: Int64Array) -> None:
        """A query reads the segments of these slots."""
        self.counts[slots] += 1

    def end(self, slots: Int64Array) -> None:
        """It reads them no more."""
        self.counts[slots] -= 1

    def close(self) -> None:
        """The process ends as it should."""
        faulthandler.enable(file=sys.stderr)
        self._crash.close()
        self._names.close()

    @staticmethod
    def _left_behind(folder: Path) -> frozenset[tuple[str, str]]:
        try:
            crash = (folder / _CRASH).read_text(errors="replace")
            if not crash:
                return frozenset()
            counts = np.fromfile(folder / _COUNTS, np.uint32)
            lines = (folder / _NAMES).read_bytes().split(b"\n")[:-1]  # the last one may be cut off
            names = [tuple(orjson.loads(line)) for line in lines]
        except FileNotFoundError:
            return frozenset()
        except (OSError, orjson.JSONDecodeError) as error:
            log.warning("what the process before this one was reading cannot be told reason=%s", error)
            return frozenset()
        read = np.flatnonzero(counts[1 : len(names) + 1])
        suspects = frozenset((str(table), str(segment)) for table, segment in (names[slot] for slot in read.tolist()))
        shown = ", ".join("/".join(name) for name in sorted(suspects)[:_SHOWN_MAX])
        log.error(
            "the process before this one died of a fault; the segments that it was reading are checked as a whole "
            "before they are served segments=%d names=%s\n%s",
            len(suspects),
            shown,
            crash,
        )
        return suspects
