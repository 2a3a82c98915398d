"""Proves which cache Spark's JVM is started with: that of exactly this Java, these jars and flags, if its bytes are
whole; that a JVM which does not start with it is started without; and that warmups replace each other whole. No JVM is
run here.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from pinotpy.errors import ClusterError, UserError
from pinotpy.spark_jobs import java, java_training
from pinotpy.spark_jobs.java_cache import (
    cache_key,
    find_java_cache,
    java_version,
    keep_cache,
    training_folder,
    why_no_cache,
)
from pinotpy.spark_jobs.session import SparkSettings

FLAGS = ("-Xss4m",)


class _Machine:
    """A Java that is only its files, two jars, and a folder for caches."""

    def __init__(self, folder: Path) -> None:
        self.java = folder / "java" / "bin" / "java"
        self.java.parent.mkdir(parents=True)
        self.java.touch()
        self.be("25.0.2")
        self.jars = folder / "jars"
        self.jars.mkdir()
        for name in ("a.jar", "b.jar"):
            (self.jars / name).write_bytes(b"jar")
        self.caches = folder / "kernels" / "java"

    def be(self, version: str) -> None:
        (self.java.parent.parent / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')

    def find(self, flags: tuple[str, ...] = FLAGS) -> Path | None:
        return find_java_cache(self.java, flags, self.jars)

    def keep(self, content: bytes = b"trained" * 1000) -> Path:
        with training_folder() as folder:
            (folder / "trained.aot").write_bytes(content)
            return keep_cache(folder / "trained.aot", cache_key(self.java, FLAGS, self.jars))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Machine:
    monkeypatch.setenv("PINOTPY_KERNEL_CACHE", str(tmp_path / "kernels"))
    for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    return _Machine(tmp_path)


def test_a_cache_is_found_by_the_same_java_jars_and_flags_alone(machine: _Machine) -> None:
    assert machine.find() is None
    kept = machine.keep()
    assert machine.find() == kept and list(machine.caches.iterdir()) == [kept]
    assert machine.find(("-Xss8m",)) is None
    machine.be("25.0.3")
    assert machine.find() is None
    machine.be("25.0.2")
    assert machine.find() == kept
    os.utime(machine.jars / "b.jar", ns=(1, 1))
    assert machine.find() is None


@pytest.mark.parametrize("damage", ["truncated", "garbage", "one bit", "empty", "a folder"])
def test_a_damaged_cache_is_left_aside_and_told(
    machine: _Machine, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    kept = machine.keep()
    content = bytearray(kept.read_bytes())
    if damage == "a folder":
        kept.unlink()
        kept.mkdir()
    elif damage == "one bit":
        content[1234] ^= 4
        kept.write_bytes(content)
    else:
        kept.write_bytes({"truncated": bytes(content[:-1]), "garbage": os.urandom(len(content)), "empty": b""}[damage])
    with caplog.at_level(logging.WARNING):
        assert machine.find() is None
    assert str(kept) in caplog.text and "damaged" in caplog.text


@pytest.mark.parametrize("version", ["17.0.15", "21", "24.0.1"])
def test_an_older_java_gets_no_cache_and_a_clear_word(machine: _Machine, version: str) -> None:
    machine.keep()
    machine.be(version)
    why = why_no_cache(machine.java)
    assert machine.find() is None and why is not None and f"needs Java 25 or newer, found {version}" in why


def test_what_cannot_be_read_is_no_error(machine: _Machine) -> None:
    (machine.java.parent.parent / "release").unlink()
    assert java_version(machine.java) == (0, "unknown") and machine.find() is None
    machine.be("25.0.2")
    machine.jars = machine.jars / "none"
    assert machine.find() is None


def test_a_folder_before_the_jars_allows_no_cache(machine: _Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.keep()
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark/conf")
    why = why_no_cache(machine.java)
    assert machine.find() is None and why is not None and "/etc/spark/conf" in why


def test_a_new_cache_replaces_all_others_of_its_folder(machine: _Machine) -> None:
    machine.caches.mkdir(parents=True)
    (machine.caches / "spark-0123456789abcdef-00000000.aot").write_bytes(b"of another version")
    killed = machine.caches / ".training-killed"
    killed.mkdir()
    os.utime(killed, (1, 1))
    first = machine.keep(b"first")
    second = machine.keep(b"second")
    assert first != second and list(machine.caches.iterdir()) == [second]


def test_no_folder_that_can_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PINOTPY_KERNEL_CACHE", str(tmp_path / "file"))
    with pytest.raises(UserError, match="PINOTPY_KERNEL_CACHE"), training_folder():
        pass


@pytest.fixture
def started(machine: _Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Command lines instead of JVMs."""
    (tmp_path / "conf").mkdir()
    monkeypatch.setattr(java, "find_spark_java", lambda: machine.java)
    monkeypatch.setattr(java, "find_spark_home", lambda: machine.jars.parent)
    commands: list[list[str]] = []

    def start(command: list[str], log_file: Path) -> object:
        commands.append(command)
        if any(part.startswith("-XX:AOTCache=") for part in command) and log_file.name == "fails.log":
            raise ClusterError("Spark's JVM ended with status 134")
        return object()

    monkeypatch.setattr(java, "_started", start)
    return commands


def test_a_jvm_that_does_not_start_with_its_cache_is_started_without(
    machine: _Machine, started: list[list[str]], tmp_path: Path
) -> None:
    for name in ("no-cache.log", "well.log", "fails.log"):
        if name == "well.log":
            with training_folder() as folder:
                (folder / "trained.aot").write_bytes(b"x")
                kept = keep_cache(folder / "trained.aot", cache_key(machine.java, java.FLAGS, machine.jars))
        java.start_spark_java("local[1]", {}, "1g", tmp_path / name, compiles_well=name == "well.log")
    named = [[part for part in command if part.startswith("-XX:AOT")] for command in started]
    assert named == [[], [f"-XX:AOTCache={kept}"], [f"-XX:AOTCache={kept}"], []]


def test_java_trains_with_jars_alone_and_hadoops_folders_come_behind_them(
    machine: _Machine, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop/conf")
    java.start_spark_java("local[1]", {}, "1g", Path("log"), trains=Path("new.aot"))
    java.start_spark_java("local[1]", {}, "1g", Path("log"))
    paths = [command[command.index("-cp") + 1] for command in started]
    assert paths == [f"{machine.jars}/*", f"{machine.jars}/*:/etc/hadoop/conf"]
    assert "-XX:AOTCacheOutput=new.aot" in started[0]


def test_a_warmup_with_an_older_java_says_so(
    machine: _Machine, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java_training, "find_spark_java", lambda: machine.java)
    machine.be("17.0.15")
    with pytest.raises(UserError, match="Java 25 or newer"):
        java_training.warm_up_java(SparkSettings())
    assert started == []
