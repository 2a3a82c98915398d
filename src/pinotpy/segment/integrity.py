"""Are the bytes of an open segment those that its metadata describes?

A load trusts the sizes and times of files that were checked once (immutable.py), so bytes are compared when they are
read: each buffer with its CRC before a query sees it for the first time since the segment was opened, and once more
whenever its file was touched since. What a file system does not report (a cell of a disk that loses its charge) the
server's scrub finds (server/scrubber.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.errors import SegmentCorruptError
from pinotpy.segment import layout
from pinotpy.segment.checksum import crc32c
from pinotpy.segment.directory.directory import FileState, SegmentDirectory
from pinotpy.segment.layout import BufferEntry

# Bytes compared between two calls of `pause`: 10 ms.
_STEP_BYTES: Final = 64 << 20
_LOCK_WAIT_S: Final = 0.05


class SegmentIntegrity:
    """What is known of the bytes of one open segment; shared by threads.

    Args:
        files: as `directory` mapped them; sizes: (name, size) of each, from the metadata.
    """

    def __init__(
        self,
        segment: str,
        directory: SegmentDirectory,
        files: list[NDArray[np.uint8]],
        sizes: Sequence[tuple[str, int]],
    ) -> None:
        self._segment, self._directory, self._sizes = segment, directory, tuple(sizes)
        self._files = files
        self._comparing = threading.Lock()  # so that threads do not compare the same bytes
        self._lock = threading.Lock()  # guards the two below, where they change
        self._states: tuple[FileState | None, ...] | None = None
        self._known: frozenset[str] = frozenset()

    def check(self, key: str, entries: Sequence[BufferEntry], pause: Callable[[], None]) -> bool:
        """Compare the buffers `entries`, known together as `key`, unless that was done since their files were touched.

        Args:
            pause: called at times while bytes are compared or waited for; it may raise to end that.

        Returns: whether bytes were compared.
        Raises: SegmentCorruptError, with the segment in its context; what `pause` raises.
        """
        if key in self._known:
            return False
        while not self._comparing.acquire(timeout=_LOCK_WAIT_S):
            pause()
        try:
            if key in self._known:
                return False
            states = self._states
            self._check_sizes(states or ())
            for entry in entries:
                self._compare(key, entry, pause)
            with self._lock:
                # Where a look found meanwhile that a file was touched, this was compared too early.
                if self._states is states:
                    self._known |= {key}
            return True
        finally:
            self._comparing.release()

    def look(self) -> None:
        """Ask the file system whether the files were touched since the last look; if they were, nothing is known."""
        states = tuple(
            [
                self._directory.state_of(name, data)
                for (name, _), data in zip(self._sizes, self._files, strict=False)  # none after `close`
            ]
        )
        if states != self._states:
            with self._lock:
                self._states, self._known = states, frozenset()

    def close(self) -> None:
        """Let go of the files."""
        self._files = []

    def _check_sizes(self, states: Sequence[FileState | None]) -> None:
        # Bytes behind the end of a file that was cut off cannot be read: the process would end by SIGBUS.
        for state, (name, size) in zip(states, self._sizes, strict=False):
            if state is not None and state.size_bytes < size:
                raise SegmentCorruptError(
                    f"a file of segment '{self._segment}' was cut off after it was opened",
                    file=f"{self._directory.location}/{name}",
                    expected=f"{size} bytes",
                    found=f"{state.size_bytes} bytes",
                    segment=self._segment,
                )

    def _compare(self, key: str, entry: BufferEntry, pause: Callable[[], None]) -> None:
        end, crc = entry.offset + layout.aligned(entry.size_bytes), 0
        for start in range(entry.offset, end, _STEP_BYTES):
            pause()
            crc = crc32c(self._files[entry.file][start : min(start + _STEP_BYTES, end)], crc)
        if crc != entry.crc:
            raise SegmentCorruptError(
                f"buffer '{entry.kind}' of {key} of segment '{self._segment}' does not match its CRC",
                file=f"{self._directory.location}/{self._sizes[entry.file][0]}",
                expected=entry.crc,
                found=crc,
                segment=self._segment,
            )
