"""The folders that segments are built in. Each has one owner: the build until it has come to its end, then these."""

from __future__ import annotations

import contextlib
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pinotpy.server.realtime.ingest_worker import BuiltSegment

log = logging.getLogger(__name__)
_NOT_WANTED: Final = ".not-wanted"


class BuildFolders:
    """Removes a folder when its segment was taken over or is not wanted any more, and nobody works in it. All methods
    run on the event loop.

    Args:
        apart: runs what blocks on another thread.
    """

    def __init__(self, apart: Callable[[Callable[[], None]], object]) -> None:
        self._apart = apart
        self._users: dict[Path, int] = {}
        self._unwanted: set[Path] = set()  # of those that are in use

    def enter(self, built: BuiltSegment) -> None:
        """Somebody works in the folder, until `leave`."""
        folder = built.directory.parent
        self._users[folder] = self._users.get(folder, 0) + 1

    def leave(self, built: BuiltSegment) -> None:
        folder = built.directory.parent
        self._users[folder] -= 1
        if not self._users[folder]:
            del self._users[folder]
            if folder in self._unwanted:
                self._unwanted.discard(folder)
                self._remove(folder)

    def is_wanted(self, built: BuiltSegment) -> bool:
        """Of a folder that is in use."""
        return built.directory.parent not in self._unwanted

    def discard(self, built: BuiltSegment) -> None:
        """Nobody wants it any more; one that is on its way to be served, but not there yet, does not come there."""
        folder = built.directory.parent
        with contextlib.suppress(OSError):  # it was taken over, or was discarded before
            built.directory.rename(folder / _NOT_WANTED)
        if folder in self._users:
            self._unwanted.add(folder)
        elif folder.exists():
            self._remove(folder)

    def _remove(self, folder: Path) -> None:
        self._apart(lambda: remove_folder(folder))


def remove_folder(folder: Path) -> None:
    """With all that is in it. Blocking."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        pass
    except OSError as error:
        log.warning("the folder of a build stays until this server starts again folder=%s reason=%s", folder, error)
