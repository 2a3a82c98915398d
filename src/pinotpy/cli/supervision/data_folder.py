"""The folder in which a cluster on this machine lives: which one, the version of its layout, and who runs it now.

VERSION        version of this layout
cluster.json   ports and daemons (cluster_layout.py)
state.json     who runs now (state_file.py)
lock           held by the process that runs the cluster, as long as it lives; its content says who
logs/          a file a daemon, and the supervisor's own
zookeeper/  controller/ (deep store)  server-N/index  server-N/segments
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Final

from pinotpy.cli.supervision.process_identity import ProcessIdentity
from pinotpy.errors import OutOfCapacityError, UnsupportedVersionError, UserError, storage_remedy
from pinotpy.fs.private_folder import make_private_folder

LAYOUT_VERSION: Final = 1
_VERSION_FILE: Final = "VERSION"
_LOOKS: Final = 20
_LOOK_S: Final = 0.05
# What clusters were made of before the layout had a version.
_UNVERSIONED: Final = ("zookeeper", "controller", "server-0")


def default_folder() -> Path:
    """Of this user: below $XDG_DATA_HOME, or ~/.local/share."""
    given = os.environ.get("XDG_DATA_HOME", "")
    # The specification of these folders says: a relative path is to be ignored.
    base = Path(given) if given and Path(given).is_absolute() else Path.home() / ".local" / "share"
    return base / "pinotpy"


class DataFolder:
    """One cluster's folder, which need not exist yet. `path` is absolute: daemons record places in it."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().absolute()
        self._lock: int | None = None

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def supervisor_log(self) -> Path:
        return self.logs / "supervisor.log"

    def exists(self) -> bool:
        """Whether a cluster lies here. Raises what `check` raises."""
        self.check()
        return (self.path / _VERSION_FILE).exists()

    def make(self) -> None:
        """Make what is missing, with mode 0700, and mark it with the layout's version. Raises what `check` raises, and
        UserError for a folder that cannot be written: nothing that runs there could be looked after.
        """
        self.check()
        try:
            make_private_folder(self.path)
            make_private_folder(self.logs)
            file = self.path / _VERSION_FILE
            if not file.exists():
                write_atomically(file, f"{LAYOUT_VERSION}\n")
            for folder in (self.path, self.logs):
                with tempfile.TemporaryFile(dir=folder) as trial:
                    trial.write(b"a full disk takes names, and no bytes")
        except OSError as error:
            raise UserError(
                f"the data folder '{self.path}' cannot be written: {(error.strerror or str(error)).lower()}; "
                f"{storage_remedy(error)}"
            ) from error

    def check(self) -> None:
        """Raises UserError for a folder of something else, UnsupportedVersionError for one of another version."""
        try:
            names = {entry.name for entry in self.path.iterdir()}
        except FileNotFoundError:
            return
        except OSError as error:
            raise UserError(
                f"the data folder '{self.path}' cannot be read: {(error.strerror or str(error)).lower()}; "
                f"{storage_remedy(error)}"
            ) from error
        file = self.path / _VERSION_FILE
        if _VERSION_FILE in names:
            text = file.read_text(errors="replace").strip()
            if text != str(LAYOUT_VERSION):
                newer = text.isdigit() and int(text) > LAYOUT_VERSION
                raise UnsupportedVersionError(
                    f"the data folder '{self.path}' has another layout ('{file}'); "
                    + (
                        "run the newer pinotpy that made it"
                        if newer
                        else "run the pinotpy that made it, or name another folder"
                    ),
                    found=text[:20] or "(empty)",
                    supported=LAYOUT_VERSION,
                )
        elif names & set(_UNVERSIONED):
            raise UserError(
                f"the data folder '{self.path}' was made by an earlier version of pinotpy, which kept no ports: its "
                "segments belong to servers that cannot be started again. Move it away, name another folder, and "
                "upload the segments anew (their archives are below its controller/)"
            )
        elif names - {"lock", "logs"}:
            raise UserError(
                f"the folder '{self.path}' holds other files ({', '.join(sorted(names)[:3])}…) and no cluster of "
                "pinotpy: name an empty folder, or one that is not there yet"
            )

    # --- the lock ---------------------------------------------------------------------------------------------------

    def lock(self) -> None:
        """Hold the folder until `unlock` or the end of this process, however it ends. Raises OutOfCapacityError that
        names who holds it.
        """
        assert self._lock is None
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._take(descriptor)
        except BlockingIOError as error:
            os.close(descriptor)
            holder = self.holder()
            raise OutOfCapacityError(
                f"the cluster in '{self.path}' is held by process {holder.pid if holder else '(just starting)'}: see "
                f"`pinotpy status --data-dir {self.path}`, stop it by `pinotpy down --data-dir {self.path}`, or name "
                "another folder",
                pid=holder.pid if holder else None,
            ) from error
        except OSError as error:
            os.close(descriptor)
            raise UserError(
                f"the folder '{self.path}' is on a file system without locks "
                f"({(error.strerror or str(error)).lower()}): name a folder on a local disk"
            ) from error
        me = ProcessIdentity.of(os.getpid())
        assert me is not None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(me.to_json_dict()).encode(), 0)
        self._lock = descriptor

    def _take(self, descriptor: int) -> None:
        for number in range(_LOOKS):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                # Who only looks whether it is locked holds it for a moment, and has no name in it.
                if self.holder() is not None or number == _LOOKS - 1:
                    raise
            time.sleep(_LOOK_S)

    def unlock(self) -> None:
        """Safe to call twice."""
        if self._lock is not None:
            os.ftruncate(self._lock, 0)
            os.close(self._lock)
            self._lock = None

    def is_locked(self) -> bool:
        """Whether another process, or another object of this one, holds the folder."""
        try:
            descriptor = os.open(self.path / "lock", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return False

    def holder(self) -> ProcessIdentity | None:
        """Who holds the folder; None if nobody does, or he has not said yet who he is."""
        if not self.is_locked():
            return None
        try:
            found = ProcessIdentity.from_json(json.loads((self.path / "lock").read_text()))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return found if found.is_alive() else None


def write_atomically(file: Path, text: str) -> None:
    """Replace a file, readable by its owner alone: who reads sees the old text or the new one."""
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(unfinished, file)
