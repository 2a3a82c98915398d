"""Folders of a daemon's data, which nobody else on the machine may enter."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path
from typing import Final

_OWNER: Final = 0o700
_GROUP: Final = 0o070

_log = logging.getLogger(__name__)


def make_private_folder(folder: Path) -> None:
    """Make `folder` and the folders above it that are missing, with mode 0700.

    Below a folder with the set-group-id bit the group may enter as well: so Kubernetes' fsGroup shares a volume. A
    folder that was there stays as it is; if others may enter it, a warning says so. Raises OSError.
    """
    missing = []
    for each in (folder, *folder.parents):
        if each.exists():
            break
        missing.append(each)
    for each in reversed(missing):
        has_group = bool(each.parent.stat().st_mode & stat.S_ISGID)
        each.mkdir(mode=_OWNER | _GROUP if has_group else _OWNER, exist_ok=True)
    if missing:
        return
    folder.mkdir(exist_ok=True)  # raises if it is a file
    status = folder.stat()
    is_shared = bool(status.st_mode & stat.S_ISGID) or status.st_gid in (os.getegid(), *os.getgroups())
    too_wide = stat.S_IMODE(status.st_mode) & (0o007 if is_shared else 0o077)
    if too_wide:
        _log.warning(
            "data folder is open to others folder=%s mode=%04o: chmod 700 it", folder, stat.S_IMODE(status.st_mode)
        )
