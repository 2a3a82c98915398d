"""Proves of a cluster's folder: it is made for its owner alone, one of another layout or of something else is refused
with what to do, and its lock names its holder and dies with it, however it dies.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pinotpy.cli.supervision.data_folder import DataFolder, default_folder, write_atomically
from pinotpy.cli.supervision.process_identity import ProcessIdentity
from pinotpy.errors import OutOfCapacityError, UnsupportedVersionError, UserError

HOLD = """
import sys, time
from pathlib import Path
from pinotpy.cli.supervision.data_folder import DataFolder
folder = DataFolder(Path(sys.argv[1]))
folder.lock()
print("held", flush=True)
time.sleep(600)
"""


def test_the_usual_folder_is_the_users_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", "/some/place")
    assert default_folder() == Path("/some/place/pinotpy")
    for ignored in ("relative/place", ""):
        monkeypatch.setenv("XDG_DATA_HOME", ignored)
        assert default_folder() == tmp_path / ".local" / "share" / "pinotpy"


def test_it_is_made_for_its_owner_alone_and_known_again(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "above" / "data")
    assert not folder.exists()
    folder.make()
    assert [os.stat(path).st_mode & 0o777 for path in (folder.path.parent, folder.path, folder.logs)] == [0o700] * 3
    assert DataFolder(folder.path).exists()
    folder.make()  # a second time changes nothing
    assert (folder.path / "VERSION").read_text() == "1\n"


def test_a_relative_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert DataFolder(Path("data")).path == tmp_path / "data"


@pytest.mark.parametrize(("text", "remedy"), [("2", "newer pinotpy"), ("0", "that made it"), ("", "that made it")])
def test_another_version_of_the_layout_is_refused(tmp_path: Path, text: str, remedy: str) -> None:
    (tmp_path / "VERSION").write_text(text)
    with pytest.raises(UnsupportedVersionError, match=remedy) as refused:
        DataFolder(tmp_path).exists()
    assert f"found version {text or '(empty)'}, supported 1" in str(refused.value)


def test_a_folder_from_before_there_were_versions_is_refused(tmp_path: Path) -> None:
    (tmp_path / "zookeeper").mkdir()
    with pytest.raises(UserError, match="earlier version of pinotpy, which kept no ports"):
        DataFolder(tmp_path).make()
    assert [entry.name for entry in tmp_path.iterdir()] == ["zookeeper"], "nothing is written into it"


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(UserError, match=r"holds other files \(thesis.tex…\) and no cluster"):
        DataFolder(tmp_path).make()
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_folder_that_cannot_be_written_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = DataFolder(tmp_path / "data")
    folder.make()
    left = sorted(folder.path.rglob("*"))
    real = os.open

    def denied(path: Any, flags: int, *arguments: Any, **named: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, flags, *arguments, **named)

    monkeypatch.setattr(os, "open", denied)  # modes do not stop the superuser
    with pytest.raises(UserError, match=r"data' cannot be written: permission denied; give this process the right to"):
        folder.make()
    monkeypatch.undo()
    assert sorted(folder.path.rglob("*")) == left


def test_a_second_holder_is_told_the_first_one_and_the_lock_dies_with_it(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    folder.make()
    assert not folder.is_locked() and folder.holder() is None
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None and other.stdout.readline() == "held\n"
            assert folder.is_locked() and folder.holder() == ProcessIdentity.of(other.pid)
            with pytest.raises(OutOfCapacityError, match=f"held by process {other.pid}: .*pinotpy down --data-dir"):
                folder.lock()
        finally:
            other.send_signal(signal.SIGKILL)
            other.wait()
    assert not folder.is_locked() and folder.holder() is None
    folder.lock()
    assert DataFolder(tmp_path).holder() == ProcessIdentity.of(os.getpid())
    folder.unlock()
    folder.unlock()
    assert not folder.is_locked()


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    for text in ("a longer text", "short"):
        write_atomically(file, text)
        assert file.read_text() == text
    assert file.stat().st_mode & 0o777 == 0o600 and [entry.name for entry in tmp_path.iterdir()] == ["state.json"]
