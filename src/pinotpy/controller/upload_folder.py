"""The folder of uploads in progress: one for each running controller, cleared of what a crash left half received.

Controllers may share a data folder, if the deep store is a shared file system. So each locks its own folder in it, and
clears only unlocked ones.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
from pathlib import Path

from pinotpy.errors import InvalidConfigError
from pinotpy.fs.private_folder import make_private_folder

LOG = logging.getLogger(__name__)

NAME = "uploads"
FOLDERS_MAX = 64


class UploadFolder:
    """A folder that no other controller uses until `release`, or until this process ends."""

    def __init__(self, path: Path, lock: int | None) -> None:
        self.path, self._lock = path, lock

    def release(self) -> None:
        """Release the lock. Called once."""
        if self._lock is not None:
            os.close(self._lock)


def take_upload_folder(parent: Path) -> UploadFolder:
    """Lock and clear the first free folder below `parent`, which is created; also clear the others that are no longer
    used.

    Raises:
        OSError: nothing can be written there.
        InvalidConfigError: too many controllers have it.
    """
    make_private_folder(parent)
    taken: UploadFolder | None = None
    for number in range(1, FOLDERS_MAX + 1):
        path = parent / (NAME if number == 1 else f"{NAME}-{number}")
        if taken is not None and not path.exists():
            continue
        try:
            folder = UploadFolder(path, _lock(parent / f".{path.name}.lock"))
        except BlockingIOError:
            continue
        shutil.rmtree(path, ignore_errors=True)
        if taken is None:
            path.mkdir(exist_ok=True)
            taken = folder
        else:
            folder.release()
    if taken is None:
        raise InvalidConfigError(
            f"'{parent}' is the folder of {FOLDERS_MAX} other controllers: give this one its own with "
            "controller.local.temp.dir"
        )
    return taken


def _lock(path: Path) -> int | None:
    """A descriptor that holds the lock; None where there are no locks. Raises BlockingIOError: another process has
    it.
    """
    descriptor: int | None = None
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if descriptor is not None:
            os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise
        # A disk that is read-only takes no uploads; everything else of a controller goes on.
        LOG.warning(
            "folder of uploads cannot be locked against other controllers file=%s reason=%s", path, error.strerror
        )
        return None
    return descriptor
