"""A file of lines that is replaced by a new one at a size: `queries.jsonl`, before it `queries.jsonl.1`, `.2` …

Only its owner may read it: texts of queries hold values. Used by one thread.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path


class RotatingFile:
    """
    Args:
        bytes_max: of one file; a line is never divided, so one that is longer has a file for itself.
        files_max: files that are kept, the current one among them.
    """

    def __init__(self, path: Path, bytes_max: int, files_max: int) -> None:
        self.path = path
        self._bytes_max = bytes_max
        self._files_max = files_max
        self._descriptor = -1
        self._size = 0

    def open(self) -> None:
        """Go on at the end of the file, or begin one. Raises OSError."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(
            self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        self._size = os.fstat(self._descriptor).st_size

    def write(self, lines: Sequence[bytes]) -> None:
        """Append whole lines. Raises OSError; lines before the fault are written."""
        pending: list[bytes] = []
        for line in lines:
            if self._size and self._size + len(line) > self._bytes_max:
                self._append(pending)
                pending = []
                self._rotate()
            pending.append(line)
            self._size += len(line)
        self._append(pending)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _append(self, lines: Sequence[bytes]) -> None:
        if self._descriptor < 0:
            self.open()  # an earlier rotation failed half-way
        data = memoryview(b"".join(lines))
        while data:
            data = data[os.write(self._descriptor, data) :]

    def _rotate(self) -> None:
        self.close()
        if self._files_max == 1:
            self.path.unlink(missing_ok=True)
        for number in range(self._files_max - 1, 0, -1):
            older = self._numbered(number - 1)
            if older.exists():
                older.replace(self._numbered(number))
        self.open()

    def _numbered(self, number: int) -> Path:
        return self.path if number == 0 else self.path.with_name(f"{self.path.name}.{number}")
