"""Proves that `add-user` takes the password of a new user from the environment, so that a container shows it in no list
of processes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pinotpy.service.users_file import read_users


def test_the_password_may_come_from_the_environment(
    tmp_path: Path, pinotpy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = tmp_path / "users.json"
    monkeypatch.setenv("PINOTPY_NEW_PASSWORD", "a password of the environment")
    # That of the one who asks is another thing.
    monkeypatch.setenv("PINOTPY_PASSWORD", "another password")
    ended = pinotpy("add-user", "--users-file", str(users), "--name", "loader", "--table", "*=READ,WRITE")
    assert ended.status == 0 and "a password" not in ended.out
    assert read_users(users).users["loader"].password.verify(b"a password of the environment")


def test_users_and_tokens_are_told_as_one_object_to_scripts(
    tmp_path: Path, pinotpy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = tmp_path / "users.json"
    monkeypatch.setenv("PINOTPY_NEW_PASSWORD", "a password of the environment")
    assert pinotpy("add-user", "--users-file", users, "--name", "loader", "--admin", "--json").document == {
        "user": "loader",
        "usersFile": str(users),
    }
    told = pinotpy("add-token", "--users-file", users, "--name", "loader", "--days", "0", "--json").document
    plain = pinotpy("add-token", "--users-file", users, "--name", "loader").out.strip()
    assert set(told) == {"token", "user", "expiresAtMs", "usersFile"} and told["expiresAtMs"] is None
    assert plain != told["token"] and len(plain) == len(told["token"])
