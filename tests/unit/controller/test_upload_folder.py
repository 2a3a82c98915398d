"""Proves that controllers with one data folder leave each other's uploads alone, and that what a killed one left half
received goes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pinotpy.controller.upload_folder import FOLDERS_MAX, take_upload_folder
from pinotpy.errors import InvalidConfigError

TAKE_AND_WAIT = """
import sys
from pathlib import Path
from pinotpy.controller.upload_folder import take_upload_folder
taken = take_upload_folder(Path(sys.argv[1]))
(taken.path / "half").write_bytes(b"half received")
print(taken.path, flush=True)
sys.stdin.read()
"""


def test_of_controllers_with_one_folder_each_has_uploads_of_its_own(tmp_path: Path) -> None:
    first = take_upload_folder(tmp_path / "data")
    (first.path / "half").write_bytes(b"being received")
    second = take_upload_folder(tmp_path / "data")
    assert [taken.path.name for taken in (first, second)] == ["uploads", "uploads-2"]
    assert (first.path / "half").read_bytes() == b"being received"
    (second.path / "half").write_bytes(b"being received")
    first.release()
    # Its place is taken and emptied, the other one's is not.
    third = take_upload_folder(tmp_path / "data")
    assert third.path == first.path and list(third.path.iterdir()) == []
    assert (second.path / "half").exists()
    second.release()
    third.release()


def test_what_a_killed_controller_left_goes_with_the_next_start(tmp_path: Path) -> None:
    first = take_upload_folder(tmp_path)
    other = subprocess.Popen(
        [sys.executable, "-c", TAKE_AND_WAIT, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    try:
        assert other.stdout.readline().strip() == str(tmp_path / "uploads-2")
        assert (tmp_path / "uploads-2" / "half").exists()
    finally:
        other.send_signal(signal.SIGKILL)
        other.communicate(timeout=60)
    first.release()
    again = take_upload_folder(tmp_path)
    assert again.path.name == "uploads" and not (tmp_path / "uploads-2").exists()
    again.release()


@pytest.mark.parametrize(("owner", "name", "number"), [(fcntl, "flock", errno.ENOLCK), (os, "open", errno.EROFS)])
def test_where_nothing_can_be_locked_it_goes_on_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: object, name: str, number: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(owner, name, refuse)
    taken = take_upload_folder(tmp_path)
    assert taken.path == tmp_path / "uploads" and taken.path.is_dir()
    taken.release()


def test_too_many_controllers_are_told(tmp_path: Path) -> None:
    taken = [take_upload_folder(tmp_path) for _ in range(FOLDERS_MAX)]
    with pytest.raises(InvalidConfigError, match=r"controller\.local\.temp\.dir"):
        take_upload_folder(tmp_path)
    for each in taken:
        each.release()
