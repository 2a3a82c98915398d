"""A cache of what Spark's JVM loads at its start, by which it starts seconds sooner: JEP 514's ahead-of-time cache of
Java 25 and newer.

`pinotpy spark warmup` makes it (`java_training`), every later start looks for it here. Its name says for what it holds:
the java, the jars in their order with sizes and times, and the flags that it depends on; and the CRC32C of its bytes,
which are read before a JVM is trusted with them. What is missing, damaged or of another Java is left aside, and Spark
starts as if there were none.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from pinotpy.errors import UserError
from pinotpy.kernels.cache import cache_folders
from pinotpy.segment.checksum import crc32c

OLDEST_JAVA: Final = 25
_FOLDER: Final = "java"
_PIECE: Final = 1 << 20
_TRAINING: Final = ".training-"
_LEFT_AFTER_S: Final = 3600.0
_log = logging.getLogger(__name__)


def java_version(java: Path) -> tuple[int, str]:
    """Major and whole version by the file `release` of a Java; (0, 'unknown') where there is none. Nothing is run."""
    try:
        text = _release_of(java).decode(errors="replace")
    except OSError:
        return 0, "unknown"
    match = re.search(r'^JAVA_VERSION="((\d+)[^"]*)"', text, re.MULTILINE)
    return (int(match[2]), match[1]) if match else (0, "unknown")


def why_no_cache(java: Path) -> str | None:
    """Why no cache can be used with this java as things are; None if one can."""
    major, version = java_version(java)
    if major < OLDEST_JAVA:
        return (
            f"a cache needs Java {OLDEST_JAVA} or newer, found {version} at '{java}': the one of pip install "
            "'pinotpy[spark]' will do"
        )
    site = os.environ.get("SPARK_CONF_DIR")
    if site:
        # Folders behind the jars (Hadoop's) do no harm.
        return f"Java uses no cache where a folder comes first on its class path: SPARK_CONF_DIR is '{site}'"
    return None


def cache_key(java: Path, flags: Sequence[str], jars: Path) -> str:
    """Hash of all that a cache depends on, as 16 hex digits. Other jars, also such with the same names, have
    another.
    """
    digest = hashlib.sha256()
    for content in (os.fsencode(java.resolve()), _release_of(java), *map(str.encode, flags)):
        digest.update(content + b"\0")
    # In the order of the listing, as java takes them.
    with os.scandir(jars) as listed:
        for jar in listed:
            status = jar.stat()
            digest.update(f"{jar.path}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:16]


def find_java_cache(java: Path, flags: Sequence[str], jars: Path) -> Path | None:
    """The whole cache of exactly this java, these flags and jars; None where there is none. Nothing is raised: a job
    needs no cache.
    """
    try:
        return present_cache(cache_key(java, flags, jars)) if why_no_cache(java) is None else None
    except OSError as error:
        _log.warning("Spark starts without a cache error=%s", error)
    return None


def present_cache(key: str) -> Path | None:
    """The whole cache with that key; None if there is none. Damaged ones are told in the log."""
    for file in (file for base in cache_folders() for file in sorted((base / _FOLDER).glob(f"spark-{key}-*.aot"))):
        if _is_whole(file):
            return file
        _log.warning(
            "Spark's Java cache is damaged or cannot be read, it is left aside: pinotpy spark warmup --force makes it "
            "anew file=%s",
            file,
        )
    return None


@contextlib.contextmanager
def training_folder() -> Iterator[Path]:
    """A folder to train in, in the first folder for caches that can be written; what killed trainings left there goes,
    too.

    Raises UserError if no folder can be written.
    """
    for base in cache_folders():
        folder = base / _FOLDER
        try:
            folder.mkdir(parents=True, exist_ok=True)
            scratch = tempfile.TemporaryDirectory(prefix=_TRAINING, dir=folder, ignore_cleanup_errors=True)
        except OSError:
            continue
        for abandoned in folder.glob(f"{_TRAINING}*"):
            with contextlib.suppress(OSError):  # another training has just ended
                if abandoned.stat().st_mtime < time.time() - _LEFT_AFTER_S:
                    shutil.rmtree(abandoned, ignore_errors=True)
        with scratch as name:
            yield Path(name)
        return
    raise UserError("no cache folder can be written: name one by PINOTPY_KERNEL_CACHE")


def keep_cache(trained: Path, key: str) -> Path:
    """Give the cache of a training folder its name, whole at once, beside that folder; all other caches there go."""
    folder = trained.parent.parent
    file = folder / f"spark-{key}-{_crc(trained):08x}.aot"
    trained.replace(file)
    for other in folder.glob("spark-*.aot"):
        if other != file:
            other.unlink(missing_ok=True)
    return file


def _release_of(java: Path) -> bytes:
    return (java.resolve().parent.parent / "release").read_bytes()


def _is_whole(file: Path) -> bool:
    try:
        return file.stem.rpartition("-")[2] == f"{_crc(file):08x}"
    except OSError:
        return False


def _crc(file: Path) -> int:
    # Read, not mapped: a file that is cut meanwhile must not end us. 176 MB take 0.02 s, if they were read lately.
    crc = 0
    with file.open("rb") as opened:
        while piece := opened.read(_PIECE):
            crc = crc32c(piece, crc)
    return crc
