"""Proves where the embedded ZooKeeper's jars come from, that only the right bytes are kept, and what is said otherwise.

Package clients are played by scripts, so that each can fail in its own way; one test asks the real Maven.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import importlib.util
import os
import shutil
import sys
import tarfile
from pathlib import Path

import pytest

from pinotpy.errors import NotFoundError
from pinotpy.service import zookeeper_jars
from pinotpy.service.zookeeper_jars import JARS, Jar, find_jars


class Clients:
    """A machine without pyspark whose Maven and pip do as they are told; `folder` is where jars are kept."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.kept, self.source = folder, folder / "kept", folder / "source"
        self.calls = folder / "calls"
        (folder / "bin").mkdir()
        self.source.mkdir()
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        monkeypatch.setenv("PATH", f"{folder / 'bin'}:/usr/bin:/bin")
        monkeypatch.setenv("PINOTPY_ZOOKEEPER_JARS", str(self.kept))
        monkeypatch.setattr(sys, "executable", str(folder / "bin" / "python"))
        jars = tuple(
            Jar("group", f"jar-{number}", "1.0", hashlib.sha256(b"%d" % number).hexdigest()) for number in range(5)
        )
        monkeypatch.setattr(zookeeper_jars, "JARS", jars)
        for number, jar in enumerate(jars):
            (self.source / jar.file_name).write_bytes(b"%d" % number)
        self.script("mvn", "echo no route to any repository; exit 1")
        self.script("python", "echo no such package >&2; exit 2")

    def script(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(f'#!/bin/sh\necho {name} >> "{self.calls}"\n{text}\n')
        path.chmod(0o755)

    def maven_brings(self) -> None:
        self.script("mvn", f'for each; do :; done\ncp "{self.source}"/*.jar "${{each#-DoutputDirectory=}}"')

    def called(self) -> list[str]:
        return self.calls.read_text().split() if self.calls.exists() else []


@pytest.fixture
def clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clients:
    return Clients(tmp_path, monkeypatch)


def test_maven_brings_them_once_for_all_processes(clients: Clients) -> None:
    clients.maven_brings()
    told: list[str] = []
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: find_jars(told.append), range(4)))
    assert [path.read_bytes() for path in answers[0]] == [b"0", b"1", b"2", b"3", b"4"]
    assert answers.count(answers[0]) == 4 and clients.called() == ["mvn"]
    assert "five jars" in told[0]
    assert find_jars(told.append) == answers[0] and clients.called() == ["mvn"]


def test_pip_brings_an_archive_of_which_five_files_stay(clients: Clients) -> None:
    (clients.source / "other.jar").write_bytes(b"much more")
    with tarfile.open(clients.folder / "pyspark-4.3.0.tar.gz", "w:gz") as archive:
        archive.add(clients.source, "pyspark-4.3.0/deps/jars")
    clients.script("python", f'while [ "$1" != --dest ]; do shift; done\ncp "{clients.folder}"/*.tar.gz "$2"')
    answer = find_jars()
    assert [path.read_bytes() for path in answer] == [b"0", b"1", b"2", b"3", b"4"]
    assert clients.called() == ["mvn", "python"]
    left = [path for path in clients.kept.rglob("*") if path.is_file() and path.name != "lock"]
    assert sorted(left) == sorted(answer)


def test_other_bytes_are_not_kept(clients: Clients) -> None:
    clients.maven_brings()
    (clients.source / "jar-3-1.0.jar").write_bytes(b"something else")
    with pytest.raises(NotFoundError, match=r"'jar-3-1\.0\.jar' has SHA-256 [0-9a-f]{64}, expected [0-9a-f]{64}"):
        find_jars()
    assert [path.name for path in clients.kept.iterdir()] == ["lock"]


def test_every_way_that_failed_is_told_and_what_to_do(clients: Clients) -> None:
    with pytest.raises(NotFoundError) as failure:
        find_jars()
    said = str(failure.value)
    assert "by Maven: it ended with status 1: no route to any repository" in said
    assert "by pip: it ended with status 2: no such package" in said
    assert "pip install 'pinotpy[spark]'" in said and "PINOTPY_ZOOKEEPER_JARS" in said and "--zk-address" in said


def test_what_a_killed_process_left_is_removed(clients: Clients) -> None:
    (clients.kept / "fetching-by-one-that-died").mkdir(parents=True)
    clients.maven_brings()
    find_jars()
    assert not list(clients.kept.glob("fetching-*"))


def test_a_folder_that_cannot_be_written_is_named(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PINOTPY_ZOOKEEPER_JARS", str(clients.calls / "below-a-file"))
    clients.calls.write_text("")
    with pytest.raises(NotFoundError, match="cannot be written"):
        find_jars()


def test_the_jars_of_an_installed_pyspark_serve(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="pyspark's jars come with pip install 'pinotpy[spark]'")
    monkeypatch.setenv("PINOTPY_ZOOKEEPER_JARS", str(tmp_path / "never"))
    assert [path.name.rpartition("-")[0] for path in find_jars()] == [jar.artifact for jar in JARS]
    assert not (tmp_path / "never").exists()


@pytest.mark.full
@pytest.mark.skipif(shutil.which("mvn") is None, reason="Maven (mvn) is not installed")
def test_the_real_maven_brings_the_bytes_that_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "executable", "/bin/false")  # pip would do as well, in its time
    monkeypatch.setenv("PINOTPY_ZOOKEEPER_JARS", str(tmp_path))
    paths = find_jars()
    assert [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths] == [jar.sha256 for jar in JARS]
    assert os.listdir(tmp_path / JARS[0].sha256) == [JARS[0].file_name]
