"""Archives that this server gives to others of the cluster: made of a served segment's files as they were built, piece
by piece, no more than a few at once.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from pinotpy.clock import Clock
from pinotpy.errors import NotFoundError, OutOfCapacityError, RemoteError
from pinotpy.segment.archive.archive import packed_original
from pinotpy.segment.immutable import ImmutableSegment
from pinotpy.server.tables.registry import SegmentRegistry

PIECE_BYTES: Final = 1 << 20


class GivenArchives:
    """Safe to share between threads: the lock guards `_until_ns`.

    Args:
        at_once_max: archives at once; 0: none is given.
        timeout_ms: longest time that one may take. Its place is free for another one then, whatever became of it.
        on_given: is told of which table an archive was given whole.
    """

    def __init__(
        self,
        registry: SegmentRegistry,
        clock: Clock,
        *,
        at_once_max: int,
        timeout_ms: int,
        on_given: Callable[[str], None] = lambda table: None,
    ) -> None:
        self._registry, self._clock = registry, clock
        self._at_once_max, self._timeout_ns = at_once_max, timeout_ms * 1_000_000
        self._on_given = on_given
        self._lock = threading.Lock()
        self._until_ns: dict[int, int] = {}
        self._ids = itertools.count()

    def give(self, table: str, segment_name: str, crc: int) -> Iterator[bytes]:
        """The archive of the segment with this CRC, in pieces; whoever takes them checks them.

        Raises with the first piece: NotFoundError: it is not served here with that CRC. OutOfCapacityError: enough are
        given already. Later: what keeps the files from being read; RemoteError when the time is over.
        """
        segment = self._registry.segment(table, segment_name)
        if segment is None or segment.crc != crc or not segment.acquire():
            found = "no such segment" if segment is None else f"CRC {segment.crc}"
            raise NotFoundError(
                f"this server does not serve segment '{segment_name[:200]}' of table '{table[:200]}' with CRC {crc}: "
                f"found {found}",
                table=table,
            )
        try:
            with self._place() as until_ns:
                yield from self._pieces(segment, until_ns)
        finally:
            segment.release()
        self._on_given(table)

    def _pieces(self, segment: ImmutableSegment, until_ns: int) -> Iterator[bytes]:
        pending = b""
        for piece in packed_original(segment.directory):
            if self._clock.monotonic_ns() > until_ns:
                raise RemoteError(
                    f"giving segment '{segment.name}' took longer than {self._timeout_ns // 1_000_000} ms"
                )
            pending += piece
            if len(pending) >= PIECE_BYTES:
                yield pending
                pending = b""
        yield pending

    @contextmanager
    def _place(self) -> Iterator[int]:
        """One of the archives at once; until when."""
        now_ns = self._clock.monotonic_ns()
        with self._lock:
            self._until_ns = {key: until_ns for key, until_ns in self._until_ns.items() if until_ns > now_ns}
            if len(self._until_ns) >= self._at_once_max:
                raise OutOfCapacityError(
                    f"this server gives {len(self._until_ns)} archives to others already, as many as "
                    "pinotpy.server.segment.peerArchivesMax allows: try again in a moment"
                )
            key, until_ns = next(self._ids), now_ns + self._timeout_ns
            self._until_ns[key] = until_ns
        try:
            yield until_ns
        finally:
            with self._lock:
                self._until_ns.pop(key, None)
