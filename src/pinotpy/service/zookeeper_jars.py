"""The five jars of the embedded ZooKeeper (4.3 MB): where they lie, and how they come there the first time.

They are looked for in this order: among the jars of an installed pyspark (the extra `spark`), then in a folder of the
user's cache. What is in neither is fetched by an ordinary package client and kept in that folder under its SHA-256:
by Maven where `mvn` is installed (five small files), else by pip, which brings pyspark's archive (456 MB) into a
temporary folder, of which the five jars are kept. Both bring the same bytes. ADR 26 has the reasons.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from pinotpy.errors import NotFoundError


@dataclass(frozen=True, slots=True)
class Jar:
    """One jar by its Maven coordinates, with the SHA-256 of its bytes."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"

    @property
    def pattern(self) -> str:
        """Its file name in any version: what an installed pyspark has."""
        return f"{self.artifact}-[0-9]*.jar"


# Without snappy the port answers and sessions time out; netty, jetty and log4j are not needed.
JARS: Final = (
    Jar(
        "org.apache.zookeeper",
        "zookeeper",
        "3.9.5",
        "936d025db1a85f085edea25048c3f5b3de5fc29329c371a10925e3b78b0b38a0",
    ),
    Jar(
        "org.apache.zookeeper",
        "zookeeper-jute",
        "3.9.5",
        "abcbc7f9d6c493daa118da6fa3061a201e2c521217526e8535adfb56b629e52a",
    ),
    Jar("org.slf4j", "slf4j-api", "2.0.17", "7b751d952061954d5abfed7181c1f645d336091b679891591d63329c622eb832"),
    Jar(
        "io.dropwizard.metrics",
        "metrics-core",
        "4.2.37",
        "3c70d19049d10f474ab803706b9c0677bcf5fd9e1afeb4f6c496f62e38b27678",
    ),
    Jar(
        "org.xerial.snappy",
        "snappy-java",
        "1.1.10.8",
        "50485d06037fea3d6e40c968386feeca6338cc9872e25549593ff3eb352cefcc",
    ),
)
_PYSPARK: Final = "pyspark==4.3.0"  # the version that holds these versions of the jars
_FETCH_TIMEOUT_S: Final = 600.0
_TELL_EVERY_S: Final = 4.0
_TAIL_CHARACTERS: Final = 400
_FETCHING: Final = "fetching-"  # begins the names of temporary folders

Tell = Callable[[str], None]


def find_jars(tell: Tell | None = None) -> list[Path]:
    """The five jars, fetched if they are nowhere on this machine.

    Args:
        tell: called with a line of progress every few seconds while they are fetched.

    Raises: NotFoundError when they cannot be had, with the reason of every way that was tried.
    """
    of_pyspark = _of_pyspark()
    if of_pyspark is not None:
        return of_pyspark
    folder = _folder()
    kept = _kept(folder)
    return kept if kept is not None else _fetch(folder, tell or (lambda line: None))


def _of_pyspark() -> list[Path] | None:
    spec = importlib.util.find_spec("pyspark")  # found, not imported: importing pyspark costs 0.3 s
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(next(iter(spec.submodule_search_locations))) / "jars"
    found = [sorted(folder.glob(jar.pattern)) for jar in JARS]
    return [matches[-1] for matches in found] if all(found) else None


def _folder() -> Path:
    """PINOTPY_ZOOKEEPER_JARS, else a folder of the user's cache."""
    named = os.environ.get("PINOTPY_ZOOKEEPER_JARS")
    if named:
        return Path(named)
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(home) / "pinotpy" / "zookeeper"


def _kept(folder: Path) -> list[Path] | None:
    """The jars of a folder, or None if one is missing. Their bytes were checked when they came."""
    paths = [folder / jar.sha256 / jar.file_name for jar in JARS]
    return paths if all(path.is_file() for path in paths) else None


def _fetch(folder: Path, tell: Tell) -> list[Path]:
    ways = (("Maven", _by_maven), ("pip", _by_pip))
    failures = []
    with _alone(folder):
        kept = _kept(folder)  # another process may have been first
        if kept is not None:
            return kept
        for left in folder.glob(f"{_FETCHING}*"):  # of a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        for name, way in ways:
            with tempfile.TemporaryDirectory(dir=folder, prefix=_FETCHING) as temporary:
                try:
                    way(Path(temporary), tell)
                    _keep(Path(temporary), folder)
                    break
                except (OSError, subprocess.SubprocessError, tarfile.TarError, _FetchError) as error:
                    failures.append(f"by {name}: {error}")
                    tell(f"ZooKeeper's jars did not come by {name}: {error}")
    kept = _kept(folder)
    if kept is None:
        raise NotFoundError(
            "the embedded ZooKeeper needs five jars, which could not be fetched: "
            + "; ".join(failures)
            + ". Install pyspark, which has them (pip install 'pinotpy[spark]'), set PINOTPY_ZOOKEEPER_JARS to the "
            "folder in which another machine keeps them (~/.cache/pinotpy/zookeeper), or name a running ZooKeeper by "
            "--zk-address"
        )
    return kept


