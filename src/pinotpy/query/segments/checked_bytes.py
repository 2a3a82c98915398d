"""The bytes of segments are compared with their checksums before a query reads them (segment/integrity.py).

Asking the file system whether files were touched takes about 2 us a segment, so that a set of segments is not asked
again before a hundred times as long has passed: it costs a hundredth of the time, however many queries run. Sets that
brokers ask for by turns (each query its partition or its day) are parts of one whole: no segment of it is asked again
before a hundred times as long has passed as all of it would take.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from typing import Final

import numpy as np

from pinotpy.arrays import Int64Array
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.segments.segment_set import Attachment, SegmentSet

_LOOK_SHARE: Final = 100
# A look that takes longer a segment was kept waiting for a core.
_LOOK_MAX_NS: Final = 10_000
_PAUSE_MAX_NS: Final = 1_000_000_000


class _Looks(Attachment):
    """The columns that are known to be right since the last look, and until when nobody looks again."""

    def __init__(self) -> None:
        self.names: frozenset[str] = frozenset()
        self.until_ns = 0


class _LooksOfWhole(Attachment):
    """int64[segments of a whole]: until when nobody looks at each again. Threads that write at once look twice."""

    def __init__(self) -> None:
        self._until_ns: Int64Array = np.zeros(0, np.int64)

    def of(self, num_segments: int) -> Int64Array:
        if len(self._until_ns) != num_segments:
            self._until_ns = np.zeros(num_segments, np.int64)
        return self._until_ns


def check_bytes(segments: SegmentSet, names: Iterable[str], control: QueryControl) -> None:
    """Compare the values of these columns in all of the segments, when a query begins to read them and again when it
    has ended (`QueryControl.checks`).

    Raises: SegmentCorruptError, with the segment in its context; what `control.check` raises.
    """
    check = partial(_check, segments, tuple(names))
    check(control)
    control.checks.append(check)


def _check(segments: SegmentSet, names: tuple[str, ...], control: QueryControl) -> None:
    looks = segments.attached(_Looks)
    start_ns = time.monotonic_ns()
    is_looking = start_ns >= looks.until_ns
    if not is_looking and looks.names.issuperset(names):
        return
    if is_looking:
        _look(segments, start_ns)
    compared = False
    for segment in segments.segments:
        compared |= segment.check_bytes(names, control.check)
    if is_looking:
        looks.names = frozenset(names)
        end_ns = time.monotonic_ns()
        if not compared:
            took_ns = min(end_ns - start_ns, len(segments) * _LOOK_MAX_NS)
            looks.until_ns = end_ns + min(took_ns * _LOOK_SHARE, _PAUSE_MAX_NS)
    else:
        looks.names |= frozenset(names)


def _look(segments: SegmentSet, now_ns: int) -> None:
    """At the segments that no query has looked at for long enough, whatever set it asked."""
    whole, rows = segments.whole, segments.rows_of_whole
    until_ns = whole.attached(_LooksOfWhole).of(len(whole))
    due = np.flatnonzero((until_ns if rows is None else until_ns[rows]) <= now_ns)
    for place in due.tolist():
        segments.segments[place].look()
    if not len(due):
        return
    took_ns = min((time.monotonic_ns() - now_ns) // len(due), _LOOK_MAX_NS)
    pause_ns = min(took_ns * len(whole) * _LOOK_SHARE, _PAUSE_MAX_NS)
    until_ns[due if rows is None else rows[due]] = now_ns + pause_ns
