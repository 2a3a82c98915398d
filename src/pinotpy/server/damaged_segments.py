"""Has segments replaced that queries found damaged.

A query takes such a segment out of service itself (SegmentRegistry.withdraw) and answers without it, so that the broker
asks another replica; bringing it back takes a download, which no query waits for.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

from pinotpy.errors import PinotError, SegmentCorruptError
from pinotpy.segment.immutable import ImmutableSegment

log = logging.getLogger(__name__)

# (table, segment, what was found) takes a damaged segment out of service and fetches it anew. May raise PinotError.
Replace = Callable[[str, ImmutableSegment, SegmentCorruptError], None]


class DamagedSegments:
    """A thread that replaces them one by one; it begins with the first. A segment is withdrawn once, so that each is
    in the queue once.
    """

    def __init__(self, replace: Replace) -> None:
        self._replace = replace
        self._found: queue.SimpleQueue[tuple[str, ImmutableSegment, SegmentCorruptError] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="replace-damaged", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        self._found.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def found(self, table: str, segment: ImmutableSegment, damage: SegmentCorruptError) -> None:
        """A segment that was withdrawn. Safe from any thread."""
        self._found.put((table, segment, damage))

    def _run(self) -> None:
        while (found := self._found.get()) is not None:
            table, segment, damage = found
            try:
                self._replace(table, segment, damage)
            except PinotError as error:
                log.error("damaged segment not replaced table=%s segment=%s reason=%s", table, segment.name, error)
            except Exception:
                log.exception("damaged segment not replaced table=%s segment=%s", table, segment.name)