class _FetchError(Exception):
    """A way to the jars that leads nowhere; its text says why."""


def _by_maven(target: Path, tell: Tell) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise _FetchError("mvn is not installed")
    dependencies = "".join(
        f"<dependency><groupId>{escape(jar.group)}</groupId><artifactId>{escape(jar.artifact)}</artifactId>"
        f"<version>{escape(jar.version)}</version>"
        "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
        for jar in JARS
    )
    (target / "pom.xml").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>pinotpy</groupId><artifactId>zookeeper-jars</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
    command = [maven, "-q", "-B", "-f", str(target / "pom.xml"), "dependency:copy-dependencies"]
    command.append(f"-DoutputDirectory={target}")
    _run(command, "fetching ZooKeeper's five jars (4.3 MB) by Maven", tell)


def _by_pip(target: Path, tell: Tell) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
    command += ["--no-deps", "--dest", str(target), _PYSPARK]
    what = "fetching ZooKeeper's five jars by pip, which brings pyspark's archive (456 MB) to take them from"
    _run(command, what, tell)
    archives = sorted(target.glob("pyspark-*.tar.gz"))
    if not archives:
        raise _FetchError(f"pip download {_PYSPARK} brought {sorted(path.name for path in target.iterdir())}")
    tell("taking the five jars from pyspark's archive")
    wanted = {jar.file_name for jar in JARS}
    with tarfile.open(archives[0], "r|gz") as archive:
        for member in archive:
            name = member.name.rpartition("/")[2]
            source = archive.extractfile(member) if name in wanted and member.isfile() else None
            if source is None:
                continue
            with source, (target / name).open("wb") as copy:
                shutil.copyfileobj(source, copy)
            wanted.discard(name)
            if not wanted:
                return
    raise _FetchError(f"'{archives[0].name}' has no {', '.join(sorted(wanted))}")


def _run(command: list[str], what: str, tell: Tell) -> None:
    """Run a client to its end; say every few seconds that it goes on. What it prints is shown if it fails."""
    tell(what)
    started = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_TELL_EVERY_S)
                    break
                elapsed_s = time.monotonic() - started
                if elapsed_s > _FETCH_TIMEOUT_S:
                    raise _FetchError(f"'{command[0]}' had not ended after {_FETCH_TIMEOUT_S:.0f} s")
                tell(f"{what}: {elapsed_s:.0f} s")
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        if process.returncode != 0:
            output.seek(0)
            said = " ".join(output.read().decode(errors="replace").split())
            raise _FetchError(f"it ended with status {process.returncode}: {said[-_TAIL_CHARACTERS:]}")


def _keep(source: Path, folder: Path) -> None:
    """Move the five jars to where they are kept, if their bytes are the right ones."""
    for jar in JARS:
        path = source / jar.file_name
        if not path.is_file():
            raise _FetchError(f"no '{jar.file_name}' came")
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != jar.sha256:
            raise _FetchError(f"'{jar.file_name}' has SHA-256 {found}, expected {jar.sha256}")
    for jar in JARS:
        (folder / jar.sha256).mkdir(exist_ok=True)
        (source / jar.file_name).replace(folder / jar.sha256 / jar.file_name)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Of several processes one fetches; the others wait for it, within its deadline."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise NotFoundError(
            f"the jars of the embedded ZooKeeper are kept in '{folder}', which cannot be written: {error}; set "
            "PINOTPY_ZOOKEEPER_JARS to another folder"
        ) from error
    try:
        deadline = time.monotonic() + 2 * _FETCH_TIMEOUT_S
        while True:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise NotFoundError(
                        f"another process has been fetching the embedded ZooKeeper's jars into '{folder}' for "
                        f"{2 * _FETCH_TIMEOUT_S:.0f} s"
                    ) from None
                time.sleep(0.2)
        yield
    finally:
        os.close(held)
