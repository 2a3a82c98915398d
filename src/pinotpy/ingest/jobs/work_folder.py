"""The local folder of a job: the only place for unfinished files.

Its name is derived from the output's URI, so that a job that runs again after a kill finds what was left, and removes
it. It is locked while a job runs, and so is a local output itself, against jobs with other working folders: two jobs
with one output would overwrite each other. Locks end with the process, however it ends.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pinotpy.errors import OutOfCapacityError, UserError
from pinotpy.fs.file_system import UNFINISHED
from pinotpy.fs.uris import LOCAL_SCHEMES, local_path, masked, scheme_of
from pinotpy.ingest.jobs.spec import IngestionJobSpec


@contextmanager
def work_folder(spec: IngestionJobSpec) -> Iterator[Path]:
    """An empty folder for the job, removed at the end; half-written files at a local output go before and after, of
    jobs and workers that were killed.

    Raises:
        OutOfCapacityError: another job of this machine builds into the same output now.
        UserError: the folder, or a local output, cannot be made.
    """
    output = spec.output_dir_uri or ""
    identity = str(local_path(output).resolve()) if scheme_of(output) in LOCAL_SCHEMES else output.rstrip("/")
    parent = Path(spec.pinotpy.working_dir or tempfile.gettempdir())
    # Of this user alone: the name can be guessed.
    folder = parent / f"pinotpy-job-{os.getuid()}-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
    lock = _locked(folder, output)
    try:
        with _locked_output(output):
            _empty(folder)
            drop_unfinished(output)
            try:
                yield folder
            finally:
                drop_unfinished(output)
    finally:
        _empty(folder)
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


@contextmanager
def _locked_output(output: str) -> Iterator[None]:
    """A local output, made if it is missing, for this job alone; one that got nothing is not left behind."""
    if scheme_of(output) not in LOCAL_SCHEMES:
        yield
        return
    folder = local_path(output)
    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise UserError(
            f"the output '{masked(output)}' cannot be made: {(error.strerror or str(error)).lower()}; name another "
            "outputDirURI"
        ) from error
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise _busy(output) from error
        except OSError:
            pass  # a mounted storage that has no locks of folders: the working folder's is all there is
        yield
    finally:
        os.close(held)
        if is_new:
            with suppress(OSError):  # not empty
                folder.rmdir()


def _busy(output: str) -> OutOfCapacityError:
    return OutOfCapacityError(
        f"another job builds into '{masked(output)}' now: wait for its end, or name another outputDirURI"
    )


def _locked(folder: Path, output: str) -> int:
    """The descriptor of the folder's lock, held."""
    file = folder / "lock"
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                raise UserError(f"'{folder}' is not a folder of this user: name another one by pinotpy.workingDir")
            lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UserError(
                f"the working folder '{folder}' cannot be made: {(error.strerror or str(error)).lower()}; name "
                "another one by pinotpy.workingDir"
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            raise _busy(output) from error
        # The job before may have removed the file between our open and our lock: then the lock is on nothing.
        if file.exists() and os.fstat(lock).st_ino == file.stat().st_ino:
            return lock
        os.close(lock)


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.name != "lock":
            entry.unlink(missing_ok=True)


def _is_locked(folder: Path) -> bool:
    try:
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(held)
    return False


def drop_unfinished(output: str) -> None:
    """Delete what a killed job was writing at a local output. Other storages keep no partial files."""
    if scheme_of(output) not in LOCAL_SCHEMES:
        return
    root = local_path(output)
    for directory, folders, names in os.walk(root):
        if Path(directory) != root and _is_locked(Path(directory)):
            folders.clear()  # another job builds into it: what is not finished there is being written
            continue
        for name in [name for name in folders if name.startswith(UNFINISHED)]:
            folders.remove(name)
            shutil.rmtree(Path(directory, name), ignore_errors=True)
        for name in names:
            if name.startswith(UNFINISHED):
                Path(directory, name).unlink(missing_ok=True)
