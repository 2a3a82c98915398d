"""A server and its disk: faults of the disk become errors that say what to do, and a data folder belongs to one
process.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pinotpy.clock import Clock
from pinotpy.errors import AlreadyExistsError, DiskError, storage_remedy
from pinotpy.fs.private_folder import make_private_folder

log = logging.getLogger(__name__)
_LOCK: Final = ".lock"
# A server that is started anew may find the last breath of the one before it.
_WAIT_S: Final = 5.0
_PAUSE_S: Final = 0.1


@contextlib.contextmanager
def disk_faults(what: str) -> Iterator[None]:
    """Raise DiskError for an OSError of the block. `what` begins the message: "segment 's0' is not loaded"."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error) or type(error).__name__).lower()
        where = "the disk of the data folder (pinot.server.instance.dataDir)"
        raise DiskError(f"{what}, {where} failed: {reason}; {storage_remedy(error)}", errno=error.errno) from error


class FolderLock:
    """Keeps a second server out of a folder: each would remove what the other one writes. The lock ends with the
    process, however that ends.

    Args:
        setting: the key that names the folder, for the message.
    """

    def __init__(self, folder: Path, setting: str, clock: Clock) -> None:
        self._folder, self._setting, self._clock = folder, setting, clock
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Raises AlreadyExistsError: another process holds the folder, and held it for some seconds."""
        try:
            make_private_folder(self._folder)
            self._descriptor = os.open(
                self._folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644
            )
        except OSError as error:
            # Segments that are there can be served from a folder that cannot be written, and nobody else writes there
            # either.
            log.warning(
                "folder cannot be locked against other servers folder=%s reason=%s", self._folder, error.strerror
            )
            return
        deadline_ns = self._clock.monotonic_ns() + int(_WAIT_S * 1e9)
        while not self._is_locked(self._descriptor):
            if self._clock.monotonic_ns() > deadline_ns:
                holder = os.pread(self._descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
                self.release()
                raise AlreadyExistsError(
                    f"the folder '{self._folder}' ({self._setting}) is in use by another server (process {holder}): "
                    "give each server a folder of its own",
                    folder=str(self._folder),
                )
            self._clock.wait(threading.Event(), _PAUSE_S)
        with contextlib.suppress(OSError):  # a full disk: the lock holds, and a message lacks the process
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Harmless without `acquire`."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _is_locked(self, descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            log.warning(
                "folder cannot be locked against other servers folder=%s reason=%s", self._folder, error.strerror
            )
        return True
