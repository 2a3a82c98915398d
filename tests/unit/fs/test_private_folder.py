"""Proves that folders of data are closed to others when they are made, shared with the group where the folder above it
says so, and that one which was open before is told of."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

import pytest

from pinotpy.fs.local import LocalDeepStore
from pinotpy.fs.private_folder import make_private_folder


def mode(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode) & 0o777


@pytest.fixture(autouse=True)
def usual_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_what_is_made_is_closed_to_others(tmp_path: Path) -> None:
    make_private_folder(tmp_path / "a" / "b")
    LocalDeepStore(tmp_path / "store")
    assert [mode(tmp_path / name) for name in ("a", "a/b", "store")] == [0o700] * 3


def test_the_group_of_a_shared_volume_may_enter(tmp_path: Path) -> None:
    os.umask(0)
    volume = tmp_path / "volume"
    volume.mkdir()
    volume.chmod(0o2770)
    make_private_folder(volume / "a" / "b")
    assert (mode(volume / "a"), mode(volume / "a" / "b")) == (0o770, 0o770)


@pytest.mark.parametrize(("bits", "told"), [(0o700, False), (0o750, False), (0o755, True), (0o2770, False)])
def test_a_folder_that_was_there_stays_and_is_told_of_if_others_may_enter(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, bits: int, told: bool
) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    folder.chmod(bits)
    with caplog.at_level(logging.WARNING):
        make_private_folder(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == bits
    assert (f"data folder is open to others folder={folder}" in caplog.text) is told


def test_a_file_in_its_place_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        make_private_folder(tmp_path / "file")
