"""Makes the columns of pieces that became immutable on a thread of its own, so that neither queries have to, nor the
rows that come after them wait to be published.
"""

from __future__ import annotations

import logging
import threading
from typing import Final, Protocol

log = logging.getLogger(__name__)

_STOP_S: Final = 10.0


class Freezable(Protocol):
    """Has pieces, such as LogPieces."""

    def freeze(self) -> None: ...


class Freezer:
    """The thread of all partitions of a server; started by the first piece that becomes immutable."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._asked: dict[Freezable, None] = {}  # each once: one freeze makes all that there is to make by then
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def ask(self, pieces: Freezable) -> None:
        """Freeze soon what became immutable; nothing once this is closed: queries make then what they read."""
        with self._changed:
            if self._is_closed:
                return
            self._asked[pieces] = None
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="freeze-pieces", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Ends after the pieces that are being made."""
        with self._changed:
            self._is_closed = True
            self._asked.clear()
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(_STOP_S)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._asked:
                    if self._is_closed:
                        return
                    self._changed.wait()
                pieces = next(iter(self._asked))
                del self._asked[pieces]
            try:
                pieces.freeze()
            except Exception:  # of one partition; queries that read its pieces tell why
                log.exception("pieces are left to queries")
            del pieces  # a table that is dropped meanwhile keeps no memory here
